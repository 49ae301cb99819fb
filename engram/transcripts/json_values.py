"""Parse an agent's JSON, however malformed, and convert values to a form that SQLite can store. Pure."""

from __future__ import annotations

import json
from typing import Any

import orjson

from engram.system.lazy_regex import lazy_regex

#: Maximum size of text passed to orjson, in bytes, because orjson does not release the memory that it uses for longer
#: text.
_LONGEST = 64 * 1024
#: An image embedded in a line (base64-encoded, more than 3 KB), and the keys that can precede an image.
_PICTURE_KEYS = (b'data":"', b'base64":"', b'url":"')
_PICTURE = lazy_regex(
    rb'("(?:data|base64|image_url|url)":")(?:data:[\w.+-]{1,40}/[\w.+-]{1,40};base64,)?[A-Za-z0-9+/]{4096,}={0,2}"'
)


def parse_json(data: bytes) -> Any:
    """Return the value of JSON text in UTF-8; invalid bytes become U+FFFD, and a byte order mark is dropped.

    An image in long text is replaced by an empty string. Integers beyond 64 bits may become floats.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
        MemoryError: it is too large.
    """
    if len(data) > _LONGEST:
        if any(map(data.__contains__, _PICTURE_KEYS)):
            data = _PICTURE.sub(rb'\1"', data)
        if len(data) > _LONGEST:
            return _parse_slowly(data)
    try:
        return orjson.loads(data)
    except ValueError:
        # orjson rejects lone surrogates, NaN and deep nesting, which agents write.
        return _parse_slowly(data)


def _parse_slowly(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))


def is_object(data: bytes) -> bool:
    """Return True if the data is one complete JSON object."""
    if not data.startswith(b"{") or not data.rstrip().endswith(b"}"):
        return False
    try:
        return isinstance(parse_json(data), dict)
    except (ValueError, RecursionError, MemoryError):
        return False


# -- Values of an expected form, whatever the agent wrote.


def object_in(value: object) -> dict[str, Any]:
    """Return an object from a parsed file; {} for any other value."""
    return value if isinstance(value, dict) else {}


def objects_in(values: object) -> list[dict[str, Any]]:
    """Return the objects in a list from a parsed file; [] for any other value."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def texts_in(content: object, type_: str = "") -> list[str]:
    """Return the texts of a message's content: the string itself, or the texts of its parts.

    Args:
        type_: only parts of this type count; "" for any.
    """
    if isinstance(content, str):
        return [content]
    parts = [part for part in objects_in(content) if not type_ or part.get("type") == type_]
    return [text for part in parts if isinstance(text := part.get("text"), str)]


# -- Text and ids in a form that SQLite can store.


#: Maximum length of a uuid, session id or tool id, in characters.
MAX_ID_CHARS = 128
#: The text of a prompt that consists only of a picture.
PICTURE = "[image]"
#: Characters that SQLite cannot store as text: lone surrogates, and NUL, which would terminate the string.
_UNSTORABLE = lazy_regex("[\ud800-\udfff\x00]")


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
    """Return a parsed JSON value with all strings and keys made storable. Raises RecursionError for deep nesting."""
    match value:
        case str():
            return storable(value)
        case list():
            return [storable_value(part) for part in value]
        case dict():
            return {storable(str(name)): storable_value(part) for name, part in value.items()}
    return value


def storable_text(value: object) -> str:
    """Return a string from a parsed file in storable form; "" for any other value."""
    return storable(value) if isinstance(value, str) else ""


def storable_id(value: object) -> str:
    """Return an id from a parsed file in storable form; "" for any other value, or if it is too long."""
    return storable(value) if isinstance(value, str) and len(value) <= MAX_ID_CHARS else ""
