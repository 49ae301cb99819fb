"""Parse JSON out of an agent's files. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

#: Longest text that orjson parses, in bytes: it keeps the memory that a longer one took.
_LONGEST = 64 * 1024
#: A picture, as agents write it into a line: more than 3 KB in base64.
_PICTURE = re.compile(
    rb'("(?:data|base64|image_url|url)":")(?:data:[\w.+-]{1,40}/[\w.+-]{1,40};base64,)?[A-Za-z0-9+/]{4096,}={0,2}"'
)


def parse_json(data: bytes) -> Any:
    """Return the value of JSON text in UTF-8; bytes that are no UTF-8 become U+FFFD, and a byte order mark is left out.

    A picture in a long text is left out: "" stands in its place. Integers beyond 64 bits may come as floats.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
        MemoryError: it is too large.
    """
    if len(data) > _LONGEST:
        data = _PICTURE.sub(rb'\1"', data)
        if len(data) > _LONGEST:
            return _parse_slowly(data)
    try:
        return orjson.loads(data)
    except ValueError:
        # It refuses lone surrogates, NaN and deep nesting, which agents write.
        return _parse_slowly(data)


def _parse_slowly(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
