"""The turns of a session, with every text and fact linked to its position in the source; and drafts of turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

# -- The turns of a session, with every text and fact linked to its position in the source.

#: Separator between a question and the chosen label, in a text of ``Role.CHOSEN``.
ARROW = "→"
#: Maximum length of a stored command, in characters.
MAX_COMMAND_CHARS = 400
#: Maximum length of a stored error line and commit subject, in characters.
MAX_ERROR_CHARS = 200
#: Maximum length of a stored todo entry, in characters, and maximum number of entries per call.
MAX_TODO_CHARS, MAX_TODOS = 200, 30


#: Key in ``Turn.extra`` of the working directories after the first, one per line; and the maximum number stored.
FOLDERS, MAX_FOLDERS = "folders", 20
#: Key in ``Turn.extra`` of a prompt that was queued and then moved back into the input field.
UNSENT = "unsent"
#: Key in ``Turn.extra`` of the entry or turn that a prompt follows in the conversation, and its value for a prompt that
#: follows nothing. Where an agent always knows what a prompt follows, that value is the session's id: a second prompt
#: that follows nothing then replaces the first one, even if no other prompt follows anything.
BEHIND, AT_START = "behind", "start"


class Role(StrEnum):
    """Whose words a text block contains."""

    #: Typed by the user.
    USER = "user"
    ASSISTANT = "assistant"
    #: Decided by the user in a dialog, in the assistant's words: a label, or a plan approved or rejected.
    CHOSEN = "chosen"
    #: Shown to the user in a dialog: a question with its options, or a plan. It is context, not a statement.
    PROPOSED = "proposed"
    #: Sent by a program in the user's place: an SDK, print mode, ``codex exec``.
    PROGRAM = "program"
    #: In the user's place, but not known to be the user's: pasted text, or an unknown element.
    CONTEXT = "context"

    @property
    def speaker(self) -> str:
        """The speaker as named to a reader of the transcript: user, program, assistant, chosen or context."""
        return "assistant" if self is Role.PROPOSED else self.value


#: Roles of prompts.
OPENING_ROLES = (Role.USER, Role.PROGRAM)


class Opening(StrEnum):
    """How a turn begins."""

    #: With a prompt that is an entry of its own.
    PROMPT = "prompt"
    #: With a prompt that waited in the agent's queue and has no entry of its own.
    QUEUED = "queued"
    #: Without a prompt: it follows a prompt that belongs to a turn of another source.
    CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text of a turn: the visible text of one entry (a prompt, or one of the assistant's text blocks)."""

    #: Id of the entry; "" for a queued prompt, which has none.
    uuid: str
    role: Role
    #: Word for word; redacted by ``engram.ingest``.
    text: str
    #: Groups the entries of an assistant's message, or the texts of a dialog; "" for other words of the user.
    message_id: str = ""
    #: Position of the entry in its source: in a line-based file, in bytes; otherwise, in the agent's own unit.
    offset: int = 0
    #: Size of the entry in the same unit; a line is counted without its newline.
    length: int = 0
    #: Line number from 1; 0 if the source has no lines.
    line: int = 0
    at_ms: int | None = None


class TodoState(StrEnum):
    """What a call does to a todo entry."""

    OPEN = "open"
    DONE = "done"
    #: Only its text changes.
    SAME = "same"


class Todo(NamedTuple):
    """A change to a todo entry."""

    #: The agent's id of the entry; "" in a list without ids.
    key: str
    #: "" if the text is unchanged.
    text: str
    state: TodoState


