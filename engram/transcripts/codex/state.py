"""The state of a rollout's reader between two reads, which is kept in the cursor, and the ids of entries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from engram.errors import BrokenDatabase
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Cursor
from engram.transcripts.codex import AGENT
from engram.transcripts.codex.entry import Entry, Kind
from engram.transcripts.growing_file import Position
from engram.transcripts.json_values import storable_id
from engram.transcripts.line_parsing import facts_in
from engram.transcripts.speaker import Speaker

# -- The state that the reader of a rollout keeps between two reads, in the cursor that ingest stores.

#: How the ids of turns begin that Codex copied from other programs' sessions.
COPIED = "external-import-turn"
#: Maximum number of running commands that are remembered, and of prompts that the user may undo by going back.
MAX_RUNNING, MAX_STANDING = 16, 100


class Echo(NamedTuple):
    """A text that was read, kept for finding its copy in the other log."""

    #: Hash of role and text.
    digest: str
    #: The letters of the logs that have shown it.
    logs: str
    #: Id of the text.
    uuid: str


@dataclass(slots=True)
class Naming:
    """The values from which the ids of the next entries are made."""

    #: Codex's own id of its current turn; "" in versions that do not write such an id.
    turn_id: str = ""
    #: Number of texts in that turn so far.
    texts: int = 0
    #: The session for which the lines were first written, and the line of its head. A fork begins with a copy of
    #: another session.
    origin: str = ""
    origin_line: int = 0
    echoes: list[Echo] = field(default_factory=list)


@dataclass(slots=True)
class ReaderState:
    """The state of a rollout's turns at the end of a read. It contains no text from the file except the branch."""

    #: Key of the turn that continues with the next line.
    current: str = ""
    #: Key of the last turn before the file was rewritten.
    previous: str = ""
    #: Keys of turns that have no reply yet, with prompts that only the model's log has shown.
    unconfirmed: list[str] = field(default_factory=list)
    #: Keys of the turns of the last prompts that the user did not undo by going back, in order.
    standing: list[str] = field(default_factory=list)
    #: True if Codex's current turn showed a prompt on the screen; prompts in the other log then don't count.
    is_confirmed: bool = False
    #: True in a turn that was copied from another program's session.
    is_copied: bool = False
    #: True in a turn that, according to its beginning, something else than the user started, such as an automation.
    is_triggered: bool = False
    #: True once the head of the session has been read.
    has_head: bool = False
    #: Who writes the prompts, according to the head of the session.
    speaker: Speaker = Speaker.PERSON
    #: Id of each session from which this one was forked, directly or not → who wrote its prompts, according to its
    #: head.
    origins: dict[str, Speaker] = field(default_factory=dict)
    #: When the current turn began, in milliseconds since 1970; 0 if that is unknown.
    turn_ms: int = 0
    #: Number of a process that is still running → id of the call that started it.
    running: dict[str, str] = field(default_factory=dict)
    #: Id of a call that requests further output → number of the process.
    polls: dict[str, str] = field(default_factory=dict)
    #: Id of a call that may change the branch.
    switching: str = ""
    cwd: str = ""
    branch: str = ""
    naming: Naming = field(default_factory=Naming)
    #: True if the session was read before, from a file with other content, so that its stored turns continue.
    is_reread: bool = False

    @property
    def turns_to_resume(self) -> tuple[str, ...]:
        """The keys of the stored turns that ``TurnBuilder`` needs in order to continue."""
        return tuple(dict.fromkeys(key for key in (self.current, self.previous, *self.unconfirmed) if key))

    def restarted(self) -> ReaderState:
        """Return the state for reading a rewritten file from its start; the last turn of the old content may go on."""
        return ReaderState(previous=self.current or self.previous, is_reread=True)


