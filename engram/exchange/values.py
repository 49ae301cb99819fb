"""Values in the rows of other programs, whatever type they have there. Nothing here raises."""

from __future__ import annotations

import json
import math

from engram.clock import parse_time_ms

#: Times outside of these are no times of a memory: 2001 and 2100, in seconds since 1970.
_FIRST_SECOND, _LAST_SECOND = 978_307_200, 4_102_444_800


def clean_text(value: object) -> str:
    """Return a text without NULs and blanks around it; "" for anything that is none."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value.replace("\0", "").strip() if isinstance(value, str) else ""


def text_list(value: object) -> list[str]:
    """Return the texts of a JSON list; a text that is no list is the only one."""
    text = clean_text(value)
    try:
        values = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return [text]
    if not isinstance(values, list):
        return [text]
    return list(dict.fromkeys(part for part in map(clean_text, values) if part))


def time_ms(value: object) -> int | None:
    """Return a time in milliseconds since 1970, from milliseconds, seconds or a written time; None if it is none."""
    if isinstance(value, bytes | str):
        text = clean_text(value)
        try:
            number = float(text)
        except ValueError:
            return parse_time_ms(text.replace(" ", "T", 1))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        return None
    if not math.isfinite(number):
        return None
    for factor in (1000, 1):
        at_ms = int(number * factor)
        if _FIRST_SECOND * 1000 <= at_ms <= _LAST_SECOND * 1000:
            return at_ms
    return None


def count_of(value: object) -> int:
    """Return a number of times; 0 for anything that is none."""
    return max(0, int(value)) if isinstance(value, int | float) and math.isfinite(value) else 0
