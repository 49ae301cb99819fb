"""What never becomes a memory."""

from __future__ import annotations

import pytest

from engram.extraction.candidate import INJECTION_MARKER, is_own
from engram.extraction.model.grounding import is_log


def test_engrams_own_text_is_recognised() -> None:
    assert is_own(f"<{INJECTION_MARKER}> - We use tabs </{INJECTION_MARKER}>")
    assert is_own("- [ep_0123456789ab] 2026-02-20, high, the user: We use tabs")
    assert is_own("you said on 2026-02-20: let us use tabs [q_0123456789ab]")
    assert not is_own("seq_12 and [q_1] are names of ours")
    assert not is_own("The memory of the worker is bounded; memory_save takes a scope.")


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02T10:00:00 start\n2026-01-02T10:00:01 stop\n2026-01-02T10:00:02 start",
        'Traceback (most recent call last):\n  File "a.py", line 3\n  File "b.py", line 4\nValueError: x',
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a",
    ],
)
def test_logs_stacks_and_diffs_are_recognised(text: str) -> None:
    assert is_log(text)


def test_prose_is_not_a_log() -> None:
    assert not is_log("The worker starts.\nIt reads the queue.\nThen it waits.")
