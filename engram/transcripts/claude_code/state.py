"""The state that the reader of a transcript keeps between two reads, in the cursor that ingest stores."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from engram.errors import BrokenDatabase
from engram.transcripts.agents import Cursor
from engram.transcripts.growing_file import Position
from engram.transcripts.json_values import object_in, storable_id
from engram.transcripts.line_parsing import facts_in
from engram.transcripts.speaker import UNKNOWN_SESSION

# -- Keep track of prompts that wait in Claude Code's queue until a line shows their outcome.

#: Maximum number of prompts that may wait at the same time; beyond that, the oldest leave the queue and keep their own
#: turns.
MAX_WAITING = 64
#: Maximum time by which the line that shows a prompt may precede the line that queues it, in milliseconds, because
#: clocks differ.
MAX_CLOCK_SKEW_MS = 2000
#: Maximum number of a prompt's lines that are compared with the waiting prompts.
MAX_LINES = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting prompt. Its words are kept as a hash, so that the reader's state does not contain any text."""

    #: Key of its turn if no line shows the prompt.
    key: str
    #: Hash of its words.
    digest: str
    #: Number of its lines.
    lines: int
    at_ms: int | None
    #: True if the user moved it back into the input field.
    is_popped: bool = False
    #: Id shared by the lines that remove it (as ``commandUuid``) and show it (as ``source_uuid``); "" if unknown.
    link: str = ""

    @staticmethod
    def digest_of(text: str) -> str:
        """Return the hash of a prompt's words."""
        return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:32]


@dataclass(slots=True)
class Queue:
    """The waiting prompts, oldest first."""

    waiting: list[Waiting] = field(default_factory=list)

    def add(self, key: str, text: str, at_ms: int | None, *, link: str = "") -> None:
        lines = text.strip().count("\n") + 1
        self.waiting.append(Waiting(key=key, digest=Waiting.digest_of(text), lines=lines, at_ms=at_ms, link=link))
        del self.waiting[:-MAX_WAITING]

    def find(self, link: str, text: str) -> Waiting | None:
        """Return the prompt that a line removes from the queue; None if it is not waiting.

        Args:
            link: the id in the line; "" in older versions.
            text: the words that the line repeats; "" if there are none. A line with neither id nor words refers to the
                oldest prompt, or to a notification, which is not in this queue.
        """
        if link and (linked := [prompt for prompt in self.waiting if prompt.link == link]):
            return linked[0]
        waiting = [prompt for prompt in self.waiting if not (link and prompt.link)]
        if text:
            digest = Waiting.digest_of(text)
            return next((prompt for prompt in waiting if prompt.digest == digest), None)
        waiting = [prompt for prompt in waiting if not prompt.is_popped]
        return waiting[0] if waiting and (not link or len(waiting) == 1) else None

    def take(self, prompt: Waiting) -> None:
        self.waiting.remove(prompt)

    def link(self, prompt: Waiting, link: str) -> None:
        """Record the id under which a line will show a prompt."""
        self.waiting = [replace(other, link=link) if other is prompt else other for other in self.waiting]

    def pop_all(self, text: str | None) -> list[Waiting]:
        """Mark the prompts with these words, or every prompt if ``text`` is empty, as moved back, and return them."""
        digest = Waiting.digest_of(text) if text else ""
        popped = [prompt for prompt in self.waiting if not text or prompt.digest == digest]
        self.waiting = [replace(prompt, is_popped=True) if prompt in popped else prompt for prompt in self.waiting]
        return popped

    def settle(self, text: str, at_ms: int | None, *, link: str = "") -> list[Waiting]:
        """Remove and return the waiting prompts that a line shows, individually or joined.

        Of several prompts with the same words, the newest is removed, because a prompt is shown right after it was
        queued. Words are compared only if the prompt's id is unknown or the line has no id.
        """
        if not self.waiting:
            return []
        lines = text.strip().split("\n")[:MAX_LINES]
        shown: list[Waiting] = [prompt for prompt in self.waiting if link and prompt.link == link]
        for prompt in reversed(self.waiting if not shown else ()):
            if link and prompt.link:
                continue
            if at_ms is not None and prompt.at_ms is not None and at_ms < prompt.at_ms - MAX_CLOCK_SKEW_MS:
                continue
            if all(prompt.digest != other.digest for other in shown) and _contains(lines, prompt):
                shown.append(prompt)
        self.waiting = [prompt for prompt in self.waiting if prompt not in shown]
        return shown

    def dump(self) -> list[list[Any]]:
        return [
            [prompt.key, prompt.digest, prompt.lines, prompt.at_ms, prompt.is_popped, prompt.link]
            for prompt in self.waiting
        ]

    @classmethod
    def load(cls, dumped: object) -> Queue:
        """Return the queue that ``dump`` wrote; an empty one for anything else."""
        rows = dumped if isinstance(dumped, list) else []
        return cls([Waiting(*row) for row in rows if isinstance(row, list) and len(row) in (5, 6)])


