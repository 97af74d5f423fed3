"""The admin socket of a GateProcess as an operator meets it: through `curl --unix-socket`."""

import asyncio
import json
from pathlib import Path
from typing import Any

from puppet import LIVENESS_SECONDS


class Refusal(AssertionError):
    """The daemon said no: status, code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message


async def curl(socket: Path, method: str, target: str, body: Any = None, *more: str) -> Any:
    """The JSON of an answer with status 200; raises Refusal for any other one."""
    words = ["curl", "-s", "--unix-socket", str(socket), "-X", method, "-w", "\n%{http_code}", *more]
    if body is not None:
        words += ["-d", json.dumps(body)]
    process = await asyncio.create_subprocess_exec(
        *words, f"http://localhost{target}", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(LIVENESS_SECONDS):
        said, complaint = await process.communicate()
    assert process.returncode == 0, complaint
    text, _, status = said.decode().rpartition("\n")
    answer = json.loads(text)
    if status != "200":
        raise Refusal(int(status), answer["error"]["code"], answer["error"]["message"])
    return answer
