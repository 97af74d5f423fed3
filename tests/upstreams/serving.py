"""What tests of the transport share: a server that answers every request, and a wait."""

import asyncio

from puppet import LIVENESS_SECONDS
from recorder import OK


async def serve_ok(connection):
    while True:
        await connection.read_request()
        await connection.send(OK)


async def until(condition):
    async with asyncio.timeout(LIVENESS_SECONDS):
        while not condition():  # noqa: ASYNC110  nothing tells when a timer of the transport has fired
            await asyncio.sleep(0.005)
