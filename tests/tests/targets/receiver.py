"""Takes notifications as anybody would: over HTTP, verified with the `standardwebhooks` package and
with a plain HMAC, both over the raw body; or over SMTP, with `aiosmtpd`.

usage: receiver.py http KEY [STATUS[:RETRY-AFTER] ...]
       receiver.py smtp [REPLY ...]

Says its port in the first line, then one line of JSON for each request or letter. Scripted answers are
given one after the other; after the last one everything is taken. The status 0 answers nothing.
"""

import asyncio
import email
import email.policy
import hashlib
import hmac
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOCK = threading.Lock()


def say(**what):
    with LOCK:
        print(json.dumps(what), flush=True)


def verified(key, headers, body):
    from standardwebhooks import Webhook

    mac = hmac.new(key, body, hashlib.sha256).hexdigest()
    header = headers.get("x-sayso-signature", "")
    if not re.fullmatch(r"sha256=[0-9a-f]{64}", header):
        return f"no signature: {header!r}"
    if not hmac.compare_digest(header, "sha256=" + mac):
        return "the plain HMAC differs"
    try:
        Webhook(key).verify(body, dict(headers.items()))
    except Exception as error:
        return f"standardwebhooks: {error!r}"
    return "verified"


def http(key, answers):
    answers = [answer.partition(":") for answer in answers]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            with LOCK:
                status, _, wait = answers.pop(0) if answers else ("200", "", "")
            said = {name.lower(): value for name, value in self.headers.items()}
            say(
                path=self.path,
                headers=said,
                body=body.decode(),
                verdict=verified(key.encode(), self.headers, body),
            )
            if status == "0":
                threading.Event().wait()
            self.send_response(int(status))
            if wait:
                self.send_header("Retry-After", wait)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    say(port=server.server_port)
    server.serve_forever()


async def smtp(replies):
    from aiosmtpd.smtp import SMTP

    class Sink:
        async def handle_DATA(self, _server, _session, envelope):
            reply = replies.pop(0) if replies else "250 taken"
            letter = email.message_from_bytes(envelope.content, policy=email.policy.default)
            say(
                sender=envelope.mail_from,
                recipients=envelope.rcpt_tos,
                raw=envelope.content.decode(),
                headers={name.lower(): str(value) for name, value in letter.items()},
                body=letter.get_content(),
                reply=reply,
            )
            return reply

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Sink()), "127.0.0.1", 0)
    say(port=server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    way, *rest = sys.argv[1:]
    if way == "http":
        http(rest[0], rest[1:])
    else:
        asyncio.run(smtp(rest))
