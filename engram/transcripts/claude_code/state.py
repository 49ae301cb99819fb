"""What the reader of a transcript keeps between two reads, as the cursor that ingest stores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from engram.errors import BrokenDatabase
from engram.transcripts.claude_code.queue import Queue
from engram.transcripts.source import Cursor
from engram.transcripts.tail import Position


@dataclass(frozen=True, slots=True)
class ReaderState:
    """Where the turns of a transcript stood at the end of a read. Holds no text of the transcript but the branch."""

    #: Key of the turn that goes on with the next line.
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
    #: True if the session was read before, from a file that held something else: what is stored goes on.
    is_reread: bool = False

    @property
    def turns_to_resume(self) -> tuple[str, ...]:
        """Keys of the stored turns that ``TurnBuilder`` needs in order to continue."""
        queued = (prompt.key for prompt in Queue.load(self.queue).waiting)
        return tuple(dict.fromkeys(key for key in (self.current, self.preamble, self.previous, *queued) if key))

    def restarted(self) -> ReaderState:
        """Return the state with which a rewritten file is read from its beginning: its last turn may go on."""
        return ReaderState(previous=self.current or self.previous, is_reread=True)


def load_cursor(cursor: Cursor) -> tuple[Position, ReaderState]:
    """Return the place in the file and the reader's state that a cursor holds. Raises BrokenDatabase if damaged."""
    try:
        facts = json.loads(cursor.position or "{}")
        position = Position.of_facts(facts)
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
    )
    return position, state


def dump_cursor(position: Position, state: ReaderState) -> Cursor:
    """Return the cursor that ``load_cursor`` reads."""
    facts = position.as_facts() | {
        "current": state.current,
        "preamble": state.preamble,
        "previous": state.previous,
        "queue": state.queue,
        "cwd": state.cwd,
    }
    if state.is_reread:
        facts["is_reread"] = True
    return Cursor(json.dumps(facts, separators=(",", ":")), words=state.branch)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
