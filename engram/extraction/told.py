"""How texts and commands of a turn stand in a request, and what the short ids stand for. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from engram.extraction.protocol import NearMemory
from engram.redaction import redact
from engram.transcripts.record import Action, Role, TextBlock, Turn

#: Of a long text at least so many characters are sent, and at most so many.
MIN_TEXT_CHARACTERS, MAX_TEXT_CHARACTERS = 3_000, 8_000
#: Longest command and longest error line that are sent, in characters.
MAX_COMMAND_CHARACTERS, MAX_ERROR_CHARACTERS = 160, 200
#: An announcement of the assistant of at most so many characters is left out.
MAX_ACKNOWLEDGEMENT_CHARACTERS = 160
#: So many times the characters that are sent are redacted before the cut.
_REDACTED_TIMES = 10
#: Share of a cut text that is taken from its beginning.
_HEAD_SHARE = 0.6

_ACKNOWLEDGES = re.compile(
    r"(?i)\s*(?:now\b|next\b|let me\b|let's\b|i'll\b|i will\b|i'm going to\b|good\b|great\b|perfect\b|excellent\b|ok(?:ay)?\b|"
    r"sure\b|done\b|alright\b|all right\b|got it\b|thanks\b|you're right[.!]|you're absolutely right[.!]|right[,.!]|"
    r"the (?:build|tests?|lint\w*|format\w*) (?:pass|succeed|is clean|are clean)|(?:all )?tests? pass)"
)
#: Words by which even a short message says something.
_SAYS = re.compile(
    r"(?i)\b(?:because|since|instead|but|however|actually|wrong|fail\w*|error|bug|issue|problem|caus\w+|reason|needs? to|"
    r"can't|cannot|doesn't|don't|isn't|not|never|only|should|decid\w+|turns out|found|means)\b|\?"
)


@dataclass(slots=True)
class Ids:
    """Short ids of one request: texts ``e``, commands ``c``, memories ``m``, each counted from 1."""

    said: dict[str, tuple[Turn, TextBlock]] = field(default_factory=dict)
    actions: dict[str, tuple[Turn, Action]] = field(default_factory=dict)
    memories: dict[str, NearMemory] = field(default_factory=dict)

    def add_said(self, turn: Turn, said: TextBlock) -> str:
        """The id of a text."""
        short = f"e{len(self.said) + 1}"
        self.said[short] = (turn, said)
        return short

    def add_action(self, turn: Turn, action: Action) -> str:
        """The id of a command."""
        short = f"c{len(self.actions) + 1}"
        self.actions[short] = (turn, action)
        return short

    def add_memory(self, memory: NearMemory) -> str:
        """The id of a memory."""
        short = f"m{len(self.memories) + 1}"
        self.memories[short] = memory
        return short


def shown(turn: Turn) -> list[TextBlock]:
    """The texts of a turn that say something, with what the user typed when they refused a call.

    Announcements ("Now let me run the tests:") are left out; the user's words and the closing message never are.
    """
    replies = [said for said in turn.said if said.role is Role.ASSISTANT]
    kept = [said for said in turn.said if said in replies[-1:] or not is_acknowledgement(said)]
    refusals = [
        TextBlock(uuid=action.result_uuid or action.uuid, role=Role.USER, text=action.refusal, at_ms=None)
        for action in turn.actions
        if action.refusal and all(said.text != action.refusal for said in turn.said)
    ]
    return kept + refusals


def is_acknowledgement(said: TextBlock) -> bool:
    """Whether a text only announces or acknowledges."""
    text = said.text.strip()
    if said.role is not Role.ASSISTANT or len(text) > MAX_ACKNOWLEDGEMENT_CHARACTERS or "\n" in text:
        return False
    return bool(_ACKNOWLEDGES.match(text) or text.endswith(":")) and not _SAYS.search(text)


def is_shown(action: Action) -> bool:
    """Whether a tool call is told: a command of which something can be learned."""
    return bool(action.command) and (bool(action.is_error) or bool(action.commit) or not _LOOKS.match(action.command))


#: Commands that only look at something.
_LOOKS = re.compile(
    r"\s*(?:cd \S+ (?:&&|;) *)?(?:ls|cat|head|tail|grep|rg|find|sed -n|wc|pwd|echo|which|tree|file|stat|sleep|"
    r"git (?:-C \S+ )?(?:status|diff|log|show|branch|add|rev-parse|fetch|stash list|remote|ls-files|blame)|"
    r"gh (?:pr|issue|run|api) ?(?:view|list|diff|checks|status)?)\b"
)


def fitting_length(lengths: Sequence[int], room: int) -> int:
    """The longest text that may be sent whole, so that all together fit into ``room``; within the two bounds."""
    low, high = MIN_TEXT_CHARACTERS, MAX_TEXT_CHARACTERS
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(length, middle) + 40 for length in lengths) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def said_line(short: str, said: TextBlock, longest: int) -> str:
    """The line of a text."""
    when = f" {moment(said.at_ms)}" if said.at_ms is not None else ""
    return f"[{short}] {said.role.speaker}{when}: {cut(redact(said.text), longest)}"


def action_line(short: str, action: Action) -> str:
    """The line of a command."""
    outcome = "ok"
    if action.is_error:
        outcome = f"failed: {_beginning(action.error_line, MAX_ERROR_CHARACTERS)}" if action.error_line else "failed"
    elif action.is_error is None:
        outcome = "no result"
    elif action.commit:
        outcome = f"committed: {_beginning(action.commit.partition(' ')[2], MAX_ERROR_CHARACTERS)}"
    command = _beginning(" ".join(action.command.split()), MAX_COMMAND_CHARACTERS)
    return redact(f"[{short}] ran: {command} → {outcome}")


def _beginning(text: str, longest: int) -> str:
    """The beginning of a text, redacted before it is cut: half a secret is known to no pattern."""
    return redact(text[: longest * _REDACTED_TIMES])[:longest]


def cut(text: str, longest: int) -> str:
    """A text, or its beginning and end where it is too long."""
    if len(text) <= longest:
        return text
    head = int(longest * _HEAD_SHARE)
    return f"{text[:head]} […] {text[-(longest - head) :]}"


def moment(at_ms: int) -> str:
    """A time as requests tell it, in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"
