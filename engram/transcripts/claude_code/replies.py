"""What an entry adds to its turn: the assistant's texts and calls, and the results with what the user said in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engram.transcripts.call_facts import prints_environment, shows_environment
from engram.transcripts.claude_code.action import SCRIPT_TOOL, finish_action, result_text, start_action, thrown_action
from engram.transcripts.claude_code.dialogs import Part, heard_in, is_refused, proposed_in
from engram.transcripts.claude_code.entry import Entry, Kind
from engram.transcripts.claude_code.prompt import is_by_program
from engram.transcripts.draft import Draft
from engram.transcripts.record import Role, TextBlock
from engram.transcripts.text import storable, storable_id


def text_block(entry: Entry, role: Role, text: str, message_id: str = "") -> TextBlock:
    """Return a text of an entry; a queued prompt has no id."""
    return TextBlock(
        uuid="" if entry.kind is Kind.QUEUE else entry.uuid,
        role=role,
        text=storable(text),
        message_id=storable(message_id),
        offset=entry.offset,
        length=entry.length,
        line=entry.line,
        at_ms=entry.at_ms,
    )


def add_reply(draft: Draft, entry: Entry, *, with_dialogs: bool) -> None:
    """Add the texts and tool calls of an assistant's entry.

    Args:
        with_dialogs: False for a subagent, whose user is another agent: its dialogs are not the user's.
    """
    message = entry.message
    content = message.get("content")
    is_spoken = entry.data.get("isApiErrorMessage") is not True and message.get("model") != "<synthetic>"
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        text = block.get("text")
        if block.get("type") == "text" and is_spoken and isinstance(text, str) and text.strip():
            draft.said.append(text_block(entry, Role.ASSISTANT, text.strip(), storable_id(message.get("id"))))
        elif block.get("type") == "tool_use":
            # A script of Code Mode is no call of its own: see ``thrown_action``.
            action = start_action(block, entry.uuid) if block.get("name") != SCRIPT_TOOL else None
            if action is not None:
                draft.add_action(action)
                if with_dialogs:
                    _add_parts(draft, entry, proposed_in(block))


def add_results(draft: Draft, entry: Entry, *, with_dialogs: bool, note_environment: Callable[[str], None]) -> None:
    """Add the results of tool calls, and what the user said in dialogs.

    Args:
        with_dialogs: as for ``add_reply``.
        note_environment: receives the result of every call that showed an environment file.
    """
    content, report = entry.message.get("content"), entry.data.get("toolUseResult")
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            continue
        index = draft.waiting.pop(str(block.get("tool_use_id")), None)
        if index is None:
            thrown = thrown_action(block, entry.uuid, report)
            if thrown is not None:
                draft.actions.append(thrown)
            if isinstance(report, dict) and prints_environment(str(report.get("code", ""))):
                note_environment(result_text(block))
            continue
        action = draft.actions[index]
        refused = is_refused(action, block, entry)
        draft.actions[index] = finish_action(action, block, entry.uuid, report, is_refused=refused)
        if with_dialogs:
            _add_parts(draft, entry, heard_in(action, block, entry, draft.proposed_by, is_refused=refused))
        if shows_environment(action):
            note_environment(result_text(block, report))


def _add_parts(draft: Draft, entry: Entry, parts: Iterable[Part]) -> None:
    """Add what was said in a dialog. In a session that a program runs, the program answers its dialogs."""
    said = tuple(parts)
    if not said or is_by_program(entry):
        return
    for part in said:
        draft.said.append(text_block(entry, part.role, part.text, part.link))
