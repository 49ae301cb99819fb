"""Parse JSON with comments and trailing commas, and record where every value begins and ends."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from engram.errors import BadRequest
from engram.system.lazy_regex import lazy_regex

#: Maximum nesting depth.
MAX_DEPTH = 200
_SPACE = " \t\r\n"
_TRIVIA = lazy_regex(r"\A\ufeff|[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_WORD = lazy_regex(r'[^\s,:\[\]{}"/]{1,40}')


@dataclass(slots=True)
class Node:
    """A value and its place in the text."""

    #: Offset of its first character.
    start: int
    #: Offset after its last character.
    end: int
    #: A string, number or constant; None for an object or a list.
    scalar: Any = None
    #: Members of an object in order, duplicates included; None for anything else.
    members: list[Member] | None = None
    #: Items of a list in order; None for anything else.
    items: list[Node] | None = None

    @property
    def value(self) -> Any:
        """The value as a Python object; if a key occurs twice, the last value counts."""
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
        """Return the member with ``key`` that takes effect: the last one. None if there is none."""
        return next((member for member in reversed(self.members or []) if member.key == key), None)


@dataclass(slots=True)
class Member:
    key: str
    #: Offset of the key's first quote.
    start: int
    node: Node

    @property
    def end(self) -> int:
        """Offset after its value."""
        return self.node.end


def parse(text: str) -> Node | None:
    """Return the top value of a document; None for a document without a value (empty, or only comments).

    Raises:
        BadRequest: it is not JSON; the message includes the line and column.
    """
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return None
    node = reader.read_value(0)
    reader.skip()
    if reader.at < len(text):
        raise reader.error("there is extra text after the end of the document")
    return node


def value_of(text: str) -> Any:
    """Return the top value of a document as a Python object; None for a document without a value. Raises BadRequest."""
    try:
        return json.loads(text)  # most files have no comments, and some are large
    except (ValueError, RecursionError):
        root = parse(text)
        return None if root is None else root.value


def _skip_trivia(text: str, at: int) -> int:
    """Return the offset after white space and comments that begin at ``at``."""
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
        while (trivia := _TRIVIA.match(self.text, self.at)) is not None:
            self.at = trivia.end()
        if self.text.startswith("/*", self.at):
            raise self.error("a comment is not closed")

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
        """Skip one character, then trivia."""
        self.at += 1
        self.skip()

    def _closes(self, end: str) -> bool:
        """Skip the closing bracket ``end`` if it comes next; return whether it did."""
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
        try:
            scalar, self.at = _DECODER.raw_decode(self.text, start)
        except ValueError:
            raise self.error(_fault_at(self.text, start)) from None
        return Node(start, self.at, scalar)


def _refuse(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _fault_at(text: str, at: int) -> str:
    if text.startswith('"', at):
        return "a string is not closed, or contains a control character or an unknown escape"
    word = _WORD.match(text, at)
    return f"{word[0]} is not a value" if word else "a value is missing"


# -- Insert or remove one member or item in the text of a JSON document; all other characters are kept.

#: Indentation used if the document has none.
DEFAULT_INDENT = "  "
#: The rest of a line: blanks, and comments that end on the line.
_LINE_REST = lazy_regex(r"(?:[ \t]*(?:/\*[^\r\n]*?\*/|//[^\r\n]*))+")
_COMMENT = lazy_regex(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is formatted."""

    newline: str
    #: Indentation of one level.
    indent: str
    #: True if the document is written on one line.
    is_inline: bool
    #: True if there is no blank after commas and colons.
    is_compact: bool

    def render(self, value: Any, indent: str, *, is_inline: bool) -> str:
        """Return a value as text; ``indent`` precedes every line except the first."""
        if is_inline:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self.is_compact else (", ", ": "))
        text = json.dumps(value, ensure_ascii=False, indent=self.indent)
        return text.replace("\n", self.newline + indent)


def find_style(text: str, root: Node | None) -> Style:
    newline = "\r\n" if "\r\n" in text else "\n"
    if root is None or not root.parts:
        return Style(newline, DEFAULT_INDENT, is_inline=False, is_compact=False)
    indent = _indent_of(text, root.parts[0].start)
    inside = text[root.start : root.end]
    is_inline = not re.search(r"[\r\n]", inside)
    return Style(newline, indent or DEFAULT_INDENT, is_inline, is_inline and not re.search(r"[,:] ", inside))


