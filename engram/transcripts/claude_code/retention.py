"""When Claude Code deletes its transcripts, and which ones are next."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import read_regular
from engram.transcripts.claude_code import AGENT
from engram.transcripts.source import Source

#: Days for which Claude Code keeps a transcript, unless ``cleanupPeriodDays`` says otherwise.
DEFAULT_CLEANUP_DAYS = 30
#: A transcript is about to be deleted if that happens within this many days.
SOON_DAYS = 7
_DAY_NS = 86_400 * 10**9
_MAX_SETTINGS_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """What Claude Code is about to delete."""

    #: Days after its last change until a transcript is deleted.
    days: int
    #: Sessions of Claude Code that there are.
    sessions: int
    #: Those that are deleted within ``SOON_DAYS``, the oldest first.
    expiring: tuple[Source, ...]


def read_cleanup_days(claude_folder: Path) -> int:
    """Return ``cleanupPeriodDays`` of the user's settings, in days; the default where it is missing or unreadable."""
    try:
        settings = json.loads(read_regular(claude_folder / "settings.json", _MAX_SETTINGS_BYTES) or b"{}")
        days = settings.get("cleanupPeriodDays", DEFAULT_CLEANUP_DAYS)
    except (ValueError, AttributeError, RecursionError):
        return DEFAULT_CLEANUP_DAYS
    is_number = isinstance(days, int | float) and not isinstance(days, bool)
    return max(0, int(days)) if is_number else DEFAULT_CLEANUP_DAYS


def find_expiring(sources: Iterable[Source], folders: Sequence[Path], now_seconds: float) -> Retention:
    """Return which transcripts Claude Code deletes within ``SOON_DAYS``, by their last change.

    Args:
        sources: the transcripts of all agents.
        folders: the configuration folders of Claude Code, each with a time of its own; the first one's is returned.
        now_seconds: the time, in seconds since 1970.
    """
    days = {folder: read_cleanup_days(folder) for folder in folders}

    def is_expiring(source: Source) -> bool:
        own = next((folder for folder in folders if source.path.is_relative_to(folder)), folders[0])
        return source.changed_at_ns < int(now_seconds * 10**9) - (days[own] - SOON_DAYS) * _DAY_NS

    sessions = [source for source in sources if source.agent == AGENT and not source.is_subagent]
    expiring = sorted((source for source in sessions if is_expiring(source)), key=lambda source: source.changed_at_ns)
    return Retention(days[folders[0]], len(sessions), tuple(expiring))
