"""What a transcript becomes: turns, with every text and fact still tied to its place in the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Role(StrEnum):
    """Who said a text."""

    #: What the user typed.
    USER = "user"
    ASSISTANT = "assistant"
    #: What the user decided in a dialog, in the assistant's words: a label, or a plan approved or rejected.
    CHOSEN = "chosen"
    #: What the assistant put before the user in a dialog: a question with its options, or a plan. Context, no claim.
    PROPOSED = "proposed"

    @property
    def speaker(self) -> str:
        """Whose words they are for a reader of the transcript: user, assistant or chosen."""
        return "assistant" if self is Role.PROPOSED else self.value


class Opening(StrEnum):
    """What a turn begins with."""

    #: A prompt that stands in a user line.
    PROMPT = "prompt"
    #: A prompt that stands only in a queue-operation line; it has no uuid.
    QUEUED = "queued"
    #: No prompt of its own: what goes on below a prompt that belongs to another file's turn.
    CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """One text of a turn: the visible text of one entry (a prompt, or one text block of the assistant)."""

    #: Uuid of the entry; "" for a queued prompt.
    uuid: str
    role: Role
    #: Word for word; redacted once it has passed ``engram.ingest``.
    text: str
    #: Groups the assistant's lines of one message, and the texts of one dialog; "" for other words of the user.
    message_id: str = ""
    #: Where the line begins in the file, in bytes, and its length without the newline.
    offset: int = 0
    length: int = 0
    #: Line number in the file, from 1.
    line: int = 0
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """The facts of one tool call. Never the text of a bite, only for matching."""

    #: What its result names; "" in a stored turn once the result is there.
    tool_use_id: str
    #: Name of the tool, such as Bash, Edit, Read.
    tool: str
    #: Uuid of the assistant's entry that made the call.
    uuid: str = ""
    #: Files it names, as written.
    files: tuple[str, ...] = ()
    #: The shell command, cut at 400 characters; "" for other tools.
    command: str = ""
    #: True where the tool changes files (Edit, Write, MultiEdit, NotebookEdit, apply_patch).
    is_edit: bool = False
    #: None until the result is read.
    is_error: bool | None = None
    exit_code: int | None = None
    #: First telling line of an error, cut at 200 characters.
    error_line: str = ""
    #: "sha subject" of a commit that the command made.
    commit: str = ""
    #: What the user typed when they refused the call, in turns that were read before such words became texts of the
    #: turn; "" in all others.
    refusal: str = ""
    #: Uuid of the user entry that holds the result.
    result_uuid: str = ""
    #: True where the user refused the call.
    is_refused: bool = False


class EntryRef(NamedTuple):
    """One entry that belongs to a turn, by its place. A named tuple, since there is one for nearly every line."""

    uuid: str
    offset: int
    length: int
    line: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A real user prompt, the assistant's text up to the next prompt, and the facts of its tool calls."""

    #: Identity: the prompt's uuid, ``q:<hash of session, time, text>`` or ``c:<uuid of the first own entry>``.
    key: str
    session_id: str
    opening: Opening
    said: tuple[TextBlock, ...] = ()
    actions: tuple[Action, ...] = ()
    #: Every entry with a uuid in this turn (also tool results and meta), each in exactly one turn.
    entries: tuple[EntryRef, ...] = ()
    cwd: str = ""
    branch: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    #: Byte range in the file: start of the first line, end of the last.
    start_offset: int = 0
    end_offset: int = 0
    is_closed: bool = False
    #: Distinct assistant messages with text (for the extraction thresholds).
    message_count: int = 0
    #: True where the user interrupted the turn.
    is_interrupted: bool = False
    agent: str = "claude-code"
    #: Other facts that a reader of this agent's files keeps (JSON-able).
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """What the turn begins with, without what the user said later in dialogs; "" for a continuation."""
        return "\n\n".join(s.text for s in self.said if s.role is Role.USER and not s.message_id)

    @property
    def reply(self) -> str:
        """What the assistant said, joined."""
        return "\n\n".join(s.text for s in self.said if s.role is Role.ASSISTANT)

    @property
    def files(self) -> tuple[str, ...]:
        """Files the turn touched, in order, each once."""
        return tuple(dict.fromkeys(f for a in self.actions for f in a.files))

    @property
    def has_edits(self) -> bool:
        """True where a tool call changed a file and did not fail."""
        return any(a.is_edit and not a.is_error for a in self.actions)
