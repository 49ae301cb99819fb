"""Build turns from entries in file order. Reading may stop at any line and continue later with the same result.

The rules:

* A prompt opens a turn. The turn takes every entry up to the next prompt.
* Every user, assistant and system entry with a uuid belongs to exactly one turn, in whichever file it was read
  first. An entry that belongs to a turn already (a fork, a resumed copy, a rewritten file) is skipped. What follows
  a copied prompt is a continuation turn.
* Entries before a file's first prompt belong to the turn of that prompt. If the assistant speaks before any prompt,
  they are a continuation turn.
* A prompt that exists only in a queue-operation line is a turn of its own. It has no entries while it waits in the
  queue, and is open for what follows the line that hands it to the model (``remove``, or the line of the command it
  is). It is withdrawn when a line shows the same words later, since that line says who wrote them.
* A shell command, and a slash command without words, begin something that is no answer to the prompt before: what the
  assistant says next is a continuation turn.

Turns that are undecided at the end of a read (the preamble, waiting prompts) are stored like others and named in the
state. The next read gets them back and may withdraw them. So the stored result does not depend on where a read stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engram.transcripts.claude_code.entry import Entry, Kind
from engram.transcripts.claude_code.open_turns import OpenTurns
from engram.transcripts.claude_code.prompt import NO_WORDS, queued_words, text_of, words_of
from engram.transcripts.claude_code.queue import Queue, Waiting
from engram.transcripts.claude_code.replies import add_reply, add_results, text_block
from engram.transcripts.claude_code.state import ReaderState
from engram.transcripts.draft import Draft
from engram.transcripts.record import Opening, Role, TextBlock, Turn, TurnUpdate
from engram.transcripts.speaker import Speaker, Words, is_interruption
from engram.transcripts.text import storable_id, storable_text

_ROLES = {Speaker.PERSON: Role.USER, Speaker.PROGRAM: Role.PROGRAM}
#: Entries that show what waited in the queue.
_SHOWING = (Kind.USER, Kind.ATTACHMENT)
#: Why a queued prompt left the queue without reaching the model.
_DROPPED = frozenset({"dropped_by_hook", "blocked_by_hook"})


@dataclass(frozen=True, slots=True)
class Built:
    """The result of one read."""

    #: Turns that are new or have changed, in the order of the file.
    updates: tuple[TurnUpdate, ...]
    #: Keys of stored turns that turned out to be none: remove them before the updates are written.
    withdrawn: tuple[str, ...]
    #: Where the next read continues.
    state: ReaderState


class TurnBuilder:
    """Builds the turns of one transcript, entry by entry."""

    def __init__(
        self,
        session_id: str,
        *,
        state: ReaderState | None = None,
        resume: Mapping[str, Turn] | None = None,
        owner: Callable[[str], str | None] = lambda uuid: None,
        load: Callable[[str], Turn | None] = lambda key: None,
        holder: Callable[[str], Turn | None] = lambda uuid: None,
        is_subagent: bool = False,
        note_environment: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Begin at the first line, or continue from a state.

        Args:
            state: ``Built.state`` of the last read of this file; None at its beginning.
            resume: the stored turns that ``state.turns_to_resume`` names, by key (a missing one was forgotten and is
                not made again); for a rewritten file the last turn of the old content.
            owner: returns the key of the stored turn that an entry's uuid belongs to, None if it belongs to none.
            load: returns the stored turn of a key, if the session is read again.
            holder: returns the stored turn that holds an entry, if the session is read again.
            note_environment: receives the result of every tool call that showed an environment file.
            is_subagent: the file is a subagent's own: its lines count, though none of them is a user's prompt.
        """
        state = state or ReaderState()
        self._is_subagent = is_subagent
        self._is_reread = state.is_reread
        self._note_environment = note_environment
        self._owner = owner
        self._holder = holder
        self._turns = OpenTurns(session_id, state, resume or {}, load)
        self._queue = Queue.load(state.queue)
        self._previous = state.previous

    # -- input and output

    def add(self, entry: Entry) -> None:
        """Add the next entry of the file."""
        self._turns.note_place(entry)
        if entry.kind is Kind.QUEUE:
            if not self._is_subagent:
                self._add_operation(entry)
            return
        words = NO_WORDS if self._is_subagent else words_of(entry)
        if entry.kind is Kind.ATTACHMENT and not words.is_prompt:
            self._settle(entry, words)
            return
        is_handed_over = self._settle(entry, words) if entry.kind in _SHOWING else False
        owner = self._find_owner(entry.uuid)
        if owner is not None:
            self._skip(entry, words, owner)
        elif _opens(words) and not is_handed_over:
            self._open_prompt(entry, words)
        else:
            if words.is_start:
                self._turns.set_aside()
            self._add_to_turn(entry)

    def finish(self, *, close: bool = False) -> Built:
        """Return the turns so far and the state to continue from.

        Args:
            close: close the open turn too (Stop, a flush, or silence); a later entry opens it again.
        """
        if close and self._turns.current is not None:
            self._turns.current.close()
        state = self._turns.state(self._queue.dump(), self._previous)
        return Built(self._turns.updates(), self._turns.withdrawn(), state)

    # -- prompts

    def _open_prompt(self, entry: Entry, words: Words) -> None:
        is_interjected = entry.kind is Kind.ATTACHMENT or bool(words.unknown)
        key = entry.uuid or self._turns.hashed_key("n", entry.at_ms, f"{entry.offset}\n{words.text}")
        draft = self._turns.open(key, Opening.PROMPT, entry, takes_calls=is_interjected)
        self._say(draft, entry, words)
        self._turns.record(draft, entry)

    def _say(self, draft: Draft, entry: Entry, words: Words) -> None:
        """Add the words that open a turn, and what stands beside them."""
        draft.said.extend(_blocks(entry, words))
        if words.unknown:
            draft.extra["element"] = words.unknown

    # -- the queue

    def _add_operation(self, entry: Entry) -> None:
        operation, content = entry.data.get("operation"), entry.data.get("content")
        if operation == "enqueue":
            words = queued_words(content, entry.data)
            if words.is_prompt:
                self._enqueue(entry, words)
        elif operation == "remove":
            self._remove(entry)
        elif operation == "popAll":
            self._queue.pop_all(queued_words(content, entry.data).text if content else None)

    def _enqueue(self, entry: Entry, words: Words) -> None:
        key = self._turns.hashed_key("q", entry.at_ms, words.text)
        if self._turns.find(key) is not None or self._find_owner(key) is not None:
            # It waits where it did when it was read before, so that what is handed over later is the right one.
            if self._is_reread and all(waiting.key != key for waiting in self._queue.waiting):
                self._queue.add(key, words.text, entry.at_ms, link=_link(entry.data))
            return
        if self._turns.is_program and words.speaker is Speaker.PERSON:
            words = words._replace(speaker=Speaker.PROGRAM)
        draft = self._turns.make(key, Opening.QUEUED, entry)
        self._say(draft, entry, words)
        draft.close()
        self._queue.add(key, words.text, entry.at_ms, link=_link(entry.data))

    def _remove(self, entry: Entry) -> None:
        """Hand a queued prompt to the model, or drop it if it never got there.

        If the line names an id, the line that shows the prompt follows under the same id.
        """
        content = entry.data.get("content")
        text, link = queued_words(content, entry.data).text, _link(entry.data)
        waiting = self._queue.find(link, text) if text or not content else None
        draft = self._turns.find(waiting.key) if waiting else None
        if waiting is None or draft is None:
            return
        if storable_text(entry.data.get("reason")) in _DROPPED:
            self._queue.take(waiting)
            self._turns.withdraw(draft)
        elif link:
            self._queue.link(waiting, link)
        else:
            self._queue.take(waiting)
            self._hand_over(draft, waiting, entry)

    def _settle(self, entry: Entry, words: Words) -> bool:
        """Take out of the queue what this line shows, whoever wrote it; True if that was handed over already."""
        raw = text_of(entry.message.get("content")) if entry.kind is Kind.USER else ""
        if is_interruption(raw):
            self._note_interruption()
        shown, link = words.text or words.command or raw, _link(entry.data.get("attachment"))
        if not shown and not link:
            return False
        for waiting in self._queue.settle(shown, entry.at_ms, link=link):
            draft = self._turns.find(waiting.key)
            if draft is not None:
                self._turns.withdraw(draft)
        current = self._turns.current
        if current is None or current.opening is not Opening.QUEUED or current.has_reply:
            return False
        if current.extra.get("handed") != Waiting.digest_of(shown):
            return False
        if not words.is_prompt:
            self._turns.disown(entry)
        return True

    def _hand_over(self, draft: Draft, waiting: Waiting, entry: Entry) -> None:
        """Make a queued prompt the current turn: it reaches the model with this line."""
        if draft.is_stored and draft.extra.get("handed") == waiting.digest:
            self._turns.make_current(draft, takes_calls=False)
            return
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        # It may have been queued before the line of the prompt that Claude was working on; its turn begins here.
        draft.start_offset = entry.offset
        draft.extra["handed"] = waiting.digest
        self._turns.make_current(draft, takes_calls=True)

    # -- all other entries

    def _add_to_turn(self, entry: Entry) -> None:
        if self._turns.current is None and entry.kind is not Kind.ASSISTANT:
            self._turns.add_to_preamble(entry)
            return
        draft = self._turns.current
        if draft is None:
            draft = self._turns.open_continuation(entry)
        self._turns.record(draft, entry)
        if entry.is_aside and not self._is_subagent:
            return
        with_dialogs = not self._is_subagent
        if entry.kind is Kind.ASSISTANT:
            add_reply(draft, entry, with_dialogs=with_dialogs)
        elif entry.kind is Kind.USER:
            add_results(draft, entry, with_dialogs=with_dialogs, note_environment=self._note_environment)

    def _note_interruption(self) -> None:
        if self._turns.current is not None and not self._turns.current.is_interrupted:
            self._turns.current.is_interrupted = True
            self._turns.current.is_changed = self._turns.current.has_grown = True

    # -- which turn an entry belongs to

    def _find_owner(self, uuid: str) -> str | None:
        if not uuid:
            return None
        return self._turns.seen.get(uuid) or self._owner(uuid)

    def _skip(self, entry: Entry, words: Words, owner: str) -> None:
        """Leave an entry to the turn it belongs to. A copied prompt also ends the current turn.

        If the session is read again, what follows the entry belongs to its turn, and its words may have changed.
        """
        turn = self._holder(entry.uuid) if self._is_reread and entry.uuid not in self._turns.seen else None
        if turn is not None:
            self._rewrite(self._turns.go_on(turn), entry, words)
            return
        current = self._turns.current
        if _opens(words) and (current is None or current.key != owner):
            self._turns.leave(owner)

    def _rewrite(self, draft: Draft, entry: Entry, words: Words) -> None:
        """Give a stored turn the words that an entry has now."""
        if _opens(words):
            draft.rewrite(_blocks(entry, words))
        elif entry.kind is Kind.ASSISTANT and not (entry.is_aside and not self._is_subagent):
            now = Draft(key=draft.key, session_id=draft.session_id, opening=draft.opening, agent=draft.agent)
            add_reply(now, entry, with_dialogs=False)
            draft.rewrite(now.said)


def _blocks(entry: Entry, words: Words) -> list[TextBlock]:
    """Return the words that open a turn, and what stands beside them."""
    role = Role.CONTEXT if words.unknown else _ROLES[words.speaker]
    beside = (text_block(entry, Role.CONTEXT, text) for text in words.beside)
    return [text_block(entry, role, words.text), *beside]


def _opens(words: Words) -> bool:
    """Return True for words that open a turn: a prompt, or an element that a later version may know for one."""
    return words.is_prompt or bool(words.unknown and words.text)


def _link(fields: object) -> str:
    """Return the id that the line of a removal and the attachment that shows it share; "" if there is none."""
    fields = fields if isinstance(fields, dict) else {}
    names = ("source_uuid", "commandUuid", "delivery_id", "deliveryId")
    return next((link for name in names if (link := storable_id(fields.get(name)))), "")