def _contains(lines: list[str], prompt: Waiting) -> bool:
    """Return True if the waiting prompt is a run of complete lines."""
    for start in range(len(lines) - prompt.lines + 1):
        if Waiting.digest_of("\n".join(lines[start : start + prompt.lines])) == prompt.digest:
            return True
    return False


def link_of(fields: object) -> str:
    """Return the id shared by the line that removes a prompt and the attachment that shows it; "" if there is none."""
    names = ("source_uuid", "commandUuid", "delivery_id", "deliveryId")
    return next((link for name in names if (link := storable_id(object_in(fields).get(name)))), "")


@dataclass(frozen=True, slots=True)
class ReaderState:
    """The state of a transcript's turns at the end of a read. It contains no text from the file except the branch."""

    #: Key of the turn that continues with the next line.
    current: str = ""
    #: Key of the turn of the entries before the first prompt.
    preamble: str = ""
    #: Key of the last turn before the file was rewritten.
    previous: str = ""
    #: Waiting prompts (``Queue.dump``).
    queue: list[list[Any]] = field(default_factory=list)
    #: Latest working directory and branch.
    cwd: str = ""
    branch: str = ""
    #: True if the session was read before, from a file with other content, so that its stored turns continue.
    is_reread: bool = False
    #: True once a line named the session itself; from then on, lines that name another session don't belong to it.
    has_own: bool = False
    #: The session's fields, which also apply to queue lines, since these have none.
    fields: dict[str, str] = field(default_factory=lambda: dict(UNKNOWN_SESSION))
    #: Keys of queued prompts that count as a person's if the first line with these fields shows that a person types
    #: there.
    unjudged: list[str] = field(default_factory=list)

    @property
    def turns_to_resume(self) -> tuple[str, ...]:
        """The keys of the stored turns that ``TurnBuilder`` needs in order to continue."""
        queued = (prompt.key for prompt in Queue.load(self.queue).waiting)
        return tuple(
            dict.fromkeys(key for key in (self.current, self.preamble, self.previous, *queued, *self.unjudged) if key)
        )

    def restarted(self) -> ReaderState:
        """Return the state for reading a rewritten file from its start; the last turn of the old content may go on."""
        return ReaderState(previous=self.current or self.previous, is_reread=True)


def load_cursor(cursor: Cursor) -> tuple[Position, ReaderState]:
    """Return the position in the file and the reader's state from a cursor. Raises BrokenDatabase if it is damaged."""
    try:
        facts = facts_in(cursor, foreign="turn_id")
        position = Position.from_json(facts)
    except (ValueError, TypeError, AttributeError) as error:
        raise BrokenDatabase(f"the position up to which a transcript was read is damaged: {error}") from error
    state = ReaderState(
        current=_text(facts.get("current")),
        preamble=_text(facts.get("preamble")),
        previous=_text(facts.get("previous")),
        queue=Queue.load(facts.get("queue")).dump(),
        cwd=_text(facts.get("cwd")),
        branch=cursor.words,
        is_reread=facts.get("is_reread") is True,
        has_own=facts.get("has_own") is True,
        # An earlier version's cursor lacks these fields, although some lines have been read.
        fields=_mapping(facts.get("fields", {} if position.offset else UNKNOWN_SESSION)),
        unjudged=[key for key in facts.get("unjudged", ()) if isinstance(key, str)],
    )
    return position, state


def dump_cursor(position: Position, state: ReaderState) -> Cursor:
    facts = position.to_json() | asdict(state)
    for name in ("branch", *(name for name in ("is_reread", "has_own", "unjudged") if not facts[name])):
        del facts[name]
    return Cursor(json.dumps(facts, separators=(",", ":")), words=state.branch)


def _mapping(value: object) -> dict[str, str]:
    return {str(name): str(part) for name, part in value.items()} if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
