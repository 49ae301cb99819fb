"""A page of statements of other machines, taken over together: what is new here is stored many at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engram.enums import Actor
from engram.hub.protocol.statement import join
from engram.models import tables
from engram.models.episode_changes import add_episodes
from engram.models.episodes import Episode, Evidence, is_episode_id, new_episode_id
from engram.models.hub_incoming import (
    REASON,
    Incoming,
    apply_newer,
    decisions_of,
    episode_of,
    follow,
    stop_waiting,
    take_statement,
    without_text,
)
from engram.models.hub_projects import place_of
from engram.models.hub_said import SYNC, SaidMemory
from engram.models.hub_shares import link_many_shares
from engram.models.hub_spaces import Space
from engram.models.statement import in_json_list, without_index
from engram.models.tombstones import named_by_any
from engram.models.transaction import Reader, Tx, Value
from engram.models.uuids import pack_uuid


def take_statements(tx: Tx, space: Space, statements: Sequence[Incoming]) -> list[Episode]:
    """Take over what statements say, in any order; returns the memories that were made or changed.

    A statement whose memory, slot, id and entries are unknown here is stored with the others of its kind. Whatever
    meets something that is here, or was forgotten or purged, goes through ``take_statement``.
    """
    new = _only_new(tx, space, statements)
    made = _make_all(tx, space, new)
    stored = set(map(id, new))
    taken = [take_statement(tx, space, incoming) for incoming in statements if id(incoming) not in stored]
    return [*made, *(episode for episode in taken if episode is not None)]


def _only_new(store: Reader, space: Space, statements: Sequence[Incoming]) -> list[Incoming]:
    """Return the statements that meet nothing here, and none of those before them."""
    known = _known_ids(store, space, statements)
    new = []
    for incoming in statements:
        names = _names_of(incoming)
        is_plain = bool(incoming.origin) or is_episode_id(str(incoming.statement.birth.get("id")))
        if incoming.text is not None and is_plain and not names & known:
            new.append(incoming)
        known |= names
    return new


def _names_of(incoming: Incoming) -> set[tuple[str, Any]]:
    """Return everything that a statement's memory would be known by."""
    birth = incoming.statement.birth
    names: set[tuple[str, Any]] = {("memory", (incoming.row.author, incoming.row.memory_id))}
    if incoming.origin:
        return names
    names |= {("episode", str(birth.get("id"))), ("stable", incoming.row.memory_id.hex())}
    if birth.get("sl"):
        names.add(("slot", str(birth["sl"])))
    return names


def _known_ids(store: Reader, space: Space, statements: Sequence[Incoming]) -> set[tuple[str, Any]]:
    """Return those names of statements that something here has; all of a statement that a tombstone names.

    Raw SQL: the ids are bytes, of which no JSON list can hold any number.
    """
    by_author: dict[int, list[bytes]] = {}
    for incoming in statements:
        by_author.setdefault(incoming.row.author, []).append(incoming.row.memory_id)
    sql = "SELECT author, memory_id FROM hub_memory WHERE space_id = ? AND author = ? AND memory_id IN"
    known: set[tuple[str, Any]] = {
        ("memory", (author, bytes(memory_id)))
        for wanted, ids in by_author.items()
        for author, memory_id in store.rows_among(sql, ids, [space.id, wanted])
    }
    episode = tables.Episode
    every = [_names_of(incoming) for incoming in statements]
    for kind, column in (("episode", episode.episode_id), ("stable", episode.stable_id), ("slot", episode.slot)):
        values = json.dumps([value for names in every for name, value in names if name == kind])
        known |= {
            (kind, value) for value in store.fetch_values(episode.select(column).where(in_json_list(column, values)))
        }
    keys = {key for incoming in statements for key in _tombstone_keys(incoming)}
    if gone := named_by_any(store, keys):
        for incoming, names in zip(statements, every, strict=True):
            known |= names if gone & set(_tombstone_keys(incoming)) else set()
    return known


