"""Text that is stored compressed where that saves something: the facts of tool calls, the content of episodes."""

from __future__ import annotations

import zlib

from engram.errors import BrokenDatabase

#: Texts of fewer characters are stored as they are.
_SHORT = 200


def pack_text(text: str) -> str | bytes:
    """The stored form of a text: itself, or its UTF-8 bytes as a zlib stream."""
    if len(text) < _SHORT:
        return text
    packed = zlib.compress(text.encode("utf-8", "replace"), 6)
    return packed if len(packed) < len(text) else text


def unpack_text(stored: str | bytes) -> str:
    """The text of a stored form. Raises BrokenDatabase for one that was damaged."""
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(bytes(stored)).decode("utf-8")
    except (zlib.error, UnicodeDecodeError) as error:
        raise BrokenDatabase(f"a stored text is damaged: {error}") from error
