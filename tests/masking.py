"""Cases of secrets and of what only looks like one, by class, and what becomes of them, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from engram.redaction import redact


def by_class(cases: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Parameters of a test, each named by its class: the parts of a tuple, or a text alone."""
    return [
        pytest.param(*((case,) if isinstance(case, str) else case), id=f"{name} {number}")
        for name in cases
        for number, case in enumerate(cases[name])
    ]


def check_gone(text: str, secret: str) -> None:
    """The secret goes, and masking again changes nothing more."""
    masked = redact(f"I saw this:\n{text}")

    assert secret not in masked
    assert redact(masked) == masked
