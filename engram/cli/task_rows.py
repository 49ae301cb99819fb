"""Tables of work and runs, and the messages of the queue, as ``engram tasks`` prints them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engram.cli.output import one_line, print_table, span
from engram.cli.workspace import Workspace
from engram.errors import EngramError


def queue_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the messages in the queue; none if there is no queue: it only notifies the worker."""
    if not workspace.places.queue_db.exists():
        return []
    from engram.tasks.message import JsonSerializer
    from engram.tasks.queue import huey

    huey.bind(workspace.places, workspace.settings.sqlite_driver)
    rows: list[dict[str, Any]] = []
    for data in huey.storage.waiting():
        row = {"id": "?", "name": "?", "args": [], "state": "queued", "attempts": 0, "error": None}
        try:
            message = JsonSerializer().deserialize(data)
            row |= {"id": message.id, "name": message.name, "args": list(message.args)}
        except EngramError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def print_work(rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    """Print pieces of work and messages as a table."""
    print_table(
        ["id", "name", "about", "state", "due", "tries#", "last error"],
        [
            (
                row["id"][:8],
                row["name"],
                _about(row["args"]),
                f"running {span(row['running_seconds'])}" if row["state"] == "running" else row["state"],
                row.get("due_at") or "–",
                row["attempts"],
                one_line(row["error"] or "", 80),
            )
            for row in rows
        ],
        empty=empty,
    )


def print_runs(rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    """Print runs of tasks as a table."""
    print_table(
        ["started", "name", "about", "state", "took", "outcome"],
        [
            (
                row["started_at"],
                row["name"],
                _about(row["args"]),
                row["state"] if row["times"] == 1 else f"{row['state']} ×{row['times']}",
                "–" if row["duration_ms"] is None else _duration(row["duration_ms"]),
                one_line(row["outcome"], 80),
            )
            for row in rows
        ],
        empty=empty,
    )


def _about(args: Collection[object]) -> str:
    return one_line(", ".join(map(str, args)), 14)


def _duration(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 10_000 else span(milliseconds / 1000)
