"""One server of those in fake.py for each test that wants it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adminclient.fake import Server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    fake = Server(tmp_path / "admin.sock")
    listening = await asyncio.start_unix_server(fake.serve, fake.path)
    yield fake
    listening.close()
    await listening.wait_closed()
