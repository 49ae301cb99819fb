"""Build turns from the entries of a rollout in file order. Reading may stop at any line and continue later.

The rules:

* A prompt opens a turn, even one typed while Codex was working. The turn includes every entry up to the
  next prompt, and the calls of the previous turn that still wait for a result.
* Every text, call and result belongs to one turn, in whichever file it was read first. The history at the beginning of
  a fork or a resumed copy is skipped; entries after it without a prompt form a continuation turn.
* A prompt follows the last prompt that the user did not undo by going back.
* Anything that Codex copied from another program's session is skipped, because that program has its own transcripts,
  and the copy shows tool results as if Codex had said them.
* A prompt is what the screen showed. Some versions write it only to the model's log, where context added by Codex looks
  the same. Such a turn is withdrawn if the screen shows another prompt before there is a reply.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple, TypeVar

from engram.errors import BrokenDatabase
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Cursor
from engram.transcripts.calls import shows_environment
from engram.transcripts.codex import AGENT
from engram.transcripts.codex.calls import (
    POLL_TOOL,
    Result,
    answered_in,
    arguments_of,
    asked_in,
    finish_action,
    finished_action,
    read_result,
    start_action,
)
from engram.transcripts.codex.entry import Entry, Kind, Log
from engram.transcripts.growing_file import Position
from engram.transcripts.json_values import storable_id, storable_text
from engram.transcripts.line_parsing import facts_in
from engram.transcripts.speaker import Speaker, codex_speaker
from engram.transcripts.turns import (
    AT_START,
    BEHIND,
    Action,
    Draft,
    EntryRef,
    Opening,
    Role,
    TextBlock,
    Turn,
    TurnUpdate,
    continued,
)

# -- The state that the reader of a rollout keeps between two reads, in the cursor that ingest stores.

T = TypeVar("T")
#: How the ids of turns begin that Codex copied from other programs' sessions.
_COPIED = "external-import-turn"
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
_TIMED = lazy_regex(r"([0-9a-f]{8})-([0-9a-f]{4})-7")


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


def _begun_ms(name: str) -> int:
    """Return when a turn or session began, in milliseconds since 1970, according to its id; 0 if that is unknown."""
    # A UUID of version 7 begins with the time.
    match = _TIMED.match(name)
    return int(match[1] + match[2], 16) if match else 0


def _uuid(*parts: str) -> str:
    return f"{AGENT}-{_hash(*parts)[:32]}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()


#: Kinds of entries that belong to a turn.
_OF_TURNS = (Kind.PROMPT, Kind.REPLY, Kind.CALL, Kind.RESULT, Kind.FINISHED_CALL)
_SWITCH = lazy_regex(r"(?:^|[;&|\n]\s*)git (?:checkout|switch)\b")
_SWITCHED = lazy_regex(r"^(?:Switched to (?:a new )?branch|Already on) '([^'\n]{1,200})'", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Built:
    #: Turns that are new or have changed, in the order of the file.
    updates: tuple[TurnUpdate, ...]
    #: Keys of stored turns that turned out not to be turns.
    withdrawn: tuple[str, ...]
    #: Entries that are already stored, with their new positions; only if the session is being reread.
    moved: tuple[EntryRef, ...] = ()


class TurnBuilder:
    """Builds the turns of one rollout, entry by entry; ``state`` is updated along the way."""

    def __init__(
        self,
        session_id: str,
        *,
        state: ReaderState,
        resume: Mapping[str, Turn],
        is_known: Callable[[str], bool] = lambda uuid: False,
        holder: Callable[[str], Turn | None] | None = None,
        is_subagent: bool = False,
        note_environment: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Continue from a state.

        Args:
            resume: the stored turns that ``state.turns_to_resume`` lists, by key; a missing one was forgotten.
            is_known: returns True if an entry belongs to a stored turn or was forgotten.
            holder: returns the stored turn that contains an entry, if the session is being reread.
            is_subagent: True if the user of this session is another agent, so that none of its prompts count.
            note_environment: receives the result of every call that showed an environment file.
        """
        self._session_id = session_id
        self._state = state
        self._is_known = is_known
        self._holder = holder
        self._moved: list[EntryRef] = []
        self._is_subagent = is_subagent
        self._note_environment = note_environment
        self._drafts = {key: Draft.of(turn) for key, turn in resume.items()}
        self._current = self._drafts.get(state.current)
        self._withdrawn: list[str] = []
        #: Ids of the entries of this read that belong to a turn.
        self._seen: set[str] = set()

    def add(self, identified: Identified) -> None:
        """Add the next entry of the file."""
        entry, uuid, is_echo = identified
        if entry.kind in (Kind.BEGIN, Kind.FOLDER) and (turn_id := storable_id(entry.data.get("turn_id"))):
            self._state.is_copied = turn_id.startswith(_COPIED)
            self._state.turn_ms = _begun_ms(turn_id)
        elif entry.kind is Kind.BEGIN:
            self._state.turn_ms = entry.at_ms or 0
        if self._state.is_copied and entry.kind in _OF_TURNS:
            return
        if self._holder is not None and uuid and not is_echo and uuid not in self._seen and self._is_known(uuid):
            self._go_on(entry, uuid, self._holder(uuid))
        match entry.kind:
            case Kind.META:
                self._note_head(entry)
            case Kind.FOLDER:
                self._state.cwd = entry.text or self._state.cwd
            case Kind.BEGIN:
                self._state.is_confirmed = False
                self._state.unconfirmed = []
            case Kind.ROLLBACK:
                if isinstance(count := entry.data.get("num_turns"), int) and count > 0:
                    del self._state.standing[-count:]
            case Kind.END | Kind.ABORT:
                self._end(is_interrupted=entry.kind is Kind.ABORT)
            case Kind.PROMPT if not self._is_subagent and self._speaker is not Speaker.AGENT:
                self._add_prompt(entry, uuid, is_echo=is_echo)
            case Kind.REPLY if not is_echo and not self._is_taken(uuid):
                draft = self._record(entry, uuid)
                draft.said.append(_text_block(entry, uuid, Role.ASSISTANT))
            case Kind.CALL:
                self._add_call(entry, uuid)
            case Kind.RESULT:
                self._add_result(entry, uuid)
            case Kind.FINISHED_CALL:
                self._add_finished_call(entry, uuid)

    @property
    def _speaker(self) -> Speaker:
        """Who writes the prompts of the current turn.

        A fork begins with turns from the sessions it was forked from. Each turn belongs to the latest session that
        began before it.
        """
        turn_ms, origins = self._state.turn_ms, self._state.origins
        if not origins or not turn_ms or turn_ms >= _begun_ms(self._session_id.rpartition(".")[2]):
            return self._state.speaker
        begun = sorted(origins, key=_begun_ms)
        return origins[next((name for name in reversed(begun) if _begun_ms(name) <= turn_ms), begun[0])]

    def finish(self) -> Built:
        """Return the turns so far; ``state`` lists the turns to continue."""
        self._state.current = self._current.key if self._current else ""
        if self._current is not None:
            self._state.previous = ""
        updates = tuple(draft.update() for draft in self._drafts.values() if draft.is_changed)
        return Built(updates, tuple(self._withdrawn), tuple(self._moved))

    # -- prompts

    def _add_prompt(self, entry: Entry, uuid: str, *, is_echo: bool) -> None:
        if entry.log is not Log.MODEL:
            self._confirm(uuid)
        elif self._state.is_confirmed:
            return
        if is_echo and (uuid in self._seen or uuid in self._drafts or self._is_known(uuid)):
            return
        if self._is_taken(uuid):
            self._leave(uuid)
            self._stand(uuid)
            return
        self._open(uuid, Opening.PROMPT, entry)
        draft = self._record(entry, uuid)
        draft.extra[BEHIND] = self._stand(uuid)
        role = Role.PROGRAM if self._speaker is Speaker.PROGRAM else Role.USER
        draft.said.append(_text_block(entry, uuid, Role.CONTEXT if entry.element else role))
        draft.said.extend(_text_block(entry._replace(text=text), uuid, Role.CONTEXT) for text in entry.beside)
        if entry.element:
            draft.extra["element"] = entry.element
        if entry.log is Log.MODEL:
            self._state.unconfirmed.append(uuid)

    def _confirm(self, uuid: str) -> None:
        """Record a prompt that the screen showed, which means that other turns without a reply were only context."""
        self._state.is_confirmed = True
        for key in self._state.unconfirmed:
            draft = self._drafts.get(key)
            if key != uuid and draft is not None:
                self._withdraw(draft)
        if uuid in self._state.unconfirmed:
            self._current = self._drafts.get(uuid, self._current)
        self._state.unconfirmed = []

    def _stand(self, key: str) -> str:
        """Add a prompt to those that the user did not undo by going back, and return the one that it follows."""
        behind = next((other for other in reversed(self._state.standing) if other != key), AT_START)
        if key not in self._state.standing:
            self._state.standing = [*self._state.standing, key][-MAX_STANDING:]
        return behind

    def _withdraw(self, draft: Draft) -> None:
        self._state.standing = [key for key in self._state.standing if key != draft.key]
        del self._drafts[draft.key]
        if draft.is_stored:
            self._withdrawn.append(draft.key)
        if self._current is draft:
            self._current = None

    def _go_on(self, entry: Entry, uuid: str, turn: Turn | None) -> None:
        """Continue the stored turn that contains an entry of a session being reread."""
        self._moved.append(EntryRef(uuid, entry.offset, entry.length, entry.line))
        if turn is None or turn.key in self._withdrawn:
            return
        draft = continued(self._drafts, turn)
        if draft is not self._current:
            if self._current is not None:
                self._current.close()
            self._current = draft

    def _leave(self, uuid: str) -> None:
        """End the current turn at a prompt that is already stored, and continue that prompt's turn if it is open."""
        if self._current is not None and self._current.key != uuid:
            self._current.close()
        self._current = self._drafts.get(uuid)

    # -- calls

    def _add_call(self, entry: Entry, uuid: str) -> None:
        if entry.data.get("name") == POLL_TOOL:
            process = arguments_of(entry.data).get("session_id")
            _remember(self._state.polls, storable_id(entry.data.get("call_id")), str(process))
            return
        action = start_action(entry.data, uuid)
        if action is None or self._is_taken(uuid):
            return
        draft = self._record(entry, uuid)
        draft.add_action(action.run_at(entry.at_ms))
        self._add_dialog(draft, entry, uuid, asked_in(action, entry.data))
        folder = storable_text(arguments_of(entry.data).get("workdir"))
        if _SWITCH.search(action.command) and folder in ("", self._state.cwd):
            self._state.switching = action.tool_use_id

    def _add_result(self, entry: Entry, uuid: str) -> None:
        call_id = storable_id(entry.data.get("call_id"))
        result = read_result(entry.data)
        process = self._state.polls.pop(call_id, "")
        if process:
            if result.process:
                return
            call_id = self._state.running.pop(process, "")
        elif result.process:
            _remember(self._state.running, result.process, call_id)
            return
        if self._current is None or call_id not in self._current.waiting or self._is_taken(uuid):
            return
        draft = self._record(entry, uuid)
        index = draft.waiting.pop(call_id)
        action = draft.actions[index] = finish_action(draft.actions[index], result, uuid)
        self._add_dialog(draft, entry, uuid, answered_in(action, result, draft.proposed_by(action)))
        self._note_result(action, result)

    def _add_dialog(self, draft: Draft, entry: Entry, uuid: str, parts: Iterable[tuple[Role, str, str]]) -> None:
        """Add questions to the user, or the answers. In a session of a program or agent, a person answers none."""
        if self._is_subagent or self._speaker is not Speaker.PERSON:
            return
        for role, text, link in parts:
            draft.said.append(_text_block(entry._replace(text=text), uuid, role, link))

    def _add_finished_call(self, entry: Entry, uuid: str) -> None:
        finished = finished_action(entry.data, uuid)
        if finished is None:
            return
        action, result = finished
        index = self._current.waiting.pop(action.tool_use_id, None) if self._current is not None else None
        if self._current is not None and index is not None:
            draft = self._current
            draft.actions[index] = finish_action(draft.actions[index], result, uuid)
            draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        elif not self._is_taken(uuid):
            self._record(entry, uuid).actions.append(action.run_at(entry.at_ms))
        else:
            return
        self._note_result(action, result)

    def _note_result(self, action: Action, result: Result) -> None:
        """Process the information about secrets and the branch in a result."""
        if shows_environment(action):
            self._note_environment(result.text)
        if action.tool_use_id == self._state.switching:
            self._state.switching = ""
            switched = _SWITCHED.findall(result.text)
            self._state.branch = switched[-1] if switched and not result.is_error else self._state.branch

    # -- turns

    def _note_head(self, entry: Entry) -> None:
        """Read folder and branch from the session's own head; a fork also contains the heads of its originals."""
        name = storable_id(entry.data.get("id"))
        if self._state.has_head and name != self._session_id.rpartition(".")[2]:
            _remember(self._state.origins, name, codex_speaker(entry.data))
            return
        self._state.has_head = True
        self._state.speaker = codex_speaker(entry.data)
        self._state.cwd = storable_text(entry.data.get("cwd")) or self._state.cwd
        git = entry.data.get("git")
        self._state.branch = storable_text(git.get("branch")) if isinstance(git, dict) else self._state.branch

    def _end(self, *, is_interrupted: bool) -> None:
        if self._current is None:
            return
        if is_interrupted and not self._current.is_interrupted:
            self._current.is_interrupted = self._current.is_changed = self._current.has_grown = True
        self._current.close()

    def _is_taken(self, uuid: str) -> bool:
        """Return True for an entry that already belongs to a turn."""
        return bool(uuid) and (uuid in self._seen or self._is_known(uuid))

    def _open(self, key: str, opening: Opening, entry: Entry) -> Draft:
        """Make a new draft the current one; it gets the calls still waiting for a result, unless Codex had finished."""
        draft = Draft(
            key=key,
            session_id=self._session_id,
            opening=opening,
            agent=AGENT,
            cwd=self._state.cwd,
            branch=self._state.branch,
            start_offset=entry.offset,
        )
        if self._current is not None:
            if not self._current.is_closed:
                draft.take_waiting(self._current)
            self._current.close()
        self._drafts[key] = self._current = draft
        return draft

    def _record(self, entry: Entry, uuid: str) -> Draft:
        """Add an entry to the current turn, or to a new continuation if there is none."""
        draft = self._current or self._open(f"c:{uuid}", Opening.CONTINUATION, entry)
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        draft.visit(self._state.cwd)
        if uuid:
            draft.entries.append(EntryRef(uuid, entry.offset, entry.length, entry.line))
            self._seen.add(uuid)
        if entry.kind is not Kind.PROMPT:
            self._state.unconfirmed = []
        return draft


def _remember(known: dict[str, T], key: str, value: T) -> None:
    """Add an entry to a table of limited size, dropping the oldest entries."""
    known[key] = value
    while len(known) > MAX_RUNNING:
        del known[next(iter(known))]


def _text_block(entry: Entry, uuid: str, role: Role, link: str = "") -> TextBlock:
    return TextBlock(
        uuid=uuid,
        role=role,
        text=entry.text,
        message_id=link,
        offset=entry.offset,
        length=entry.length,
        line=entry.line,
        at_ms=entry.at_ms,
    )
