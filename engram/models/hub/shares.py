"""Shares: copies of the user's memories in the spaces of teams. Nothing is shared by default.

A share is a row of ``hub_memory`` in a team's space with the user as its author. Its text is a copy from when it was
shared; later changes to the memory are not sent. It is erased when the memory, or any of its words, is forgotten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import SQL, Query, fn

from engram.enums import Actor, Scope, Status
from engram.hub.protocol.frames import Row
from engram.hub.protocol.statements import TEXT, Statement, join, time_of
from engram.models import tables
from engram.models.engine.statement import RecordReader, prepared, without_index
from engram.models.engine.transaction import Reader, Tx, Value
from engram.models.hub.memory_statements import (
    SAID,
    SYNC,
    Clock,
    SaidMemory,
    add_said,
    change_said,
    find_said,
    id_of_stable,
    is_said,
    memory_id_of,
    registers_of,
    said_of_memory,
    said_privately,
)
from engram.models.hub.spaces import Space, list_spaces, private_space, server_of
from engram.models.memories.memory_changes import MOVE, RELEASE, ChangeListener
from engram.models.memories.memory_history import BY_HAND_ACTORS
from engram.models.memories.memory_records import MEMORIES, Memory, query_memories
from engram.models.sessions.turn_changes import SORTED
from engram.models.tables.memory_tables import IS_CURRENT

#: Key in a share's text for the parts that never change: kind, time, project, and the copied memory.
_BIRTH = "b"


@dataclass(frozen=True, slots=True)
class Share:
    """A copy of a memory in a team's space."""

    space: Space
    said: SaidMemory

    @property
    def summary(self) -> str:
        """Its first line; "" if it was withdrawn, or purged on this machine."""
        return str((self.said.own_text or {}).get("s", ""))

    @property
    def is_ended(self) -> bool:
        """True if recipients regard it as no longer valid."""
        return self.said.said.get("ends", [0, 0, None])[2] is not None

    @property
    def is_waiting(self) -> bool:
        """True if it has not been pushed yet."""
        return self.said.version > self.said.pushed


def copy_id(ns_id: int, stable_id: str) -> bytes:
    """Return the id of a memory's first share in a space, which is the same on all of the user's machines."""
    return hashlib.blake2b(f"share {ns_id} {stable_id}".encode(), digest_size=8).digest()


def add_share(tx: Tx, space: Space, memory: Memory, text: Mapping[str, Any], project: Sequence[str] | None) -> bool:
    """Share a memory's text, or replace the text that was shared before; return False if nothing is new.

    Args:
        text: exactly what to share, without secrets: summary, content, facts, entities as ``s``, ``c``, ``f``, ``e``.
        project: the project in which it applies, as other machines identify it.
    """
    clock = Clock(tx, space)
    birth = {"k": memory.kind.value, "c": memory.created_at_ms, "o": memory.stable_id}
    own_text = json.dumps({**text, _BIRTH: birth | ({"p": list(project)} if project else {})}, ensure_ascii=False)
    known = next((share for share in shares_of(tx, memory.episode_id) if share.space.id == space.id), None)
    if known is not None and known.said.own_text == json.loads(own_text) and not known.is_ended:
        return False
    if known is not None:
        # A machine may have seen only that the former share ended.
        said = {TEXT: clock.stamp()[:2]} | ({"ends": clock.stamp(None)} if "ends" in known.said.said else {})
        change_said(tx, known.said, said=json.dumps(said), own_text=own_text, version=known.said.version + 1)
    else:
        author, memory_id = clock.server.member_id, copy_id(space.ns_id, memory.stable_id)
        if find_said(tx, space.id, author, memory_id) is not None:
            # It was withdrawn and is shared again, so for everyone else it is a different memory.
            memory_id = memory_id_of(f"share {space.ns_id} {memory.stable_id} {tx.now_ms()}")
        said_text = json.dumps({TEXT: clock.stamp()[:2]})
        add_said(tx, space.id, author, memory_id, memory.episode_id, version=1, said=said_text, own_text=own_text)
    clock.store()
    return True


def shares_of(store: Reader, episode_id: str) -> list[Share]:
    if private_space(store) is None:
        return []
    memories = [said for said in said_of_memory(store, episode_id) if not said.is_forgotten]
    spaces = {space.id: space for space in list_spaces(store) if space.is_team} if memories else {}
    return [
        Share(spaces[said.space_id], said)
        for said in memories
        if said.space_id in spaces and said.author == server_of(store, spaces[said.space_id]).member_id
    ]


