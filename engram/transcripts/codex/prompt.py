"""Tell what a person typed in a user message of Codex from what Codex put there. Pure."""

from __future__ import annotations

import json
import re

#: What Codex and its plugins put before the model as messages of the user.
_INJECTED_TAGS = (
    "apps_instructions",
    "codex_internal_context",
    "collaboration_mode",
    "environment_context",
    "goal_context",
    "hook_prompt",
    "INSTRUCTIONS",
    "model_switch",
    "permissions instructions",
    "personality_spec",
    "plugins_instructions",
    "recommended_plugins",
    "skill",
    "skills_instructions",
    "subagent_notification",
    "system-reminder",
    "turn_aborted",
    "user_instructions",
    "user_shell_command",
)
_INJECTED = re.compile(rf"<(?:{'|'.join(_INJECTED_TAGS)})[\s>]")
_INJECTED_BEGINNINGS = (
    "# AGENTS.md instructions",
    "Another language model started to solve this problem",
    "Warning: apply_patch was requested via",
)
#: A message that is one element from its first character to its last, or several.
_ELEMENTS = re.compile(r"(?:<([A-Za-z][\w-]*)(?:\s[^>]*)?>.*?</\1>\s*)+", re.DOTALL)
_PICTURE_TAG = re.compile(r"</?image\b[^>]*>")
_EDITOR_CONTEXT = "# Context from my IDE setup:"
#: What an editor writes between the files that are open and what was typed.
_EDITOR_REQUEST = re.compile(r"^## My request for Codex:[ \t]*$", re.MULTILINE)
_REPLY = re.compile(r"<send_user_message_question_reply>\s*(.*?)\s*</send_user_message_question_reply>", re.DOTALL)
_FOLDER = re.compile(r"<cwd>([^<\n]+)</cwd>")


def typed_text(text: str, *, is_for_model: bool = False) -> str:
    """Return the part of a message that a person typed; "" if Codex wrote all of it.

    Args:
        is_for_model: the message is from the log of what the model gets, where Codex adds context of its own. There a
            message that consists of tagged elements only is none of the user's.
    """
    text = _PICTURE_TAG.sub("", text).strip()
    if text.startswith(_EDITOR_CONTEXT):
        parts = _EDITOR_REQUEST.split(text)
        text = parts[-1].strip() if len(parts) > 1 else ""
    reply = _REPLY.fullmatch(text)
    if reply:
        return _answers(reply[1])
    if text.startswith(_INJECTED_BEGINNINGS) or _INJECTED.match(text):
        return ""
    return "" if is_for_model and _ELEMENTS.fullmatch(text) else text


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
