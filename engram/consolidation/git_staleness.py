"""Use git to mark memories as stale if their files changed a lot or are gone, and confirm those of merged branches."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from engram.consolidation.step_context import Context
from engram.enums import Actor, BranchState, Kind, Scope, Status
from engram.ingest.session_project import why_not
from engram.models.engine.transaction import Store, Tx
from engram.models.memories import branches, memory_records, watermarks
from engram.models.memories.branches import MAX_BRANCHES, BranchRow
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.projects.projects import ProjectRow, list_projects
from engram.models.sessions.recent_work import last_turn_of_project_ms
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row, turns_of_session
from engram.models.work import work
from engram.settings import Settings
from engram.system.clock import day_of
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.git_commands import (
    KnownBranch,
    Refs,
    counts_as_merged,
    read_branch_state,
    read_log,
    read_refs,
    run_git,
)
from engram.transcripts.project import is_excluded
from engram.trust.display import number_of

#: Kinds that describe the code and become stale when it changes.
_BOUND_KINDS = (Kind.FACT, Kind.FIX, Kind.STATE, Kind.DEAD_END)
#: Kinds that become stale only when a file is deleted. Preferences never become stale because of a file.
_OUTLASTING_KINDS = (Kind.DECISION,)
#: Words that mean removal. A decision to delete a file is not stale when the file is gone.
_REMOVES = lazy_regex(
    r"\b(?:remov|delet|drop|retir|replac|renam|mov|migrat|abandon|discard)\w*|"
    r"\b(?:thrown?|goes|go|taken?) (?:away|out)\b|\b(?:gone|no longer)\b",
    re.IGNORECASE,
)
#: A file has changed a lot if at least this many lines, and at least this share of its lines, have changed.
MIN_CHANGED_LINES = 40
MIN_CHANGED_SHARE = 0.5
#: Maximum duration of a git call, in seconds.
MAX_GIT_SECONDS = 10.0
#: Maximum number of commits to read.
_MAX_COMMITS = 3_000
#: Maximum size of a file for its lines to be counted, in bytes.
_MAX_FILE_BYTES = 4_000_000
_NUMSTAT = lazy_regex(r"(\d+)\t(\d+)\t(.+)")


@dataclass(frozen=True, slots=True)
class FileChange:
    at_ms: int
    #: Number of lines added and removed.
    lines: int


def mark_stale(context: Context) -> None:
    """Mark stale memories in every project with a readable folder, except in repositories that have not changed."""
    waiting: dict[int, list[int]] = {}
    for memory in context.current_memories():
        if _is_bound(memory) and not memory.stale_reason and memory.project_id is not None:
            waiting.setdefault(memory.project_id, []).append(memory.id)
    projects = list_projects(context.store)
    # Each run begins with a different project, in case there isn't enough time for all of them.
    start = (context.run_id or 0) % max(1, len(projects))
    heads = watermarks.load_heads(context.store)
    for project in [*projects[start:], *projects[:start]]:
        if context.is_over:
            return
        root = Path(project.root)
        exists = bool(project.root) and root.is_absolute() and os.path.exists(root / ".git")
        if project.id in waiting and exists and not is_excluded(project.root, context.settings.exclude):
            state = f"{head_of(project.root)} {max(waiting[project.id])}"
            if context.changed is not None and heads.get(str(project.id)) == state:
                continue
            _mark_project(context, project, list(context.read_current(waiting[project.id])))
            heads[str(project.id)] = state
            if not context.is_dry:
                with context.store.transaction() as tx:
                    watermarks.save_heads(tx, heads)


def _is_bound(memory: Memory) -> bool:
    is_outlasting = memory.kind in _OUTLASTING_KINDS and not _REMOVES.search(memory.summary)
    return memory.kind in _BOUND_KINDS or is_outlasting


def _mark_project(context: Context, project: ProjectRow, waiting: Sequence[Memory]) -> None:
    bound = [
        (memory, since, files)
        for memory in waiting
        if (since := _since_ms(context, memory))
        if (files := bound_files(context, memory, project.root))
    ]
    if not bound:
        return
    changes = changes_since(project.root, min(since for _, since, _ in bound))
    for memory, since, files in bound:
        for name in files:
            late = [change for change in changes.get(name, ()) if change.at_ms > since]
            reason = why_stale(Path(project.root), name, late, only_gone=memory.kind in _OUTLASTING_KINDS)
            if reason:
                if context.change(memory, "stale", reason, stale_reason=reason, actor=Actor.TIDYING):
                    context.add_line(f"stale {memory.episode_id} ({reason})")
                break


def _since_ms(context: Context, memory: Memory) -> int:
    """Return the time after which commits count, which is after the memory's session.

    Return 0 if that session must not be read.
    """
    session = find_session(context.store, memory.session_id)
    if session is not None and why_not(context.store, session.session_id, context.settings):
        return 0
    return max(memory.holds_from_ms, session.last_at_ms if session else 0)


def bound_files(context: Context, memory: Memory, root: str) -> list[str]:
    """Return the project files that a memory names and its turn touched, relative to the root.

    For a decision, all turns of its sessions count, because decisions are carried out in later turns.
    """
    names = {PurePosixPath(entity.replace("\\", "/")).name.lower() for entity in memory.entities}
    names |= {word.strip(".,;:()`'\"").rpartition("/")[2].lower() for word in memory.summary.split()}
    files: dict[str, None] = {}
    for stored in _turns_of(context, memory):
        for file in stored.turn.files:
            path = PurePosixPath(file.replace("\\", "/"))
            for folder in (root, stored.turn.cwd):
                if path.name.lower() in names and path.is_relative_to(folder):
                    files[path.relative_to(folder).as_posix()] = None
                    break
    return list(files)


def _turns_of(context: Context, memory: Memory) -> list[StoredTurn]:
    evidence = memory_records.evidence_of(context.store, memory.id)
    if memory.kind not in _OUTLASTING_KINDS:
        return [turn for entry in evidence if entry.turn_id and (turn := load_turn_row(context.store, entry.turn_id))]
    names = dict.fromkeys(entry.session_id for entry in evidence)
    sessions = [session for name in names if (session := find_session(context.store, name))]
    turns = [turn for session in sessions for turn in turns_of_session(context.store, session.id)]
    # The session may also have worked in other projects, where a file with the same name is a different file.
    return [turn for turn in turns if turn.project_id == memory.project_id]


def why_stale(root: Path, name: str, changes: Sequence[FileChange], *, only_gone: bool = False) -> str:
    """Return why a memory about a file may be outdated; "" if the file has hardly changed.

    With ``only_gone``, changes to a file that still exists do not count.
    """
    if not changes:
        return ""
    last = day_of(max(change.at_ms for change in changes))
    lines_now = _count_lines(root / name)
    if lines_now is None:
        return f"{name} has been gone since {last}"
    if only_gone:
        return ""
    changed = sum(change.lines for change in changes)
    if changed < max(MIN_CHANGED_LINES, MIN_CHANGED_SHARE * lines_now):
        return ""
    return f"{name} changed a lot: {changed} lines in {number_of(len(changes), 'commit')}, last {last}"


def _count_lines(path: Path) -> int | None:
    """Return the number of lines in a file (0 if it is too large); None if it does not exist."""
    try:
        if not path.is_file():
            return None
        return 0 if path.stat().st_size > _MAX_FILE_BYTES else path.read_bytes().count(b"\n")
    except OSError:
        return None


def changes_since(root: str, since_ms: int) -> Mapping[str, list[FileChange]]:
    """Return path, relative to the root → changes since a time; {} if git is missing, fails or takes too long."""
    span = f"--since=@{since_ms // 1000}", f"--max-count={_MAX_COMMITS}"
    changes: dict[str, list[FileChange]] = {}
    for at_ms, line in read_log(root, *span, "--numstat", seconds=MAX_GIT_SECONDS):
        if match := _NUMSTAT.fullmatch(line):
            changes.setdefault(match[3], []).append(FileChange(at_ms, int(match[1]) + int(match[2])))
    return changes


def head_of(root: str) -> str:
    """Return the current commit of a repository; "" if there is none, or git is missing, fails or takes too long."""
    return (run_git(root, "rev-parse", "--verify", "HEAD", seconds=MAX_GIT_SECONDS) or "").strip()


# -- Find out whether the branches of sessions were merged, and confirm the memories of merged ones.

#: Maximum age of the last turn on a new branch for the branch to be read, in milliseconds.
MAX_AGE_MS = 90 * 86_400_000
#: How long a project is active after its last turn, in milliseconds. Inactive projects are left to consolidation.
LIVELY_MS = 3_600_000
#: Time limit of one call for all projects, in seconds; the next call reads the rest.
MAX_SECONDS = 10.0
#: Kinds that are confirmed by a merge, because the work and the decisions are then part of the code.
_CONFIRMED_KINDS = (Kind.DECISION, Kind.FIX, Kind.FACT)
#: Minimum confidence of a memory once its branch has been merged.
_MERGED_CONFIDENCE = 0.75


def read_branches(store: Store, settings: Settings, *, only_lively: bool) -> int:
    """Read the branches of all projects with a repository on this machine; return how many branches changed.

    Args:
        only_lively: True to leave out projects without a turn in the last hour.
    """
    until_seconds = store.clock.steady_seconds() + MAX_SECONDS
    paused = work.paused_scopes(store)
    changed = 0
    for project in () if "" in paused else list_projects(store):
        if store.clock.steady_seconds() > until_seconds:
            break
        is_lively = not only_lively or store.now_ms() - last_turn_of_project_ms(store, project.id) < LIVELY_MS
        if is_lively and project.identity not in paused and not is_excluded(project.root, settings.exclude):
            changed += read_branches_of_project(store, project)
    return changed


def confirm_merged(context: Context) -> None:
    """Read the branches of every project. Undoing the run does not revert the stored state of branches."""
    if not context.is_dry:
        read_branches(context.store, context.settings, only_lively=False)


def read_branches_of_project(store: Store, project: ProjectRow) -> int:
    """Read the branches of one project; return how many changed."""
    root = Path(project.root)
    if not project.root or not root.is_absolute() or not os.path.exists(root / ".git"):
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
            branches.put_branch(tx, branch)
            before = known.get(branch.name)
            was_merged = before is not None and before.state is BranchState.MERGED
            is_merged_now = branch.state is BranchState.MERGED and not was_merged
            if is_merged_now and not counts_as_merged(branch.name, refs.default):
                _confirm_memories(tx, branch)
    return len(news)


def _wanted_branches(store: Store, project_id: int, stored: Sequence[BranchRow]) -> list[BranchRow]:
    """Return the known branches and those of newer turns, most recently used first."""
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
    """Query git about a branch, unless nothing has changed since it was last queried."""
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
        # A branch that was merged still counts as merged after it is deleted.
        state=BranchState.MERGED if is_proved else reading.state,
        tip=reading.tip,
        has_commits=branch.has_commits or reading.has_commits,
        compared_with=compared_with,
    )


def _confirm_memories(tx: Tx, branch: BranchRow) -> None:
    for listed in branches.memories_on_branch(tx, branch.project_id, branch.name):
        memory = find_memory(tx, listed.episode_id)
        if memory is None or memory.kind not in _CONFIRMED_KINDS or memory.scope != Scope.PROJECT:
            continue
        if memory.suspect or not memory.is_current:
            continue
        change_memory(
            tx,
            memory,
            "confirm",
            f"branch {branch.name} was merged",
            actor=Actor.TIDYING,
            status=Status.ACTIVE,
            confirmations=memory.confirmations + 1,
            confidence=max(memory.confidence, _MERGED_CONFIDENCE),
        )
