"""The page about the architecture names every module that holds raw SQL, with its reason, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
MODELS = REPO / "engram" / "models"
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
