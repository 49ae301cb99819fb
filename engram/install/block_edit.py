"""Appends lines between two markers to a text file, and removes them again."""

from __future__ import annotations

from engram.install.changes import BlockEdit


def apply_block(text: str, edit: BlockEdit) -> str:
    """Return the text with the block at its end; a block that is there is replaced where it stands."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join([edit.begin, *edit.text.splitlines(), edit.end]) + newline
    place = _find(text, edit)
    if place is not None:
        return text[: place[0]] + block + text[place[1] :]
    joint = "" if not text or text.endswith(("\n", "\r")) else newline
    return text + joint + block


def revert_block(text: str, edit: BlockEdit, original: str) -> str:
    """Return the text without the block; the end of the line before it is as in ``original``."""
    place = _find(text, edit)
    if place is None:
        return text
    before, after = text[: place[0]], text[place[1] :]
    if not after and before.rstrip("\r\n") == original:
        return original
    return before + after


def _find(text: str, edit: BlockEdit) -> tuple[int, int] | None:
    """Begin and end of the block with its last newline; None if it is not there whole."""
    begin = 0
    at = 0
    is_inside = False
    for line in text.splitlines(keepends=True):
        if line.rstrip("\r\n") == edit.begin:
            begin, is_inside = at, True
        at += len(line)
        if is_inside and line.rstrip("\r\n") == edit.end:
            return begin, at
    return None
