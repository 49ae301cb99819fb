"""Episodes: kept memories with their evidence, text index, entities and history."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Importance, Kind, Scope, Source, Status, StoredEnum, Voice
from engram.models.conditions import IS_CURRENT, IS_GLOBAL, IS_OF_PROJECT
from engram.models.packed import unpack_text
from engram.models.transaction import Reader, Value
from engram.models.uuids import unpack_uuid

#: Longest content of a memory that Engram makes or merges, in characters. What somebody saves may be longer.
MAX_CONTENT_CHARACTERS = 4_000
#: Longest summary, in characters, also of a merged or saved memory.
MAX_SUMMARY_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Episode:
    """A kept memory."""

    #: ``ep_`` and 12 hex digits.
    episode_id: str
    kind: Kind
    #: One line; what a bite shows.
    summary: str
    #: Word for word what it rests on, redacted.
    content: str
    #: Claude Code's session; "" for one without.
    session_id: str = ""
    project_id: int | None = None
    #: Display name of the project; "" for none.
    project: str = ""
    scope: Scope = Scope.PROJECT
    facts: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    importance: Importance = Importance.NORMAL
    source: Source = Source.AUTO
    voice: Voice = Voice.ASSISTANT
    status: Status = Status.ACTIVE
    confidence: float = 0.5
    quality: float = 0.0
    #: Why it is never injected; "" where it may be.
    suspect: str = ""
    is_pinned: bool = False
    #: Lowered by ``engram bad``.
    is_lowered: bool = False
    #: Multiplies its score; falls with age.
    weight: float = 1.0
    #: Why it may no longer hold; "" where nothing says so.
    stale_reason: str = ""
    valid_from_ms: int | None = None
    valid_to_ms: int | None = None
    superseded_by: str = ""
    extractor: str = "local"
    created_at_ms: int = 0
    accessed_at_ms: int | None = None
    access_count: int = 0
    confirmations: int = 0
    graduated_at_ms: int | None = None
    #: When Engram kept it; ``created_at_ms`` is when it was said.
    kept_at_ms: int = 0
    #: Tells the same proposal of the same turn again; None for saved ones.
    slot: str | None = None
    stable_id: str = ""
    origin: str = ""
    revision: int = 1
    updated_at_ms: int = 0
    #: Row id; 0 where it is not stored yet.
    id: int = 0

    @property
    def is_current(self) -> bool:
        """True for a memory that was neither archived nor superseded."""
        return self.status.is_current

    @property
    def holds_from_ms(self) -> int:
        """Since when it holds: since it was said, unless another time was given, in milliseconds since 1970."""
        return self.valid_from_ms or self.created_at_ms


@dataclass(frozen=True, slots=True)
class Evidence:
    """An entry that an episode rests on."""

    uuid: str
    session_id: str = ""
    #: Row id of the turn; None where it is not known.
    turn_id: int | None = None


def new_episode_id() -> str:
    """A new id, ``ep_`` and 12 hex digits."""
    return f"ep_{secrets.token_hex(6)}"


def is_episode_id(text: str) -> bool:
    """True for a text of the form of an episode id."""
    return len(text) == 15 and text.startswith("ep_") and all(c in "0123456789abcdef" for c in text[3:])


def slot_of(turn_key: str, kind: str, summary: str) -> str:
    """The slot of a proposal: the same proposal of the same turn has the same slot."""
    plain = " ".join(summary.lower().split())
    return hashlib.sha256(f"{turn_key}\0{kind}\0{plain}".encode()).hexdigest()[:32]


_COLUMNS = (
    "e.episode_id, e.kind, e.summary, e.content, coalesce(s.session_id, ''), e.project_id, coalesce(p.name, ''), e.scope, "
    "e.facts, e.entities, e.importance, e.source, e.voice, e.status, e.confidence, e.quality, e.suspect, e.is_pinned, "
    "e.is_lowered, e.weight, e.stale_reason, e.valid_from_ms, e.valid_to_ms, e.superseded_by, e.extractor, "
    "e.created_at_ms, e.accessed_at_ms, e.access_count, e.confirmations, e.graduated_at_ms, e.kept_at_ms, e.slot, e.stable_id, "
    "e.origin, e.revision, e.updated_at_ms, e.id, e.packed_content"
)
_FROM = "FROM episode e LEFT JOIN session s ON s.id = e.session_ref LEFT JOIN project p ON p.id = e.project_id"


#: Field of an episode → its enum.
ENUM_FIELDS: Mapping[str, type[StoredEnum]] = {
    "kind": Kind,
    "scope": Scope,
    "importance": Importance,
    "source": Source,
    "voice": Voice,
    "status": Status,
}
#: Place of a column in a row → its enum.
_ENUM_PLACES = [
    (place, ENUM_FIELDS[field.name])
    for place, field in enumerate(dataclasses.fields(Episode))
    if field.name in ENUM_FIELDS
]


def _episode(row: tuple[Any, ...]) -> Episode:
    values = list(row[:-1])
    values[3] = unpack_text(values[3] if row[-1] is None else row[-1])
    for place, enum in _ENUM_PLACES:
        values[place] = enum.from_stored(values[place])
    values[8], values[9] = _texts(values[8]), _texts(values[9])
    values[17], values[18] = bool(values[17]), bool(values[18])
    return Episode(*values)


def _texts(stored: object) -> tuple[str, ...]:
    """A stored JSON list of texts; what is malformed is left out, so that one bad row costs no other."""
    try:
        values = json.loads(stored) if isinstance(stored, str | bytes) else None
    except (ValueError, RecursionError):
        return ()
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def find_episode(store: Reader, episode_id: str) -> Episode | None:
    """An episode by its id."""
    found = store.row(f"SELECT {_COLUMNS} {_FROM} WHERE e.episode_id = ?", (episode_id,))
    return None if found is None else _episode(found)


def episodes_by_row(store: Reader, row_ids: Sequence[int]) -> dict[int, Episode]:
    """Row id → episode, for those that exist."""
    found = (_episode(row) for row in store.rows_among(f"SELECT {_COLUMNS} {_FROM} WHERE e.id IN", row_ids))
    return {episode.id: episode for episode in found}


def select_episodes(
    store: Reader, where: str = "1", parameters: Sequence[Value] = (), *, order: str = "e.id", limit: int = -1
) -> list[Episode]:
    """Episodes by a condition over ``e`` (episode), ``s`` (session), ``p`` (project). For use inside ``engram.models``
    and for the named queries below it; never with a user's text in ``where``."""
    rows = store.rows(f"SELECT {_COLUMNS} {_FROM} WHERE {where} ORDER BY {order} LIMIT ?", (*parameters, limit))
    return [_episode(row) for row in rows]


