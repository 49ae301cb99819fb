"""Branches of projects: whether they were merged, and which memories were learned on one that was not."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from peewee import JOIN, Query, fn

from engram.enums import BranchState, Kind, Scope, Source
from engram.models import tables
from engram.models.engine.packed import unpack_facts
from engram.models.engine.statement import RecordReader, in_json_list, prepared
from engram.models.engine.transaction import Reader, Tx, asks_records
from engram.models.memories.memory_records import IS_CURRENT, Memory, select_memories
from engram.trust.display import one_line

#: Maximum number of branches of a project that are kept, those of the latest turns.
MAX_BRANCHES = 200
#: Maximum length of the name of a branch that is shown, in characters.
MAX_BRANCH_CHARACTERS = 60
#: Kinds of memories that hold on every branch: they are about a person.
_UNBOUND_KINDS = (Kind.PREFERENCE.value,)


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A branch as it is stored."""

    project_id: int
    name: str
    state: BranchState
    tip: str = ""
    reported_commit: str = ""
    has_commits: bool = False
    compared_with: str = ""
    last_turn_ms: int = 0
    changed_at_ms: int = 0

    @property
    def is_default(self) -> bool:
        """True for the default branch of the repository."""
        return self.name in ("main", "master", self.compared_with.partition(" ")[0])


@dataclass(frozen=True, slots=True)
class BranchUse:
    """What turns say of a branch."""

    name: str
    last_turn_ms: int
    #: The last commit that they report; "" for none.
    commit: str


_BRANCHES = RecordReader(BranchRow, tables.Branch, readers={"state": BranchState.from_stored, "has_commits": bool})


def branches_used_since(store: Reader, project_id: int, since_ms: int) -> list[BranchUse]:
    """The branches on which turns took place since a time, each once."""
    uses: dict[str, BranchUse] = {}
    for row in store.fetch(_turns_since(project_id, since_ms)):
        commits = [commit for fact in unpack_facts(row.actions) if (commit := str(fact.get("commit", "")))]
        before = uses.get(row.branch)
        commit = commits[-1].split(" ", 1)[0] if commits else before.commit if before else ""
        uses[row.branch] = BranchUse(row.branch, int(row.started_at_ms), commit)
    return list(uses.values())


def put_branch(tx: Tx, branch: BranchRow) -> None:
    """Store what is known of a branch."""
    tx.run(
        tables.Branch.insert(
            project=branch.project_id,
            name=branch.name,
            state=branch.state.value,
            tip=branch.tip,
            reported_commit=branch.reported_commit,
            has_commits=branch.has_commits,
            compared_with=branch.compared_with,
            last_turn_ms=branch.last_turn_ms,
            changed_at_ms=branch.changed_at_ms,
        ).on_conflict_replace()
    )


def drop_branches(tx: Tx, project_id: int, names: Iterable[str]) -> None:
    """Delete branches of a project."""
    branch = tables.Branch
    listed = json.dumps(sorted(names))
    tx.run(branch.delete().where((branch.project == project_id) & in_json_list(branch.name, listed)))


def open_branches(store: Reader, memory_refs: Collection[int]) -> dict[int, str]:
    """Row id of a memory → the branch that it was learned on, for memories of branches that were not merged.

    A memory is left out if one of its turns took place elsewhere, if it holds everywhere or is a preference, or if a
    person saved it.
    """
    branches: dict[int, str] = {}
    elsewhere: set[int] = set()
    for row in store.fetch(_branches_of_memories(json.dumps(sorted(memory_refs)))) if memory_refs else ():
        if row.state == BranchState.OPEN:
            branches[row.episode_ref] = row.branch
        else:
            elsewhere.add(row.episode_ref)
    return {episode_ref: branch for episode_ref, branch in branches.items() if episode_ref not in elsewhere}


def unmerged_branch(store: Reader, episode_ref: int, asked_on: str) -> str:
    """Return the branch that a memory was learned on, if it was not merged and the asker works elsewhere; else ""."""
    branch = open_branches(store, [episode_ref]).get(episode_ref, "")
    return "" if branch == asked_on else branch


def branches_of_memories(store: Reader, memory_refs: Collection[int]) -> dict[int, set[str]]:
    """Row id of a memory → the branches that its turns took place on; "" for outside a repository."""
    branches: dict[int, set[str]] = {}
    for row in store.fetch(_turn_branches(json.dumps(sorted(memory_refs)))):
        branches.setdefault(row.episode_ref, set()).add(row.branch)
    return branches


def memories_on_branch(store: Reader, project_id: int, name: str) -> list[Memory]:
    """Current memories of a project of which a turn took place on a branch."""
    evidence, turn, memory = tables.Evidence, tables.Turn, tables.Memory
    on_branch = (
        evidence.select(evidence.memory)
        .join(turn, on=turn.id == evidence.turn_id)
        .where((turn.project == project_id) & (turn.branch == name))
    )
    return select_memories(store, IS_CURRENT & (memory.project == project_id) & memory.id.in_(on_branch))


@asks_records(_BRANCHES)
def branches_of_project(project_id: int) -> Query:
    """The branches of a project that are known, the latest used first."""
    branch = tables.Branch
    return _BRANCHES.select().where(branch.project == project_id).order_by(branch.last_turn_ms.desc(), branch.name)


@prepared
def _turns_since(project_id: int, since_ms: int) -> Query:
    turn = tables.Turn
    columns = (turn.branch, turn.started_at_ms, turn.actions)
    is_recent = (turn.project == project_id) & (turn.started_at_ms >= since_ms) & (turn.branch != "")
    return turn.select(*columns).where(is_recent).order_by(turn.started_at_ms)


@prepared
def _turn_branches(memory_refs: str) -> Query:
    evidence, turn = tables.Evidence, tables.Turn
    query = evidence.select(evidence.memory.alias("episode_ref"), turn.branch).distinct()
    return query.join(turn, on=turn.id == evidence.turn_id).where(in_json_list(evidence.memory, memory_refs))


@prepared
def _branches_of_memories(memory_refs: str) -> Query:
    evidence, turn, branch, memory = tables.Evidence, tables.Turn, tables.Branch, tables.Memory
    is_bound = (
        (memory.scope == Scope.PROJECT.value)
        & (memory.source == Source.AUTO.value)
        & (memory.is_pinned == 0)
        & memory.kind.not_in(_UNBOUND_KINDS)
    )
    return (
        evidence.select(evidence.memory.alias("episode_ref"), turn.branch, fn.COALESCE(branch.state, "").alias("state"))
        .join(turn, on=turn.id == evidence.turn_id)
        .join_from(evidence, memory, on=memory.id == evidence.memory)
        .join_from(
            evidence, branch, JOIN.LEFT_OUTER, on=(branch.project == turn.project) & (branch.name == turn.branch)
        )
        .where(in_json_list(evidence.memory, memory_refs) & is_bound)
        .order_by(evidence.memory, turn.started_at_ms)
    )


def branch_remark(branch: str) -> str:
    """Return what is said of a memory whose branch was not merged, such as ``on branch feat/x, not merged``."""
    return branch_place(branch, is_unmerged=True) if branch else ""


def branch_place(branch: str, *, is_unmerged: bool) -> str:
    """Return the words for a branch where something took place."""
    return f"on branch {one_line(branch, MAX_BRANCH_CHARACTERS)}{', not merged' * is_unmerged}"
