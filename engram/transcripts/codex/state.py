"""What the reader of a rollout keeps between two reads, as the cursor that ingest stores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from engram.errors import BrokenDatabase
from engram.transcripts.source import Cursor
from engram.transcripts.speaker import Speaker
from engram.transcripts.tail import Position

#: Commands that still run and are remembered.
MAX_RUNNING = 16


class Echo(NamedTuple):
    """A text that was read, for finding its copy in the other log."""

    #: Hash of role and text.
    digest: str
    #: The logs that have shown it, by their letters.
    logs: str
    #: Id of the text.
    uuid: str


@dataclass(slots=True)
class Naming:
    """What the ids of the next entries are made of."""

    #: Codex's id of its current turn; "" in versions that write none.
    turn_id: str = ""
    #: Number of texts of that turn so far.
    texts: int = 0
    #: Session that the lines were first written for, and the line of its head: a fork begins with a copy of another.
    origin: str = ""
    origin_line: int = 0
    echoes: list[Echo] = field(default_factory=list)


@dataclass(slots=True)
class ReaderState:
    """Where the turns of a rollout stood at the end of a read. Holds no text of it but the branch."""

    #: Key of the turn that goes on with the next line.
    current: str = ""
    #: Key of the last turn before the file was rewritten.
    previous: str = ""
    #: Keys of turns whose prompts only the model's log has shown, and which have no reply yet.
    unconfirmed: list[str] = field(default_factory=list)
    #: True if the current turn of Codex showed a prompt on the screen: then its other log's prompts are none.
    is_confirmed: bool = False
    #: True once the head of the session was read.
    has_head: bool = False
    #: Who writes the prompts, by the head of the session.
    speaker: Speaker = Speaker.PERSON
    #: Number of a process that still runs → id of the call that started it.
    running: dict[str, str] = field(default_factory=dict)
    #: Id of a call that asks for further output → number of the process.
    polls: dict[str, str] = field(default_factory=dict)
    #: Id of a call that may change the branch.
    switching: str = ""
    cwd: str = ""
    branch: str = ""
    naming: Naming = field(default_factory=Naming)
    #: True if the session was read before, from a file that held something else: what is stored goes on.
    is_reread: bool = False

    @property
    def turns_to_resume(self) -> tuple[str, ...]:
        """Keys of the stored turns that ``TurnBuilder`` needs in order to continue."""
        return tuple(dict.fromkeys(key for key in (self.current, self.previous, *self.unconfirmed) if key))

    def restarted(self) -> ReaderState:
        """Return the state with which a rewritten file is read from its beginning: its last turn may go on."""
        return ReaderState(previous=self.current or self.previous, is_reread=True)


def load_cursor(cursor: Cursor) -> tuple[Position, ReaderState]:
    """Return the place in the file and the reader's state that a cursor holds. Raises BrokenDatabase if damaged."""
    try:
        facts = json.loads(cursor.position or "{}")
        position = Position.of_facts(facts)
        naming = Naming(
            turn_id=str(facts.get("turn_id", "")),
            texts=int(facts.get("texts", 0)),
            origin=str(facts.get("origin", "")),
            origin_line=int(facts.get("origin_line", 0)),
            echoes=[Echo(*map(str, echo)) for echo in facts.get("echoes", [])],
        )
        state = ReaderState(
            current=str(facts.get("current", "")),
            previous=str(facts.get("previous", "")),
            unconfirmed=[str(key) for key in facts.get("unconfirmed", [])],
            is_confirmed=bool(facts.get("is_confirmed")),
            has_head=bool(facts.get("has_head")),
            speaker=Speaker(facts.get("speaker", Speaker.PERSON)),
            running=dict(facts.get("running", {})),
            polls=dict(facts.get("polls", {})),
            switching=str(facts.get("switching", "")),
            cwd=str(facts.get("cwd", "")),
            branch=cursor.words,
            naming=naming,
            is_reread=facts.get("is_reread") is True,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise BrokenDatabase(f"the position up to which a rollout was read is damaged: {error}") from error
    return position, state


def dump_cursor(position: Position, state: ReaderState) -> Cursor:
    """Return the cursor that ``load_cursor`` reads."""
    facts = position.as_facts() | {
        "current": state.current,
        "previous": state.previous,
        "unconfirmed": state.unconfirmed,
        "is_confirmed": state.is_confirmed,
        "has_head": state.has_head,
        "speaker": state.speaker,
        "running": state.running,
        "polls": state.polls,
        "switching": state.switching,
        "cwd": state.cwd,
        "turn_id": state.naming.turn_id,
        "texts": state.naming.texts,
        "origin": state.naming.origin,
        "origin_line": state.naming.origin_line,
        "echoes": state.naming.echoes,
    }
    if state.is_reread:
        facts["is_reread"] = True
    return Cursor(json.dumps(facts, separators=(",", ":")), words=state.branch)