def load_cursor(cursor: Cursor) -> tuple[Position, ReaderState]:
    """Return the position in the file and the reader's state from a cursor. Raises BrokenDatabase if it is damaged."""
    try:
        facts = facts_in(cursor, foreign="preamble")
        position = Position.from_json(facts)
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
            standing=[str(key) for key in facts.get("standing", [])],
            is_confirmed=bool(facts.get("is_confirmed")),
            is_copied=bool(facts.get("is_copied")),
            is_triggered=bool(facts.get("is_triggered")),
            has_head=bool(facts.get("has_head")),
            speaker=Speaker(facts.get("speaker", Speaker.PERSON)),
            origins={str(key): Speaker(speaker) for key, speaker in facts.get("origins", {}).items()},
            turn_ms=int(facts.get("turn_ms", 0)),
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
    facts = position.to_json() | asdict(state) | asdict(state.naming)
    for name in ("naming", "branch", *(() if state.is_reread else ("is_reread",))):
        del facts[name]
    return Cursor(json.dumps(facts, separators=(",", ":")), words=state.branch)


# -- Give each entry of a rollout an id, and find the texts that both of its logs show.
#
# The lines of a rollout have no ids. An id is a hash of the parts that are the same in a copy of the line: Codex's id
# of its turn, the text or the id of the call, and the text's number within the turn. Therefore the history at the
# beginning of a fork has the same ids as in the session from which it was copied, and is not read twice. In versions
# that write no turn ids, the session and the line's number below its head are used instead; a copy also keeps these.

#: Maximum number of texts waiting for their copy in the other log.
MAX_ECHOES = 24
_TEXTS = (Kind.PROMPT, Kind.REPLY)
_TIMED_UUID = lazy_regex(r"([0-9a-f]{8})-([0-9a-f]{4})-7")


class Identified(NamedTuple):
    """An entry with its id, which is also its uuid outside this package."""

    entry: Entry
    #: "" for entries that are not part of a turn.
    uuid: str
    #: True if the other log has already shown the same text, under the same id.
    is_echo: bool = False


#: Returns the actual id of a text, given the computed id.
KnownAs = Callable[[Entry, str], str]


def identify(
    entries: Iterable[Entry], session_id: str, naming: Naming, known_as: KnownAs | None = None
) -> Iterator[Identified]:
    """Yield the entries with their ids; ``naming`` is updated with each of them.

    Args:
        known_as: for a session that is being reread, finds the id under which a text is stored.
    """
    for entry in entries:
        if entry.kind is Kind.META:
            naming.origin = storable_id(entry.data.get("id")) or session_id
            naming.origin_line = entry.line
        turn_id = storable_id(entry.data.get("turn_id")) if entry.kind in (Kind.BEGIN, Kind.FOLDER) else ""
        if turn_id and turn_id != naming.turn_id:
            naming.turn_id, naming.texts = turn_id, 0
            naming.echoes.clear()
        if entry.kind in _TEXTS:
            yield _identify_text(entry, session_id, naming, known_as)
        else:
            yield Identified(entry, _call_uuid(entry, session_id, naming))


def _identify_text(entry: Entry, session_id: str, naming: Naming, known_as: KnownAs | None) -> Identified:
    digest = _hash(entry.kind, " ".join(entry.text.split()))[:16]
    for number, echo in enumerate(naming.echoes):
        if echo.digest == digest and entry.log not in echo.logs:
            naming.echoes[number] = echo._replace(logs=echo.logs + entry.log)
            return Identified(entry, echo.uuid, is_echo=True)
    naming.texts += 1
    place = str(naming.texts) if naming.turn_id else str(entry.line - naming.origin_line)
    uuid = _uuid(naming.turn_id or naming.origin or session_id, place, digest)
    if known_as is not None:
        uuid = known_as(entry, uuid)
    naming.echoes.append(Echo(digest, entry.log, uuid))
    del naming.echoes[:-MAX_ECHOES]
    return Identified(entry, uuid)


def _call_uuid(entry: Entry, session_id: str, naming: Naming) -> str:
    if entry.kind not in (Kind.CALL, Kind.RESULT, Kind.FINISHED_CALL):
        return ""
    call_id = storable_id(entry.data.get("call_id") or entry.data.get("id"))
    part = "result" if entry.kind is Kind.RESULT else "call"
    return _uuid(naming.turn_id or naming.origin or session_id, part, call_id) if call_id else ""


def begun_ms(name: str) -> int:
    """Return when a turn or session began, in milliseconds since 1970, according to its id; 0 if that is unknown."""
    # A UUID of version 7 begins with the time.
    match = _TIMED_UUID.match(name)
    return int(match[1] + match[2], 16) if match else 0


def _uuid(*parts: str) -> str:
    return f"{AGENT}-{_hash(*parts)[:32]}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
