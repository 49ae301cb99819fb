"""What a search needs of passages, episodes and note chunks: light rows of candidates, full places of hits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from engram.enums import Importance, Status
from engram.models.conditions import IS_GLOBAL
from engram.models.transaction import Reader
from engram.models.turns import EvidencePlace
from engram.models.uuids import unpack_uuid


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A passage that may become a hit."""

    id: int
    turn_id: int
    session_ref: int
    project_id: int | None
    #: user or assistant.
    role: str
    said_id: int
    text: str
    #: When it was said, in milliseconds since 1970; 0 where it is not known.
    at_ms: int
    #: Where it begins in its text, and how long that is, in characters.
    start: int
    said_chars: int
    #: True where nothing was said after it in its turn, as far as is stored.
    is_closing: bool


@dataclass(frozen=True, slots=True)
class PassagePlace:
    """Where a passage stands."""

    place: EvidencePlace
    #: Display name of the project; "" for none.
    project: str
    #: The turn's id that never changes.
    turn_stable_id: str


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


def passage_rows(store: Reader, ids: Sequence[int]) -> dict[int, PassageRow]:
    """Row id → passage, for those that exist."""
    sql = (
        "SELECT p.id, p.turn_id, p.session_ref, p.project_id, p.role, p.said_id, "
        "substr(s.text, p.start + 1, p.stop - p.start), coalesce(s.at_ms, t.started_at_ms, 0), p.start, "
        "length(s.text), NOT EXISTS (SELECT 1 FROM said n WHERE n.turn_id = p.turn_id AND n.seq > s.seq) "
        "FROM passage p JOIN said s ON s.id = p.said_id JOIN turn t ON t.id = p.turn_id WHERE p.id IN"
    )
    return {row[0]: PassageRow(*row) for row in store.rows_among(sql, ids)}


def passage_places(store: Reader, ids: Sequence[int]) -> dict[int, PassagePlace]:
    """Row id → where the passage stands."""
    sql = (
        "SELECT p.id, n.session_id, s.uuid, f.path, s.line, coalesce(j.name, ''), t.stable_id "
        "FROM passage p JOIN said s ON s.id = p.said_id JOIN turn t ON t.id = p.turn_id "
        "JOIN session n ON n.id = p.session_ref JOIN transcript f ON f.id = t.transcript_id "
        "LEFT JOIN project j ON j.id = p.project_id WHERE p.id IN"
    )
    return {
        row[0]: PassagePlace(
            EvidencePlace(row[1], unpack_uuid(row[2]), os.fsdecode(bytes(row[3])), row[4]), row[5], row[6]
        )
        for row in store.rows_among(sql, ids)
    }


def episode_rows(store: Reader, ids: Sequence[int]) -> dict[int, EpisodeRow]:
    """Row id → what ranking needs of the episode."""
    sql = (
        f"SELECT e.id, e.project_id, {IS_GLOBAL}, e.status, e.importance, e.is_pinned, e.is_lowered, e.weight, e.quality, "
        "e.created_at_ms, e.access_count, coalesce(e.session_ref, 0), e.summary, e.entities FROM episode e WHERE e.id IN"
    )
    return {
        row[0]: EpisodeRow(
            row[0], row[1], bool(row[2]), Status.from_stored(row[3]), Importance.from_stored(row[4]), bool(row[5]), bool(row[6]), *row[7:]
        )
        for row in store.rows_among(sql, ids)
    }  # fmt: skip


def note_rows(store: Reader, ids: Sequence[int], project_id: int | None = None) -> dict[int, NoteRowText]:
    """Row id → chunk of a note; only what a project may see where one is named."""
    seen = "1" if project_id is None else f"(o.project_id IS NULL OR o.project_id = {int(project_id)})"
    sql = (
        "SELECT c.id, n.source, n.path, c.heading, c.text, c.start_line, n.changed_at_ns, coalesce(p.name, '') "
        "FROM note_chunk c JOIN note n ON n.id = c.note_id JOIN note_chunk_project o ON o.id = c.id "
        f"LEFT JOIN project p ON p.id = o.project_id WHERE {seen} AND c.id IN"
    )
    return {row[0]: NoteRowText(*row) for row in store.rows_among(sql, ids)}


def passage_spots(store: Reader, ids: Sequence[int], project_id: int | None = None) -> list[tuple[int, int, int, int]]:
    """``(row id, session, turn, said)`` of passages that exist, ordered by row id; of one project where it is named."""
    of_project = "" if project_id is None else f"project_id = {int(project_id)} AND"
    sql = f"SELECT id, session_ref, turn_id, said_id FROM passage WHERE {of_project} id IN"
    return sorted((row[0], row[1], row[2], row[3]) for row in store.rows_among(sql, ids))


def passages_between(
    store: Reader, start_ms: int, stop_ms: int, *, project_id: int | None = None, limit: int = 400
) -> list[int]:
    """Row ids of passages of the turns that began in a time, at most ``limit``, spread evenly over it."""
    of_project = "AND t.project_id = ?" if project_id is not None else ""
    parameters = (start_ms, stop_ms, *(() if project_id is None else (project_id,)))
    rows = store.rows(
        "SELECT p.id FROM turn t JOIN passage p ON p.turn_id = t.id "
        f"WHERE t.started_at_ms >= ? AND t.started_at_ms < ? {of_project} ORDER BY p.id LIMIT 20000",
        parameters,
    )
    ids = [int(row[0]) for row in rows]
    return ids[:: max(1, -(-len(ids) // limit))]


def count_documents(store: Reader, table: str) -> int:
    """About how many rows a text index (passage_fts, episode_fts, note_fts) has: the highest row id."""
    rows = {"passage_fts": "passage", "episode_fts": "episode", "note_fts": "note_chunk"}[table]
    return int(store.value(f"SELECT coalesce(max(id), 0) FROM {rows}"))


def last_turn_ms(store: Reader) -> int:
    """When the last turn ended, in milliseconds since 1970; 0 where there is none."""
    return int(store.value("SELECT coalesce(max(coalesce(ended_at_ms, started_at_ms)), 0) FROM turn"))
