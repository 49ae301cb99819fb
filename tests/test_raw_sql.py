"""Raw SQL stands where the page about the architecture says, and rows are read by name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
MODELS = REPO / "engram" / "models"
#: Where the first column of a row is taken out for everybody else.
FETCH_HELPERS = "engram/models/engine/transaction.py"
_BY_PLACE = re.compile(r"\b(?:row|values)\[\d")
_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|PRAGMA|VACUUM|CREATE|DROP|ATTACH)\s")


def has_raw_sql(path: Path) -> bool:
    """True where a text of a module begins like a statement of SQL and is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and _SQL.match(node.value) is not None
        for node in ast.walk(tree)
    )


def documented_modules() -> set[str]:
    page = (REPO / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("| Module | Function | Why |") :].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`([\w/]+\.py)`", cell)}


def test_every_module_with_raw_sql_is_named_with_its_reason() -> None:
    found = {path.relative_to(MODELS).as_posix() for path in MODELS.rglob("*.py") if has_raw_sql(path)}

    assert documented_modules() == found


def test_rows_are_read_by_name() -> None:
    folders = ("engram", "mcp_server", "hooks", "benchmarks", "tests")
    sources = [path for folder in folders for path in (REPO / folder).rglob("*.py")]
    by_place = {path.relative_to(REPO).as_posix() for path in sources if _BY_PLACE.search(path.read_text("utf-8"))}

    assert by_place == {FETCH_HELPERS}
