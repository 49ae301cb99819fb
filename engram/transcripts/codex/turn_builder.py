"""Build turns from the entries of a rollout in file order. Reading may stop at any line and continue later.

The rules:

* A prompt opens a turn, even one typed while Codex was working. The turn includes every entry up to the
  next prompt, and the calls of the previous turn that still wait for a result.
* Every text, call and result belongs to one turn, in whichever file it was read first. The history at the beginning of
  a fork or a resumed copy is skipped; entries after it without a prompt form a continuation turn.
* A prompt follows the last prompt that the user did not undo by going back. Since 0.153, a new file of the session
  begins then, which names the file and the place that it continues.
* Anything that Codex copied from another program's session is skipped, because that program has its own transcripts,
  and the copy shows tool results as if Codex had said them.
* A prompt is what the screen showed. Some versions write it only to the model's log, where context added by Codex looks
  the same. Such a turn is withdrawn if the screen shows another prompt before there is a reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from engram.system.lazy_regex import lazy_regex
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
from engram.transcripts.codex.state import COPIED, MAX_RUNNING, MAX_STANDING, Identified, ReaderState, begun_ms
from engram.transcripts.json_values import object_in, storable_id, storable_text
from engram.transcripts.speaker import Speaker, codex_speaker
from engram.transcripts.turns import (
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

T = TypeVar("T")
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
            self._state.is_copied = turn_id.startswith(COPIED)
            self._state.turn_ms = begun_ms(turn_id)
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
                trigger = object_in(entry.data.get("turn_attribution")).get("turn_trigger")
                self._state.is_triggered = trigger not in (None, "user")
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
            case Kind.COMPACTION:
                self._drop_summary(storable_text(entry.data.get("message")))

    @property
    def _speaker(self) -> Speaker:
        """Who writes the prompts of the current turn."""
        speaker = self._author
        return Speaker.PROGRAM if self._state.is_triggered and speaker is Speaker.PERSON else speaker

    @property
    def _author(self) -> Speaker:
        """Who writes the prompts of the session to which the current turn belongs.

        A fork may begin with turns from the sessions it was forked from. Each turn belongs to the latest session that
        began before it.
        """
        turn_ms, origins = self._state.turn_ms, self._state.origins
        if not origins or not turn_ms or turn_ms >= begun_ms(self._session_id.rpartition(".")[2]):
            return self._state.speaker
        begun = sorted(origins, key=begun_ms)
        return origins[next((name for name in reversed(begun) if begun_ms(name) <= turn_ms), begun[0])]

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
        behind = next((other for other in reversed(self._state.standing) if other != key), self._session_id)
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
        self._add_dialog(draft, entry, uuid, answered_in(result, draft.proposed_by(action)))
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

    def _drop_summary(self, message: str) -> None:
        """Remove the summary that a compaction was made from, which the model's log shows like a reply.

        Codex puts a line of its own before the summary.
        """
        draft = self._current
        if draft is None or not draft.said or draft.said[-1].role is not Role.ASSISTANT:
            return
        if draft.said[-1].text.strip() in (message.strip(), message.partition("\n")[2].strip()):
            draft.take_back()

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
