"""The archive: archived memories, counts of forgotten items, and what a purge would delete."""

from __future__ import annotations

from itertools import groupby

from engram.consolidation.undo import undo_last_change
from engram.enums import Actor
from engram.errors import BadRequest
from engram.forgetting.purge import ARCHIVED_DAYS
from engram.memories.save import revive_memory
from engram.models.memories.tombstones import TombstoneKind, count_tombstones
from engram.models.search.memory_lists import Selection, State, browse
from engram.page.view import Answer, Notice, PageRequest, Route, View, ask_command
from engram.reports.memory_report import done_of

#: Maximum number of memories and days that are listed.
MAX_ROWS, MAX_DAYS = 30, 30
#: Kind of tombstone → the label of its count.
KINDS = {
    TombstoneKind.MEMORY: "memories forgotten",
    TombstoneKind.TURN: "turns forgotten",
    TombstoneKind.PROJECT: "projects forgotten",
    TombstoneKind.PURGED: "memories purged",
}


def revive(request: PageRequest) -> Answer:
    episode_id = request.path["episode_id"]
    revive_memory(request.store, episode_id, actor=Actor.USER)
    return show(request, Notice(f"“{episode_id}” is restored.", ("gone", "undo", episode_id)))


def undo(request: PageRequest) -> Answer:
    episode_id = request.path["episode_id"]
    plan = undo_last_change(request.store, request.settings, episode_id, actor=Actor.USER)
    return show(request, Notice(f"Undone: {done_of(plan.change)}.", ("gone", "undo", episode_id)))


def preview_purge(request: PageRequest) -> Answer:
    """Show what a purge would delete; only a command can purge."""
    days = request.query.get("days", str(ARCHIVED_DAYS))
    if not days.isdecimal() or len(days) > 5:
        raise BadRequest("give the number of days")
    plan = ask_command(request.settings, "purge", "--archived", days)
    return Answer("parts/purge.html", {"plan": plan, "days": int(days)})


def show(request: PageRequest, notice: Notice | None = None) -> Answer:
    offset = request.number("from")
    selection = Selection(project_id=request.project_id, state=State.ARCHIVED)
    listing = browse(request.store, selection, limit=MAX_ROWS, offset=offset)
    total = 0 if listing.facets is None else listing.facets.total
    counts = count_tombstones(request.store, tuple(KINDS))
    days = [
        (day, [(KINDS[tombstone.kind], tombstone.number) for tombstone in of_day])
        for day, of_day in groupby(counts, lambda tombstone: tombstone.day)
    ]
    values = {
        "archived": listing.memories,
        "total": total,
        "next": offset + MAX_ROWS if offset + MAX_ROWS < total else 0,
        "days": days[:MAX_DAYS],
        "purge_days": ARCHIVED_DAYS,
    }
    return request.answer("gone.html", values, notice)


VIEW = View(
    name="gone",
    title="Archive",
    key="a",
    path="gone",
    is_more=True,
    routes=(
        Route("/gone", show),
        Route("/gone/purge", preview_purge, is_part=True, runs_command=True),
        Route("/gone/revive/{episode_id}", revive, method="POST"),
        Route("/gone/undo/{episode_id}", undo, method="POST"),
    ),
)
