"""Tell what a person typed in a user message of Codex from what Codex put there. Pure."""

from __future__ import annotations

import json
import re

from engram.transcripts.speaker import Speaker, Words, judge

_PICTURE_TAG = re.compile(r"</?image\b[^>]*>")
_EDITOR_CONTEXT = "# Context from my IDE setup:"
#: What an editor writes between the files that are open and what was typed.
_EDITOR_REQUEST = re.compile(r"^## My request for Codex:[ \t]*$", re.MULTILINE)
_REPLY = re.compile(r"<send_user_message_question_reply>\s*(.*?)\s*</send_user_message_question_reply>", re.DOTALL)
_FOLDER = re.compile(r"<cwd>([^<\n]+)</cwd>")


def words_of(text: str, *, is_for_model: bool = False) -> Words:
    """Return what a message says; nothing if Codex wrote all of it.

    Args:
        text: the message.
        is_for_model: it is from the log of what the model gets, where Codex adds context of its own. There a message
            that consists of elements only is none of the user's.
    """
    text = _PICTURE_TAG.sub("", text).strip()
    if text.startswith(_EDITOR_CONTEXT):
        parts = _EDITOR_REQUEST.split(text)
        text = parts[-1].strip() if len(parts) > 1 else ""
    reply = _REPLY.fullmatch(text)
    if reply:
        return Words(Speaker.PERSON, _answers(reply[1]))
    words = judge([text], Speaker.PERSON)
    is_kept = words.is_prompt or (words.unknown and not is_for_model)
    return words if is_kept else Words(Speaker.HARNESS)


def folder_in(text: str) -> str:
    """Return the working folder that an environment context names; "" if it names none."""
    match = _FOLDER.search(text) if "<environment_context>" in text else None
    return match[1].strip() if match else ""


def _answers(text: str) -> str:
    """Return what the user answered to questions that Codex asked while it went on."""
    try:
        replies = json.loads(text)
    except ValueError:
        return ""
    answers = [reply.get("answer") for reply in replies if isinstance(reply, dict)] if isinstance(replies, list) else []
    return "\n".join(answer.strip() for answer in answers if isinstance(answer, str)).strip()