class Action(NamedTuple):
    """The facts about one tool call: used for matching, never as the text of a memory."""

    #: Links the result to the call; "" in a stored turn once the result has been read.
    tool_use_id: str
    #: Name of the tool, such as Bash, Edit, Read.
    tool: str
    #: Id of the assistant's entry that made the call.
    uuid: str = ""
    #: Files that the call names, as written.
    files: tuple[str, ...] = ()
    #: The shell command, at most ``MAX_COMMAND_CHARS``; "" for other tools.
    command: str = ""
    #: The folder in which a command ran, or the file or folder that a search covered, as written; "" if not specified.
    place: str = ""
    #: True if the tool changes files.
    is_edit: bool = False
    #: None until the result is read.
    is_error: bool | None = None
    exit_code: int | None = None
    #: The most informative line of an error, at most ``MAX_ERROR_CHARS``.
    error_line: str = ""
    #: The informative lines of a failing command's error, as read. Ingest stores ``error_keys`` instead of them.
    error_lines: tuple[str, ...] = ()
    #: Hashes of those lines, without the parts that differ between runs (``engram.text.shell``).
    error_keys: tuple[int, ...] = ()
    #: "sha subject" of the commit that the command made.
    commit: str = ""
    #: Id of the entry that contains the result.
    result_uuid: str = ""
    #: True if the user refused the call.
    is_refused: bool = False
    #: Its changes to the session's todo list.
    todos: tuple[Todo, ...] = ()
    #: True if ``todos`` replaces the whole list.
    is_todo_list: bool = False
    #: When a command was run, in milliseconds since 1970; None for other tools, or if unknown.
    at_ms: int | None = None

    def run_at(self, at_ms: int | None) -> Action:
        """Return the call with the time at which it was made, which is kept only for commands."""
        return self._replace(at_ms=at_ms) if self.command else self


class EntryRef(NamedTuple):
    """An entry of a turn and its position in the source.

    It is a named tuple because there is one for nearly every line.
    """

    uuid: str
    #: Position and size, as in ``TextBlock``.
    offset: int
    length: int
    #: Line number from 1; 0 if the source has no lines.
    line: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A real user prompt, the assistant's text up to the next prompt, and the facts of its tool calls."""

    #: Identity, unique across all agents: the id of the prompt's entry, or a key in place of one.
    key: str
    session_id: str
    opening: Opening
    said: tuple[TextBlock, ...] = ()
    actions: tuple[Action, ...] = ()
    #: Every entry of the turn that has an id, including tool results and meta entries. An entry belongs to one turn.
    entries: tuple[EntryRef, ...] = ()
    cwd: str = ""
    branch: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    #: Range in the source: position of the first entry, and end of the last one.
    start_offset: int = 0
    end_offset: int = 0
    is_closed: bool = False
    #: Number of distinct assistant messages with text (for the extraction thresholds).
    message_count: int = 0
    #: True if the user interrupted the turn.
    is_interrupted: bool = False
    #: Name of the agent that wrote the source.
    agent: str = ""
    #: Other facts that the agent's reader needs later; they can be serialised as JSON.
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """The words of a person or a program that open the turn, leaving out what the user said later in dialogs.

        "" for a continuation.
        """
        return "\n\n".join(s.text for s in self.said if s.role in OPENING_ROLES and not s.message_id)

    @property
    def users_texts(self) -> tuple[TextBlock, ...]:
        """The user's words, if they are a person: their prompt, and what they said in dialogs."""
        return tuple(s for s in self.said if s.role is Role.USER)

    @property
    def is_by_person(self) -> bool:
        """True if a person's words open the turn."""
        return any(not s.message_id for s in self.users_texts)

    @property
    def is_unsent(self) -> bool:
        """True if the prompt was moved back out of the queue. Its words can be found, but never state a rule."""
        return UNSENT in self.extra

    @property
    def behind(self) -> str:
        """What its prompt follows; ``AT_START`` if it follows nothing, "" if that is unknown."""
        behind = self.extra.get(BEHIND, "")
        return AT_START if behind == self.session_id else behind

    @property
    def users_prompt(self) -> str:
        """``prompt`` if a person wrote it; otherwise ""."""
        return self.prompt if self.is_by_person else ""

    @property
    def reply(self) -> str:
        """The assistant's texts, joined."""
        return "\n\n".join(s.text for s in self.said if s.role is Role.ASSISTANT)

    @property
    def folders(self) -> tuple[str, ...]:
        """Working directories of the turn, in order, without duplicates; the first is ``cwd``."""
        return tuple(filter(None, (self.cwd, *self.extra.get(FOLDERS, "").split("\n"))))

    @property
    def files(self) -> tuple[str, ...]:
        """Files that the turn touched, in order, without duplicates."""
        return tuple(dict.fromkeys(f for a in self.actions for f in a.files))

    @property
    def has_edits(self) -> bool:
        """True if a tool call changed a file and did not fail."""
        return any(a.is_edit and not a.is_error for a in self.actions)


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """A turn in its current form in the source, and how much of it is already stored."""

    turn: Turn
    #: Number of texts at the beginning of ``turn.said`` that are already stored and redacted.
    said_before: int = 0
    #: Number of ``turn.entries`` that are already stored.
    entries_before: int = 0
    #: Number of ``turn.actions`` that are already stored.
    actions_before: int = 0
    #: True if the turn is not stored yet.
    is_new: bool = True
    #: False if a stored turn was only closed, without new content.
    has_grown: bool = True
    #: True if the reader can't determine how much of the turn is stored, so that ingest must compare it with the stored
    #: one.
    is_whole: bool = False
    #: True if the turn replaces the stored one instead of growing at its end. Set by ingest.
    is_replaced: bool = False


