"""Writing episodes: each comes, changes and goes with its evidence, text index, vector, entities and history."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Sequence
from typing import Any

from engram.enums import CURRENT_STATUSES, Status
from engram.models.conditions import IS_SUPERSEDED
from engram.models.episode_history import add_history, snapshot
from engram.models.episode_index import index_episode, unindex_episode
from engram.models.episodes import Episode, Evidence, evidence_of, find_episode, select_episodes
from engram.models.packed import pack_text
from engram.models.store import Store
from engram.models.tombstones import TombstoneKind, add_tombstones
from engram.models.transaction import Reader, Tx, Value
from engram.models.uuids import pack_uuid

#: Action in the history of a memory that came back because what had replaced it went.
RESTORE = "restore"


def add_episode(
    tx: Tx, episode: Episode, evidence: Sequence[Evidence], *, action: str = "add", reason: str = "",
    run_id: int | None = None,
) -> Episode:  # fmt: skip
    """Store a new episode with evidence, index, entities and history."""
    now = tx.now_ms()
    made = dataclasses.replace(
        episode,
        created_at_ms=episode.created_at_ms or now,
        updated_at_ms=now,
        kept_at_ms=episode.kept_at_ms or now,
        stable_id=episode.stable_id or secrets.token_hex(8),
    )
    session_ref = (
        tx.value("SELECT id FROM session WHERE session_id = ?", (made.session_id,)) if made.session_id else None
    )
    columns = _values(made) | {"episode_id": made.episode_id, "session_ref": session_ref, "stable_id": made.stable_id,
                               "origin": made.origin, "created_at_ms": made.created_at_ms,
                               "kept_at_ms": made.kept_at_ms}  # fmt: skip
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    row_id = tx.insert(f"INSERT INTO episode ({names}) VALUES ({marks})", list(columns.values()))
    made = dataclasses.replace(made, id=row_id)
    add_evidence(tx, row_id, evidence)
    index_episode(tx, row_id)
    _link_entities(tx, made)
    add_history(tx, made.episode_id, action, reason, {}, _beginning(made), run_id=run_id)
    return made


def add_evidence(tx: Tx, row_id: int, evidence: Sequence[Evidence]) -> None:
    """Add to what an episode rests on; entries it has already are left out."""
    have = {e.uuid for e in evidence_of(tx, row_id)}
    seq = int(tx.value("SELECT coalesce(max(seq), -1) FROM evidence WHERE episode_ref = ?", (row_id,))) + 1
    new = [e for e in dict.fromkeys(evidence) if not e.uuid or e.uuid not in have]
    tx.run_many(
        "INSERT INTO evidence VALUES (?, ?, ?, ?, ?)",
        [(row_id, seq + n, pack_uuid(e.uuid) if e.uuid else None, e.turn_id, e.session_id) for n, e in enumerate(new)],
    )


def replace_evidence(tx: Tx, row_id: int, evidence: Sequence[Evidence]) -> None:
    """Let an episode rest on these entries and no others."""
    tx.run("DELETE FROM evidence WHERE episode_ref = ?", (row_id,))
    add_evidence(tx, row_id, evidence)


def change_episode(
    tx: Tx, episode: Episode, action: str, reason: str = "", *, run_id: int | None = None, **changes: Any
) -> Episode:
    """Change fields of an episode and keep history.

    Another text, or others who may see it, drop its vector: it is made anew and found where it belongs.
    """
    if not changes:
        return episode
    after = dataclasses.replace(episode, **changes, revision=episode.revision + 1, updated_at_ms=tx.now_ms())
    is_text = bool({"summary", "content", "entities"} & set(changes))
    if is_text:
        unindex_episode(tx, episode.id)
    columns = _values(after)
    if "content" in changes:
        columns["packed_content"] = None
    else:
        del columns["content"]  # packed content stays packed
    assignments = ", ".join(f"{name} = ?" for name in columns)
    tx.run(f"UPDATE episode SET {assignments} WHERE id = ?", [*columns.values(), episode.id])
    if is_text or {"scope", "project_id"} & set(changes):
        tx.run("DELETE FROM vector WHERE owner = 'e' AND owner_id = ?", (episode.id,))
    if is_text:
        index_episode(tx, episode.id)
        tx.run("DELETE FROM episode_entity WHERE episode_ref = ?", (episode.id,))
        _link_entities(tx, after)
    before, now = snapshot(episode), snapshot(after)
    keys = [key for key in now if now[key] != before.get(key)]
    add_history(
        tx,
        episode.episode_id,
        action,
        reason,
        {k: before.get(k) for k in keys},
        {k: now[k] for k in keys},
        run_id=run_id,
    )
    if episode.is_current and not after.is_current and not after.superseded_by:
        restore_predecessors(tx, after, "what had replaced it is no longer in force", run_id=run_id)
    return after


def restore_predecessors(tx: Tx, successor: Episode, reason: str, *, run_id: int | None = None) -> list[Episode]:
    """Put back into force what a memory had replaced, since it went without a successor.

    Of a chain only the last link comes back. What was merged into the successor stays archived, and what that had
    replaced comes back in its place.
    """
    restored = []
    for one in predecessors_of(tx, successor):
        restored.append(
            change_episode(
                tx, one, RESTORE, reason, run_id=run_id,
                status=_status_before(tx, one), superseded_by="", valid_to_ms=None,
            )
        )  # fmt: skip
    return restored


def predecessors_of(store: Reader, successor: Episode) -> list[Episode]:
    """The memories that come back into force when this one goes without a successor."""
    found, todo, seen = [], [successor.episode_id], set()
    while todo:
        episode_id = todo.pop(0)
        seen.add(episode_id)
        for one in select_episodes(store, "e.superseded_by = ? AND e.superseded_by <> ''", (episode_id,)):
            if one.status == Status.SUPERSEDED:
                found.append(one)
            elif one.status == Status.ARCHIVED and one.episode_id not in seen:
                todo.append(one.episode_id)
    return found


def restore_orphans(tx: Tx) -> list[Episode]:
    """Put back into force what is superseded by a memory that is not there."""
    orphaned = f"{IS_SUPERSEDED} AND NOT EXISTS (SELECT 1 FROM episode s WHERE s.episode_id = e.superseded_by)"
    return [
        change_episode(
            tx, one, RESTORE, "what had replaced it is not there",
            status=_status_before(tx, one), superseded_by="", valid_to_ms=None,
        )
        for one in select_episodes(tx, orphaned)
    ]  # fmt: skip


def _status_before(store: Reader, episode: Episode) -> Status:
    """The status in force that a superseded memory had."""
    sql = "SELECT before FROM history WHERE episode_id = ? AND action = 'supersede' ORDER BY id DESC LIMIT 1"
    status = json.loads(store.value(sql, (episode.episode_id,)) or "{}").get("status")
    return Status(status) if status in CURRENT_STATUSES else Status.ACTIVE


def note_access(store: Store, episode_id: str) -> None:
    """Count that a memory was expanded."""
    with store.transaction() as tx:
        tx.run(
            "UPDATE episode SET access_count = access_count + 1, accessed_at_ms = ? WHERE episode_id = ?",
            (store.now_ms(), episode_id),
        )
        tx.run(
            "UPDATE injection SET expanded_at_ms = ? WHERE id = (SELECT max(id) FROM injection WHERE episode_id = ?) "
            "AND expanded_at_ms IS NULL",
            (store.now_ms(), episode_id),
        )


def delete_episode(tx: Tx, episode: Episode, *, is_purge: bool = False) -> None:
    """Delete an episode for good: row, index, vector, entities, history, injections.

    Tombstones for its id and its slot keep it from coming back by itself; those of a purge say no more than that,
    those of a forget also keep an import and a restore from bringing it back. What it had replaced gets its successor
    as its own; where it has none, it comes back into force.
    """
    _release_predecessors(tx, episode)
    unindex_episode(tx, episode.id)
    tx.run("DELETE FROM vector WHERE owner = 'e' AND owner_id = ?", (episode.id,))
    tx.run("DELETE FROM evidence WHERE episode_ref = ?", (episode.id,))
    tx.run("DELETE FROM episode_entity WHERE episode_ref = ?", (episode.id,))
    drop_loose_entities(tx)
    tx.run("DELETE FROM history WHERE episode_id = ?", (episode.episode_id,))
    tx.run("DELETE FROM injection WHERE episode_id = ?", (episode.episode_id,))
    tx.run("DELETE FROM contradiction WHERE older_id = ? OR newer_id = ?", (episode.episode_id, episode.episode_id))
    tx.run("DELETE FROM episode WHERE id = ?", (episode.id,))
    add_tombstones(tx, TombstoneKind.PURGED if is_purge else TombstoneKind.EPISODE, [episode.episode_id.encode()])
    if episode.slot:
        slot_kind = TombstoneKind.PURGED_SLOT if is_purge else TombstoneKind.SLOT
        add_tombstones(tx, slot_kind, [episode.slot.encode()])


def drop_loose_entities(tx: Tx) -> None:
    """Delete the names that no episode has any more."""
    tx.run("DELETE FROM entity WHERE id NOT IN (SELECT entity_id FROM episode_entity)")


def _release_predecessors(tx: Tx, episode: Episode) -> None:
    """Give what an episode had replaced its own successor, or put it back into force; the id stands nowhere then."""
    successor = find_episode(tx, episode.superseded_by) if episode.superseded_by else None
    restored = [(one, _status_before(tx, one)) for one in predecessors_of(tx, episode)] if not successor else []
    tx.run(
        "UPDATE episode SET superseded_by = ? WHERE superseded_by = ? AND superseded_by <> ''",
        ("" if successor is None else successor.episode_id, episode.episode_id),
    )
    for one, status in restored:
        released = dataclasses.replace(one, superseded_by="")
        change_episode(tx, released, RESTORE, "what had replaced it is gone", status=status, valid_to_ms=None)


def _values(episode: Episode) -> dict[str, Value]:
    """The columns that may change, as stored."""
    return {
        "slot": episode.slot, "kind": episode.kind, "project_id": episode.project_id, "scope": episode.scope,
        "summary": episode.summary, "content": pack_text(episode.content),
        "facts": json.dumps(episode.facts, ensure_ascii=False),
        "entities": json.dumps(episode.entities, ensure_ascii=False),
        "importance": episode.importance, "source": episode.source, "voice": episode.voice, "status": episode.status,
        "confidence": episode.confidence, "quality": episode.quality, "suspect": episode.suspect,
        "is_pinned": int(episode.is_pinned), "is_lowered": int(episode.is_lowered), "weight": episode.weight,
        "stale_reason": episode.stale_reason, "valid_from_ms": episode.valid_from_ms, "valid_to_ms": episode.valid_to_ms,
        "superseded_by": episode.superseded_by, "extractor": episode.extractor,
        "accessed_at_ms": episode.accessed_at_ms, "access_count": episode.access_count,
        "confirmations": episode.confirmations, "graduated_at_ms": episode.graduated_at_ms,
        "revision": episode.revision, "updated_at_ms": episode.updated_at_ms,
    }  # fmt: skip


def _beginning(episode: Episode) -> dict[str, Any]:
    """What history keeps of a new episode. The rest stands in the episode, or in what a later change replaced."""
    facts = snapshot(episode)
    return {key: facts[key] for key in ("kind", "status", "importance", "confidence", "source", "extractor")}


def _link_entities(tx: Tx, episode: Episode) -> None:
    for name in dict.fromkeys(episode.entities):
        tx.run("INSERT OR IGNORE INTO entity (kind, name) VALUES ('', ?)", (name,))
        tx.run(
            "INSERT OR IGNORE INTO episode_entity SELECT id, ? FROM entity WHERE kind = '' AND name = ?",
            (episode.id, name),
        )
