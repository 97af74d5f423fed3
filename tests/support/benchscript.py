"""The scripts in benchmarks/, for tests that hold what they measure."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def script(name: str) -> Iterator[Any]:
    """One of them as a module. What it does to the search path ends with the block."""
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location(f"benchmark_of_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
