"""Entries in file order become turns; reading may stop at any line and go on later with the same result.

The rules:

* A prompt opens a turn; the turn takes every entry up to the next prompt.
* Every user, assistant and system entry with a uuid belongs to exactly one turn, in whichever file it was read
  first. An entry that belongs to a turn already (a fork, a resumed copy, a rewritten file) is passed over; what goes
  on below a copied prompt is a continuation turn.
* Entries before a file's first prompt belong to the turn of that prompt; once the assistant speaks before any
  prompt, they are a continuation turn.
* A prompt that stands only in a queue-operation line is a turn of its own: without entries while it waits in the
  queue, and open for what follows from the line at which it was handed to the model (``remove``, or the line of the
  command it is). It goes away when a prompt line shows the same words later, since that line is the prompt then.

Turns whose fate is open at the end of a read (the preamble, waiting prompts) are stored like others and named in the
state; the next read gets them back and may withdraw them. So the stored result is the same wherever a read stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engram.transcripts.claude_code.action import finish_action, result_text, shows_environment, start_action
from engram.transcripts.claude_code.dialogs import Part, heard_in, is_refused, proposed_in
from engram.transcripts.claude_code.draft import Draft, TurnUpdate
from engram.transcripts.claude_code.entry import MAX_ID_CHARS, Entry, Kind, storable
from engram.transcripts.claude_code.prompt import command_of, is_interruption, prompt_of, queued_text, text_of
from engram.transcripts.claude_code.queue import Queue, Waiting
from engram.transcripts.record import EntryRef, Opening, Role, TextBlock, Turn

AGENT = "claude-code"
#: Entries of these kinds belong to turns.
_COUNTED = (Kind.USER, Kind.ASSISTANT, Kind.SYSTEM)


@dataclass(frozen=True, slots=True)
class Built:
    """What one read made."""

    #: Turns that are new or have changed, in the order of the file.
    updates: tuple[TurnUpdate, ...]
    #: Keys of stored turns that are none after all: remove them before the updates are written.
    withdrawn: tuple[str, ...]
    #: What the next read needs to go on; JSON-able, holds no text of the transcript.
    state: dict[str, Any]


def keys_to_resume(state: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the stored turns that ``TurnBuilder`` needs to go on from ``state``."""
    queued = [waiting.key for waiting in Queue.load(state.get("queue")).waiting]
    keys = [state.get("current"), state.get("preamble"), state.get("previous"), *queued]
    return tuple(dict.fromkeys(key for key in keys if isinstance(key, str) and key))


def is_queued_key(key: str) -> bool:
    """True for the key of a turn whose prompt stands in a queue-operation line."""
    return key.startswith("q:")


