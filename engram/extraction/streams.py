"""Group a turn's messages into streams: short messages between tool calls are read as a single text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engram.text.statements import Statement, split
from engram.transcripts.record import Role, TextBlock, Turn

#: Maximum length of an assistant's message that joins its neighbours, in characters; it has no lists or headings.
MAX_SHORT_CHARACTERS = 420
#: Maximum number of messages of a stream.
MAX_STREAM_MESSAGES = 40

_STRUCTURE = re.compile(r"^\s*(?:#{1,6} |[-*•] |\d+[.)] |\||```)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stream:
    """Statements that are read together, each with its message."""

    #: Messages in order.
    messages: tuple[TextBlock, ...]
    statements: tuple[Statement, ...]
    #: For each statement, the index of its message in ``messages``.
    owners: tuple[int, ...]

    def messages_of(self, start: int, stop: int) -> tuple[TextBlock, ...]:
        """Return the messages of the statements from ``start`` to before ``stop``."""
        return tuple(self.messages[i] for i in dict.fromkeys(self.owners[start:stop]))


def streams(turn: Turn) -> Iterator[Stream]:
    """Yield the streams of a turn in order; every message is in exactly one."""
    waiting: list[TextBlock] = []
    for said in turn.said:
        if said.role not in (Role.USER, Role.ASSISTANT):
            continue
        if said.role is Role.ASSISTANT and _is_short(said.text):
            waiting.append(said)
            if len(waiting) < MAX_STREAM_MESSAGES:
                continue
        if waiting:
            yield _stream(waiting)
            waiting = []
        if said.role is Role.USER or not _is_short(said.text):
            yield _stream([said])
    if waiting:
        yield _stream(waiting)


def _is_short(text: str) -> bool:
    return len(text) <= MAX_SHORT_CHARACTERS and not _STRUCTURE.search(text)


def _stream(messages: Sequence[TextBlock]) -> Stream:
    statements: list[Statement] = []
    owners: list[int] = []
    for index, said in enumerate(messages):
        own_statements = split(said.text)
        statements.extend(own_statements)
        owners.extend([index] * len(own_statements))
    return Stream(tuple(messages), tuple(statements), tuple(owners))
