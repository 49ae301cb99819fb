"""One memory: what it says, where it comes from, why it was shown, and its life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.consolidation.undo import UndoPlan, plan_undo
from engram.errors import BadRequest
from engram.memories.save import require_episode
from engram.models.branches import branch_remark
from engram.models.entries import is_quotation_id
from engram.models.episodes import Episode, find_episode
from engram.models.outcomes import Outcome
from engram.models.passage_rows import require_quotation
from engram.models.recent import prompt_near
from engram.models.store import Store
from engram.page.features import feature_bars
from engram.page.view import Answer, PageRequest, Redirect, Route, View
from engram.page.views import memory_changes
from engram.recollection.why import why_memory
from engram.reports.hub import where_shared
from engram.reports.memory import report_memory, who_changed
from engram.reports.origin import source_turns
from engram.reports.verdicts import REASONS

#: Moments at which it was considered that are shown.
MAX_MOMENTS = 4
#: Latest steps of its history that are shown.
MAX_STEPS = 10
#: Action of the history → what happened, for people.
ACTIONS: Mapping[str, str] = {
    "extract": "kept from what was said",
    "save": "saved",
    "edit": "edited",
    "pin": "pinned",
    "unpin": "unpinned",
    "bad": "judged wrong",
    "helpful": "judged helpful",
    "outdated": "judged outdated",
    "take back": "judgement taken back",
    "supersede": "replaced",
    "correct": "written as a correction",
    "archive": "archived",
    "merge": "another one was merged into it",
    "restore": "in force again",
    "release": "has another successor",
    "confirm": "confirmed",
    "evidence": "rests on more entries",
    "pack": "its text was compressed",
    "weaken": "aged",
    "graduate": "became a line of MEMORY.md",
    "undo": "undone",
    "redo": "the undo was undone",
    "erase": "forgotten words were erased from it",
    "move": "moved to another project",
    "rescope": "holds in its project only",
}


def show(request: PageRequest) -> Answer | Redirect:
    """Show a memory on a page of its own, or beside a list; of a quotation, the turn that it was said in."""
    if is_quotation_id(request.path["episode_id"]):
        stored = require_quotation(request.store, request.path["episode_id"]).stored
        return Redirect(("s", stored.turn.session_id, "t", str(stored.id)))
    episode = require_episode(request.store, request.path["episode_id"])
    block = "detail" if request.is_fragment else ""
    return Answer("memory.html", memory_values(request, episode), block=block)


def memory_values(request: PageRequest, episode: Episode) -> dict[str, Any]:
    """Return everything that the template shows of a memory."""
    store = request.store
    report = report_memory(store, episode)
    why = why_memory(store, episode.episode_id, MAX_MOMENTS)
    return {
        "episode": episode,
        "successor": find_episode(store, episode.superseded_by) if episode.superseded_by else None,
        "report": report,
        "branch_remark": branch_remark(report.branch),
        "sources": source_turns(store, episode),
        "shown_times": why.shown,
        "moments": [_moment(store, outcome) for outcome in why.outcomes],
        "steps": [
            (step, ACTIONS.get(step.action, step.action), who_changed(step, episode.extractor))
            for step in report.history[: -MAX_STEPS - 1 : -1]
        ],
        "hidden_steps": max(0, len(report.history) - MAX_STEPS),
        "undo": _undo_plan(store, episode),
        "shares": where_shared(store, episode),
        "form": "",
    }


def _moment(store: Store, outcome: Outcome) -> dict[str, Any]:
    """Return a moment at which it was considered, with the words of the prompt if they are still there."""
    candidate = outcome.considered[0]
    return {
        "outcome": outcome,
        "candidate": candidate,
        "prompt": prompt_near(store, outcome.session_id, outcome.at_ms),
        "reason": REASONS[candidate.verdict],
        "bars": feature_bars(candidate.features)[:4],
    }


def _undo_plan(store: Store, episode: Episode) -> UndoPlan | None:
    try:
        return plan_undo(store, episode)
    except BadRequest:
        return None


VIEW = View(
    name="memory",
    title="Memory",
    routes=(Route("/m/{episode_id}", show), *memory_changes.ROUTES),
)
