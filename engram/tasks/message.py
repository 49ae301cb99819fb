"""Messages of the queue as JSON: a row can be read by eye, and a forged one can never run code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from engram.errors import BadRequest
from engram.tasks.library import Message

#: Longest message, in bytes; tasks carry ids, so a longer one is not ours.
MAX_MESSAGE_BYTES = 16_384
#: Longest text argument, in characters.
MAX_ARGUMENT_CHARS = 512
_SCALARS = (str, int, float, bool, type(None))
#: Types of the fields of a message that Huey relies on.
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "name": (str,),
    "eta": (datetime, type(None)),
    "retries": (int,),
    "retry_delay": (int, float),
    "priority": (int, float, type(None)),
    "args": (tuple,),
    "kwargs": (dict,),
    "on_complete": (Message, type(None)),
    "on_error": (Message, type(None)),
    "expires": (datetime, timedelta, int, float, type(None)),
    "expires_resolved": (datetime, type(None)),
    "timeout": (int, float, type(None)),
    "chord_config": (type(None),),
    "retry_backoff": (int, float),
}


class JsonSerializer:
    """Serializes what Huey stores as JSON: messages with their dates and time spans, and plain values."""

    def serialize(self, data: Any) -> bytes:
        """Return the bytes of a message or a plain value."""
        return json.dumps(_pack(data), separators=(",", ":"), sort_keys=True).encode()

    def deserialize(self, data: bytes) -> Any:
        """Return what ``serialize`` was given; lists come back as tuples.

        Raises:
            BadRequest: the bytes are not one of our messages.
        """
        data = bytes(data)
        if len(data) > MAX_MESSAGE_BYTES:
            raise BadRequest(f"a message of {len(data)} bytes is too long")
        try:
            return _unpack(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise BadRequest(f"not a message: {type(error).__name__}: {str(error)[:100]}") from error


def key_of(data: bytes) -> str | None:
    """Return what messages for the same task share, its name and arguments; None for one that waits for a time."""
    try:
        fields = json.loads(data)["message"]
        if fields["eta"] is not None:
            return None
        return json.dumps([fields["name"], fields["args"], fields["kwargs"]], separators=(",", ":"), sort_keys=True)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def name_of(data: bytes) -> str:
    """Return the name of a message's task; "" for bytes that are none."""
    try:
        return str(json.loads(data)["message"]["name"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def _pack(value: Any) -> Any:
    if isinstance(value, Message):
        return {"message": {name: _pack(part) for name, part in value._asdict().items()}}
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, timedelta):
        return {"seconds": value.total_seconds()}
    if isinstance(value, Mapping):
        return {"map": {str(name): _pack(part) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_pack(part) for part in value]
    if not isinstance(value, _SCALARS):
        raise BadRequest(f"a task argument of type {type(value).__name__} cannot be queued; tasks carry ids")
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_unpack(part) for part in value)
    if not isinstance(value, dict):
        return value
    (kind, content), *others = value.items()
    if others:
        raise ValueError("a value has two kinds")
    if kind == "message":
        return _checked(Message(**{name: _unpack(part) for name, part in content.items()}))
    if kind == "time":
        return datetime.fromisoformat(content)
    if kind == "seconds":
        return timedelta(seconds=content)
    if kind == "map":
        return {str(name): _unpack(part) for name, part in content.items()}
    raise ValueError(f"unknown kind {kind[:20]!r}")


def _checked(message: Message) -> Message:
    """Return the message if its fields have the types that Huey relies on. Raises ValueError."""
    for name, types in _FIELD_TYPES.items():
        if not isinstance(getattr(message, name), types):
            raise ValueError(f"its {name} is a {type(getattr(message, name)).__name__}")
    for time in (message.eta, message.expires_resolved):
        if time is not None and time.tzinfo is not None:
            raise ValueError("a time has a zone")
    for argument in (*message.args, *message.kwargs.values()):
        if not isinstance(argument, _SCALARS) or (isinstance(argument, str) and len(argument) > MAX_ARGUMENT_CHARS):
            raise ValueError("an argument is no id")
    return message
