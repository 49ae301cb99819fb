"""Build turns from complete messages, for agents with sessions that are reread whenever they change. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engram.text.shell import telling_lines
from engram.transcripts.calls import MAX_SEARCHED_CHARS, READ_AHEAD, commit_of, shows_environment, telling_line
from engram.transcripts.json_values import storable, storable_text
from engram.transcripts.turns import (
    BEHIND,
    MAX_COMMAND_CHARS,
    Action,
    EntryRef,
    Opening,
    Role,
    TextBlock,
    Turn,
    TurnUpdate,
)

#: Maximum number of files per call, and of characters per path.
MAX_FILES, MAX_PATH_CHARS = 20, 1000


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a message, with its result."""

    tool: str
    command: str = ""
    files: tuple[str, ...] = ()
    is_edit: bool = False
    #: None until there is a result.
    is_error: bool | None = None
    exit_code: int | None = None
    is_refused: bool = False
    #: The output of the tool; used only to derive facts, and not stored.
    printed: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a session in its current form."""

    #: Unique across all agents.
    id: str
    role: Role
    #: The visible words; "" if there are none.
    text: str
    at_ms: int | None
    #: Number of the message in the session, from 0.
    position: int
    calls: tuple[Call, ...] = ()
    #: Working folder, if the message records one.
    cwd: str = ""
    #: Id of the message that this one follows in the conversation; "" if unknown.
    behind: str = ""


def whole_turns(
    agent: str,
    session_id: str,
    cwd: str,
    messages: Iterable[Message],
    note_environment: Callable[[str], None] = lambda text: None,
) -> tuple[TurnUpdate, ...]:
    """Return the turns of a session; each user message that contains words opens a turn.

    Args:
        cwd: the working folder of turns without messages that record one.
        note_environment: receives the result of every call that showed an environment file.
    """
    drafts: list[list[Message]] = []
    for message in messages:
        if not drafts or (message.role is Role.USER and message.text):
            drafts.append([])
        drafts[-1].append(message)
    for message in itertools.chain.from_iterable(drafts):
        for call in message.calls:
            if shows_environment(_action(message, call)):
                note_environment(storable(call.printed[:MAX_SEARCHED_CHARS]))
    turns = (_turn(agent, session_id, cwd, draft, is_closed=draft is not drafts[-1]) for draft in drafts)
    return tuple(TurnUpdate(turn, is_whole=True) for turn in turns if turn.said)


def path_texts(*values: object) -> tuple[str, ...]:
    kept = [storable(value) for value in values if isinstance(value, str) and 0 < len(value) <= MAX_PATH_CHARS]
    return tuple(dict.fromkeys(kept))[:MAX_FILES]


def _turn(agent: str, session_id: str, cwd: str, draft: list[Message], *, is_closed: bool) -> Turn:
    first, last = draft[0], draft[-1]
    said = [message for message in draft if message.text]
    times = [message.at_ms for message in draft if message.at_ms is not None]
    return Turn(
        key=first.id,
        session_id=session_id,
        opening=Opening.PROMPT if first.role is Role.USER and first.text else Opening.CONTINUATION,
        said=tuple(
            TextBlock(
                uuid=message.id,
                role=message.role,
                text=storable(message.text),
                message_id="" if message.role is Role.USER else message.id,
                offset=message.position,
                at_ms=message.at_ms,
            )
            for message in said
        ),
        actions=tuple(_action(message, call) for message in draft for call in message.calls),
        entries=tuple(EntryRef(message.id, message.position, 0, 0) for message in draft),
        cwd=next((message.cwd for message in draft if message.cwd), cwd),
        started_at_ms=min(times, default=None),
        ended_at_ms=max(times, default=None),
        start_offset=first.position,
        end_offset=last.position,
        is_closed=is_closed,
        message_count=sum(message.role is Role.ASSISTANT for message in said),
        extra={BEHIND: first.behind} if first.behind else {},
        agent=agent,
    )


def _action(message: Message, call: Call) -> Action:
    printed = storable(call.printed[:MAX_SEARCHED_CHARS])
    is_failure = bool(call.is_error) and not call.is_refused
    action = Action(
        tool_use_id="",
        tool=storable_text(call.tool),
        uuid=message.id,
        files=call.files,
        command=storable(call.command[: MAX_COMMAND_CHARS * READ_AHEAD]),
        is_edit=call.is_edit,
        is_error=call.is_error,
        exit_code=call.exit_code,
        error_line=telling_line(printed) if is_failure else "",
        error_lines=telling_lines(printed) if is_failure and call.command else (),
        result_uuid=message.id if call.is_error is not None else "",
        is_refused=call.is_refused,
    )
    return action._replace(commit="" if is_failure else commit_of(action, printed)).run_at(message.at_ms)
