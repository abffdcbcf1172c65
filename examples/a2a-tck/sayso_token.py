"""A pytest plugin that shows a token with each request: the kit itself knows of none."""

import os

import grpc
import httpx

BEARER = "Bearer " + os.environ["SAYSO_TOKEN"]

_make = httpx.Client.__init__


def _with_token(self, *args, **kwargs):
    _make(self, *args, **kwargs)
    self.headers.setdefault("authorization", BEARER)


httpx.Client.__init__ = _with_token


class _Token(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def _go_on(self, go_on, details, request):
        metadata = [*(details.metadata or ()), ("authorization", BEARER)]
        return go_on(details._replace(metadata=metadata), request)

    intercept_unary_unary = _go_on
    intercept_unary_stream = _go_on


_open = grpc.insecure_channel


def _channel(*args, **kwargs):
    return grpc.intercept_channel(_open(*args, **kwargs), _Token())


grpc.insecure_channel = _channel
