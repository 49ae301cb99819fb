"""What a line of Claude Code in the user's place says, by the rule of ``engram.transcripts.speaker``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.transcripts.claude_code.entry import Entry, Kind
from engram.transcripts.speaker import Speaker, Words, came_by_messenger, claude_code_speaker, judge, without_inserted
from engram.transcripts.text import PICTURE

NO_WORDS = Words(Speaker.HARNESS)


def text_of(content: object) -> str:
    """Return the text of a message's content: the string itself, or its text blocks joined by newlines."""
    return "\n".join(_texts(content))


def words_of(entry: Entry) -> Words:
    """Return what an entry in the user's place says, and who says it; nothing for all other entries."""
    if entry.kind is Kind.ATTACHMENT:
        return _queued_command(entry)
    content = entry.message.get("content")
    if entry.kind is not Kind.USER or _has_result(content):
        return NO_WORDS
    words = _judged(content, entry.data)
    has_picture = isinstance(content, list) and any(_is_block(block, "image") for block in content)
    if has_picture and not any(map(without_inserted, _texts(content))):
        return words._replace(speaker=claude_code_speaker(entry.data), text=PICTURE)
    return words


def queued_words(content: object, fields: Mapping[str, Any]) -> Words:
    """Return what a text says that waits in the queue while Claude works.

    A command without further words is no prompt, and neither is the data of a task. A command with further words
    (``/review the parser``) is one, since the words reach the model.
    """
    words = _judged(content, fields)
    is_bare = words.text.startswith("/") and len(words.text.split()) == 1
    is_data = words.text.startswith("{") and '"task_id"' in words.text[:200]
    return words._replace(text="") if is_bare or is_data else words


def is_by_program(entry: Entry) -> bool:
    """Return True for a line of a session that a program runs: what its dialogs report is the program's."""
    return claude_code_speaker(entry.data) is Speaker.PROGRAM


def _queued_command(entry: Entry) -> Words:
    attachment = entry.data.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("commandMode") not in (None, "prompt"):
        return NO_WORDS
    return queued_words(attachment.get("prompt"), {**entry.data, **attachment})


def _judged(content: object, fields: Mapping[str, Any]) -> Words:
    origin = fields.get("origin")
    return judge(
        _texts(content),
        claude_code_speaker(fields),
        is_declared=isinstance(origin, dict) and origin.get("kind") == "human",
        by_messenger=came_by_messenger(fields),
    )


def _has_result(content: object) -> bool:
    return isinstance(content, list) and any(_is_block(block, "tool_result") for block in content)


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [str(b["text"]) for b in blocks if _is_block(b, "text") and isinstance(b.get("text"), str)]


def _is_block(block: Any, type_: str) -> bool:
    return isinstance(block, dict) and block.get("type") == type_
