"""The lines of a request: texts and commands of a turn, each with a short id. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import lru_cache

from engram.clock import moment_of
from engram.extraction.protocol import NearMemory
from engram.redaction import redact
from engram.redaction.voice import split_typed
from engram.text.statements import sentences
from engram.transcripts.record import Action, Role, TextBlock, Turn

#: Length to which a long text may be cut: at least, and at most, in characters.
MIN_TEXT_CHARACTERS, MAX_TEXT_CHARACTERS = 3_000, 8_000
#: Maximum length of a command and of an error line that are sent, in characters.
MAX_COMMAND_CHARACTERS, MAX_ERROR_CHARACTERS = 160, 200
#: Maximum length of a part of a prompt that was pasted, quoted or relayed, in characters; what was typed around it is
#: not cut for that.
MAX_PASTED_CHARACTERS = 1_500
#: Maximum length of an announcement of the assistant that is left out, in characters.
MAX_ACKNOWLEDGEMENT_CHARACTERS = 160
#: Text that is redacted before it is cut, as a multiple of what is sent.
_REDACTED_TIMES = 10
#: Share of a cut text that is taken from its beginning.
_HEAD_SHARE = 0.6

_ACKNOWLEDGES = re.compile(
    r"(?i)\s*(?:(?:now|next|then|first|finally|so|and|also|ok(?:ay)?|good|great|perfect)[,:;]?\s+)*"
    r"(?:(?:now|next)\b|let(?: me|'s|’s| us)\b|(?:i'll|i’ll|i will|i'm going to|i’m going to|i am going to|i need to|"
    r"time to)\b|"
    # Praise and assent say nothing by themselves; what follows them in the same sentence may.
    r"(?:good|great|perfect|excellent|ok(?:ay)?|sure|done|alright|all right|got it|thanks|thank you|"
    r"you(?:'re|’re| are)(?: absolutely)? right|right)(?:\W+\w+){0,2}\W*$|"
    r"the (?:build|tests?|lint\w*|format\w*) (?:pass|succeed|is clean|are clean)|(?:all )?tests? pass)"
)
#: Words that make even a short message informative.
_SAYS = re.compile(
    r"(?i)\b(?:because|since|instead|but|however|actually|wrong|fail\w*|error|bug|issue|problem|caus\w+|reason|"
    r"needs? to|can't|cannot|doesn't|don't|isn't|not|never|only|should|decid\w+|turns out|found|means)\b|\?"
)


@dataclass(slots=True)
class Ids:
    """The short ids of a request: ``e1`` for a text, ``c1`` for a command, ``m1`` for a memory."""

    said: dict[str, tuple[Turn, TextBlock]] = field(default_factory=dict)
    actions: dict[str, tuple[Turn, Action]] = field(default_factory=dict)
    memories: dict[str, NearMemory] = field(default_factory=dict)

    def add_said(self, turn: Turn, said: TextBlock) -> str:
        """Give a text an id and return it."""
        short = f"e{len(self.said) + 1}"
        self.said[short] = (turn, said)
        return short

    def add_action(self, turn: Turn, action: Action) -> str:
        """Give a command an id and return it."""
        short = f"c{len(self.actions) + 1}"
        self.actions[short] = (turn, action)
        return short

    def add_memory(self, memory: NearMemory) -> str:
        """Give a memory an id and return it."""
        short = f"m{len(self.memories) + 1}"
        self.memories[short] = memory
        return short


def shown(turn: Turn) -> list[TextBlock]:
    """Return the informative texts of a turn, and what the user typed when they refused a call.

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
    """Return True if every sentence of a text only announces or acknowledges.

    A sentence that states something counts even where the next one announces: "The ids are hashed. Let me change it:".
    """
    text = said.text.strip()
    if said.role is not Role.ASSISTANT or len(text) > MAX_ACKNOWLEDGEMENT_CHARACTERS or "\n" in text:
        return False
    parts = sentences(text)
    if len(parts) == 1 and text.endswith(":") and not _SAYS.search(text):
        return True
    return all(_ACKNOWLEDGES.match(part) and not _SAYS.search(part) for part in parts)


def is_shown(action: Action) -> bool:
    """Return True for a command that is sent: one that failed, committed, or did more than look."""
    return bool(action.command) and (bool(action.is_error) or bool(action.commit) or not _LOOKS.match(action.command))


#: Commands that only look at something.
_LOOKS = re.compile(
    r"\s*(?:cd \S+ (?:&&|;) *)?(?:ls|cat|head|tail|grep|rg|find|sed -n|wc|pwd|echo|which|tree|file|stat|sleep|"
    r"git (?:-C \S+ )?(?:status|diff|log|show|branch|add|rev-parse|fetch|stash list|remote|ls-files|blame)|"
    r"gh (?:pr|issue|run|api) ?(?:view|list|diff|checks|status)?)\b"
)


def fitting_length(lengths: Sequence[int], room: int) -> int:
    """Return the length to which texts are cut so that they fit into ``room`` together, within the two bounds."""
    low, high = MIN_TEXT_CHARACTERS, MAX_TEXT_CHARACTERS
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(length, middle) + 40 for length in lengths) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def said_line(short: str, said: TextBlock, longest: int) -> str:
    """Return the line of a text."""
    when = f" {moment(said.at_ms)}" if said.at_ms is not None else ""
    return f"[{short}] {said.role.speaker}{when}: {cut(sent_text(said), longest)}"


def sent_text(said: TextBlock) -> str:
    """Return what is sent of a text, redacted: parts that were pasted lose their middle.

    A plan or a review that was pasted is not the user's own: its beginning and end say what it is, and what the session
    makes of it follows.
    """
    return _sent_text(said.text, said.role)


@lru_cache(maxsize=512)
def _sent_text(text: str, role: Role) -> str:
    text = redact(text)
    if len(text) <= MAX_PASTED_CHARACTERS or role in (Role.ASSISTANT, Role.CHOSEN):
        return text
    if role is Role.PROPOSED:
        return cut(text, MIN_TEXT_CHARACTERS)
    if role is Role.CONTEXT:
        return cut(text, MAX_PASTED_CHARACTERS)
    parts = split_typed(text)
    return "".join(part if is_typed else cut(part, MAX_PASTED_CHARACTERS) for part, is_typed in parts)


def action_line(short: str, action: Action) -> str:
    """Return the line of a command."""
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
    """Return the beginning of a text, redacted before it is cut: no pattern recognizes half a secret."""
    return redact(text[: longest * _REDACTED_TIMES])[:longest]


def cut(text: str, longest: int) -> str:
    """Return a text, or its beginning and end if it is too long."""
    if len(text) <= longest:
        return text
    head = int(longest * _HEAD_SHARE)
    return f"{text[:head]} […] {text[-(longest - head) :]}"


def moment(at_ms: int) -> str:
    """Return a time as it stands in requests, in UTC."""
    return f"{moment_of(at_ms, UTC):%Y-%m-%d %H:%M}"
