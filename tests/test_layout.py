"""Every module has its test file at the mirrored path, and no test file stands without its module.

A module whose tests are too many for one file has the others in a folder of its own name beside it.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "llmgate"
TESTS = ROOT / "tests"

# Modules without a test file of their own, and what tests them.
TESTED_ELSEWHERE = {
    "__main__.py": "tests/cli/test_app.py runs it",
    "simulator/standalone.py": "tests/cli/test_simulate.py runs it",
}
# Test files that stand for no single module.
WITHOUT_MODULE = {
    "core/mutations/test_mutations.py",
    "core/test_gate_growth.py",
    "core/test_gate_machine.py",
    "test_etc.py",
    "test_fault_matrix.py",
    "test_imports.py",
    "test_layout.py",
    "test_makefile.py",
    "test_man.py",
    "tui/test_cost.py",
    "tui/test_large.py",
    "upstreams/test_cancellation.py",
    "upstreams/test_oracle.py",
}
# Folders of tests about the whole program or about the tests themselves.
WHOLE = ("clients", "e2e", "etc", "support")


def modules() -> list[Path]:
    return [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if not is_empty(path)]


def is_empty(path: Path) -> bool:
    """A package's __init__ that holds its docstring, its version and its names, and nothing to test."""
    if path.name != "__init__.py":
        return False
    body = ast.parse(path.read_text()).body
    return all(isinstance(node, ast.Expr | ast.Assign | ast.Import | ast.ImportFrom) for node in body)


def mirrored(module: Path) -> Path:
    return module.with_name(f"test_{module.name}")


def test_every_module_has_its_test_file() -> None:
    missing = [
        str(module)
        for module in modules()
        if str(module) not in TESTED_ELSEWHERE and not (TESTS / mirrored(module)).is_file()
    ]
    assert missing == []


def test_every_test_file_has_its_module() -> None:
    known = {mirrored(module) for module in modules()}
    found = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    strays = {path for path in found - known if path.parts[0] not in WHOLE and str(path) not in WITHOUT_MODULE}
    assert {path for path in strays if mirrored(path.parent.with_suffix(".py")) not in known} == set()


def test_the_exceptions_are_still_there() -> None:
    assert all((PACKAGE / module).is_file() for module in TESTED_ELSEWHERE)


def test_every_file_begins_with_what_it_is_for() -> None:
    bare = [str(module) for module in modules() if not ast.get_docstring(ast.parse((PACKAGE / module).read_text()))]
    assert bare == []


def test_test_folders_are_no_packages() -> None:
    assert list(TESTS.rglob("__init__.py")) == []
