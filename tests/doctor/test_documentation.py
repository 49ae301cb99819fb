"""Every finding is explained in docs/doctor.md."""

from __future__ import annotations

import ast
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def names() -> set[str]:
    """The name of every finding that the source makes."""
    found = set()
    folders = [(REPO / "engram" / "setup" / "doctor", "*.py"), (REPO / "engram" / "reports", "*checks.py")]
    paths = [path for folder, pattern in folders for path in folder.glob(pattern)]
    for path in [*paths, REPO / "engram" / "setup" / "agents" / "plugin.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Check", "_mended_by_install") and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant):
                    found.add(str(name.value))
    return found


def test_every_finding_is_explained() -> None:
    page = (REPO / "docs" / "doctor.md").read_text(encoding="utf-8")
    explained = {
        name.strip() for line in page.splitlines() if line.startswith("| ") for name in line.split("|")[1].split(",")
    }

    assert {"memory.db", "cleanup", "two installations"} <= names()
    assert names() - explained == set()
