"""Read whether the branches on which sessions took place were merged, and confirm what was learned on a merged one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engram.consolidation.context import Context
from engram.enums import Actor, BranchState, Kind, Scope, Status
from engram.models import branches, pauses
from engram.models.branches import MAX_BRANCHES, BranchRow
from engram.models.episode_changes import change_episode
from engram.models.episodes import find_episode
from engram.models.projects import ProjectRow, list_projects
from engram.models.recent import last_turn_of_project_ms
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.settings import Settings
from engram.transcripts.git_branches import (
    KnownBranch,
    Refs,
    counts_as_merged,
    read_branch_state,
    read_refs,
)
from engram.transcripts.project import is_excluded

#: Branches without a turn for this time are not read for the first time, in milliseconds.
MAX_AGE_MS = 90 * 86_400_000
#: A project is read again while its last turn is younger than this, in milliseconds. Consolidation reads all others.
LIVELY_MS = 3_600_000
#: Time for all projects of one call, in seconds; the rest is read by the next one.
MAX_SECONDS = 10.0
#: Kinds that a merge confirms: what was done and decided is now part of the code.
_CONFIRMED_KINDS = (Kind.DECISION, Kind.FIX, Kind.FACT)
#: The confidence that a memory has at least, once its branch was merged.
_MERGED_CONFIDENCE = 0.75


def read_branches(store: Store, settings: Settings, *, only_lively: bool) -> int:
    """Read the branches of projects whose repositories are here; returns the number of branches that changed.

    Args:
        store: the open memory.
        settings: excluded folders are not read.
        only_lively: leave out projects without a turn in the last hour.
    """
    until_seconds = store.clock.steady_seconds() + MAX_SECONDS
    paused = pauses.paused_scopes(store)
    changed = 0
    for project in () if "" in paused else list_projects(store):
        if store.clock.steady_seconds() > until_seconds:
            break
        is_lively = not only_lively or store.now_ms() - last_turn_of_project_ms(store, project.id) < LIVELY_MS
        if is_lively and project.identity not in paused and not is_excluded(project.root, settings.exclude):
            changed += read_branches_of_project(store, project)
    return changed


def confirm_merged(context: Context) -> None:
    """Read the branches of every project. What git says of branches is no change that a run undoes."""
    if not context.is_dry:
        read_branches(context.store, context.settings, only_lively=False)


def read_branches_of_project(store: Store, project: ProjectRow) -> int:
    """Read the branches of one project; returns the number of branches that changed."""
    root = Path(project.root)
    if not project.root or not root.is_absolute() or not (root / ".git").exists():
        return 0
    stored = branches.branches_of_project(store, project.id)
    wanted = _wanted_branches(store, project.id, stored)
    refs = read_refs(root) if wanted else None
    if refs is None:
        return 0
    known = {branch.name: branch for branch in stored}
    read = [_read_branch(root, refs, branch) for branch in wanted[:MAX_BRANCHES]]
    news = [branch for branch in read if known.get(branch.name) != branch]
    gone = known.keys() - {branch.name for branch in read}
    if not news and not gone:
        return 0
    with store.transaction() as tx:
        branches.drop_branches(tx, project.id, gone)
        for branch in news:
            is_merged_now = _store_branch(tx, branch, known.get(branch.name))
            if is_merged_now and not counts_as_merged(branch.name, refs.default):
                _confirm_memories(tx, branch)
    return len(news)


def _wanted_branches(store: Store, project_id: int, stored: Sequence[BranchRow]) -> list[BranchRow]:
    """Return the known branches and those of newer turns, the latest used first."""
    since_ms = max((branch.last_turn_ms for branch in stored), default=store.now_ms() - MAX_AGE_MS)
    wanted = {branch.name: branch for branch in stored}
    for use in branches.branches_used_since(store, project_id, since_ms):
        branch = wanted.get(use.name) or BranchRow(project_id, use.name, BranchState.UNKNOWN)
        wanted[use.name] = replace(
            branch,
            last_turn_ms=max(branch.last_turn_ms, use.last_turn_ms),
            reported_commit=use.commit or branch.reported_commit,
            has_commits=branch.has_commits or bool(use.commit),
        )
    return sorted(wanted.values(), key=lambda branch: -branch.last_turn_ms)


def _read_branch(root: Path, refs: Refs, branch: BranchRow) -> BranchRow:
    """Ask git about a branch, unless nothing changed since it was asked."""
    tip = refs.tip_of(branch.name)
    compared_with = " ".join(
        [refs.default, *refs.main_tips, "gone" if refs.has_lost_upstream(branch.name) else "", tip or "deleted"]
    )
    if compared_with == branch.compared_with:
        return branch
    reported = (branch.reported_commit,) if branch.reported_commit else ()
    reading = read_branch_state(root, refs, KnownBranch(branch.name, branch.tip, branch.has_commits, reported))
    is_proved = branch.state is BranchState.MERGED and reading.state is BranchState.UNKNOWN
    return replace(
        branch,
        # A branch that was seen merged stays merged when it is deleted.
        state=BranchState.MERGED if is_proved else reading.state,
        tip=reading.tip,
        has_commits=branch.has_commits or reading.has_commits,
        compared_with=compared_with,
    )


def _store_branch(tx: Tx, branch: BranchRow, before: BranchRow | None) -> bool:
    """Store a branch; returns True if it was not known to be merged before, and is now."""
    was_merged = before is not None and before.state is BranchState.MERGED
    is_changed = before is None or before.state is not branch.state
    branches.put_branch(tx, replace(branch, changed_at_ms=tx.now_ms()) if is_changed else branch)
    return branch.state is BranchState.MERGED and not was_merged


def _confirm_memories(tx: Tx, branch: BranchRow) -> None:
    """Confirm what was learned on a branch that was merged."""
    for listed in branches.episodes_on_branch(tx, branch.project_id, branch.name):
        episode = find_episode(tx, listed.episode_id)
        if episode is None or episode.kind not in _CONFIRMED_KINDS or episode.scope != Scope.PROJECT:
            continue
        if episode.suspect or not episode.is_current:
            continue
        change_episode(
            tx,
            episode,
            "confirm",
            f"branch {branch.name} was merged",
            actor=Actor.TIDYING,
            status=Status.ACTIVE,
            confirmations=episode.confirmations + 1,
            confidence=max(episode.confidence, _MERGED_CONFIDENCE),
        )
