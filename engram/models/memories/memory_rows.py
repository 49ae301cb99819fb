"""The rows of an episode, written without history. Only ``episode_changes`` imports this module."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from peewee import Query, fn

from engram.models import tables
from engram.models.engine.packed import pack_text, pack_uuid
from engram.models.engine.statement import in_json_list, prepared
from engram.models.engine.transaction import Reader, Tx, Value
from engram.models.memories.memory_index import index_episode, index_episodes, unindex_episode
from engram.models.memories.memory_records import ENUM_FIELDS, LIST_FIELDS, Episode, Evidence, evidence_of

#: Columns that are no field of the record: the row id, the session's row, and what ``pack_old_content`` and the
#: joining write.
_OWN_COLUMNS = {"id", "session_ref", "packed_content", "is_unjoined"}
_COLUMNS = tuple(name for name in tables.column_names(tables.Episode) if name not in _OWN_COLUMNS)
_fields_of = attrgetter(*_COLUMNS)
#: Columns of an enum's value, or of a list.
_NAMED_COLUMNS = (*ENUM_FIELDS, *LIST_FIELDS)
#: Fields that stand in the text index.
_INDEXED_FIELDS = {"summary", "content", "entities", "questions"}
#: Fields that say who may see a memory: its vector holds them too.
_VISIBILITY_FIELDS = {"scope", "project_id"}


def insert_episode(tx: Tx, episode: Episode) -> int:
    """Store a new episode with its text index and entities; returns its row id."""
    columns = _new_row(episode)
    columns["session_ref"] = _session_ref(tx, episode.session_id)
    row_id = tx.insert_row(tables.Episode, columns)
    index_episode(tx, row_id)
    _link_entities(tx, row_id, episode.entities)
    return row_id


def insert_episodes(
    tx: Tx, episodes: Sequence[tuple[Episode, Sequence[Evidence]]], dates: Sequence[Mapping[str, Value]]
) -> dict[str, int]:
    """Store new episodes of no session, each with its text index, entities and evidence; returns id → row id.

    ``dates`` has the times of each, and what else is not set yet. Many at a time take a third of the time that one at
    a time take.
    """
    rows = [_new_row(episode) | dict(dated) for (episode, _), dated in zip(episodes, dates, strict=True)]
    tx.insert_many(tables.Episode, rows)
    row_ids = _row_ids(tx, [episode.episode_id for episode, _ in episodes])
    index_episodes(tx, [(row_ids[episode.episode_id], episode) for episode, _ in episodes])
    named = [(row_ids[episode.episode_id], dict.fromkeys(episode.entities)) for episode, _ in episodes]
    unique = dict.fromkeys(name for _, entities in named for name in entities)
    tx.insert_many(tables.Entity, [{"kind": "", "name": name} for name in unique], or_ignore=True)
    links = [_insert_entity_link(row_id, name) for row_id, entities in named for name in entities]
    if links:
        tx.run_many(links[0].sql, [link.parameters for link in links])
    evidence_rows = [
        _evidence_row(row_ids[episode.episode_id], seq, entry)
        for episode, evidence in episodes
        for seq, entry in enumerate(dict.fromkeys(evidence))
    ]
    tx.insert_many(tables.Evidence, evidence_rows)
    return row_ids


def _new_row(episode: Episode) -> dict[str, Value]:
    """Return the columns of an episode, as ``_stored_value`` makes each, in half the time."""
    row = dict(zip(_COLUMNS, _fields_of(episode), strict=True))
    row["content"] = pack_text(episode.content)
    for name in _NAMED_COLUMNS:
        row[name] = _stored_value(episode, name)
    return row


def _row_ids(store: Reader, episode_ids: Sequence[str]) -> dict[str, int]:
    episode = tables.Episode
    listed = in_json_list(episode.episode_id, json.dumps(episode_ids))
    return {row.episode_id: row.id for row in store.fetch(episode.select(episode.episode_id, episode.id).where(listed))}


def update_episode(tx: Tx, episode: Episode, changed: Collection[str]) -> None:
    """Store the changed fields of an episode, with its revision, and let index, entities and vector follow.

    A changed text or visibility drops the vector: it is made anew.
    """
    is_text = bool(_INDEXED_FIELDS & set(changed))
    columns = {
        name: _stored_value(episode, name) for name in (*changed, "revision", "updated_at_ms") if name in _COLUMNS
    }
    if "content" in changed:
        columns["packed_content"] = None
    if "session_id" in changed:
        columns["session_ref"] = _session_ref(tx, episode.session_id)
    if is_text:
        unindex_episode(tx, episode.id)
    tx.update_row(tables.Episode, episode.id, columns)
    if is_text or _VISIBILITY_FIELDS & set(changed):
        tx.run(_delete_vectors(episode.id))
    if is_text:
        index_episode(tx, episode.id)
        tx.run(_delete_entity_links(episode.id))
        _link_entities(tx, episode.id, episode.entities)


def delete_episode_rows(tx: Tx, episode: Episode) -> None:
    """Delete the episode with everything that names it: index, vectors, evidence, entities, history, injections.

    What became of prompts stays, without this memory.
    """
    unindex_episode(tx, episode.id)
    for table in (tables.History, tables.Injection, tables.OutcomeCandidate):
        tx.run(table.delete().where(table.episode_id == episode.episode_id))
    contradiction = tables.Contradiction
    tx.run(
        contradiction.delete().where(
            (contradiction.older_id == episode.episode_id) | (contradiction.newer_id == episode.episode_id)
        )
    )
    tx.run(_delete_vectors(episode.id))
    tx.run(tables.Evidence.delete().where(tables.Evidence.episode == episode.id))
    tx.run(_delete_entity_links(episode.id))
    tx.run(tables.Episode.delete().where(tables.Episode.id == episode.id))
    delete_unused_entities(tx)


def delete_unused_entities(tx: Tx) -> None:
    """Delete the names that no episode has any more."""
    used = tables.EpisodeEntity.select(tables.EpisodeEntity.entity)
    tx.run(tables.Entity.delete().where(tables.Entity.id.not_in(used)))


def insert_evidence(tx: Tx, row_id: int, evidence: Sequence[Evidence]) -> int:
    """Add to what an episode rests on, without the entries it has already; returns how many were new."""
    known = {entry.uuid for entry in evidence_of(tx, row_id)}
    new = [entry for entry in dict.fromkeys(evidence) if not entry.uuid or entry.uuid not in known]
    first_seq = int(tx.fetch_value(_next_evidence_seq(row_id)))
    tx.insert_many(
        tables.Evidence,
        [_evidence_row(row_id, seq, entry) for seq, entry in enumerate(new, first_seq)],
    )
    return len(new)


def _evidence_row(row_id: int, seq: int, entry: Evidence) -> dict[str, Value]:
    return {
        "episode_ref": row_id,
        "seq": seq,
        "uuid": pack_uuid(entry.uuid) if entry.uuid else None,
        "turn_id": entry.turn_id,
        "session_id": entry.session_id,
    }


def delete_evidence(tx: Tx, row_id: int, uuids: Iterable[str] | None = None) -> int:
    """Delete what an episode rests on, or only these entries of it; returns how many there were."""
    query = tables.Evidence.delete().where(tables.Evidence.episode == row_id)
    if uuids is not None:
        query = query.where(tables.Evidence.uuid.in_([pack_uuid(uuid) for uuid in uuids]))
    return tx.run(query)


def delete_evidence_of_project(tx: Tx, row_id: int, project_id: int) -> int:
    """Delete the entries that an episode rests on and that were said in a project; returns how many there were."""
    sessions = tables.Session.select(tables.Session.session_id).where(tables.Session.project == project_id)
    turns = tables.Turn.select(tables.Turn.id).where(tables.Turn.project == project_id)
    return tx.run(
        tables.Evidence.delete().where(
            (tables.Evidence.episode == row_id)
            & (
                (tables.Evidence.turn_id.is_null() & tables.Evidence.session_id.in_(sessions))
                | tables.Evidence.turn_id.in_(turns)
            )
        )
    )


def delete_evidence_between(tx: Tx, row_id: int, start: int, stop: int) -> None:
    """Delete the entries that an episode rests on from place ``start`` to before ``stop``, counted from 0."""
    evidence = tables.Evidence
    places = evidence.select(evidence.seq).where(evidence.episode == row_id).order_by(evidence.seq)
    chosen = places.limit(max(0, stop - start)).offset(start)
    tx.run(evidence.delete().where((evidence.episode == row_id) & evidence.seq.in_(chosen)))


def set_packed_content(tx: Tx, row_id: int, content: Value, packed_content: bytes | None) -> None:
    """Store the content of an episode in one of its two columns, and let the text index follow."""
    unindex_episode(tx, row_id)
    tx.update_row(tables.Episode, row_id, {"content": content, "packed_content": packed_content})
    index_episode(tx, row_id)


def set_accessed(tx: Tx, episode_id: str, at_ms: int, *, is_use: bool) -> None:
    """Note when an episode was last dealt with, and count it where that was a use."""
    episode = tables.Episode
    tx.run(
        episode.update({episode.accessed_at_ms: at_ms, episode.access_count: episode.access_count + int(is_use)}).where(
            episode.episode_id == episode_id
        )
    )


def _stored_value(episode: Episode, name: str) -> Value:
    value = getattr(episode, name)
    if name == "content":
        return pack_text(value)
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value) if isinstance(value, str) else value


def _session_ref(store: Reader, session_id: str) -> int | None:
    return store.fetch_value(_row_of_session(session_id)) if session_id else None


@prepared
def _row_of_session(session_id: str) -> Query:
    return tables.Session.select(tables.Session.id).where(tables.Session.session_id == session_id)


@prepared
def _next_evidence_seq(row_id: int) -> Query:
    evidence = tables.Evidence
    return evidence.select(fn.coalesce(fn.max(evidence.seq), -1) + 1).where(evidence.episode == row_id)


@prepared
def _delete_vectors(row_id: int) -> Query:
    vector = tables.Vector
    return vector.delete().where((vector.owner == "e") & (vector.owner_id == row_id))


@prepared
def _delete_entity_links(row_id: int) -> Query:
    return tables.EpisodeEntity.delete().where(tables.EpisodeEntity.episode == row_id)


def _link_entities(tx: Tx, row_id: int, names: Sequence[str]) -> None:
    unique = list(dict.fromkeys(names))
    tx.insert_many(tables.Entity, [{"kind": "", "name": name} for name in unique], or_ignore=True)
    for name in unique:
        tx.run(_insert_entity_link(row_id, name))


@prepared
def _insert_entity_link(row_id: int, name: str) -> Query:
    entity, link = tables.Entity, tables.EpisodeEntity
    chosen = entity.select(entity.id, row_id).where((entity.kind == "") & (entity.name == name))
    return link.insert_from(chosen, [link.entity, link.episode]).on_conflict_ignore()