def list_shares(store: Reader, space: Space) -> list[Share]:
    memory, author = tables.HubMemory, server_of(store, space).member_id
    is_standing = (memory.space == space.id) & (memory.author == author) & (memory.is_forgotten == 0)
    return [Share(space, said) for said in store.fetch_records(SAID, SAID.select().where(is_standing))]


def take_back(tx: Tx, space: Space, said: SaidMemory) -> None:
    """Make a share be erased everywhere; the memory itself is kept. A keeper can withdraw anyone's share."""
    memory = tables.HubMemory
    nothing = {"is_forgotten": 1, "said": "{}", "own_text": None, "waits_for": None}
    changes = memory.update(**nothing, version=memory.version + 1)
    tx.run(changes.where(is_said(space.id, said.author, said.memory_id)))


def bar_share(tx: Tx, space: Space, memory: Memory) -> None:
    """Keep rules from sharing a memory with a space. The hub is not notified."""
    author = server_of(tx, space).member_id
    add_said(tx, space.id, author, copy_id(space.ns_id, memory.stable_id), memory.episode_id, is_forgotten=1)


def build_shares(memories: Sequence[SaidMemory]) -> dict[bytes, Statement]:
    """Return memory id → statement, for the shares that have not been withdrawn."""
    statements = {}
    for memory in memories:
        if memory.own_text is None or memory.is_forgotten:
            continue
        text = {name: value for name, value in memory.own_text.items() if name != _BIRTH}
        statements[memory.memory_id] = Statement(memory.own_text[_BIRTH], registers_of(memory, text))
    return statements


def take_share(tx: Tx, space: Space, row: Row, statement: Statement, text: Mapping[str, Any]) -> None:
    """Store a share from another machine of the user's, or one of this machine's own from before it left the team.

    Its memory may arrive later through the private space. If the memory was forgotten, the share is withdrawn.
    """
    mine = find_said(tx, space.id, row.author, row.memory_id)
    version = row.version if row.device == server_of(tx, space).device_id else 0
    said = {name: list(register[:2] if name == TEXT else register) for name, register in statement.fields.items()}
    own_text = json.dumps({**text, _BIRTH: dict(statement.birth)}, ensure_ascii=False)
    if mine is None:
        stable_id = str(statement.birth.get("o") or "")
        episode_id = id_of_stable(tx, stable_id) if stable_id else None
        waits_for = None if episode_id or not stable_id else memory_id_of(stable_id)
        columns: dict[str, Value] = {"waits_for": waits_for, "said": json.dumps(said), "own_text": own_text}
        columns |= {"version": version, "pushed": version}
        add_said(tx, space.id, row.author, row.memory_id, episode_id or "", **columns)
        added = find_said(tx, space.id, row.author, row.memory_id)
        if added is not None and waits_for is not None and _is_original_forgotten(tx, waits_for):
            take_back(tx, space, added)
        return
    if version > mine.pushed:
        is_waiting = mine.version > mine.pushed
        change_said(tx, mine, pushed=version, version=max(mine.version, version + int(is_waiting)))
    newer = join(registers_of(mine), statement.fields)
    if newer and not mine.is_forgotten and mine.own_text is not None:
        merged = json.dumps({**mine.said, **{name: said[name] for name in newer}})
        kept = own_text if TEXT in newer else json.dumps(mine.own_text, ensure_ascii=False)
        change_said(tx, mine, said=merged, own_text=kept)


def _is_original_forgotten(tx: Tx, memory_id: bytes) -> bool:
    private = private_space(tx)
    if private is None:
        return False
    said = find_said(tx, private.id, server_of(tx, private).member_id, memory_id)
    return said is not None and said.is_forgotten


def link_shares(tx: Tx, made: Sequence[tuple[str, str]]) -> None:
    """Link the shares of memories that have arrived after another machine of the user's shared them.

    Each memory is given by its stable id and its id.
    """
    memory = tables.HubMemory
    waiting = {
        bytes(key) for key in tx.fetch_values(memory.select(memory.waits_for).where(memory.waits_for.is_null(False)))
    }
    for stable_id, episode_id in made:
        if waiting and memory_id_of(stable_id) in waiting:
            tx.run(_link(memory_id_of(stable_id), episode_id))


