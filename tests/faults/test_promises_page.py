"""docs/promises.md names tests that exist, and every test of the fault programme is named there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"tests/[a-z_/]+\.py", PAGE))

    assert len(named) > 20
    assert [one for one in sorted(named) if not (ROOT / one).is_file()] == []


def test_every_test_of_the_fault_programme_stands_on_the_page() -> None:
    here = {f"tests/faults/{path.name}" for path in Path(__file__).parent.glob("test_*.py")} - {
        "tests/faults/test_promises_page.py"
    }

    assert sorted(here - set(re.findall(r"tests/[a-z_/]+\.py", PAGE))) == []


def test_all_twelve_promises_are_in_the_table() -> None:
    table = PAGE.split("## Promise, tests, figure")[1].split("## ")[0]

    assert [n for n in range(1, 13) if not re.search(rf"\bP{n}\b", table)] == []
