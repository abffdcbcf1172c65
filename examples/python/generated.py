"""Starts a run, watches it, approves what it asks for, and prints its output, with generated stubs.

    pip install grpcio grpcio-tools
    python -m grpc_tools.protoc -I proto --python_out=stubs --grpc_python_out=stubs \\
        $(cd proto && find sayso/v1 google/api -name '*.proto')
    SUBMIT=sayso_… APPROVE=sayso_… PYTHONPATH=stubs \\
        python examples/python/generated.py 127.0.0.1:7400 AGENT "Refund order A-17"

SUBMIT and APPROVE are the tokens of two people: nobody decides their own request.
"""

import os
import sys

import grpc
from sayso.v1 import approval_pb2 as approvals
from sayso.v1 import approval_service_pb2 as approval_service
from sayso.v1 import run_service_pb2 as run_service
from sayso.v1.approval_service_pb2_grpc import ApprovalServiceStub
from sayso.v1.run_service_pb2_grpc import RunServiceStub


def token(name):
    """The metadata of a call by whoever has this token."""
    return [("authorization", f"Bearer {os.environ[name]}")]


def main(address, agent, task):
    with grpc.insecure_channel(address) as channel:
        runs, inbox = RunServiceStub(channel), ApprovalServiceStub(channel)
        request = run_service.StartRunRequest(agent=agent, input=task)
        run = runs.StartRun(request, metadata=token("SUBMIT")).run
        print(f"started {run.id}")
        request = run_service.WatchRunRequest(run_id=run.id, steps_only=True)
        for message in runs.WatchRun(request, metadata=token("SUBMIT"), timeout=60):
            print(f"{message.step.sequence} {message.step.type}")
            if message.step.type == "awaiting_approval":
                decide(inbox, run.id)
        request = run_service.GetRunRequest(run_id=run.id)
        ended = runs.GetRun(request, metadata=token("SUBMIT")).run
        print(f"output: {ended.output}")


def decide(inbox, run):
    """Approves what the run holds."""
    pending = approval_service.ListApprovalsRequest(
        run_id=run, statuses=[approvals.APPROVAL_STATUS_PENDING]
    )
    for held in inbox.ListApprovals(pending, metadata=token("APPROVE")).approvals:
        decision = approval_service.DecideApprovalRequest(
            approval_id=held.id, verdict=approvals.VERDICT_APPROVE, reason="it was asked for"
        )
        outcome = inbox.DecideApproval(decision, metadata=token("APPROVE")).outcome
        print(f"approved {outcome.tool} as {outcome.decided_by}")


if __name__ == "__main__":
    main(*sys.argv[1:])
