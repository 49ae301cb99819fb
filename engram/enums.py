"""Enumerations that describe memories and outcomes; their values are stored, printed and exchanged."""

from __future__ import annotations

import logging
from enum import StrEnum
from functools import lru_cache
from typing import Self

from engram.errors import BadRequest

logger = logging.getLogger(__name__)


class StoredEnum(StrEnum):
    """An enumeration with a safe member for unknown stored values."""

    @classmethod
    def safest(cls) -> Self:
        """Return the least privileged member, to which ``from_stored`` falls back."""
        return cls(_SAFEST[cls])

    @classmethod
    def values(cls) -> tuple[str, ...]:
        """Return every value in order of declaration."""
        return tuple(member.value for member in cls)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the member for a value that a user or an agent gave. Raises BadRequest, which lists the choices."""
        try:
            return cls(text)
        except ValueError:
            raise BadRequest(
                f"{cls.__name__.lower()} {str(text)[:40]!r} is not known; choose one of {', '.join(cls.values())}"
            ) from None

    @classmethod
    def from_stored(cls, value: object) -> Self:
        """Return the member for a stored value, or the safest one if the value is unknown.

        Never raises, so that a damaged row doesn't make others unreadable. Each unknown value is logged once.
        """
        # Twice as fast as calling the class, which matters because a search does this for every row.
        member = cls._value2member_map_.get(value) if isinstance(value, str) else None
        if isinstance(member, cls):
            return member
        try:
            return cls(str(value))
        except ValueError:
            _warn_once(cls.__name__, repr(value)[:80])
            return cls.safest()


@lru_cache(maxsize=256)
def _warn_once(name: str, value: str) -> None:
    logger.warning("action=read_row enum=%s value=%s reason=unknown_value", name, value)


class Kind(StoredEnum):
    """What a memory states."""

    DECISION = "decision"
    PREFERENCE = "preference"
    FIX = "fix"
    FACT = "fact"
    STATE = "state"
    DEAD_END = "dead-end"
    #: An entire turn, kept by an extractor that doesn't distinguish kinds.
    TURN = "turn"


class Refusal(StrEnum):
    """Why a language model's proposal was not kept, or did not withdraw its target."""

    #: It does not have the requested form.
    UNREADABLE = "unreadable"
    #: It does not cite anything that was sent.
    NO_EVIDENCE = "no-evidence"
    NO_SUMMARY = "no-summary"
    #: It withdraws a memory that was not shown to the model, or that is about something else.
    NO_TARGET = "no-target"
    #: Its words were not said in the session.
    NOT_SAID = "not-said"
    #: Its words have nothing to do with what it cites.
    NOT_CITED = "not-cited"
    #: It rests only on commands whose results are unknown.
    UNPROVEN = "unproven"
    #: It rests only on commands and repeats their output.
    OUTPUT = "output"
    #: It is already known.
    REPEATED = "repeated"
    #: It repeats Engram's own text.
    OWN_TEXT = "own-text"
    #: It quotes a log.
    LOG = "log"
    #: It, or something that it rests on, was forgotten.
    FORGOTTEN = "forgotten"
    #: It was judged wrong or outdated.
    JUDGED = "judged"
    #: The maximum number of memories for the session or the hour has been reached.
    FULL = "full"
    #: Its target is kept by hand, is the user's, comes from another project, or is newer.
    TARGET_STAYS = "target-stays"


class Status(StoredEnum):
    """Whether a memory is current."""

    #: Confirmed, and current.
    ACTIVE = "active"
    #: Current, but not confirmed yet.
    PROVISIONAL = "provisional"
    #: Replaced by a newer memory.
    SUPERSEDED = "superseded"
    #: Set aside: merged, unused or withdrawn.
    ARCHIVED = "archived"

    @property
    def is_current(self) -> bool:
        """True for a memory that is neither archived nor superseded."""
        return self in CURRENT_STATUSES

    @property
    def told(self) -> str:
        """The word shown to people."""
        return "replaced" if self is Status.SUPERSEDED else self.value


#: Statuses of current memories.
CURRENT_STATUSES = (Status.ACTIVE, Status.PROVISIONAL)


class Scope(StoredEnum):
    """Where a memory applies and is visible."""

    PROJECT = "project"
    GLOBAL = "global"


class Importance(StoredEnum):
    """How much a memory matters later."""

    NORMAL = "normal"
    HIGH = "high"


class Voice(StoredEnum):
    """Who made the statement in a memory."""

    #: Said by the user.
    USER = "user"
    #: Said by the assistant.
    ASSISTANT = "assistant"
    #: Chosen by the user in a dialog, in the assistant's words.
    CHOSEN = "chosen"
    #: Saved by an agent with a tool.
    AGENT = "agent"
    #: Read from a file: another program's, a note, or an export from elsewhere.
    IMPORTED = "imported"
    #: Sent by a program in the user's place; never a rule, never global and never confirmed automatically. Earlier
    #: versions treat it as the assistant's.
    PROGRAM = "program"

    @property
    def label(self) -> str:
        """Description for readers of a memory."""
        return _VOICE_LABELS[self]


_VOICE_LABELS = {
    Voice.USER: "the user",
    Voice.ASSISTANT: "the assistant",
    Voice.CHOSEN: "the user's choice",
    Voice.AGENT: "saved by an agent",
    Voice.IMPORTED: "imported",
    Voice.PROGRAM: "a program's prompt",
}


class Source(StoredEnum):
    """How a memory came to be stored."""

    #: By an extractor.
    AUTO = "auto"
    #: Saved or corrected by hand or by a tool.
    MANUAL = "manual"