def _indent_of(text: str, at: int) -> str | None:
    """Return the white space before ``at`` on its line; None if something else is there."""
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    before = text[begin:at]
    return None if before.strip(" \t\ufeff") else before.lstrip("\ufeff")


def insert_part(text: str, style: Style, container: Node, key: str | None, value: Any) -> str:
    """Append a member (with ``key``) or an item to a container."""
    label = "" if key is None else json.dumps(key, ensure_ascii=False) + (":" if style.is_compact else ": ")
    if not container.parts:
        return _insert_first(text, style, container, label, value)
    last = container.parts[-1]
    indent = _indent_of(text, last.start)
    is_inline = indent is None or style.is_inline
    lead = ("" if style.is_compact else " ") if is_inline else style.newline + (indent or "")
    body = lead + label + style.render(value, indent or "", is_inline=is_inline)
    comma = _skip_trivia(text, last.end)
    if text.startswith(",", comma):
        at = comma + 1 if is_inline else _line_end(text, comma + 1)
        return text[:at] + body + "," + text[at:]
    at = last.end if is_inline else _line_end(text, last.end)
    return text[: last.end] + "," + text[last.end : at] + body + text[at:]


def _insert_first(text: str, style: Style, container: Node, label: str, value: Any) -> str:
    inner = text[container.start + 1 : container.end - 1].rstrip(_SPACE)
    if style.is_inline:
        body = label + style.render(value, "", is_inline=True)
    else:
        base = _line_indent(text, container.start)
        indent = base + style.indent
        body = f"{style.newline}{indent}{label}{style.render(value, indent, is_inline=False)}{style.newline}{base}"
    return text[: container.start + 1] + inner + body + text[container.end - 1 :]


def _line_indent(text: str, at: int) -> str:
    """Return the white space at the beginning of the line that contains ``at``."""
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    match = re.match(r"\ufeff?([ \t]*)", text[begin:at])
    return match.group(1) if match else ""


def _line_end(text: str, at: int) -> int:
    """Return the offset after comments that follow ``at`` on the same line."""
    match = _LINE_REST.match(text, at)
    return match.end() if match else at


def remove_part(text: str, container: Node, part: Member | Node) -> str:
    """Remove a member or an item with its comma and the white space before it; comments are kept."""
    parts = container.parts
    index = next(index for index, known in enumerate(parts) if known is part)
    comma = _skip_trivia(text, part.end)
    has_comma = text.startswith(",", comma)
    if has_comma and index == 0 and len(parts) > 1 and not text[comma + 1 : parts[1].start].strip(_SPACE):
        # The white space before this first part is reused for the next one.
        return text[: part.start] + text[part.end : comma] + text[parts[1].start :]
    begin = container.start + 1 if index == 0 else _skip_trivia(text, parts[index - 1].end) + 1
    head = text[begin : part.start].rstrip(_SPACE)
    tail = text[part.end : comma] + text[comma + 1 :] if has_comma else text[part.end :]
    # With the last part, the comma before it is removed.
    before = text[: begin - 1] if not has_comma and index > 0 else text[:begin]
    if len(parts) == 1 and tail.lstrip(_SPACE).startswith(("}", "]")):
        tail = tail.lstrip(_SPACE)
    return before + head + _line_break(head, text[begin + len(head) : part.start], tail) + tail


def _line_break(head: str, gap: str, tail: str) -> str:
    """Return the white space that a line comment at the end of ``head`` needs after it."""
    if tail.lstrip(" \t").startswith(("\n", "\r")) or not _ends_in_line_comment(head):
        return ""
    return gap


def _ends_in_line_comment(trivia: str) -> bool:
    at = 0
    while (match := _COMMENT.search(trivia, at)) is not None:
        at = match.end()
        if at == len(trivia):
            return match.group().startswith("//")
    return False


def replace_value(text: str, node: Node, new: str) -> str:
    return text[: node.start] + new + text[node.end :]
