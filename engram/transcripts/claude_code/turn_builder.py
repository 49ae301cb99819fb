"""Build turns from entries in file order. Reading may stop at any line and continue later with the same result.

The rules:

* A prompt opens a turn. The turn includes every entry up to the next prompt. If two processes write one session, their
  lines alternate, and an entry belongs to the turn of the entry that it follows (``_follow``).
* Every user, assistant and system entry with a uuid belongs to exactly one turn, in whichever file it was read first.
  An entry that already belongs to a turn (a fork, a resumed copy, a rewritten file) is skipped. The entries after a
  copied prompt are a continuation turn.
* Entries before a file's first prompt belong to the turn of that prompt. If the assistant speaks before any prompt,
  they form a continuation turn.
* A prompt that exists only in a queue-operation line is a turn of its own. It has no entries while it waits in the
  queue, and is open for entries after the line that hands it to the model (``remove``, or a command's own line). It
  is withdrawn when a line shows the same words later, since that line says who wrote them.
* A shell command, or a slash command without words, begins something that does not answer the previous prompt, so what
  the assistant says next is a continuation turn.

Turns that are undecided at the end of a read (the preamble, waiting prompts) are stored like the others and listed in
the state. The next read gets them back and may withdraw them. Therefore the stored result does not depend on where a
read stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engram.transcripts.calls import prints_environment, shows_environment
from engram.transcripts.claude_code.calls import (
    SCRIPT_TOOL,
    everything_shown,
    finish_action,
    result_text,
    start_action,
    thrown_action,
)
from engram.transcripts.claude_code.dialogs import Part, is_refused, proposed_in, results_in, user_words_in
from engram.transcripts.claude_code.entry import NO_WORDS, Entry, Kind, queued_words, text_of, words_of
from engram.transcripts.claude_code.open_turns import OpenTurns
from engram.transcripts.claude_code.state import Queue, ReaderState, Waiting, link_of
from engram.transcripts.json_values import storable, storable_id, storable_text
from engram.transcripts.message_elements import is_interruption
from engram.transcripts.speaker import Speaker, Words, claude_code_speaker, session_fields
from engram.transcripts.turns import (
    AT_START,
    BEHIND,
    UNSENT,
    Draft,
    Opening,
    Role,
    TextBlock,
    Turn,
    TurnUpdate,
)

# -- Add an entry to its turn: the assistant's texts and calls, and the results, with what the user said in them.


def text_block(entry: Entry, role: Role, text: str, message_id: str = "") -> TextBlock:
    """Return a text block of an entry; the block of a queued prompt has no id."""
    return TextBlock(
        uuid="" if entry.kind is Kind.QUEUE else entry.uuid,
        role=role,
        text=storable(text),
        message_id=storable(message_id),
        offset=entry.offset,
        length=entry.length,
        line=entry.line,
        at_ms=entry.at_ms,
    )


def add_reply(draft: Draft, entry: Entry, *, with_dialogs: bool) -> None:
    """Add the texts and tool calls of an assistant's entry.

    Args:
        with_dialogs: False for a subagent, because its user is another agent and its dialogs are not the user's.
    """
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
            draft.say_reply(text_block(entry, Role.ASSISTANT, text.strip(), storable_id(message.get("id"))))
        elif block.get("type") == "tool_use":
            # A Code Mode script is not a call of its own: see ``thrown_action``.
            action = start_action(block, entry.uuid, entry.at_ms) if block.get("name") != SCRIPT_TOOL else None
            if action is not None:
                if entry.data.get("isVirtual") is True:
                    # The script had made calls before it threw, and these show what failed.
                    draft.drop_action(SCRIPT_TOOL, storable_text(entry.data.get("parentUuid")))
                draft.add_action(action)
                if with_dialogs:
                    _add_parts(draft, entry, proposed_in(block))


def add_results(draft: Draft, entry: Entry, *, with_dialogs: bool, note_environment: Callable[[str], None]) -> None:
    """Add the results of tool calls, and what the user said in dialogs.

    Args:
        with_dialogs: as for ``add_reply``.
        note_environment: receives the result of every call that showed an environment file.
    """
    results, report = results_in(entry), entry.data.get("toolUseResult")
    is_alone = len(results) == 1
    for block in results:
        index = draft.waiting.pop(str(block.get("tool_use_id")), None)
        if index is None:
            thrown = thrown_action(block, entry.uuid, report)
            if thrown is not None:
                draft.actions.append(thrown)
            if isinstance(report, dict) and prints_environment(str(report.get("code", ""))):
                note_environment(result_text(block))
            continue
        action = draft.actions[index]
        refused = is_refused(action, block, entry, is_alone=is_alone)
        draft.actions[index] = finish_action(action, block, entry.uuid, report, is_refused=refused)
        if with_dialogs:
            heard = user_words_in(action, block, entry, draft.proposed_by, is_refused=refused, is_alone=is_alone)
            _add_parts(draft, entry, heard)
        if shows_environment(action):
            note_environment(everything_shown(block, report))


def _add_parts(draft: Draft, entry: Entry, parts: Iterable[Part]) -> None:
    """Add what was said in a dialog. In a session run by a program, the program answers the dialogs."""
    said = tuple(parts)
    if not said or Speaker.PROGRAM in map(claude_code_speaker, (entry.data, session_fields(entry.data))):
        return
    for part in said:
        draft.said.append(text_block(entry, part.role, part.text, part.link))


_ROLES = {Speaker.PERSON: Role.USER, Speaker.PROGRAM: Role.PROGRAM}
#: Entries that show queued prompts.
_SHOWING = (Kind.USER, Kind.ATTACHMENT)
#: Reasons for which a queued prompt leaves the queue without reaching the model.
_DROPPED = frozenset({"dropped_by_hook", "blocked_by_hook"})


@dataclass(frozen=True, slots=True)
class Built:
    #: Turns that are new or have changed, in the order of the file.
    updates: tuple[TurnUpdate, ...]
    #: Keys of stored turns that turned out not to be turns; remove them before the updates are written.
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
        ancestors: Callable[[Entry], Iterable[str]] = lambda entry: [storable_id(entry.data.get("parentUuid"))],
        is_subagent: bool = False,
        note_environment: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Begin at the first line of the file, or continue from a state.

        Args:
            state: ``Built.state`` of the last read of this file; None at its beginning.
            resume: the stored turns that ``state.turns_to_resume`` lists, by key; a missing one was forgotten and is
                not created again. For a rewritten file, the last turn of the old content.
            owner: returns the key of the stored turn to which an entry's uuid belongs; None if there is none.
            load: returns the stored turn with a key, if the session is being reread.
            holder: returns the stored turn of the session that contains an entry.
            ancestors: yields the ids of the lines that an entry follows, the nearest first, including lines that are
                not read.
            note_environment: receives the result of every tool call that showed an environment file.
            is_subagent: True for a subagent's own file, in which the lines count, but none of them is a user's prompt.
        """
        state = state or ReaderState()
        self._is_subagent = is_subagent
        self._is_reread = state.is_reread
        self._note_environment = note_environment
        self._owner = owner
        self._holder = holder
        self._ancestors = ancestors
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
        words, is_handed_over = NO_WORDS, False
        if entry.kind in _SHOWING:
            words = NO_WORDS if self._is_subagent else words_of(entry)
            is_handed_over = self._settle(entry, words)
            if entry.kind is Kind.ATTACHMENT and not words.is_prompt:
                return
        if (owner := self._find_owner(entry.uuid)) is not None:
            self._skip(entry, words, owner)
        elif words is not NO_WORDS and _opens(words) and not is_handed_over:
            self._open_prompt(entry, words)
        else:
            if words.is_start:
                self._turns.set_aside()
            self._add_to_turn(entry)
        if entry.kind is Kind.USER and is_interruption(text_of(entry.message.get("content"))):
            current = self._turns.current
            if current is not None and not current.is_interrupted:
                current.is_interrupted = current.is_changed = current.has_grown = True

    def finish(self, *, close: bool = False) -> Built:
        """Return the turns so far and the state from which to continue.

        Args:
            close: True to also close the open turn (after Stop, a flush, or silence); a later entry reopens it.
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
        if entry.kind is Kind.USER and "parentUuid" in entry.data:
            draft.extra[BEHIND] = storable_id(entry.data["parentUuid"]) or AT_START
        self._turns.record(draft, entry)

    def _say(self, draft: Draft, entry: Entry, words: Words) -> None:
        """Add the words that open a turn, and any accompanying text."""
        draft.said.extend(_blocks(entry, words))
        if words.unknown:
            draft.extra["element"] = words.unknown

    # -- the queue

    def _add_operation(self, entry: Entry) -> None:
        operation, content = entry.data.get("operation"), entry.data.get("content")
        if operation == "enqueue":
            words = queued_words(content, {**self._turns.fields, **entry.data})
            if words.is_prompt:
                self._enqueue(entry, words)
        elif operation == "remove":
            self._remove(entry)
        elif operation == "popAll":
            for waiting in self._queue.pop_all(queued_words(content, entry.data).text if content else None):
                draft = self._turns.find(waiting.key)
                if draft is not None and UNSENT not in draft.extra:
                    draft.extra[UNSENT] = "yes"
                    draft.is_changed = draft.has_grown = True

    def _enqueue(self, entry: Entry, words: Words) -> None:
        key = self._turns.hashed_key("q", entry.at_ms, words.text)
        if self._turns.is_session_unknown and not self._turns.is_program:
            persons = queued_words(entry.data.get("content"), entry.data)
            if persons.speaker is Speaker.PERSON and persons.text == words.text:
                self._turns.leave_unjudged(key)
        if self._turns.find(key) is not None or self._find_owner(key) is not None:
            # The prompt keeps its former position in the queue, so that the right prompt is handed over later.
            if self._is_reread and all(waiting.key != key for waiting in self._queue.waiting):
                self._queue.add(key, words.text, entry.at_ms, link=link_of(entry.data))
            return
        if self._turns.is_program and words.speaker is Speaker.PERSON:
            words = words._replace(speaker=Speaker.PROGRAM)
        draft = self._turns.make(key, Opening.QUEUED, entry)
        self._say(draft, entry, words)
        draft.close()
        self._queue.add(key, words.text, entry.at_ms, link=link_of(entry.data))

    def _remove(self, entry: Entry) -> None:
        """Hand a queued prompt to the model, or drop it if it never reached the model.

        If the line contains an id, the line that shows the prompt follows with the same id.
        """
        content = entry.data.get("content")
        text, link = queued_words(content, entry.data).text, link_of(entry.data)
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
        """Remove the prompts that this line shows from the queue; return True if its prompt was already handed over."""
        attachment = entry.data.get("attachment")
        queued = attachment.get("prompt") if isinstance(attachment, dict) else None
        raw = text_of(queued if entry.kind is Kind.ATTACHMENT else entry.message.get("content"))
        shown = words.text or words.command or raw
        link = link_of(attachment) if entry.kind is Kind.ATTACHMENT else ""
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
        """Make a queued prompt the current turn, because it reaches the model with this line."""
        if draft.is_stored and draft.extra.get("handed") == waiting.digest:
            self._turns.make_current(draft, takes_calls=False)
            return
        draft.touch(entry.offset, entry.offset + entry.length, entry.at_ms)
        # The prompt may have been queued before the line of the one that Claude was working on; its turn begins here.
        draft.start_offset = entry.offset
        draft.extra["handed"] = waiting.digest
        draft.extra.pop(UNSENT, None)
        self._turns.make_current(draft, takes_calls=True)

    # -- all other entries

    def _add_to_turn(self, entry: Entry) -> None:
        if self._turns.current is None and entry.kind is not Kind.ASSISTANT:
            self._turns.add_to_preamble(entry)
            return
        draft = self._turns.current
        if draft is None:
            draft = self._turns.open_continuation(entry)
        elif draft.opening is Opening.PROMPT and BEHIND in draft.extra and "element" not in draft.extra:
            draft = self._follow(entry, draft)
        self._turns.record(draft, entry)
        if entry.is_aside and not self._is_subagent:
            return
        with_dialogs = not self._is_subagent
        if entry.kind is Kind.ASSISTANT:
            add_reply(draft, entry, with_dialogs=with_dialogs)
        elif entry.kind is Kind.USER:
            add_results(draft, entry, with_dialogs=with_dialogs, note_environment=self._note_environment)

    def _follow(self, entry: Entry, current: Draft) -> Draft:
        """Continue with the turn that an entry follows, which is not the current one if two processes write a session.

        Only a prompt in a line of its own takes its answer with it: a queued prompt joins the turn that is going on.
        """
        before = entry.data.get("parentUuid")
        if isinstance(before, str) and self._turns.seen.get(before) == current.key:
            return current  # nearly every line
        unseen: list[str] = []
        for parent in self._ancestors(entry):
            key = self._turns.seen.get(parent)
            draft = current if key == current.key else self._turns.find(key) if key else None
            if draft is not None:
                break
            if key is None and any(known.uuid == parent for known in current.entries[: current.entries_before]):
                draft = self._stored(unseen) or current
                break
            unseen.append(parent)
        else:
            draft = self._stored(unseen)
        if draft is not None and draft is not current:
            self._turns.go_on(draft)
        return draft or current

    def _stored(self, uuids: Sequence[str]) -> Draft | None:
        """Return the stored turn that contains the first of the entries that are in one.

        What was read before is older than what was seen in this read. So it is asked for only where no seen entry was
        found: most lines that an entry follows are of a type that no turn contains.
        """
        turn = next(filter(None, map(self._holder, filter(None, uuids))), None)
        return None if turn is None else self._turns.draft_of(turn)

    # -- which turn an entry belongs to

    def _find_owner(self, uuid: str) -> str | None:
        return (self._turns.seen.get(uuid) or self._owner(uuid)) if uuid else None

    def _skip(self, entry: Entry, words: Words, owner: str) -> None:
        """Leave an entry in the turn that it belongs to. A repeated prompt also ends the current turn.

        If the session is reread, the entries after a prompt belong to its turn, and its words may have changed.
        """
        if not (self._is_reread or _opens(words)):
            return
        turn = None if entry.uuid in self._turns.seen else self._holder(entry.uuid)
        if turn is None:
            if _opens(words):
                self._turns.go_on(self._turns.find(owner))
            return
        draft = self._turns.draft_of(turn)
        self._turns.go_on(draft)
        if self._is_reread:
            self._rewrite(draft, entry, words)

    def _rewrite(self, draft: Draft, entry: Entry, words: Words) -> None:
        """Update a stored turn with an entry's current words."""
        if _opens(words):
            draft.rewrite(_blocks(entry, words))
        elif entry.kind is Kind.ASSISTANT and not (entry.is_aside and not self._is_subagent):
            now = Draft(key=draft.key, session_id=draft.session_id, opening=draft.opening, agent=draft.agent)
            add_reply(now, entry, with_dialogs=False)
            draft.rewrite(now.said)


def _blocks(entry: Entry, words: Words) -> list[TextBlock]:
    """Return the words that open a turn, and any accompanying text."""
    role = Role.CONTEXT if words.unknown else _ROLES[words.speaker]
    beside = (text_block(entry, Role.CONTEXT, text) for text in words.beside)
    return [text_block(entry, role, words.text), *beside]


def _opens(words: Words) -> bool:
    """Return True for words that open a turn: a prompt, or an element that may be recognised as one later."""
    return words.is_prompt or bool(words.unknown and words.text)
