"""The protocol's own SDK as a client: `client.py BINDING CARD COMMAND …`, one JSON object a line."""

import asyncio
import json
import os
import sys
import uuid

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError


class Token(CredentialService):
    async def get_credentials(self, security_scheme_name, context):
        return os.environ["SAYSO_TOKEN"]


def tell(**what):
    print(json.dumps(what), flush=True)


def said(message):
    return "".join(part.text for part in message.parts)


def task(task):
    tell(
        id=task.id,
        context=task.context_id,
        state=pb.TaskState.Name(task.status.state)[11:],
        says=said(task.status.message),
        artifacts=[[a.name, said(a) or a.parts[0].WhichOneof("content")] for a in task.artifacts],
        history=[said(m) for m in task.history],
    )


def event(event):
    kind = event.WhichOneof("payload")
    if kind == "task":
        task(event.task)
    elif kind == "status_update":
        status = event.status_update.status
        tell(status=pb.TaskState.Name(status.state)[11:], says=said(status.message))
    elif kind == "artifact_update":
        tell(artifact=said(event.artifact_update.artifact))


def message(text, task_id="", message_id="", context_id=""):
    return pb.SendMessageRequest(
        message=pb.Message(
            message_id=message_id or uuid.uuid4().hex,
            task_id=task_id,
            context_id=context_id,
            role=pb.ROLE_USER,
            parts=[pb.Part(text=text)],
        )
    )


async def run(client, command, arguments):
    if command in ("send", "stream"):
        async for one in client.send_message(message(*arguments)):
            event(one)
    elif command == "push":
        request = message(arguments[0])
        config = request.configuration.task_push_notification_config
        config.url, config.token = arguments[1], "the-token"
        config.authentication.scheme, config.authentication.credentials = "Bearer", "the-secret"
        async for one in client.send_message(request):
            event(one)
    elif command == "pushes":
        made = await client.create_task_push_notification_config(
            pb.TaskPushNotificationConfig(task_id=arguments[0], url=arguments[1])
        )
        asked = pb.GetTaskPushNotificationConfigRequest(task_id=arguments[0], id=made.id)
        found = await client.get_task_push_notification_config(asked)
        listed = await client.list_task_push_notification_configs(
            pb.ListTaskPushNotificationConfigsRequest(task_id=arguments[0])
        )
        tell(url=found.url, listed=len(listed.configs))
        gone = pb.DeleteTaskPushNotificationConfigRequest(task_id=arguments[0], id=made.id)
        await client.delete_task_push_notification_config(gone)
        await client.delete_task_push_notification_config(gone)
        await client.get_task_push_notification_config(asked)
    elif command == "subscribe":
        async for one in client.subscribe(pb.SubscribeToTaskRequest(id=arguments[0])):
            event(one)
    elif command == "get":
        task(await client.get_task(pb.GetTaskRequest(id=arguments[0])))
    elif command == "cancel":
        task(await client.cancel_task(pb.CancelTaskRequest(id=arguments[0])))
    elif command == "list":
        token = ""
        while True:
            asked = pb.ListTasksRequest(context_id=arguments[0], page_size=2, page_token=token)
            page = await client.list_tasks(asked)
            tell(total=page.total_size, tasks=[task.id for task in page.tasks])
            token = page.next_page_token
            if not token:
                break


async def main(binding, card, command, *arguments):
    async with httpx.AsyncClient(timeout=60) as http:
        found = await A2ACardResolver(http, os.environ["SAYSO_SERVER"], card).get_agent_card()
        config = ClientConfig(
            streaming=command in ("stream", "subscribe"),
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[binding],
        )
        client = ClientFactory(config).create(found, interceptors=[AuthInterceptor(Token())])
        try:
            await run(client, command, arguments)
        except A2AError as error:
            tell(error=type(error).__name__)
        except Exception as error:
            tell(failed=f"{type(error).__name__}: {error}")
        finally:
            await client.close()


asyncio.run(main(*sys.argv[1:]))
