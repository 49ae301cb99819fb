"""Inserts and removes one member or item in the text of a JSON document; all other characters stay."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from engram.install.json_document import Member, Node, skip_trivia

#: Indentation of a document that shows none.
DEFAULT_INDENT = "  "
_SPACE = " \t\r\n"
#: The rest of a line: blanks and comments that end in it.
_LINE_REST = re.compile(r"(?:[ \t]*(?:/\*[^\r\n]*?\*/|//[^\r\n]*))+")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is formatted."""

    newline: str
    #: Indentation of one level.
    indent: str
    #: The document is written in one line.
    is_inline: bool
    #: No blank behind commas and colons.
    is_compact: bool

    def render(self, value: Any, indent: str, *, is_inline: bool) -> str:
        """The text of a value whose first line begins behind ``indent``."""
        if is_inline:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":") if self.is_compact else (", ", ": "))
        text = json.dumps(value, ensure_ascii=False, indent=self.indent)
        return text.replace("\n", self.newline + indent)


def find_style(text: str, root: Node | None) -> Style:
    """The style of a document."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if root is None or not root.parts:
        return Style(newline, DEFAULT_INDENT, is_inline=False, is_compact=False)
    indent = indent_of(text, root.parts[0].start)
    inside = text[root.start : root.end]
    is_inline = not re.search(r"[\r\n]", inside)
    return Style(newline, indent or DEFAULT_INDENT, is_inline, is_inline and not re.search(r"[,:] ", inside))


def indent_of(text: str, at: int) -> str | None:
    """The white space before ``at`` on its line; None if something else stands there."""
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    before = text[begin:at]
    return None if before.strip(" \t\ufeff") else before.lstrip("\ufeff")


def insert_part(text: str, style: Style, container: Node, key: str | None, value: Any) -> str:
    """Append a member (with ``key``) or an item to a container."""
    label = "" if key is None else json.dumps(key, ensure_ascii=False) + (":" if style.is_compact else ": ")
    if not container.parts:
        return _insert_first(text, style, container, label, value)
    last = container.parts[-1]
    indent = indent_of(text, last.start)
    is_inline = indent is None or style.is_inline
    lead = ("" if style.is_compact else " ") if is_inline else style.newline + (indent or "")
    body = lead + label + style.render(value, indent or "", is_inline=is_inline)
    comma = skip_trivia(text, last.end)
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
    """The white space at the begin of the line of ``at``."""
    begin = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    match = re.match(r"\ufeff?([ \t]*)", text[begin:at])
    return match.group(1) if match else ""


def _line_end(text: str, at: int) -> int:
    """The offset behind comments that follow ``at`` on the same line."""
    match = _LINE_REST.match(text, at)
    return match.end() if match else at


def remove_part(text: str, container: Node, part: Member | Node) -> str:
    """Remove a member or an item with its comma and the white space before it; comments stay."""
    parts = container.parts
    index = next(index for index, known in enumerate(parts) if known is part)
    comma = skip_trivia(text, part.end)
    has_comma = text.startswith(",", comma)
    if has_comma and index == 0 and len(parts) > 1 and not text[comma + 1 : parts[1].start].strip(_SPACE):
        # The first part: its white space serves the next one.
        return text[: part.start] + text[part.end : comma] + text[parts[1].start :]
    begin = container.start + 1 if index == 0 else skip_trivia(text, parts[index - 1].end) + 1
    head = text[begin : part.start].rstrip(_SPACE)
    tail = text[part.end : comma] + text[comma + 1 :] if has_comma else text[part.end :]
    # Of the last one, the comma before it goes.
    before = text[: begin - 1] if not has_comma and index > 0 else text[:begin]
    if len(parts) == 1 and tail.lstrip(_SPACE).startswith(("}", "]")):
        tail = tail.lstrip(_SPACE)
    return before + head + _line_break(head, text[begin + len(head) : part.start], tail) + tail


def _line_break(head: str, gap: str, tail: str) -> str:
    """The white space that a line comment at the end of ``head`` needs behind it."""
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
    """Replace a value's text."""
    return text[: node.start] + new + text[node.end :]
