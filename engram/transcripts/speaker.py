"""Decide who speaks: the only rule by which words in the user's place count as the user's, for every agent. Pure.

Two things decide together: the fields that the agent writes next to a message, which are judged here, and the element
that fills it (``message_elements.judge``). Missing fields indicate a person, because older versions do not write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from engram.system.lazy_regex import lazy_regex


class Speaker(StrEnum):
    """Who wrote a message in the user's place."""

    PERSON = "person"
    #: A program that uses the agent: an SDK, print mode, ``codex exec``, a plugin that speaks for the user.
    PROGRAM = "program"
    #: Another agent, session or channel.
    AGENT = "agent"
    SCHEDULE = "schedule"
    #: The agent's own program: notifications, reminders, output, summaries.
    HARNESS = "harness"


class Words(NamedTuple):
    """The content of a message in the user's place, without tags."""

    speaker: Speaker
    #: The speaker's words; "" if they contain no request.
    text: str = ""
    #: Parts of the message that the speaker did not write, such as pasted text.
    beside: tuple[str, ...] = ()
    #: Name of the element that fills the message, if that element is unknown; ``text`` is then its content.
    unknown: str = ""
    #: A slash command or shell command as it was typed (``/plan the parser``), whether or not it makes a request.
    command: str = ""
    #: True if the command starts something that is not a response to the previous prompt.
    is_start: bool = False

    @property
    def is_prompt(self) -> bool:
        """True for words of a person or a program, which open a turn."""
        return bool(self.text) and not self.unknown and self.speaker in (Speaker.PERSON, Speaker.PROGRAM)


# -- the fields of Claude Code