class ShareListener(ChangeListener):
    """Updates shares when the user's memories change, and rules when projects are merged."""

    def changed(
        self, tx: Tx, before: Memory, after: Memory, action: str, actor: Actor, at_ms: int | None = None
    ) -> None:
        """State that a shared memory is no longer valid, or valid again, if its author decided that by hand.

        The author may have done that on another machine, which need not have joined the team.
        """
        force = (before.status.is_current, before.superseded_by)
        is_decided = action != RELEASE and (actor in BY_HAND_ACTORS or action == SYNC)
        if not is_decided or force == (after.status.is_current, after.superseded_by):
            return
        for share in shares_of(tx, after.episode_id):
            clock = Clock(tx, share.space, None if action == SYNC else at_ms)
            is_over = after.status in (Status.ARCHIVED, Status.SUPERSEDED)
            said = {**share.said.said, "ends": clock.stamp((after.valid_to_ms or 0) if is_over else None)}
            clock.store()
            change_said(tx, share.said, said=json.dumps(said), version=share.said.version + 1)

    def erased(self, tx: Tx, before: Memory, after: Memory) -> None:
        """Withdraw every share of a memory that lost forgotten words, because the copies may contain these words."""
        for share in shares_of(tx, after.episode_id):
            take_back(tx, share.space, share.said)

    def merged(self, tx: Tx, from_id: int, into_id: int) -> None:
        """Apply the rules of a project to the project into which it was merged, unless that has its own rules."""
        table, rules = tables.HubRule, list_rules(tx)
        spaces_with_own = {rule.space_id for rule in rules if rule.project_id == into_id}
        for rule in rules:
            if rule.project_id == from_id and rule.space_id not in spaces_with_own:
                of_rule = (table.space == rule.space_id) & (table.project == from_id)
                tx.run(table.update(project=into_id).where(of_rule))


@prepared
def _link(waits_for: bytes, episode_id: str) -> Query:
    memory, space = tables.HubMemory, tables.HubSpace
    teams = space.select(space.id).where(space.kind == SQL("'team'"))
    changes = memory.update(episode_id=episode_id, waits_for=SQL("NULL"))
    is_share = without_index(memory.space).in_(teams) & memory.own_text.is_null(False)
    return changes.where(is_share & (memory.waits_for == waits_for))


# -- Rules that share a project's new memories with a team, some time after they were said.

#: Maximum number of memories that are considered each time a rule is applied.
MAX_CANDIDATES = 500


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that shares a project's new memories with a space after a delay."""

    space_id: int
    project_id: int
    delay_ms: int
    #: Memories stored before this time are not shared.
    made_at_ms: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that a rule will share."""

    memory: Memory
    #: When it will be shared, in milliseconds since 1970; an edit postpones that.
    due_ms: int


_RULES = RecordReader(Rule, tables.HubRule)


def add_rule(tx: Tx, space_id: int, project_id: int, delay_ms: int) -> Rule:
    """Share a project's new memories from now on, or change the delay of an existing rule."""
    table = tables.HubRule
    row = table.insert(space=space_id, project=project_id, delay_ms=delay_ms, made_at_ms=tx.now_ms())
    tx.run(row.on_conflict(conflict_target=(table.space, table.project), update={table.delay_ms: delay_ms}))
    return next(rule for rule in list_rules(tx, space_id) if rule.project_id == project_id)


def drop_rule(tx: Tx, space_id: int, project_id: int) -> bool:
    """Delete a rule; return False if there is none. Existing shares remain."""
    table = tables.HubRule
    return tx.run(table.delete().where((table.space == space_id) & (table.project == project_id))) > 0


def list_rules(store: Reader, space_id: int | None = None) -> list[Rule]:
    query = _RULES.select().order_by(tables.HubRule.space, tables.HubRule.project)
    return store.fetch_records(_RULES, query if space_id is None else query.where(tables.HubRule.space == space_id))


def candidates(store: Reader, rule: Rule) -> list[Candidate]:
    """Return the memories that a rule will share, the earliest due first: the user's own current ones in the project.

    Memories are left out if they are older than the rule, are global, came from other people, look like an instruction,
    were judged wrong, were sorted into the project, or were ever shared with, withdrawn from or kept out of the space.
    """
    memory, said = tables.Memory, tables.HubMemory
    is_known = said.select(said.episode_id).where(
        (said.space == rule.space_id) & (said.episode_id == memory.episode_id)
    )
    is_own = (memory.origin == "") & (memory.suspect == "") & (memory.is_lowered == 0)
    condition = IS_CURRENT & (memory.project == rule.project_id) & (memory.scope == Scope.PROJECT.value) & is_own
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
    """Return the time of the last statement about a memory; 0 if this machine has made none yet."""
    said = said_privately(store, memory.episode_id)
    if said is None:
        return 0
    return max(memory.kept_at_ms, *(time_of(int(register[0])) for register in said.said.values()))


LISTENER = ShareListener()