class Judgement(StoredEnum):
    """How someone judged a memory that was shown."""

    #: It helped: it ranks a little higher, and never counts as unused.
    HELPFUL = "helpful"
    #: It is not true: it is no longer shown automatically, and it ranks last.
    WRONG = "wrong"
    #: It is no longer true, so it is archived.
    OUTDATED = "outdated"


class Actor(StoredEnum):
    """Who changed a memory."""

    #: A person, with a command.
    USER = "user"
    #: A coding agent, with a tool.
    AGENT = "agent"
    #: An extractor or a language model, from what was said.
    MODEL = "model"
    #: Engram itself, by rules: consolidation, reading transcripts, recovery.
    TIDYING = "tidying"


class BranchState(StoredEnum):
    """Whether a branch of a repository was merged into the default branch."""

    MERGED = "merged"
    OPEN = "open"
    #: It no longer exists, or was merged in another form; which of the two is unknown.
    UNKNOWN = "unknown"


class Channel(StoredEnum):
    """The event at which memories may be shown to a session."""

    #: A prompt is sent (UserPromptSubmit).
    PROMPT = "prompt"
    #: A tool is called (PreToolUse). Shows memories that came too late for the prompt, or that are about the call.
    TOOL = "tool"
    #: A session starts (SessionStart): the briefing.
    START = "start"
    #: A tool call has failed.
    ERROR = "error"
    #: A subagent starts.
    AGENT = "agent"

    @property
    def told(self) -> str:
        """Where in a session it is, in words; "" for a prompt."""
        return _CHANNELS.get(self, "")


_CHANNELS = {
    Channel.TOOL: "at a tool call",
    Channel.START: "at the start",
    Channel.ERROR: "after a failed call",
    Channel.AGENT: "in a subagent",
}


class Verdict(StoredEnum):
    """The outcome of a prompt or other event, or of a memory that was considered for it."""

    #: It was shown to Claude.
    SHOWN = "shown"
    #: It will be shown at the next tool call.
    PENDING = "pending"
    #: No tool call came in time to show it, or it was replaced.
    WITHDRAWN = "withdrawn"
    #: The hook exited before the answer arrived.
    TOO_LATE = "too late"

    # Why nothing was searched
    #: Injection is switched off (``inject = false``).
    INJECT_OFF = "inject off"
    #: The folder is excluded.
    EXCLUDED = "excluded"
    #: The project, or everything, is paused.
    PAUSED = "paused"
    #: A program sent it: a notification, command output, a scheduled wake-up.
    NOT_TYPED = "not typed"
    #: A subagent sent it.
    SUBAGENT = "subagent"
    #: It has no topic: agreement, thanks, a bare command, or fewer than two meaningful words.
    TOO_SHORT = "too short"
    #: Another hook has already received the answer to the same prompt.
    ASKED_BEFORE = "asked before"
    #: It has the same topic as the last recollection, which remains in use.
    SAME_TOPIC = "same topic"
    #: The session is a fork whose transcript has not been read yet, so its context is unknown.
    UNREAD_FORK = "unread fork"
    #: The session replays its context, including what was injected into it.
    REPLAYED = "replayed"
    #: The prompt's number of bites or its token budget is used up.
    USED_UP = "used up"
    #: Nothing is recorded for a prompt in the transcript: no hook ran, or no worker answered. Never stored.
    NO_RECORD = "no record"
    #: Like ``NO_RECORD``, for a prompt from before the memory was created. Never stored.
    BEFORE_ENGRAM = "before engram"

    # Why none of the found memories was shown
    #: No memory is related to it.
    NOTHING_NEAR = "nothing near"
    #: The memory is not relevant enough.
    BELOW_FLOOR = "below floor"
    #: It mentions neither the file nor the command nor the error of the tool call.
    NOT_NAMED = "not named"
    #: It was shown in this session before.
    ALREADY_SHOWN = "already shown"
    #: Its source is still in the session's context.
    IN_CONTEXT = "in context"
    #: It is suspect: its text looks like an instruction from someone other than the user.
    SUSPECT = "suspect"
    #: It is superseded, archived, lowered or expired, or provisional and doubtful.
    NOT_CURRENT = "not current"
    #: It belongs to another project.
    OTHER_PROJECT = "other project"
    #: A better memory says the same thing.
    REPEATS = "repeats"
    #: It is a passage of a transcript without a sentence that is clear on its own.
    NOT_QUOTABLE = "not quotable"
    #: One of the user's own files (CLAUDE.md, rules, auto memory) says the same thing.
    STANDS_IN_FILE = "stands in a file"
    #: It is much less relevant than the best one.
    FAR_BELOW_BEST = "far below best"
    #: Better memories used up the number of bites or the token budget.
    NO_ROOM = "no room"


class ComparisonAnswer(StoredEnum):
    """The user's answer to the offer to compare the two ways of writing memories."""

    #: No, or no answer; it is not offered again.
    NO = "no"
    #: Yes, but the user did not switch to the language model.
    SHOWN = "shown"
    #: Yes, and the user switched to the language model.
    SWITCHED = "switched"


#: The least privileged member of each enum.
_SAFEST: dict[type[StoredEnum], StoredEnum] = {
    Kind: Kind.FACT,
    Status: Status.ARCHIVED,
    Scope: Scope.PROJECT,
    Importance: Importance.NORMAL,
    Voice: Voice.ASSISTANT,
    Source: Source.AUTO,
    Judgement: Judgement.WRONG,
    Actor: Actor.TIDYING,
    BranchState: BranchState.UNKNOWN,
    Channel: Channel.TOOL,
    Verdict: Verdict.BELOW_FLOOR,
    ComparisonAnswer: ComparisonAnswer.NO,
}
