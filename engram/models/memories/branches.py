"""Git branches of projects: whether they have been merged, and which memories come from unmerged ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass

from peewee import JOIN, Query, fn

from engram.enums import BranchState, Kind, Scope, Source
from engram.models import tables
from engram.models.engine.statement import RecordReader, grouped, in_json_list, prepared, unpack_facts
from engram.models.engine.transaction import Reader, Tx, asks_records
from engram.models.memories.memory_records import Memory, select_memories
from engram.models.tables.memory_tables import IS_CURRENT
from engram.trust.display import one_line

#: Maximum number of branches stored per project; the most recently used ones are kept.
MAX_BRANCHES = 200
#: Maximum length of a displayed branch name, in characters.
MAX_BRANCH_CHARACTERS = 60
#: Kinds of memories that apply on every branch, because they are about a person.
_UNBOUND_KINDS = (Kind.PREFERENCE.value,)


@dataclass(frozen=True, slots=True)
class BranchRow:
    project_id: int
    name: str
    state: BranchState
    tip: str = ""
    reported_commit: str = ""
    has_commits: bool = False
    compared_with: str = ""
    last_turn_ms: int = 0

    @property
    def is_default(self) -> bool:
        return self.name in ("main", "master", self.compared_with.partition(" ")[0])


@dataclass(frozen=True, slots=True)
class BranchUse:
    """The last use of a branch and its last commit, according to its turns."""

    name: str
    last_turn_ms: int
    #: The last commit that its turns report; "" if there is none.
    commit: str


_BRANCHES = RecordReader(
    BranchRow, tables.Branch, readers={"state": BranchState.from_stored}, left_out={"changed_at_ms"}
)


def branches_used_since(store: Reader, project_id: int, since_ms: int) -> list[BranchUse]:
    uses: dict[str, BranchUse] = {}
    turn = tables.Turn
    columns = (turn.branch, turn.started_at_ms, turn.actions)
    is_recent = (turn.project == project_id) & (turn.started_at_ms >= since_ms) & (turn.branch != "")
    query = turn.select(*columns).where(is_recent).order_by(turn.started_at_ms)
    for row in store.fetch(query):
        commits = [commit for fact in unpack_facts(row.actions) if (commit := str(fact.get("commit", "")))]
        before = uses.get(row.branch)
        commit = commits[-1].split(" ", 1)[0] if commits else before.commit if before else ""
        uses[row.branch] = BranchUse(row.branch, int(row.started_at_ms), commit)
    return list(uses.values())


def put_branch(tx: Tx, branch: BranchRow) -> None:
    tx.run(tables.Branch.insert(**asdict(branch)).on_conflict_replace())


def drop_branches(tx: Tx, project_id: int, names: Iterable[str]) -> None:
    branch = tables.Branch
    tx.run(branch.delete().where((branch.project == project_id) & in_json_list(branch.name, names)))


def open_branches(store: Reader, memory_refs: Collection[int]) -> dict[int, str]:
    """Map the row id of each memory that was learned on an unmerged branch to the name of that branch.

    Memories that also rest on a turn on another branch are left out, and so are global, pinned and saved memories and
    preferences.
    """
    branches: dict[int, str] = {}
    elsewhere: set[int] = set()
    for row in store.fetch(_branches_of_memories(memory_refs)) if memory_refs else ():
        if row.state == BranchState.OPEN:
            branches[row.episode_ref] = row.branch
        else:
            elsewhere.add(row.episode_ref)
    return {episode_ref: branch for episode_ref, branch in branches.items() if episode_ref not in elsewhere}


def unmerged_branch(store: Reader, episode_ref: int, asked_on: str) -> str:
    """Return the unmerged branch on which a memory was learned; "" if there is none or it is ``asked_on``."""
    branch = open_branches(store, [episode_ref]).get(episode_ref, "")
    return "" if branch == asked_on else branch


def branches_of_memories(store: Reader, memory_refs: Collection[int]) -> dict[int, set[str]]:
    """Map the row id of each memory to the branches of its turns; "" means a turn outside a repository."""
    evidence, turn = tables.Evidence, tables.Turn
    query = evidence.select(evidence.memory.alias("episode_ref"), turn.branch).distinct()
    query = query.join(turn, on=turn.id == evidence.turn_id).where(in_json_list(evidence.memory, memory_refs))
    found = grouped((row.episode_ref, row.branch) for row in store.fetch(query))
    return {episode_ref: set(branches) for episode_ref, branches in found.items()}


def memories_on_branch(store: Reader, project_id: int, name: str) -> list[Memory]:
    """Return a project's current memories that rest on a turn on a branch."""
    evidence, turn, memory = tables.Evidence, tables.Turn, tables.Memory
    on_branch = (
        evidence.select(evidence.memory)
        .join(turn, on=turn.id == evidence.turn_id)
        .where((turn.project == project_id) & (turn.branch == name))
    )
    return select_memories(store, IS_CURRENT & (memory.project == project_id) & memory.id.in_(on_branch))


@asks_records(_BRANCHES)
def branches_of_project(project_id: int) -> Query:
    """Return a project's known branches, most recently used first."""
    branch = tables.Branch
    return _BRANCHES.select().where(branch.project == project_id).order_by(branch.last_turn_ms.desc(), branch.name)


@prepared
def _branches_of_memories(memory_refs: Collection[int]) -> Query:
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
    """Return a remark for a memory from an unmerged branch, such as ``on branch feat/x, not merged``."""
    return branch_place(branch, is_unmerged=True) if branch else ""


def branch_place(branch: str, *, is_unmerged: bool) -> str:
    """Return a phrase for a branch, such as ``on branch feat/x``."""
    return f"on branch {one_line(branch, MAX_BRANCH_CHARACTERS)}{', not merged' * is_unmerged}"
