"""The rules that tell real prompts from everything else: did a person type this line?"""

from __future__ import annotations

import re
from typing import Any

from engram.transcripts.claude_code.entry import Entry, Kind
from engram.transcripts.text import PICTURE

#: Blocks that editors and hooks insert before what was typed.
_LEADING = re.compile(r"\s*<(ide_opened_file|ide_selection|ide_diagnostics|system-reminder)\b[^>]*>.*?</\1>", re.DOTALL)
#: Tags at the beginning of lines that a program wrote.
_MACHINE_TAG = re.compile(
    r"\s*<(?:command-(?:name|message|args|contents)|local-command-[a-z-]+|bash-(?:input|stdout|stderr)|system-reminder"
    r"|task-notification|teammate-message|user-prompt-submit-hook|ide_opened_file|ide_selection|ide_diagnostics)\b"
)
_MACHINE_BEGINNINGS = (
    "[Request interrupted by user",
    "Caveat: The messages below",
    "This session is being continued from a previous conversation",
)
_MACHINE_FLAGS = frozenset({"isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "repeatsCompactSummary"})
_COMMAND = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_BASH = re.compile(r"\s*<bash-input>(.*?)</bash-input>", re.DOTALL)
_BARE_COMMAND = re.compile(r"/[\w:.-]+")


def text_of(content: object) -> str:
    """Return the text of a message's content: the string itself, or its text blocks joined by newlines."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(b["text"]) for b in content if _is_block(b, "text") and isinstance(b.get("text"), str))


def prompt_of(entry: Entry) -> str | None:
    """Return what the user typed in this entry, without the blocks that programs insert; None if it is no prompt.

    If the entry names its author (``origin``), that decides; else the flags and the text do.
    """
    if entry.kind is Kind.ATTACHMENT:
        return _queued_command(entry)
    data = entry.data
    if entry.kind is not Kind.USER or entry.is_aside:
        return None
    if any(data[flag] is True for flag in _MACHINE_FLAGS & data.keys()):
        return None
    content = entry.message.get("content")
    if isinstance(content, list) and any(_is_block(block, "tool_result") for block in content):
        return None
    origin = data.get("origin")
    if isinstance(origin, dict) and isinstance(origin.get("kind"), str) and origin["kind"] != "human":
        return None
    text = typed_text(text_of(content), is_human=isinstance(origin, dict) and origin.get("kind") == "human")
    if text is None and isinstance(content, list) and not text_of(content).strip():
        return PICTURE if any(_is_block(block, "image") for block in content) else None
    return text


def typed_text(text: str, *, is_human: bool = False) -> str | None:
    """Return the part of ``text`` that a person typed; None if a program wrote all of it.

    Args:
        is_human: the entry itself names a person as its author, so that only leading blocks are removed.
    """
    rest = _without_leading_blocks(text).strip()
    if not rest:
        return None
    if not is_human and (rest.startswith(_MACHINE_BEGINNINGS) or _MACHINE_TAG.match(rest)):
        return None
    return rest


def queued_text(content: object) -> str | None:
    """Return what a person typed into the queue while Claude worked; None for notifications, task data and bare
    commands.

    A command with further words (``/review the parser``) counts, since the words reach the model.
    """
    text = typed_text(text_of(content))
    if text is None or _BARE_COMMAND.fullmatch(text) or _is_task_data(text):
        return None
    return text


def command_of(text: str) -> str:
    """Return a slash or shell command as it was typed (``/plan the parser``); "" if the text is none."""
    bash = _BASH.match(text)
    if bash:
        return bash[1].strip()
    name = _COMMAND.search(text) if "<command-name>" in text else None
    if name is None:
        return ""
    arguments = _ARGUMENTS.search(text)
    return f"{name[1]} {arguments[1] if arguments else ''}".strip()


def is_interruption(text: str) -> bool:
    """True for the line that Claude Code writes when the user stops it."""
    return text.startswith("[Request interrupted by user")


def _queued_command(entry: Entry) -> str | None:
    attachment = entry.data.get("attachment")
    if entry.is_aside or not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return None
    if attachment.get("commandMode") not in (None, "prompt"):
        return None
    origin = attachment.get("origin")
    if isinstance(origin, dict) and origin.get("kind") not in (None, "human"):
        return None
    return queued_text(attachment.get("prompt"))


def _without_leading_blocks(text: str) -> str:
    while True:
        block = _LEADING.match(text)
        if block is None:
            return text
        text = text[block.end() :]


def _is_task_data(text: str) -> bool:
    return text.startswith("{") and '"task_id"' in text[:200]


def _is_block(block: Any, type_: str) -> bool:
    return isinstance(block, dict) and block.get("type") == type_