def _tombstone_keys(incoming: Incoming) -> list[bytes]:
    birth = incoming.statement.birth
    if incoming.origin:
        return []
    texts = [str(birth.get("id")), str(birth.get("sl") or "")]
    return [*(text.encode() for text in texts), *(pack_uuid(str(uuid)) for uuid in birth.get("e", ()))]


def _make_all(tx: Tx, space: Space, statements: Sequence[Incoming]) -> list[Episode]:
    """Store memories that are new, then what was decided of them: what replaces one may be among them."""
    places: dict[tuple[str, ...], int] = {}
    rows: list[dict[str, Value]] = []
    new = []
    for incoming in statements:
        birth = incoming.statement.birth
        if birth.get("p") and birth.get("pf") and not incoming.origin:
            # First of all: it may merge a placeholder that a statement beside it names.
            place_of(tx, birth["p"], str(birth["pf"]))
    for incoming in statements:
        birth = incoming.statement.birth
        is_own = not incoming.origin
        project_id = None
        if birth.get("p"):
            shared = tuple(map(str, birth["p"]))
            if shared not in places:
                places[shared] = place_of(tx, shared).id
            project_id = places[shared]
        slot = str(birth["sl"]) if is_own and birth.get("sl") else None
        evidence = [Evidence(str(uuid)) for uuid in birth.get("e", ())] if is_own else []
        episode_id = str(birth["id"]) if is_own else new_episode_id()
        new.append((episode_of(incoming, episode_id, slot, project_id, tx.now_ms()), evidence))
        said = {name: without_text(name, register) for name, register in join({}, incoming.statement.fields).items()}
        rows.append(
            {
                "space_id": space.id,
                "author": incoming.row.author,
                "memory_id": incoming.row.memory_id,
                "episode_id": episode_id,
                "said": json.dumps(said),
            }
        )
    waiting = _waiting_for(tx, space, [incoming.row.memory_id for incoming in statements])
    reasons = [incoming.origin or REASON for incoming in statements]
    made = add_episodes(tx, new, actor=Actor.TIDYING, action=SYNC, reasons=reasons)
    tx.insert_many(tables.HubMemory, rows)
    made = [_decide(tx, space, incoming, episode) for incoming, episode in zip(statements, made, strict=True)]
    by_memory = {incoming.row.memory_id: episode for incoming, episode in zip(statements, made, strict=True)}
    for waiting_id, memory_id in waiting:
        follow(tx, waiting_id, by_memory[memory_id].episode_id)
    for memory_id in {memory_id for _, memory_id in waiting}:
        stop_waiting(tx, space, memory_id)
    link_many_shares(tx, [(episode.stable_id, episode.episode_id) for episode in made if not episode.origin])
    return made


def _decide(tx: Tx, space: Space, incoming: Incoming, episode: Episode) -> Episode:
    """Change a new memory as it was decided since it was made."""
    decisions = decisions_of(incoming.statement.fields)
    if not decisions:
        return episode
    mine = SaidMemory(
        space_id=space.id,
        author=incoming.row.author,
        memory_id=incoming.row.memory_id,
        episode_id=episode.episode_id,
        version=0,
        pushed=0,
        said={name: without_text(name, register) for name, register in join({}, incoming.statement.fields).items()},
        own_text=None,
        is_forgotten=False,
        waits_for=None,
    )
    return apply_newer(tx, space, mine, episode, decisions, incoming)


def _waiting_for(store: Reader, space: Space, memory_ids: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return the memories that wait for one of some memories, each with what it waits for. Few wait at all."""
    memory, wanted = tables.HubMemory, set(memory_ids)
    waits = (without_index(memory.space) == space.id) & memory.waits_for.is_null(False)
    rows = store.fetch(memory.select(memory.episode_id, memory.waits_for).where(waits))
    return [(row.episode_id, bytes(row.waits_for)) for row in rows if bytes(row.waits_for) in wanted]
