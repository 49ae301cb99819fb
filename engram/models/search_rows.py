"""What a search needs of episodes and note chunks, and the size of each text index."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, ModelSelect, Query, fn

from engram.enums import Importance, Scope, Status
from engram.models import tables
from engram.models.records import RecordReader
from engram.models.statement import Statement, in_json_list, prepared
from engram.models.transaction import Reader


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """What ranking needs to know of an episode."""

    id: int
    project_id: int | None
    is_global: bool
    status: Status
    importance: Importance
    is_pinned: bool
    is_lowered: bool
    weight: float
    quality: float
    created_at_ms: int
    access_count: int
    session_ref: int
    summary: str
    entities: str


@dataclass(frozen=True, slots=True)
class NoteRowText:
    """A chunk of a note that may become a hit."""

    id: int
    source: str
    path: str
    heading: str
    text: str
    start_line: int
    changed_at_ns: int
    #: Display name of the project that it belongs to; "" for everyone's.
    project: str = ""


def episode_rows(store: Reader, ids: Sequence[int]) -> dict[int, EpisodeRow]:
    """Row id → what ranking needs of the episode."""
    return {row.id: row for row in store.fetch_records(_EPISODES, _episodes(json.dumps(list(ids))))}


def note_rows(store: Reader, ids: Sequence[int], project_id: int | None = None) -> dict[int, NoteRowText]:
    """Row id → chunk of a note; only what a project may see where one is named."""
    listed = json.dumps(list(ids))
    query = _notes(listed) if project_id is None else _notes_of_project(listed, project_id)
    return {row.id: row for row in store.fetch_records(_NOTES, query)}


def count_documents(store: Reader, table: str) -> int:
    """About how many rows a text index (passage_fts, episode_fts, note_fts) has: the highest row id."""
    return int(store.fetch_value(_HIGHEST_IDS[table]()))


_EPISODES = RecordReader(
    EpisodeRow,
    tables.Episode,
    expressions={
        "is_global": tables.Episode.scope == Scope.GLOBAL,
        "session_ref": fn.COALESCE(tables.Episode.session, 0),
    },
    readers={"is_global": bool, "status": Status.from_stored, "importance": Importance.from_stored},
    is_whole=False,
)


_NOTES = RecordReader(
    NoteRowText,
    tables.NoteChunk,
    expressions={
        "source": tables.Note.source,
        "path": tables.Note.path,
        "changed_at_ns": tables.Note.changed_at_ns,
        "project": fn.COALESCE(tables.Project.name, ""),
    },
    is_whole=False,
)


@prepared
def _episodes(ids: str) -> Query:
    return _EPISODES.select().where(in_json_list(tables.Episode.id, ids))


def _notes_with_owner(ids: str) -> ModelSelect[Any]:
    chunk, owner = tables.NoteChunk, tables.NoteChunkProject
    query = _NOTES.select().join(tables.Note).join_from(chunk, owner, on=owner.id == chunk.id)
    query = query.join_from(owner, tables.Project, JOIN.LEFT_OUTER, on=tables.Project.id == owner.project)
    return query.where(in_json_list(chunk.id, ids))


@prepared
def _notes(ids: str) -> Query:
    return _notes_with_owner(ids)


@prepared
def _notes_of_project(ids: str, project_id: int) -> Query:
    owner = tables.NoteChunkProject.project
    return _notes_with_owner(ids).where(owner.is_null() | (owner == project_id))


def _highest_id(table: Any) -> Callable[[], Statement]:
    return prepared(lambda: table.select(fn.COALESCE(fn.MAX(table.id), 0)))


#: Text index → the query for the highest id of the rows that it indexes.
_HIGHEST_IDS = {
    "passage_fts": _highest_id(tables.Passage),
    "episode_fts": _highest_id(tables.Episode),
    "note_fts": _highest_id(tables.NoteChunk),
}
