"""What the user's own files state: which file says the same thing as a text, or contradicts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engram.models.engine.transaction import Store
from engram.models.projects.notes import standing_files_of, standing_watermark
from engram.text.subject import StandingText

#: Maximum number of projects whose statements are cached.
MAX_CACHED = 20


@dataclass(frozen=True, slots=True)
class _Known:
    watermark: tuple[int, int, int]
    text: StandingText


_cache: dict[tuple[str, int | None], _Known] = {}


def standing_text(store: Store, project_id: int | None) -> StandingText:
    """Return the text of the user's files that apply in a project; for None, only of those that apply everywhere.

    For example, ``standing_text(store, project_id).file_saying(summary)`` returns the file that says the same thing as
    a memory.
    """
    key, watermark = (str(store.path), project_id), standing_watermark(store)
    known = _cache.get(key)
    if known is None or known.watermark != watermark:
        files = [(file.name, file.text) for file in standing_files_of(store, project_id)]
        known = _Known(watermark, StandingText(files))
        _cache.pop(key, None)
        while len(_cache) >= MAX_CACHED:
            _cache.pop(next(iter(_cache)), None)
        _cache[key] = known
    return known.text


def standing_of(store: Store, project_id: int | None) -> Callable[[str], tuple[str, str]]:
    """Return a function: text → (file that says the same thing, contradicting statement of a file), each "" if none."""
    standing = standing_text(store, project_id)

    def look_up(text: str) -> tuple[str, str]:
        name = standing.file_saying(text)
        return name, "" if name else standing.contradicting(text)

    return look_up