def all_episodes(store: Reader) -> list[Episode]:
    """Every episode, the oldest first."""
    return select_episodes(store)


def episodes_of_session(store: Reader, session_id: str) -> list[Episode]:
    """Episodes that came from a session, the oldest first."""
    return select_episodes(store, "s.session_id = ?", (session_id,))


def episodes_of_turn(store: Reader, turn_id: int) -> list[Episode]:
    """Episodes that rest on a turn."""
    return select_episodes(store, "e.id IN (SELECT episode_ref FROM evidence WHERE turn_id = ?)", (turn_id,))


def latest_episodes(
    store: Reader,
    *,
    project_id: int | None = None,
    with_global: bool = True,
    limit: int = 50,
    before_ms: int | None = None,
) -> list[Episode]:
    """Active episodes, the newest first; of a project (and global ones), or of all where ``project_id`` is None."""
    where = IS_CURRENT
    parameters: list[Value] = []
    if project_id is not None:
        where += f" AND (e.project_id = ? AND {IS_OF_PROJECT}" + (f" OR {IS_GLOBAL})" if with_global else ")")
        parameters.append(project_id)
    if before_ms is not None:
        where += " AND e.created_at_ms <= ?"
        parameters.append(before_ms)
    return select_episodes(store, where, parameters, order="e.created_at_ms DESC, e.id DESC", limit=limit)


def living_episodes(store: Reader, project_id: int | None) -> list[Episode]:
    """What is in force in a project: its memories and those that hold everywhere, the oldest first."""
    return select_episodes(
        store,
        f"{IS_CURRENT} AND (e.project_id IS ? OR {IS_GLOBAL})",
        (project_id,),
        order="e.created_at_ms, e.summary, e.id",
    )


