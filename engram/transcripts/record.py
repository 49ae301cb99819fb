"""What a session becomes: turns, with every text and fact tied to its position in the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

#: Between a question and the chosen label, in a text of ``Role.CHOSEN``.
ARROW = "→"
#: Longest command that is kept, in characters.
MAX_COMMAND_CHARS = 400
#: Longest error line and commit subject that is kept, in characters.
MAX_ERROR_CHARS = 200
#: Longest entry of a todo list that is kept, in characters, and maximum number of entries of a call.
MAX_TODO_CHARS, MAX_TODOS = 200, 30


#: Key in ``Turn.extra`` of the working directories after the first, one a line, and how many are kept.
FOLDERS, MAX_FOLDERS = "folders", 20


class Role(StrEnum):
    """Whose words a text is."""

    #: Typed by the user.
    USER = "user"
    ASSISTANT = "assistant"
    #: Decided by the user in a dialog, in the assistant's words: a label, or a plan approved or rejected.
    CHOSEN = "chosen"
    #: Put before the user in a dialog: a question with its options, or a plan. It is context, not a claim.
    PROPOSED = "proposed"
    #: Sent by a program in the user's place: an SDK, print mode, ``codex exec``.
    PROGRAM = "program"
    #: Stands in the user's place and is not known to be the user's: pasted text, an element that is not known.
    CONTEXT = "context"

    @property
    def speaker(self) -> str:
        """The speaker to name to a reader of the transcript: user, program, assistant, chosen or context."""
        return "assistant" if self is Role.PROPOSED else self.value


#: Roles of prompts.
OPENING_ROLES = (Role.USER, Role.PROGRAM)


class Opening(StrEnum):
    """How a turn begins."""

    #: With a prompt that is an entry of its own.
    PROMPT = "prompt"
    #: With a prompt that waited in the agent's queue and has no entry of its own.
    QUEUED = "queued"
    #: Without a prompt: it continues below a prompt that belongs to a turn of another source.
    CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """One text of a turn: the visible text of one entry (a prompt, or one text block of the assistant)."""

    #: Id of the entry; "" for a queued prompt, which has none.
    uuid: str
    role: Role
    #: Word for word; redacted by ``engram.ingest``.
    text: str
    #: Groups the entries of one message of the assistant, and the texts of one dialog; "" for other words of the user.
    message_id: str = ""
    #: Position of the entry in its source: bytes in a file of lines, else what the agent counts by.
    offset: int = 0
    #: Size of the entry in the same unit; a line is counted without its newline.
    length: int = 0
    #: Line number from 1; 0 where the source has no lines.
    line: int = 0
    at_ms: int | None = None


class TodoState(StrEnum):
    """What a call makes of an entry of a todo list."""

    OPEN = "open"
    DONE = "done"
    #: Only its text changes.
    SAME = "same"


class Todo(NamedTuple):
    """A change of an entry of a todo list."""

    #: The agent's id of the entry; "" in a list that has none.
    key: str
    #: "" if the text stays as it was.
    text: str
    state: TodoState


class Action(NamedTuple):
    """The facts of one tool call: used for matching, never as the text of a memory."""

    #: Ties the result to the call; "" in a stored turn once the result was read.
    tool_use_id: str
    #: Name of the tool, such as Bash, Edit, Read.
    tool: str
    #: Id of the assistant's entry that made the call.
    uuid: str = ""
    #: Files it names, as written.
    files: tuple[str, ...] = ()
    #: The shell command, at most ``MAX_COMMAND_CHARS``; "" for other tools.
    command: str = ""
    #: The folder that a command ran in, or the file or folder that a search looked in, as written; "" if not said.
    place: str = ""
    #: True if the tool changes files.
    is_edit: bool = False
    #: None until the result is read.
    is_error: bool | None = None
    exit_code: int | None = None
    #: The most telling line of an error, at most ``MAX_ERROR_CHARS``.
    error_line: str = ""
    #: The telling lines of a failing command's error as they were read. Ingest turns them into ``error_keys``; they are
    #: not stored.
    error_lines: tuple[str, ...] = ()
    #: Hashes of those lines without what differs between two runs (``engram.text.failures``).
    error_keys: tuple[int, ...] = ()
    #: "sha subject" of a commit that the command made.
    commit: str = ""
    #: What the user typed to refuse the call. Only in turns read by an early version: today it is a text of the turn.
    refusal: str = ""
    #: Id of the entry that holds the result.
    result_uuid: str = ""
    #: True if the user refused the call.
    is_refused: bool = False
    #: What it changes in the todo list of the session.
    todos: tuple[Todo, ...] = ()
    #: True if ``todos`` takes the place of the whole list.
    is_todo_list: bool = False


class EntryRef(NamedTuple):
    """An entry of a turn and its position in the source. A named tuple because there is one for nearly every line."""

    uuid: str
    #: Position and size, as in ``TextBlock``.
    offset: int
    length: int
    #: Line number from 1; 0 where the source has no lines.
    line: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A real user prompt, the assistant's text up to the next prompt, and the facts of its tool calls."""

    #: Identity, unique among all agents: the id of the prompt's entry, or a key that stands for one.
    key: str
    session_id: str
    opening: Opening
    said: tuple[TextBlock, ...] = ()
    actions: tuple[Action, ...] = ()
    #: Every entry of the turn that has an id (tool results and meta entries too). An entry belongs to one turn.
    entries: tuple[EntryRef, ...] = ()
    cwd: str = ""
    branch: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    #: Range in the source: position of the first entry, end of the last.
    start_offset: int = 0
    end_offset: int = 0
    is_closed: bool = False
    #: Distinct assistant messages with text (for the extraction thresholds).
    message_count: int = 0
    #: True if the user interrupted the turn.
    is_interrupted: bool = False
    #: Name of the agent that wrote the source.
    agent: str = ""
    #: Further facts that the agent's reader needs later (JSON-able).
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """The words of a person or a program that open the turn, without what the user said later in dialogs.

        "" for a continuation.
        """
        return "\n\n".join(s.text for s in self.said if s.role in OPENING_ROLES and not s.message_id)

    @property
    def users_texts(self) -> tuple[TextBlock, ...]:
        """The words of a person: what they prompted, and what they said in dialogs."""
        return tuple(s for s in self.said if s.role is Role.USER)

    @property
    def is_by_person(self) -> bool:
        """True if a person's words open the turn."""
        return any(not s.message_id for s in self.users_texts)

    @property
    def users_prompt(self) -> str:
        """``prompt`` if a person wrote it, else ""."""
        return self.prompt if self.is_by_person else ""

    @property
    def reply(self) -> str:
        """The assistant's texts, joined."""
        return "\n\n".join(s.text for s in self.said if s.role is Role.ASSISTANT)

    @property
    def folders(self) -> tuple[str, ...]:
        """Working directories of the turn, in order, each once; the first is ``cwd``."""
        return tuple(filter(None, (self.cwd, *self.extra.get(FOLDERS, "").split("\n"))))

    @property
    def files(self) -> tuple[str, ...]:
        """Files the turn touched, in order, each once."""
        return tuple(dict.fromkeys(f for a in self.actions for f in a.files))

    @property
    def has_edits(self) -> bool:
        """True if a tool call changed a file and did not fail."""
        return any(a.is_edit and not a.is_error for a in self.actions)


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """A turn as its source holds it now, and how much of it is stored already."""

    turn: Turn
    #: Number of texts at the beginning of ``turn.said`` that are stored and redacted already.
    said_before: int = 0
    #: Number of ``turn.entries`` that are stored.
    entries_before: int = 0
    #: Number of ``turn.actions`` that are stored.
    actions_before: int = 0
    #: True if the turn is not stored yet.
    is_new: bool = True
    #: False if a stored turn was only closed.
    has_grown: bool = True
    #: True if the reader does not know what is stored of the turn: ingest compares it with the stored one.
    is_whole: bool = False
    #: True if the turn takes the place of the stored one instead of growing at its end. Set by ingest.
    is_replaced: bool = False
