"""Whole turns out of plain messages, as both agents of these tests have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engram.transcripts.json_values import storable
from engram.transcripts.turns import Action, EntryRef, Opening, Role, TextBlock, Turn, TurnUpdate


@dataclass
class Message:
    """A message of a session."""

    #: Unique among all agents.
    id: str
    #: user, assistant or tool.
    role: str
    #: What was said; the command of a tool call.
    text: str
    at_ms: int
    #: Where it stands in the source.
    position: int


@dataclass
class Draft:
    """A turn that is being put together."""

    messages: list[Message] = field(default_factory=list)


def whole_turns(agent: str, session_id: str, cwd: str, messages: Iterable[Message]) -> tuple[TurnUpdate, ...]:
    """The turns of messages that begin with a prompt: each message of the user opens one."""
    drafts: list[Draft] = []
    for message in messages:
        if message.role == "user" or not drafts:
            drafts.append(Draft())
        drafts[-1].messages.append(message)
    turns = (_turn(agent, session_id, cwd, draft, draft is not drafts[-1]) for draft in drafts)
    return tuple(TurnUpdate(turn, is_whole=True) for turn in turns)


def _turn(agent: str, session_id: str, cwd: str, draft: Draft, is_closed: bool) -> Turn:
    first, last = draft.messages[0], draft.messages[-1]
    said = [message for message in draft.messages if message.role in ("user", "assistant")]
    calls = [message for message in draft.messages if message.role == "tool"]
    return Turn(
        key=first.id,
        session_id=session_id,
        opening=Opening.PROMPT if first.role == "user" else Opening.CONTINUATION,
        said=tuple(
            TextBlock(
                uuid=message.id,
                role=Role(message.role),
                text=storable(message.text),
                message_id="" if message.role == "user" else message.id,
                offset=message.position,
                at_ms=message.at_ms,
            )
            for message in said
        ),
        actions=tuple(
            Action(tool_use_id=call.id, tool="shell", uuid=call.id, command=call.text, result_uuid=call.id, exit_code=0)
            for call in calls
        ),
        entries=tuple(EntryRef(message.id, message.position, 0, 0) for message in draft.messages),
        cwd=cwd,
        started_at_ms=first.at_ms,
        ended_at_ms=last.at_ms,
        start_offset=first.position,
        end_offset=last.position,
        is_closed=is_closed,
        message_count=sum(message.role == "assistant" for message in said),
        agent=agent,
    )