def episodes_around(store: Reader, at_ms: int, *, project_id: int | None = None, limit: int = 10) -> list[Episode]:
    """Episodes before and after a time, the oldest first; of a project and global ones, or of all."""
    where = "1"
    parameters: tuple[Value, ...] = ()
    if project_id is not None:
        where, parameters = f"(e.project_id = ? OR {IS_GLOBAL})", (project_id,)
    half = max(1, limit // 2)
    before = select_episodes(
        store,
        f"{where} AND e.created_at_ms <= ?",
        (*parameters, at_ms),
        order="e.created_at_ms DESC, e.id DESC",
        limit=half,
    )
    after = select_episodes(
        store,
        f"{where} AND e.created_at_ms > ?",
        (*parameters, at_ms),
        order="e.created_at_ms, e.id",
        limit=limit - half,
    )
    return before[::-1] + after


def episode_by_slot(store: Reader, slot: str) -> Episode | None:
    """The episode of a slot."""
    found = select_episodes(store, "e.slot = ?", (slot,))
    return found[0] if found else None


def evidence_of(store: Reader, row_id: int) -> list[Evidence]:
    """What an episode rests on, in order."""
    rows = store.rows("SELECT uuid, session_id, turn_id FROM evidence WHERE episode_ref = ? ORDER BY seq", (row_id,))
    return [Evidence(unpack_uuid(row[0]), row[1], row[2]) for row in rows]


def may_see(episode: Episode, project_id: int) -> bool:
    """True where a project may see a memory: it is global, or the project's own."""
    return episode.scope == Scope.GLOBAL or episode.project_id == project_id


def may_stand_for(newer: Episode, older: Episode) -> bool:
    """True where a memory may replace another: it holds everywhere, or was made in the same project."""
    return newer.scope == Scope.GLOBAL or older.project_id == newer.project_id


def may_see_context(episode: Episode, project_id: int) -> bool:
    """True where a project may also see what a memory was made from: its content, facts and evidence.

    A global memory that was made in another project tells its one line there, and nothing of that project.
    """
    return episode.project_id in (None, project_id) or (
        episode.scope == Scope.GLOBAL and episode.source == Source.MANUAL
    )


def related_episodes(store: Reader, episode: Episode, project_id: int | None, limit: int = 5) -> list[Episode]:
    """Episodes that share the most, and the rarest, entities with this one; never suspect.

    Only global ones and those of ``project_id``, which may be another project than that of a global episode.
    """
    rows = store.rows(
        "SELECT o.episode_ref, sum(1.0 / (SELECT count(*) FROM episode_entity x WHERE x.entity_id = o.entity_id)) AS weight "
        "FROM episode_entity m JOIN episode_entity o ON o.entity_id = m.entity_id AND o.episode_ref <> m.episode_ref "
        "JOIN episode e ON e.id = o.episode_ref WHERE m.episode_ref = ? "
        f"AND {IS_CURRENT} "
        f"AND e.suspect = '' AND e.is_lowered = 0 AND ({IS_GLOBAL} OR e.project_id IS ?) "
        "GROUP BY o.episode_ref ORDER BY weight DESC, o.episode_ref LIMIT ?",
        (episode.id, project_id, limit),
    )
    by_row = episodes_by_row(store, [int(row[0]) for row in rows])
    return [by_row[int(row[0])] for row in rows if int(row[0]) in by_row]


def count_episodes(store: Reader, project_id: int) -> tuple[list[tuple[str, str, str, int]], int]:
    """``(scope, importance, status, number)`` of what a project may see, and the number of all other episodes."""
    rows = store.rows(
        f"SELECT e.scope, e.importance, e.status, count(*) FROM episode e WHERE {IS_GLOBAL} OR e.project_id = ? "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        (project_id,),
    )
    seen = [(str(row[0]), str(row[1]), str(row[2]), int(row[3])) for row in rows]
    total = int(store.value("SELECT count(*) FROM episode"))
    return seen, total - sum(number for *_, number in seen)


def unpacked_before(store: Reader, before_ms: int) -> list[Episode]:
    """Episodes that were neither said, kept nor used since a time, and whose content is not packed yet."""
    last_touched = "max(e.created_at_ms, e.kept_at_ms, coalesce(e.accessed_at_ms, 0))"
    return select_episodes(store, f"{last_touched} < ? AND e.packed_content IS NULL AND e.content <> ''", (before_ms,))
