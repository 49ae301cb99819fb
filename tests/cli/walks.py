"""The walks of a page of the documentation, as somebody types them on several machines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from engram.cli.main import engram

DOCS = Path(__file__).resolve().parents[2] / "docs"


def walk(page: str, place: str) -> list[str]:
    """The commands that a page gives for a machine.

    Args:
        page: its name below ``docs``.
        place: the name of the machine in the page.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    match = re.search(rf"<!-- walk: {place} -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert match is not None, f"{page} has no walk for {place}"
    return match[1].splitlines()


def type_command(home: Path, line: str, **options: Any) -> Result:
    """Type a command on the machine of a home."""
    program, *arguments = shlex.split(line)
    assert program == "engram"
    return CliRunner().invoke(engram, ["--home", str(home), *arguments], **options)