# -- Build a growing turn: what was added since it was last stored, and the finished record.


#: Fields that have the same form in a turn and its draft.
_SHARED = (
    *("key", "session_id", "opening", "agent", "cwd", "branch", "started_at_ms", "ended_at_ms"),
    *("start_offset", "end_offset", "is_closed", "is_interrupted"),
)


@dataclass(slots=True)
class Draft:
    """The mutable form of a turn."""

    key: str
    session_id: str
    opening: Opening
    agent: str
    cwd: str = ""
    branch: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    start_offset: int = 0
    end_offset: int = 0
    is_closed: bool = False
    is_interrupted: bool = False
    said: list[TextBlock] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    entries: list[EntryRef] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    said_before: int = 0
    entries_before: int = 0
    actions_before: int = 0
    is_stored: bool = False
    is_changed: bool = False
    has_grown: bool = False
    #: True if its words in the source differ from the stored ones.
    is_rewritten: bool = False
    #: Tool calls without a result yet: id → index in ``actions``.
    waiting: dict[str, int] = field(default_factory=dict)
    #: Id of an entry → indexes of its stored blocks in ``said``, once a block is rewritten.
    _places: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, turn: Turn) -> Draft:
        return cls(
            **{name: getattr(turn, name) for name in _SHARED},
            said=list(turn.said),
            actions=list(turn.actions),
            entries=list(turn.entries),
            extra=dict(turn.extra),
            said_before=len(turn.said),
            entries_before=len(turn.entries),
            actions_before=len(turn.actions),
            is_stored=True,
            waiting={action.tool_use_id: i for i, action in enumerate(turn.actions) if action.is_error is None},
        )

    @property
    def has_reply(self) -> bool:
        """True if it contains text by the assistant."""
        return any(block.role is Role.ASSISTANT for block in self.said)

    def proposed_by(self, action: Action) -> list[TextBlock]:
        """Return the question or plan that a call showed to the user."""
        link = f"{action.tool_use_id}#"
        return [block for block in self.said if block.role is Role.PROPOSED and block.message_id.startswith(link)]

    def touch(self, offset: int, end: int, at_ms: int | None) -> None:
        """Extend the turn's range and time to a line; this also reopens the turn."""
        if end > self.end_offset:
            self.end_offset = end
        if offset < self.start_offset:
            self.start_offset = offset
        if at_ms is not None:
            self.started_at_ms = at_ms if self.started_at_ms is None else self.started_at_ms
            self.ended_at_ms = max(self.ended_at_ms or at_ms, at_ms)
        self.is_closed = False
        self.is_changed = self.has_grown = True

    def rewrite(self, blocks: Sequence[TextBlock]) -> None:
        """Update the text blocks of one entry from its source; do nothing if they are unchanged."""
        if not self._places:
            for place, block in enumerate(self.said):
                self._places.setdefault(block.uuid, []).append(place)
        uuid = blocks[0].uuid if blocks else ""
        # A later state of the last message may have replaced a block since.
        places = [place for place in self._places.get(uuid, []) if uuid and self.said[place].uuid == uuid]
        if [self.said[place].role for place in places] != [block.role for block in blocks]:
            return
        for place, block in zip(places, blocks, strict=True):
            if self.said[place].text != block.text:
                self.said[place] = block
                self.is_rewritten = self.is_changed = self.has_grown = True

    def attribute(self, before: Role, now: Role) -> None:
        """Change whose words a prompt contains."""
        said = [replace(block, role=now) if block.role is before else block for block in self.said]
        if said != self.said:
            self.said = said
            self.is_rewritten = self.is_changed = self.has_grown = True

    def take_back(self) -> None:
        """Remove the last text, which turned out not to be part of the conversation."""
        self.said.pop()
        self.is_rewritten |= len(self.said) < self.said_before
        self.is_changed = self.has_grown = True

    def say_reply(self, block: TextBlock) -> None:
        """Add a text of the assistant; if the last text is a shorter state of it, replace that.

        Some programs write a growing message repeatedly under the same id.
        """
        last = self.said[-1] if self.said else None
        is_of_same_message = last is not None and (last.role, last.message_id) == (block.role, block.message_id)
        if last is not None and block.message_id and is_of_same_message and block.text.startswith(last.text):
            self.said[-1] = block
            self.is_rewritten |= len(self.said) <= self.said_before
        else:
            self.said.append(block)

    def visit(self, folder: str) -> None:
        """Record the working directory of an entry."""
        if not self.cwd:
            self.cwd = folder
        elif folder and folder != self.cwd and "\n" not in folder:
            known = self.extra.get(FOLDERS, "").split("\n") if FOLDERS in self.extra else []
            if folder not in known and len(known) < MAX_FOLDERS:
                self.extra[FOLDERS] = "\n".join([*known, folder])

    def close(self) -> None:
        """Close the turn, because no further line belongs to it, as far as is known."""
        if not self.is_closed:
            self.is_closed = True
            self.is_changed = True

    def add_action(self, action: Action) -> None:
        """Add a tool call that waits for its result, or replace an earlier state of the same call."""
        index = self.waiting.setdefault(action.tool_use_id, len(self.actions))
        self.actions[index : index + 1] = [action]

    def drop_action(self, tool: str, result_uuid: str) -> None:
        """Drop the call of a tool that has its result in the entry with this id, if there is one."""
        index = next((i for i, a in enumerate(self.actions) if a.tool == tool and a.result_uuid == result_uuid), None)
        if index is not None:
            del self.actions[index]
            self.waiting = {key: at - (at > index) for key, at in self.waiting.items()}

    def take_waiting(self, other: Draft) -> None:
        """Take over the calls of ``other`` that are still waiting for a result."""
        if not other.waiting:
            return
        indexes = set(other.waiting.values())
        for index in sorted(indexes):
            self.add_action(other.actions[index])
        other.actions = [action for i, action in enumerate(other.actions) if i not in indexes]
        other.waiting.clear()
        other.is_changed = other.has_grown = True

    def update(self) -> TurnUpdate:
        """Return the record of the turn in its current state."""
        messages = {block.message_id or block.uuid for block in self.said if block.role is Role.ASSISTANT}
        turn = Turn(
            **{name: getattr(self, name) for name in _SHARED},
            said=tuple(self.said),
            actions=tuple(self.actions),
            entries=tuple(self.entries),
            extra=dict(self.extra),
            message_count=len(messages),
        )
        return TurnUpdate(
            turn,
            # Words that differ from the stored ones are new, and are judged and redacted like all new words.
            said_before=0 if self.is_rewritten else self.said_before,
            entries_before=self.entries_before,
            actions_before=self.actions_before,
            is_new=not self.is_stored,
            has_grown=self.has_grown,
            is_whole=self.is_rewritten,
        )


