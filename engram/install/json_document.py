"""Parses JSON with comments and trailing commas, and keeps where every value begins and ends."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from engram.errors import BadRequest

#: Deepest nesting that is read.
MAX_DEPTH = 200
_SPACE = " \t\r\n"
_SCALAR = re.compile(r'[^\s,:\[\]{}"/]+')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass(slots=True)
class Node:
    """A value and its place in the text."""

    #: Offset of its first character.
    start: int
    #: Offset behind its last character.
    end: int
    #: Text, number or constant; None for an object or a list.
    scalar: Any = None
    #: Members of an object in order, duplicates included; None for anything else.
    members: list[Member] | None = None
    #: Items of a list in order; None for anything else.
    items: list[Node] | None = None

    @property
    def value(self) -> Any:
        """The value as Python sees it; of duplicate keys the last one counts."""
        if self.members is not None:
            return {member.key: member.node.value for member in self.members}
        if self.items is not None:
            return [item.value for item in self.items]
        return self.scalar

    @property
    def parts(self) -> list[Member] | list[Node]:
        """The members of an object or the items of a list; [] for a scalar."""
        return self.members if self.members is not None else self.items or []

    def member(self, key: str) -> Member | None:
        """The member that counts for ``key``: the last one. None if there is none."""
        return next((member for member in reversed(self.members or []) if member.key == key), None)


@dataclass(slots=True)
class Member:
    """A member of an object."""

    key: str
    #: Offset of the key's first quote.
    start: int
    node: Node

    @property
    def end(self) -> int:
        """Offset behind its value."""
        return self.node.end


def parse(text: str) -> Node | None:
    """Return the top value of a document; None for one without a value (empty, or comments alone).

    Raises:
        BadRequest: it is not JSON; the message names line and column.
    """
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return None
    node = reader.read_value(0)
    reader.skip()
    if reader.at < len(text):
        raise reader.error("there is something behind the end of the document")
    return node


def skip_trivia(text: str, at: int) -> int:
    """Return the offset behind white space and comments that begin at ``at``."""
    reader = _Reader(text, at)
    reader.skip()
    return reader.at


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0

    def error(self, what: str) -> BadRequest:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - self.text.rfind("\n", 0, self.at)
        return BadRequest(f"line {line}, column {column}: {what}")

    def skip(self) -> None:
        text = self.text
        while self.at < len(text):
            if text[self.at] in _SPACE or (self.at == 0 and text[0] == "\ufeff"):
                self.at += 1
            elif text.startswith("//", self.at):
                ends = [end for end in (text.find("\n", self.at), text.find("\r", self.at)) if end >= 0]
                self.at = min(ends, default=len(text))
            elif text.startswith("/*", self.at):
                end = text.find("*/", self.at + 2)
                if end < 0:
                    raise self.error("a comment does not end")
                self.at = end + 2
            else:
                return

    def read_value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.error("it is nested too deeply")
        match self.text[self.at : self.at + 1]:
            case "{":
                return self._read_object(depth)
            case "[":
                return self._read_list(depth)
            case _:
                return self._read_scalar()

    def _read_object(self, depth: int) -> Node:
        start, members = self.at, list[Member]()
        self._open()
        while not self._closes("}"):
            key_start = self.at
            if not self.text.startswith('"', key_start):
                raise self.error("a key in double quotes is missing")
            key = self._read_scalar().scalar
            self.skip()
            if not self.text.startswith(":", self.at):
                raise self.error("a colon is missing")
            self._open()
            members.append(Member(key, key_start, self.read_value(depth + 1)))
            self._pass_comma("}")
        return Node(start, self.at, members=members)

    def _read_list(self, depth: int) -> Node:
        start, items = self.at, list[Node]()
        self._open()
        while not self._closes("]"):
            items.append(self.read_value(depth + 1))
            self._pass_comma("]")
        return Node(start, self.at, items=items)

    def _open(self) -> None:
        """Pass one character, then trivia."""
        self.at += 1
        self.skip()

    def _closes(self, end: str) -> bool:
        """Pass the end of a container if it is here."""
        is_closed = self.text.startswith(end, self.at)
        self.at += is_closed
        return is_closed

    def _pass_comma(self, end: str) -> None:
        self.skip()
        if self.text.startswith(",", self.at):
            self._open()
        elif not self.text.startswith(end, self.at):
            raise self.error(f"a comma or {end} is missing")

    def _read_scalar(self) -> Node:
        start = self.at
        pattern, what = (_STRING, "a text does not end") if self.text.startswith('"', start) else (_SCALAR, "")
        match = pattern.match(self.text, start)
        if match is None:
            raise self.error(what or "a value is missing")
        try:
            scalar = json.loads(match.group(), parse_constant=_refuse)
        except ValueError:
            raise self.error(f"{match.group()[:40]} is not a value") from None
        self.at = match.end()
        return Node(start, self.at, scalar)


def _refuse(name: str) -> None:
    raise ValueError(name)
