"""Starts a run, watches it, approves what it asks for, and prints its output.

It has no generated code: the API is learnt from the server by reflection.

    pip install grpcio grpcio-reflection
    SUBMIT=sayso_… APPROVE=sayso_… python reflected.py 127.0.0.1:7400 AGENT "Refund order A-17"

SUBMIT and APPROVE are the tokens of two people: nobody decides their own request.
"""

import os
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


class Service:
    """One service of the API, called as one person."""

    def __init__(self, channel, pool, name, token):
        self.channel = channel
        self.service = pool.FindServiceByName(name)
        self.metadata = [("authorization", f"Bearer {token}")]

    def call(self, name, **fields):
        """Calls a method; an answer, or an iterator of them where it streams."""
        method = self.service.methods_by_name[name]
        asked = GetMessageClass(method.input_type)(**fields)
        answer = GetMessageClass(method.output_type)
        kind = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
        call = kind(
            f"/{self.service.full_name}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(asked, metadata=self.metadata, timeout=60)


def main(address, agent, task):
    channel = grpc.insecure_channel(address)
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    runs = Service(channel, pool, "sayso.v1.RunService", os.environ["SUBMIT"])
    approvals = Service(channel, pool, "sayso.v1.ApprovalService", os.environ["APPROVE"])
    approve = pool.FindEnumTypeByName("sayso.v1.Verdict").values_by_name["VERDICT_APPROVE"].number
    pending = pool.FindEnumTypeByName("sayso.v1.ApprovalStatus").values_by_name[
        "APPROVAL_STATUS_PENDING"
    ].number

    run = runs.call("StartRun", agent=agent, input=task).run
    print(f"started {run.id}")
    for message in runs.call("WatchRun", run_id=run.id, steps_only=True):
        print(f"{message.step.sequence} {message.step.type}")
        if message.step.type != "awaiting_approval":
            continue
        held = approvals.call("ListApprovals", run_id=run.id, statuses=[pending]).approvals
        for approval in held:
            decided = approvals.call(
                "DecideApproval", approval_id=approval.id, verdict=approve, reason="as agreed"
            )
            print(f"approved {approval.tool} as {decided.outcome.decided_by}")
    run = runs.call("GetRun", run_id=run.id).run
    print(f"output: {run.output}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