def continued(drafts: dict[str, Draft], turn: Turn) -> Draft:
    """Return the draft with the key of a stored turn, adding one that continues the turn if there is none.

    A draft is made only then, because it copies all entries of the turn.
    """
    draft = drafts.get(turn.key)
    if draft is None:
        draft = drafts[turn.key] = Draft.of(turn)
    return draft


#: How long after the next prompt a last line of a rewound turn may still be written, in milliseconds.
_LATE_LINE_MS = 1_000


def standing_turns(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns of a session without those that the user rewound and replaced with another prompt.

    Such a prompt follows the same entry as an earlier one; the earlier prompt and everything after it are no longer
    part of the conversation. They still are if a later prompt follows them, because the session was then open in two
    places.
    """
    is_linked = any(turn.extra.get(BEHIND, AT_START) != AT_START for turn in turns)
    place_of: dict[str, int] = {}
    owner: dict[str, int] = {}
    parents: list[int] = []
    gone: set[int] = set()
    for place, turn in enumerate(turns):
        behind = turn.behind if is_linked or turn.behind != AT_START else ""
        parent = owner.get(behind, place - 1)
        replaced = place_of.get(behind)
        # A turn that went on after the other prompt was not rewound: two processes wrote the session.
        if replaced is not None and not _went_on(turns[replaced], turn):
            parent = parents[replaced]
            branch = _branch(replaced, parents)
            gone |= branch
            place_of = {entry: other for entry, other in place_of.items() if other not in branch}
        parents.append(parent)
        while parent in gone:
            gone.remove(parent)
            if standing := turns[parent].behind:
                place_of.setdefault(standing, parent)
            parent = parents[parent]
        if behind:
            place_of[behind] = place
        owner.update(dict.fromkeys((turn.key, *(entry.uuid for entry in turn.entries)), place))
    return [turn for place, turn in enumerate(turns) if place not in gone]


def _went_on(turn: Turn, other: Turn) -> bool:
    """Return True if a turn has entries that are clearly newer than the beginning of another one."""
    ended_at_ms, started_at_ms = turn.ended_at_ms, other.started_at_ms
    return ended_at_ms is not None and started_at_ms is not None and ended_at_ms > started_at_ms + _LATE_LINE_MS


def without_rewound(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns without the words of prompts that the user rewound or never sent; the tool calls are kept."""
    standing = {turn.key for turn in standing_turns(turns) if not turn.is_unsent}
    own = (Role.USER, Role.CHOSEN)
    return [
        turn if turn.key in standing else replace(turn, said=tuple(text for text in turn.said if text.role not in own))
        for turn in turns
    ]


def without_entries(turn: Turn, entries: Collection[str]) -> Turn:
    """Return the turn without the texts and calls of the given entries.

    A text without an entry is identified by the turn's key.
    """
    said = tuple(block for block in turn.said if (block.uuid or turn.key) not in entries)
    actions = tuple(
        action for action in turn.actions if action.uuid not in entries and action.result_uuid not in entries
    )
    if len(said) == len(turn.said) and len(actions) == len(turn.actions):
        return turn
    return replace(turn, said=said, actions=actions)


def _branch(place: int, parents: Sequence[int]) -> set[int]:
    """Return a turn and every later one that follows it, directly or indirectly."""
    branch = {place}
    for later in range(place + 1, len(parents)):
        if parents[later] in branch:
            branch.add(later)
    return branch
