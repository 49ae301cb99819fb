"""Texts and ids out of an agent's files in a form that SQLite can store."""

from __future__ import annotations

import re

#: Longest uuid, session id or tool id that is accepted, in characters.
MAX_ID_CHARS = 128
#: The text of a prompt that is only a picture.
PICTURE = "[image]"

#: Characters that SQLite cannot store in a text: lone surrogates, and NUL, which would end the text.
_UNSTORABLE = re.compile("[\ud800-\udfff\x00]")


def storable(text: str) -> str:
    """Return the text with lone surrogates and NUL replaced by U+FFFD."""
    if "\0" not in text:
        try:
            text.isascii() or text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNSTORABLE.sub("\ufffd", text)


def storable_value(value: object) -> object:
    """Return a parsed JSON value with all its texts and names storable. Raises RecursionError for deep nesting."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(part) for part in value]
        case dict():
            return {storable(str(name)): storable_value(part) for name, part in value.items()}
    return value


def storable_text(value: object) -> str:
    """Return a text of a parsed file, storable; "" for any other value."""
    return storable(value) if isinstance(value, str) else ""


def storable_id(value: object) -> str:
    """Return an id of a parsed file, storable; "" for any other value, and for one that is too long."""
    return storable(value) if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""
