"""Facts of tool calls as they are stored: they come back whole, and what cannot be read costs no other row."""

from __future__ import annotations

import pytest

from engram.models.engine.statement import pack_actions, unpack_actions, unpack_facts
from engram.transcripts.turns import Action, EntryRef

ENTRIES = (EntryRef("call", 0, 5, 1), EntryRef("result", 6, 5, 2))


def test_facts_come_back_whole() -> None:
    actions = (
        Action("t1", "Bash", uuid="call", command="make test", is_error=True, exit_code=2, error_line="no rule"),
        Action("t2", "Edit", uuid="elsewhere", files=("a.py", "b.py"), is_edit=True),
    )

    assert unpack_actions(pack_actions(actions, ENTRIES), ENTRIES) == actions


def test_a_call_whose_result_was_read_no_longer_needs_its_id() -> None:
    packed = pack_actions([Action("t1", "Bash", uuid="call", result_uuid="result")], ENTRIES)

    (action,) = unpack_actions(packed, ENTRIES)

    assert (action.tool_use_id, action.tool, action.uuid, action.result_uuid) == ("", "Bash", "call", "result")


@pytest.mark.parametrize("stored", ["", "{", '"text"', "7", "[" * 5000])
def test_malformed_facts_are_none(stored: str) -> None:
    assert unpack_facts(stored) == []


def test_facts_of_a_later_version_are_left_out() -> None:
    (action,) = unpack_actions('[{"tool": "Bash", "mood": "good"}, 5]', ENTRIES)

    assert action == Action("", "Bash")
