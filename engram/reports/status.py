"""The status of everything for scripts: health, figures of each project, pauses, places."""

from __future__ import annotations

from typing import Any

from engram.models import counts
from engram.reports.health import Health, home_bytes
from engram.settings import Settings


def status_to_json(
    health: Health,
    projects: list[counts.ProjectTotals],
    agents: dict[str, int],
    paused: list[str],
    settings: Settings,
) -> dict[str, Any]:
    """The JSON of ``engram status``."""
    totals = health.totals
    return {
        "worker": health.worker.as_json(),
        "watcher": health.watcher.as_json(),
        "turns": totals.turns,
        "episodes": totals.episodes,
        "stages": {name: stage.as_json() for name, stage in health.stages.items()},
        "sessions": totals.sessions,
        "agents": agents,
        "transcripts": totals.transcripts,
        "archived": totals.archived,
        "suspects": totals.suspects,
        "injections": totals.injections,
        "bad_lines": totals.bad_lines,
        "unreadable_files": totals.unreadable,
        "unread": {"files": health.unread.files, "bytes": health.unread.bytes},
        "missing_vectors": health.missing_vectors,
        "lag_seconds": round(health.lag_seconds, 1),
        "work": {work.kind: {"waiting": work.waiting, "due": work.due, "dead": work.dead} for work in health.work},
        "projects": {
            project.name: {"sessions": project.sessions, "turns": project.turns, "episodes": project.episodes}
            for project in projects
        },
        "paused": paused,
        "home": str(settings.home),
        "home_bytes": home_bytes(settings.home),
        "claude_folder": str(settings.claude_folder),
    }
