"""Rules by which new memories of a project are shared in a team's space, some time after they were said."""

from __future__ import annotations

from dataclasses import dataclass

from peewee import fn

from engram.enums import CURRENT_STATUSES, Scope
from engram.hub.protocol.statements import time_of
from engram.models import tables
from engram.models.engine.statement import RecordReader
from engram.models.engine.transaction import Reader, Tx
from engram.models.hub.memory_statements import said_of_memory
from engram.models.hub.spaces import private_space
from engram.models.memories.memory_changes import MOVE, ChangeListener
from engram.models.memories.memory_records import MEMORIES, Memory, query_memories
from engram.models.sessions.turn_changes import SORTED

#: Maximum number of memories considered each time a rule is applied.
MAX_CANDIDATES = 500


@dataclass(frozen=True, slots=True)
class Rule:
    """New memories of a project are shared in a space after a delay."""

    space_id: int
    project_id: int
    delay_ms: int
    #: Memories stored before this time are not shared.
    made_at_ms: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that a rule will share."""

    memory: Memory
    #: When, in milliseconds since 1970; an edit postpones it.
    due_ms: int


_RULES = RecordReader(Rule, tables.HubRule)


def add_rule(tx: Tx, space_id: int, project_id: int, delay_ms: int) -> Rule:
    """Share new memories of a project from now on, or change the delay of a rule."""
    table = tables.HubRule
    row = table.insert(space=space_id, project=project_id, delay_ms=delay_ms, made_at_ms=tx.now_ms())
    tx.run(row.on_conflict(conflict_target=(table.space, table.project), update={table.delay_ms: delay_ms}))
    return next(rule for rule in list_rules(tx, space_id) if rule.project_id == project_id)


def drop_rule(tx: Tx, space_id: int, project_id: int) -> bool:
    """Delete a rule; return False if there was none. What was shared stays."""
    table = tables.HubRule
    return tx.run(table.delete().where((table.space == space_id) & (table.project == project_id))) > 0


class RuleListener(ChangeListener):
    """Carries rules over when projects are merged."""

    def merged(self, tx: Tx, from_id: int, into_id: int) -> None:
        """Let the rules of a project apply to the one that it became, unless that one has its own."""
        table, rules = tables.HubRule, list_rules(tx)
        spaces_with_own = {rule.space_id for rule in rules if rule.project_id == into_id}
        for rule in rules:
            if rule.project_id == from_id and rule.space_id not in spaces_with_own:
                of_rule = (table.space == rule.space_id) & (table.project == from_id)
                tx.run(table.update(project=into_id).where(of_rule))


def list_rules(store: Reader, space_id: int | None = None) -> list[Rule]:
    query = _RULES.select().order_by(tables.HubRule.space, tables.HubRule.project)
    return store.fetch_records(_RULES, query if space_id is None else query.where(tables.HubRule.space == space_id))


def candidates(store: Reader, rule: Rule) -> list[Candidate]:
    """Return what a rule will share, the earliest due first: this person's own current memories of the project.

    Left out are memories that are older than the rule, are global, came from others, look like an instruction, were
    judged wrong, were sorted into the project, or were ever shared, taken back or kept out of the space.
    """
    memory, said = tables.Memory, tables.HubMemory
    is_known = said.select(said.episode_id).where(
        (said.space == rule.space_id) & (said.episode_id == memory.episode_id)
    )
    is_own = (memory.origin == "") & (memory.suspect == "") & (memory.is_lowered == 0)
    condition = (memory.project == rule.project_id) & (memory.scope == Scope.PROJECT.value) & is_own
    condition &= memory.status.in_([status.value for status in CURRENT_STATUSES])
    history = tables.History
    is_sorted = history.select(history.id).where(
        (history.episode_id == memory.episode_id) & (history.action == MOVE) & (history.reason == SORTED)
    )
    condition &= (memory.kept_at_ms >= rule.made_at_ms) & ~fn.EXISTS(is_known) & ~fn.EXISTS(is_sorted)
    query = query_memories().where(condition).order_by(memory.kept_at_ms, memory.id).limit(MAX_CANDIDATES)
    waiting = [
        Candidate(memory, said_ms + rule.delay_ms)
        for memory in store.fetch_records(MEMORIES, query)
        if (said_ms := _last_said_ms(store, memory))
    ]
    return sorted(waiting, key=lambda candidate: candidate.due_ms)


def _last_said_ms(store: Reader, memory: Memory) -> int:
    """Return the time of the last statement about a memory; 0 if this machine has sent none about it yet."""
    private = private_space(store)
    for said in said_of_memory(store, memory.episode_id):
        if private is not None and said.space_id == private.id and not said.is_forgotten:
            return max(memory.kept_at_ms, *(time_of(int(register[0])) for register in said.said.values()))
    return 0


LISTENER = RuleListener()