def restarted(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with which a rewritten file is read from its beginning: its last turn may go on."""
    return {"previous": str(state.get("current") or state.get("previous") or "")}


class TurnBuilder:
    """Builds the turns of one transcript, entry by entry."""

    def __init__(
        self,
        session_id: str,
        *,
        state: Mapping[str, Any] | None = None,
        resume: Mapping[str, Turn] | None = None,
        owner: Callable[[str], str | None] = lambda uuid: None,
        is_subagent: bool = False,
        see_environment: Callable[[str], None] = lambda text: None,
        agent: str = AGENT,
    ) -> None:
        """Begin at the first line, or go on from a state.

        Args:
            state: ``Built.state`` of the last read of this file; empty for its beginning.
            resume: the stored turns that ``keys_to_resume(state)`` names, by key (a missing one was forgotten and is
                not made again); for a rewritten file the last turn of the old content.
            owner: the key of the stored turn that an entry's uuid belongs to, None where it belongs to none.
            see_environment: gets the result of every tool call that showed an environment file; it is not kept.
            is_subagent: the file is a subagent's own: its lines count, though nothing in it is a user's prompt.
        """
        state = state or {}
        self._session_id = session_id
        self._agent = agent
        self._takes_asides = is_subagent
        self._see_environment = see_environment
        self._owner = owner
        self._drafts = {key: Draft.of(turn) for key, turn in (resume or {}).items()}
        self._seen: dict[str, str] = {}
        self._withdrawn: list[str] = []
        self._queue = Queue.load(state.get("queue"))
        self._current = self._drafts.get(str(state.get("current") or ""))
        self._preamble = self._drafts.get(str(state.get("preamble") or ""))
        self._previous = str(state.get("previous") or "")
        self._cwd = str(state.get("cwd") or "")
        self._branch = str(state.get("branch") or "")

    # -- the way in

    def add(self, entry: Entry) -> None:
        """Take the next entry of the file."""
        if entry.cwd:
            self._cwd = entry.cwd
        if entry.branch:
            self._branch = entry.branch
        if entry.kind is Kind.QUEUE:
            if not self._takes_asides:
                self._add_operation(entry)
            return
        prompt = prompt_of(entry) if not self._takes_asides else None
        if prompt is None and entry.kind is Kind.ATTACHMENT:
            return
        joined = self._settle_queue(entry, prompt)
        owner = self._find_owner(entry.uuid)
        if owner is not None:
            self._pass_over(prompt is not None, owner)
        elif prompt is not None and not joined:
            self._open_prompt(entry, prompt)
        else:
            self._add_to_turn(entry)

    def finish(self, *, close: bool = False) -> Built:
        """The turns so far and the state to go on from.

        Args:
            close: close the open turn too (Stop, a flush, or silence); a later entry opens it again.
        """
        if close and self._current is not None:
            self._current.close()
        state: dict[str, Any] = {
            "current": self._current.key if self._current else "",
            "preamble": self._preamble.key if self._preamble else "",
            "previous": "" if self._current else self._previous,
            "queue": self._queue.dump(),
            "cwd": self._cwd,
            "branch": self._branch,
        }
        updates = tuple(draft.update() for draft in self._drafts.values() if draft.is_changed)
        return Built(updates, tuple(self._withdrawn), state)

    # -- prompts

    def _open_prompt(self, entry: Entry, prompt: str) -> None:
        is_interjected = entry.kind is Kind.ATTACHMENT
        key = entry.uuid or self._hashed_key("n", entry.at_ms, f"{entry.offset}\n{prompt}")
        draft = self._open(key, Opening.PROMPT, entry, takes_calls=is_interjected)
        draft.said.append(_said(entry, Role.USER, prompt))
        self._record(draft, entry)

    def _open(self, key: str, opening: Opening, entry: Entry, *, takes_calls: bool = False) -> Draft:
        """Close the current turn and open another; the preamble goes into it."""
        draft = self._make(key, opening, entry)
        self._make_current(draft, takes_calls=takes_calls)
        return draft

    def _make(self, key: str, opening: Opening, entry: Entry) -> Draft:
        draft = self._drafts.get(key)
        if draft is None:
            draft = Draft(key, self._session_id, opening, self._agent, cwd=self._cwd, branch=self._branch)
            draft.start_offset = entry.offset
            self._drafts[key] = draft
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        return draft

    def _make_current(self, draft: Draft, *, takes_calls: bool) -> None:
        if self._current is not None and self._current is not draft:
            self._current.close()
            if takes_calls:
                draft.take_waiting(self._current)
        if self._preamble is not None:
            draft.entries[:0] = self._preamble.entries
            draft.start_offset = min(draft.start_offset, self._preamble.start_offset)
            for reference in self._preamble.entries:
                self._seen[reference.uuid] = draft.key
            self._withdraw(self._preamble)
            self._preamble = None
        self._current = draft

    def _withdraw(self, draft: Draft) -> None:
        del self._drafts[draft.key]
        if draft.is_stored:
            self._withdrawn.append(draft.key)

    # -- the queue

    def _add_operation(self, entry: Entry) -> None:
        operation, content = entry.data.get("operation"), entry.data.get("content")
        if operation == "enqueue":
            text = queued_text(content)
            if text is not None:
                self._enqueue(entry, text)
        elif operation == "remove":
            waiting = self._queue.hand_over()
            draft = self._drafts.get(waiting.key) if waiting else None
            if waiting is not None and draft is not None:
                self._hand_over(draft, waiting, entry, takes_calls=True)
        elif operation == "popAll":
            self._queue.pop_all(queued_text(content) if content else None)

    def _enqueue(self, entry: Entry, text: str) -> None:
        key = self._hashed_key("q", entry.at_ms, text)
        if key in self._drafts or self._find_owner(key) is not None:
            return
        draft = self._make(key, Opening.QUEUED, entry)
        draft.said.append(_said(entry, Role.USER, text))
        draft.close()
        self._queue.add(key, text, entry.at_ms)

    def _settle_queue(self, entry: Entry, prompt: str | None) -> bool:
        """Take out of the queue what this line shows; True where the line belongs to a prompt handed over already."""
        if entry.kind is Kind.USER and prompt is None and (self._queue.waiting or self._current):
            raw = text_of(entry.message.get("content"))
            self._note_interruption(raw)
            return self._hand_over_command(entry, command_of(raw))
        shown = prompt or ""
        if not shown:
            return False
        for waiting in self._queue.settle(shown, entry.at_ms):
            draft = self._drafts.get(waiting.key)
            if draft is not None:
                self._withdraw(draft)
        current = self._current
        if current is None or current.opening is not Opening.QUEUED or current.has_reply:
            return False
        return current.extra.get("handed") == Waiting.digest_of(shown)

    def _hand_over_command(self, entry: Entry, command: str) -> bool:
        """A queued command with words runs: its own line is no prompt, so that the queued one stays and opens."""
        for waiting in self._queue.settle(command, entry.at_ms) if command else ():
            draft = self._drafts.get(waiting.key)
            if draft is not None:
                self._hand_over(draft, waiting, entry, takes_calls=False)
        return False

    def _hand_over(self, draft: Draft, waiting: Waiting, entry: Entry, *, takes_calls: bool) -> None:
        """A queued prompt reaches the model: what follows belongs to its turn."""
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        # It may have been queued before the line of the prompt that Claude was working on; its turn begins here.
        draft.start_offset = entry.offset
        draft.extra["handed"] = waiting.digest
        self._make_current(draft, takes_calls=takes_calls)

    # -- everything else

    def _add_to_turn(self, entry: Entry) -> None:
        if self._current is None and entry.kind is not Kind.ASSISTANT:
            self._add_to_preamble(entry)
            return
        draft = self._current
        if draft is None:
            draft = self._open_continuation(entry)
        self._record(draft, entry)
        if entry.is_aside and not self._takes_asides:
            return
        if entry.kind is Kind.ASSISTANT:
            self._add_reply(draft, entry)
        elif entry.kind is Kind.USER:
            self._add_results(draft, entry)

    def _open_continuation(self, entry: Entry) -> Draft:
        """What goes on without a prompt of its own; a preamble becomes it, under its own key."""
        preamble, self._preamble = self._preamble, None
        if preamble is not None:
            self._current = preamble
            return preamble
        key = f"c:{entry.uuid}" if entry.uuid else self._hashed_key("c", entry.at_ms, str(entry.offset))
        return self._open(key, Opening.CONTINUATION, entry)

    def _add_to_preamble(self, entry: Entry) -> None:
        if not entry.uuid:
            return
        if self._preamble is None:
            self._preamble = self._make(f"c:{entry.uuid}", Opening.CONTINUATION, entry)
        self._record(self._preamble, entry)

    def _record(self, draft: Draft, entry: Entry) -> None:
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        draft.cwd = draft.cwd or self._cwd
        draft.branch = draft.branch or self._branch
        if entry.uuid and (entry.kind in _COUNTED or entry.kind is Kind.ATTACHMENT):
            draft.entries.append(EntryRef(entry.uuid, entry.offset, entry.length, entry.line))
            self._seen[entry.uuid] = draft.key

    def _add_reply(self, draft: Draft, entry: Entry) -> None:
        message = entry.message
        content = message.get("content")
        is_spoken = entry.data.get("isApiErrorMessage") is not True and message.get("model") != "<synthetic>"
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            text = block.get("text")
            if block.get("type") == "text" and is_spoken and isinstance(text, str) and text.strip():
                identifier = message.get("id")
                message_id = identifier if isinstance(identifier, str) and len(identifier) <= MAX_ID_CHARS else ""
                draft.said.append(_said(entry, Role.ASSISTANT, text.strip(), message_id))
            elif block.get("type") == "tool_use":
                action = start_action(block, entry.uuid)
                if action is not None:
                    draft.add_action(action)
                    self._add_parts(draft, entry, proposed_in(block))

    def _add_results(self, draft: Draft, entry: Entry) -> None:
        content = entry.message.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_result":
                index = draft.waiting.pop(str(block.get("tool_use_id")), None)
                if index is not None:
                    action = draft.actions[index]
                    refused = is_refused(action, block, entry)
                    draft.actions[index] = finish_action(action, block, entry.uuid, is_refused=refused)
                    self._add_parts(draft, entry, heard_in(action, block, entry, draft.proposed_by(action)))
                    if shows_environment(action):
                        self._see_environment(result_text(block))

    def _add_parts(self, draft: Draft, entry: Entry, parts: Iterable[Part]) -> None:
        """Add what a dialog told; the user of a subagent is another agent, so that its dialogs tell nothing."""
        if not self._takes_asides:
            draft.said.extend(_said(entry, part.role, part.text, part.link) for part in parts)

    def _note_interruption(self, text: str) -> None:
        if self._current is not None and is_interruption(text) and not self._current.is_interrupted:
            self._current.is_interrupted = True
            self._current.is_changed = self._current.has_grown = True

    # -- whose entry is it

    def _find_owner(self, uuid: str) -> str | None:
        if not uuid:
            return None
        return self._seen.get(uuid) or self._owner(uuid)

    def _pass_over(self, is_prompt: bool, owner: str) -> None:
        """Leave an entry to the turn it belongs to; below a copied prompt nothing of the current turn goes on."""
        if not is_prompt or (self._current is not None and self._current.key == owner):
            return
        if self._current is not None:
            self._current.close()
        self._current = self._drafts.get(owner)
        self._preamble = None

    def _hashed_key(self, prefix: str, at_ms: int | None, text: str) -> str:
        data = f"{self._session_id}\n{at_ms}\n{text}".encode("utf-8", "replace")
        return f"{prefix}:{hashlib.sha256(data).hexdigest()[:32]}"


def _said(entry: Entry, role: Role, text: str, message_id: str = "") -> TextBlock:
    uuid = "" if entry.kind is Kind.QUEUE else entry.uuid
    return TextBlock(
        uuid, role, storable(text), storable(message_id), entry.offset, entry.length, entry.line, entry.at_ms
    )
