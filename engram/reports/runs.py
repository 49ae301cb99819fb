"""The latest runs: consolidations, and what extractions, saves and decisions changed."""

from __future__ import annotations

from typing import Any

from engram.clock import iso_time
from engram.models.runs import Run


def run_to_json(run: Run) -> dict[str, Any]:
    """Return a run for scripts."""
    return {
        "run": run.id,
        "kind": run.kind,
        "state": run.state,
        "started_at": iso_time(run.started_at_ms) if run.started_at_ms else None,
        "changes": len(run.report.get("lines", [])),
    }