#: Kinds of ``origin`` that can deliver a person's words, if another field says that a person wrote them.
_MESSENGERS = frozenset({"channel", "voice-call", "slack-ping"})
_ORIGINS = {
    "human": Speaker.PERSON,
    "channel": Speaker.AGENT,
    "voice-call": Speaker.AGENT,
    "slack-ping": Speaker.AGENT,
    "peer": Speaker.AGENT,
    "coordinator": Speaker.AGENT,
    "observer": Speaker.AGENT,
    "observer-activity": Speaker.AGENT,
}
_SUBKINDS = {
    "scheduled-trigger": Speaker.SCHEDULE,
    "peer-send-message": Speaker.AGENT,
    "projects-relay": Speaker.AGENT,
}
_TURN_ORIGINS = {
    "scheduled": Speaker.SCHEDULE,
    "peer": Speaker.AGENT,
    "task_notification": Speaker.HARNESS,
    "auto_continuation": Speaker.HARNESS,
    "host_synthetic": Speaker.HARNESS,
    "system": Speaker.HARNESS,
}
_TYPED_SOURCES = frozenset({"typed", "queued", "suggestion_accepted", "user"})
_TYPED_TURNS = frozenset({"human", "user"})
#: Front ends in which a person types even though they use the SDK.
_FRONT_ENDS = ("claude-desktop", "claude-vscode", "claude-jetbrains")
_PROGRAM_ENTRYPOINTS = ("sdk", "mcp", "claude-code-github-action", "remote_trigger", "remote_cowork_trigger")
#: A word in the name of a front end that indicates that nobody types there.
_UNATTENDED = lazy_regex(
    r"(?:^|[^a-z])(?:exec|sdk|mcp|ci|bot|actions?|automation|cron|batch|webhook|scheduler|runner|hook|trigger)(?![a-z])"
)
#: Marks of words that are attributed to a person but were written, changed or sent by a program.
_NOT_TYPED = ("textNotTyped", "promptRewritten", "handedOff", "queueSkipAttachments", "queueTranscriptOnly")
#: Marks of words that came from somebody else.
_FROM_OTHERS = ("emailSenderTurn", "fromConnector")
_HARNESS_FLAGS = (
    *("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "repeatsCompactSummary", "turnCompanion"),
    *("isSynthetic", "isApiErrorMessage", "isVirtual"),
)
#: Names of the call of a tool that put its words on the line.
_OF_A_TOOL = ("sourceToolUseID", "parent_tool_use_id")


def claude_code_speaker(fields: Mapping[str, Any]) -> Speaker:
    """Return who wrote a Claude Code line, judging only by its fields.

    Args:
        fields: the line; for a queued command, its attachment, completed with the fields of the line that it lacks.
    """
    speaker = _speaker(fields)
    is_anothers = _role(fields) != "user" or any(map(fields.get, _OF_A_TOOL))
    return Speaker.HARNESS if is_anothers and speaker is Speaker.PERSON else speaker


def _speaker(fields: Mapping[str, Any]) -> Speaker:
    if fields.get("isSidechain") is True or fields.get("agentId"):
        return Speaker.AGENT
    origin = _origin(fields)
    kind = origin.get("kind")
    if kind is not None and kind != "human":
        return _other_origin(str(kind), origin, fields)
    is_meta = any(fields.get(flag) is True for flag in _HARNESS_FLAGS)
    if fields.get("verifiedSlackHumanTurn") is True and not is_meta:
        return Speaker.PERSON
    if is_meta or fields.get("promptSource") == "system" or fields.get("humanTurn") is False:
        return Speaker.HARNESS
    if fields.get("wakeupSource") or fields.get("hostInitiator") == "scheduled-task":
        return Speaker.SCHEDULE
    if (turn_origin := _TURN_ORIGINS.get(str(fields.get("turnOrigin")))) is not None:
        return turn_origin
    if any(map(fields.get, _FROM_OTHERS)):
        return Speaker.AGENT
    if any(map(fields.get, _NOT_TYPED)):
        return Speaker.PROGRAM
    return Speaker.PERSON if kind == "human" or _says_typed(fields) else _without_origin(fields)


def _role(fields: Mapping[str, Any]) -> object:
    """Return the role of the message on a line; the user's for lines that name none."""
    message = fields.get("message")
    return (message.get("role") if isinstance(message, dict) else None) or "user"


def _origin(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the origin of a line.

    A value that isn't an object becomes the kind of the origin, because a value of unknown form does not indicate a
    person.
    """
    origin = fields.get("origin")
    return origin if isinstance(origin, dict) else {"kind": None if origin is None else str(origin)}


def _other_origin(kind: str, origin: Mapping[str, Any], fields: Mapping[str, Any]) -> Speaker:
    if kind in _MESSENGERS and (_says_typed(fields) or fields.get("verifiedSlackHumanTurn") is True):
        return Speaker.PERSON
    if kind == "plugin":
        return Speaker.PROGRAM if origin.get("asUser") is True else Speaker.HARNESS
    if kind == "task-notification":
        return _SUBKINDS.get(str(origin.get("subkind")), Speaker.HARNESS)
    return _ORIGINS.get(kind, Speaker.HARNESS)


def _says_typed(fields: Mapping[str, Any]) -> bool:
    return (
        str(fields.get("turnOrigin")) in _TYPED_TURNS
        or str(fields.get("promptSource")) in _TYPED_SOURCES
        or fields.get("humanTurn") is True
    )


def _without_origin(fields: Mapping[str, Any]) -> Speaker:
    if fields.get("teamName") and fields.get("agentName"):
        # This is a member of a team in its own process, whose prompts come from the lead. The lead itself has no name.
        return Speaker.AGENT
    entrypoint = str(fields.get("entrypoint") or "")
    if entrypoint.startswith(_FRONT_ENDS):
        return Speaker.PERSON
    # Typed prompts are marked as such; prompts from a source that this version does not recognise may be anybody's.
    is_program = bool(fields.get("promptSource") or fields.get("turnOrigin"))
    is_program = is_program or entrypoint.startswith(_PROGRAM_ENTRYPOINTS) or bool(_UNATTENDED.search(entrypoint))
    return Speaker.PROGRAM if is_program else Speaker.PERSON


#: Fields of every line of a session that show who types in it.
_OF_SESSION = ("entrypoint", "teamName", "agentName")
#: Placeholder for these fields until a line has them; until then, it is unknown whether a person types there.
UNKNOWN_SESSION: dict[str, str] = {"promptSource": "unknown"}


def session_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a line that also apply to lines of its session without such fields, such as queue lines."""
    return {name: value for name in _OF_SESSION if isinstance(value := fields.get(name), str)}


def came_by_messenger(fields: Mapping[str, Any]) -> bool:
    """Return True for a line that arrived through a messenger channel or a call."""
    return str(_origin(fields).get("kind")) in _MESSENGERS


def declares_person(fields: Mapping[str, Any]) -> bool:
    """Return True if the origin of a Claude Code line declares that a person wrote it."""
    return _origin(fields).get("kind") == "human"


# -- the fields of Codex

#: Sources where a person types; any other source is a program.
_CODEX_PERSONS = frozenset({"cli", "vscode", "unknown"})


def codex_speaker(head: Mapping[str, Any]) -> Speaker:
    """Return who writes the prompts of a Codex session, according to the head of its rollout."""
    source, originator = head.get("source"), str(head.get("originator") or "")
    if isinstance(source, dict):
        # {"subagent": …}, {"custom": …}: the prompts come from an agent, or from a named program.
        return Speaker.AGENT if any(str(key).startswith("sub") for key in source) else Speaker.PROGRAM
    is_program = bool(source) and str(source) not in _CODEX_PERSONS
    return Speaker.PROGRAM if is_program or _UNATTENDED.search(originator.lower()) else Speaker.PERSON
