"""The drafts of one read of a transcript: which turn is current, and which entries wait for the first prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from engram.transcripts.claude_code import AGENT
from engram.transcripts.claude_code.entry import Entry, Kind
from engram.transcripts.claude_code.state import MAX_WAITING, ReaderState
from engram.transcripts.speaker import UNKNOWN_SESSION, Speaker, claude_code_speaker, session_fields
from engram.transcripts.turns import Draft, EntryRef, Opening, Role, Turn, TurnUpdate, continued

#: Entries of these kinds belong to turns.
_KINDS_OF_TURNS = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.ATTACHMENT)


class OpenTurns:
    """Creates, continues, closes and withdraws the drafts of one transcript."""

    def __init__(
        self,
        session_id: str,
        state: ReaderState,
        resume: Mapping[str, Turn],
        load: Callable[[str], Turn | None],
    ) -> None:
        """Continue the stored turns that the state lists.

        Args:
            load: returns a stored turn of the session by its key, if the session is being reread.
        """
        self._load = load
        self._is_reread = state.is_reread
        self._session_id = session_id
        self._drafts = {key: Draft.of(turn) for key, turn in resume.items()}
        self._withdrawn: list[str] = []
        #: Uuid of an entry of this read → key of the turn to which it belongs.
        self.seen: dict[str, str] = {}
        #: The turn that gets the next entries.
        self.current = self._drafts.get(state.current)
        #: The turn of the entries before the first prompt.
        self._preamble = self._drafts.get(state.preamble)
        self._cwd = state.cwd
        self._branch = state.branch
        self._fields = state.fields
        self._unjudged = list(state.unjudged)
        self._shown: Mapping[str, Any] = {}

    @property
    def fields(self) -> dict[str, str]:
        """The session's fields, from its last line that has them. They also apply to queue lines, which have none."""
        return session_fields(self._shown) if self._shown else self._fields

    def note_place(self, entry: Entry) -> None:
        """Use an entry's working directory, branch and fields for the following entries."""
        if entry.kind is not Kind.QUEUE:
            self._shown = entry.data
            if self._unjudged:
                self._judge_queued()
        if entry.cwd:
            self._cwd = entry.cwd
        if entry.branch:
            self._branch = entry.branch

    @property
    def is_session_unknown(self) -> bool:
        """True until a line shows the session's fields."""
        return self.fields == UNKNOWN_SESSION

    def leave_unjudged(self, key: str) -> None:
        """Let the line that shows the session's fields decide whether a queued prompt is a person's."""
        self._unjudged = [*self._unjudged, key][-MAX_WAITING:]

    def _judge_queued(self) -> None:
        keys, self._unjudged = self._unjudged, []
        if claude_code_speaker(self.fields) is Speaker.PERSON:
            for draft in filter(None, map(self.find, keys)):
                draft.attribute(Role.PROGRAM, Role.USER)

    def find(self, key: str) -> Draft | None:
        """Return the draft with a key or, if the session is being reread, a draft of the stored turn with that key."""
        draft = self._drafts.get(key)
        if draft is None and key not in self._withdrawn and (turn := self._load(key)) is not None:
            draft = continued(self._drafts, turn)
        return draft

    def make(self, key: str, opening: Opening, entry: Entry) -> Draft:
        """Return the draft with a key, creating it if necessary, and extend it to the entry."""
        draft = self._drafts.get(key)
        if draft is None:
            draft = Draft(
                key=key,
                session_id=self._session_id,
                opening=opening,
                agent=AGENT,
                cwd=self._cwd,
                branch=self._branch,
                start_offset=entry.offset,
            )
            self._drafts[key] = draft
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        return draft

    def open(self, key: str, opening: Opening, entry: Entry, *, takes_calls: bool = False) -> Draft:
        draft = self.make(key, opening, entry)
        self.make_current(draft, takes_calls=takes_calls)
        return draft

    def make_current(self, draft: Draft, *, takes_calls: bool) -> None:
        """Close the current turn and continue with another one, which gets the preamble's entries.

        Args:
            takes_calls: True if the other turn also gets those calls of the current turn that are still waiting for a
                result.
        """
        if self.current is not None and self.current is not draft:
            self.current.close()
            if takes_calls:
                draft.take_waiting(self.current)
        if self._preamble is not None:
            draft.entries[:0] = self._preamble.entries
            draft.start_offset = min(draft.start_offset, self._preamble.start_offset)
            for reference in self._preamble.entries:
                self.seen[reference.uuid] = draft.key
            self.withdraw(self._preamble)
            self._preamble = None
        self.current = draft

    def draft_of(self, turn: Turn) -> Draft:
        return continued(self._drafts, turn)

    def go_on(self, draft: Draft | None) -> None:
        """Continue with the turn that contains the last entry; with none if that entry belongs to another session."""
        if draft is None or draft is not self.current:
            if self.current is not None:
                self.current.close()
            self.current = draft
            self._preamble = None

    @property
    def is_program(self) -> bool:
        """True if a program wrote the prompt of the current turn."""
        current = self.current
        is_judged = current is not None and current.key not in self._unjudged
        return current is not None and is_judged and any(block.role is Role.PROGRAM for block in current.said)

    def set_aside(self) -> None:
        """End the current turn unless it waits for results, because the next entries don't answer its prompt."""
        if self.current is not None and not self.current.waiting:
            self.current.close()
            self.current = None

    def disown(self, entry: Entry) -> None:
        """Continue without the current turn's prompt, because this entry shows that no person wrote it."""
        before = self.current
        if before is None:
            return
        key = f"c:{entry.uuid}" if entry.uuid else self.hashed_key("c", entry.at_ms, str(entry.offset))
        self.current = self.make(key, Opening.CONTINUATION, entry)
        self.current.take_waiting(before)
        self.current.actions[:0] = before.actions
        self.current.entries[:0] = before.entries
        self.current.waiting = {a.tool_use_id: i for i, a in enumerate(self.current.actions) if a.is_error is None}
        self.current.start_offset = min(self.current.start_offset, before.start_offset)
        for reference in before.entries:
            self.seen[reference.uuid] = key
        self.withdraw(before)

    def withdraw(self, draft: Draft) -> None:
        """Drop a draft; if it is stored, also withdraw the stored turn."""
        del self._drafts[draft.key]
        if draft.is_stored:
            self._withdrawn.append(draft.key)

    def record(self, draft: Draft, entry: Entry) -> None:
        """Add an entry to a draft, with its position and time."""
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        if draft.cwd != self._cwd:
            draft.visit(self._cwd)
        draft.branch = draft.branch or self._branch
        if entry.uuid and entry.kind in _KINDS_OF_TURNS:
            draft.entries.append(EntryRef(entry.uuid, entry.offset, entry.length, entry.line))
            self.seen[entry.uuid] = draft.key

    def open_continuation(self, entry: Entry) -> Draft:
        """Open a turn without a prompt; if there is a preamble, it becomes that turn and keeps its key."""
        preamble, self._preamble = self._preamble, None
        if preamble is not None:
            self.current = preamble
            return preamble
        key = f"c:{entry.uuid}" if entry.uuid else self.hashed_key("c", entry.at_ms, str(entry.offset))
        return self.open(key, Opening.CONTINUATION, entry)

    def add_to_preamble(self, entry: Entry) -> None:
        """Keep an entry for the turn of the first prompt."""
        if not entry.uuid:
            return
        if self._preamble is None:
            self._preamble = self.make(f"c:{entry.uuid}", Opening.CONTINUATION, entry)
        self.record(self._preamble, entry)

    def hashed_key(self, prefix: str, at_ms: int | None, text: str) -> str:
        """Return the key of a turn whose prompt has no uuid."""
        data = f"{self._session_id}\n{at_ms}\n{text}".encode("utf-8", "replace")
        return f"{prefix}:{hashlib.sha256(data).hexdigest()[:32]}"

    def updates(self) -> tuple[TurnUpdate, ...]:
        """Return the turns that are new or have changed, in the order of the file."""
        return tuple(draft.update() for draft in self._drafts.values() if draft.is_changed)

    def withdrawn(self) -> tuple[str, ...]:
        """Return the keys of stored turns that turned out not to be turns."""
        return tuple(self._withdrawn)

    def state(self, queue: list[list[Any]], previous: str) -> ReaderState:
        """Return the state from which the next read continues."""
        return ReaderState(
            current=self.current.key if self.current else "",
            preamble=self._preamble.key if self._preamble else "",
            previous="" if self.current else previous,
            queue=queue,
            cwd=self._cwd,
            branch=self._branch,
            is_reread=self._is_reread,
            fields=self.fields,
            unjudged=self._unjudged,
        )
