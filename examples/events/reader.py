"""Reads sayso's events from NATS JetStream with a consumer of its own, and prints each once.

    reader.py NATS_URL [COUNT]

NATS_URL may hold user and password. It ends after COUNT events, or when none has come for three seconds.
"""

import asyncio
import sys

import nats
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.formats.json import JSONFormat
from nats.js.api import ConsumerConfig, DeliverPolicy

STREAM, SUBJECTS = "SAYSO_EVENTS", "sayso.events.v1.default.>"


async def main(url, count):
    client = await nats.connect(url, inbox_prefix=b"_INBOX_reader", max_reconnect_attempts=-1)
    events = await client.jetstream().pull_subscribe(
        SUBJECTS, stream=STREAM, config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
    )
    seen = set()
    while len(seen) < count:
        try:
            batch = await events.fetch(min(100, count - len(seen)), timeout=3)
        except asyncio.TimeoutError:
            break
        for message in batch:
            await message.ack()
            event = from_binary(HTTPMessage(headers=dict(message.headers), body=message.data), JSONFormat())
            # At least once: what was seen before is the same happening.
            if event.get_id() in seen:
                continue
            seen.add(event.get_id())
            data = event.get_data() or {}
            sequence = int(event.get_extension("sequence"))
            print(event.get_subject(), sequence, event.get_type(), data.get("status", ""), flush=True)
    await client.close()


asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else sys.maxsize))
