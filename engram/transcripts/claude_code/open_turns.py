"""The drafts of one read: which turn is current, and which entries wait for the first prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from engram.transcripts.claude_code import AGENT
from engram.transcripts.claude_code.entry import Entry, Kind
from engram.transcripts.claude_code.state import ReaderState
from engram.transcripts.draft import Draft
from engram.transcripts.record import EntryRef, Opening, Role, Turn, TurnUpdate

#: Entries of these kinds belong to turns.
_KINDS_OF_TURNS = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM, Kind.ATTACHMENT)


class OpenTurns:
    """Makes, continues, closes and withdraws the drafts of one transcript."""

    def __init__(
        self,
        session_id: str,
        state: ReaderState,
        resume: Mapping[str, Turn],
        load: Callable[[str], Turn | None],
    ) -> None:
        """Continue the stored turns that the state names.

        Args:
            load: returns a stored turn of the session by its key, if the session is read again.
        """
        self._load = load
        self._is_reread = state.is_reread
        self._session_id = session_id
        self._drafts = {key: Draft.of(turn) for key, turn in resume.items()}
        self._withdrawn: list[str] = []
        #: Key of the turn that an entry of this read belongs to, by the entry's uuid.
        self.seen: dict[str, str] = {}
        #: The turn that takes the next entries.
        self.current = self._drafts.get(state.current)
        #: The turn of the entries before the first prompt.
        self._preamble = self._drafts.get(state.preamble)
        self._cwd = state.cwd
        self._branch = state.branch

    def note_place(self, entry: Entry) -> None:
        """Take the working directory and branch of an entry for what follows."""
        if entry.cwd:
            self._cwd = entry.cwd
        if entry.branch:
            self._branch = entry.branch

    def find(self, key: str) -> Draft | None:
        """Return the draft of a key, or of the stored turn if the session is read again."""
        draft = self._drafts.get(key)
        if draft is None and key not in self._withdrawn and (turn := self._load(key)) is not None:
            draft = self._drafts[key] = Draft.of(turn)
        return draft

    def make(self, key: str, opening: Opening, entry: Entry) -> Draft:
        """Return the draft of a key, made if it is new, extended to the entry."""
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
        """Make a draft the current one."""
        draft = self.make(key, opening, entry)
        self.make_current(draft, takes_calls=takes_calls)
        return draft

    def make_current(self, draft: Draft, *, takes_calls: bool) -> None:
        """Close the current turn and go on with another, which takes the entries of the preamble.

        Args:
            takes_calls: it also takes the calls of the current turn that still wait for a result.
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

    def leave(self, owner: str) -> None:
        """End the current turn at a prompt that belongs to another turn, and go on with that one if it is open."""
        if self.current is not None:
            self.current.close()
        self.current = self._drafts.get(owner)
        self._preamble = None

    def go_on(self, turn: Turn) -> Draft:
        """Make a stored turn the current one where the session is read again; what follows belongs to it."""
        draft = self._drafts.get(turn.key)
        if draft is None:
            draft = self._drafts[turn.key] = Draft.of(turn)
        if self.current is not draft:
            if self.current is not None:
                self.current.close()
            self.current = draft
            self._preamble = None
        return draft

    @property
    def is_program(self) -> bool:
        """True if a program wrote the prompt of the current turn."""
        return self.current is not None and any(block.role is Role.PROGRAM for block in self.current.said)

    def set_aside(self) -> None:
        """End the current turn unless it waits for results: what follows is no answer to its prompt."""
        if self.current is not None and not self.current.waiting:
            self.current.close()
            self.current = None

    def disown(self, entry: Entry) -> None:
        """Go on without the prompt of the current turn, which this entry says is nobody's."""
        before = self.current
        if before is None:
            return
        key = f"c:{entry.uuid}" if entry.uuid else self.hashed_key("c", entry.at_ms, str(entry.offset))
        self.current = self.make(key, Opening.CONTINUATION, entry)
        self.current.take_waiting(before)
        self.current.actions[:0] = before.actions
        self.current.entries[:0] = before.entries
        self.current.waiting = {a.tool_use_id: i for i, a in enumerate(self.current.actions) if not a.result_uuid}
        self.current.start_offset = min(self.current.start_offset, before.start_offset)
        for reference in before.entries:
            self.seen[reference.uuid] = key
        self.withdraw(before)

    def withdraw(self, draft: Draft) -> None:
        """Drop a draft; if it is stored, it is withdrawn."""
        del self._drafts[draft.key]
        if draft.is_stored:
            self._withdrawn.append(draft.key)

    def record(self, draft: Draft, entry: Entry) -> None:
        """Add an entry to a draft by its place and time."""
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        draft.visit(self._cwd)
        draft.branch = draft.branch or self._branch
        if entry.uuid and entry.kind in _KINDS_OF_TURNS:
            draft.entries.append(EntryRef(entry.uuid, entry.offset, entry.length, entry.line))
            self.seen[entry.uuid] = draft.key

    def open_continuation(self, entry: Entry) -> Draft:
        """Open a turn without a prompt; a preamble becomes that turn under its own key."""
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
        """Return the keys of stored turns that turned out to be none."""
        return tuple(self._withdrawn)

    def state(self, queue: list[list[Any]], previous: str) -> ReaderState:
        """Return the state that the next read continues from."""
        return ReaderState(
            current=self.current.key if self.current else "",
            preamble=self._preamble.key if self._preamble else "",
            previous="" if self.current else previous,
            queue=queue,
            cwd=self._cwd,
            branch=self._branch,
            is_reread=self._is_reread,
        )
