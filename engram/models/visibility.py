"""Which project may see a memory, and what of it."""

from __future__ import annotations

from engram.enums import Scope, Source
from engram.models.episodes import Episode


def may_see(episode: Episode, project_id: int) -> bool:
    """True where a project may see a memory: it is global, or the project's own."""
    return episode.scope == Scope.GLOBAL or episode.project_id == project_id


def may_stand_for(newer: Episode, older: Episode) -> bool:
    """True where a memory may replace another: it holds everywhere, or was made in the same project."""
    return newer.scope == Scope.GLOBAL or older.project_id == newer.project_id


def may_see_context(episode: Episode, project_id: int) -> bool:
    """True where a project may also see what a memory was made from: its content, facts and evidence.

    A global memory that was made in another project tells its one line there, and nothing of that project.
    """
    return episode.project_id in (None, project_id) or (
        episode.scope == Scope.GLOBAL and episode.source == Source.MANUAL
    )
