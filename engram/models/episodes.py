"""Episodes: kept memories with their evidence, text index, entities and history."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.models.packed import pack_text, unpack_text
from engram.models.store import Store, Value
from engram.models.uuids import pack_uuid, unpack_uuid


@dataclass(frozen=True, slots=True)
class Episode:
    """A kept memory."""

    #: ``ep_`` and 12 hex digits.
    episode_id: str
    #: decision, preference, fix, fact, state, dead-end or turn.
    kind: str
    #: One line; what a bite shows.
    summary: str
    #: Word for word what it rests on, redacted.
    content: str
    #: Claude Code's session; "" for one without.
    session_id: str = ""
    project_id: int | None = None
    #: Display name of the project; "" for none.
    project: str = ""
    #: project or global.
    scope: str = "project"
    facts: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    #: high or normal.
    importance: str = "normal"
    #: auto (an extractor's) or manual (saved).
    source: str = "auto"
    #: Who said it: user, assistant, or agent (saved by a tool).
    voice: str = "assistant"
    #: active, provisional, superseded, archived or suspect.
    status: str = "active"
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


def _episode(row: tuple[Any, ...]) -> Episode:
    values = list(row[:-1])
    values[3] = unpack_text(values[3] if row[-1] is None else row[-1])
    values[8], values[9] = tuple(json.loads(values[8])), tuple(json.loads(values[9]))
    values[17], values[18] = bool(values[17]), bool(values[18])
    return Episode(*values)


def find_episode(store: Store, episode_id: str) -> Episode | None:
    """An episode by its id."""
    found = store.row(f"SELECT {_COLUMNS} {_FROM} WHERE e.episode_id = ?", (episode_id,))
    return None if found is None else _episode(found)


def episodes_by_row(store: Store, row_ids: Sequence[int]) -> dict[int, Episode]:
    """Row id → episode, for those that exist."""
    found: dict[int, Episode] = {}
    for start in range(0, len(row_ids), 500):
        some = list(row_ids[start : start + 500])
        marks = ",".join("?" * len(some))
        for row in store.rows(f"SELECT {_COLUMNS} {_FROM} WHERE e.id IN ({marks})", some):
            episode = _episode(row)
            found[episode.id] = episode
    return found


def select_episodes(
    store: Store, where: str = "1", parameters: Sequence[Value] = (), *, order: str = "e.id", limit: int = -1
) -> list[Episode]:
    """Episodes by a condition over ``e`` (episode), ``s`` (session), ``p`` (project). For use inside ``engram.models``
    and for the named queries below it; never with a user's text in ``where``."""
    rows = store.rows(f"SELECT {_COLUMNS} {_FROM} WHERE {where} ORDER BY {order} LIMIT ?", (*parameters, limit))
    return [_episode(row) for row in rows]


def all_episodes(store: Store) -> list[Episode]:
    """Every episode, the oldest first."""
    return select_episodes(store)


def episodes_of_session(store: Store, session_id: str) -> list[Episode]:
    """Episodes that came from a session, the oldest first."""
    return select_episodes(store, "s.session_id = ?", (session_id,))


def episodes_of_turn(store: Store, turn_id: int) -> list[Episode]:
    """Episodes that rest on a turn."""
    return select_episodes(store, "e.id IN (SELECT episode_ref FROM evidence WHERE turn_id = ?)", (turn_id,))


def latest_episodes(
    store: Store,
    *,
    project_id: int | None = None,
    with_global: bool = True,
    limit: int = 50,
    before_ms: int | None = None,
) -> list[Episode]:
    """Active episodes, the newest first; of a project (and global ones), or of all where ``project_id`` is None."""
    where = "e.status IN ('active', 'provisional')"
    parameters: list[Value] = []
    if project_id is not None:
        where += " AND (e.project_id = ? AND e.scope = 'project'" + (" OR e.scope = 'global')" if with_global else ")")
        parameters.append(project_id)
    if before_ms is not None:
        where += " AND e.created_at_ms <= ?"
        parameters.append(before_ms)
    return select_episodes(store, where, parameters, order="e.created_at_ms DESC, e.id DESC", limit=limit)


def episodes_around(store: Store, at_ms: int, *, project_id: int | None = None, limit: int = 10) -> list[Episode]:
    """Episodes before and after a time, the oldest first; of a project and global ones, or of all."""
    where = "1"
    parameters: tuple[Value, ...] = ()
    if project_id is not None:
        where, parameters = "(e.project_id = ? OR e.scope = 'global')", (project_id,)
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


def episode_by_slot(store: Store, slot: str) -> Episode | None:
    """The episode of a slot."""
    found = select_episodes(store, "e.slot = ?", (slot,))
    return found[0] if found else None


def evidence_of(store: Store, row_id: int) -> list[Evidence]:
    """What an episode rests on, in order."""
    rows = store.rows("SELECT uuid, session_id, turn_id FROM evidence WHERE episode_ref = ? ORDER BY seq", (row_id,))
    return [Evidence(unpack_uuid(row[0]), row[1], row[2]) for row in rows]


def add_episode(
    store: Store, episode: Episode, evidence: Sequence[Evidence], *, action: str = "add", reason: str = "",
    run_id: int | None = None,
) -> Episode:  # fmt: skip
    """Store a new episode with evidence, index, entities and history. Inside ``writing``."""
    now = store.now_ms()
    made = dataclasses.replace(
        episode,
        created_at_ms=episode.created_at_ms or now,
        updated_at_ms=now,
        kept_at_ms=episode.kept_at_ms or now,
        stable_id=episode.stable_id or secrets.token_hex(8),
    )
    session_ref = (
        store.value("SELECT id FROM session WHERE session_id = ?", (made.session_id,)) if made.session_id else None
    )
    columns = _values(made) | {"episode_id": made.episode_id, "session_ref": session_ref, "stable_id": made.stable_id,
                               "origin": made.origin, "created_at_ms": made.created_at_ms,
                               "kept_at_ms": made.kept_at_ms}  # fmt: skip
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    row_id = store.insert(f"INSERT INTO episode ({names}) VALUES ({marks})", list(columns.values()))
    made = dataclasses.replace(made, id=row_id)
    add_evidence(store, row_id, evidence)
    index_episode(store, row_id)
    _link_entities(store, made)
    add_history(store, made.episode_id, action, reason, {}, _beginning(made), run_id=run_id)
    return made


def add_evidence(store: Store, row_id: int, evidence: Sequence[Evidence]) -> None:
    """Add to what an episode rests on; entries it has already are left out. Inside ``writing``."""
    have = {e.uuid for e in evidence_of(store, row_id)}
    seq = int(store.value("SELECT coalesce(max(seq), -1) FROM evidence WHERE episode_ref = ?", (row_id,))) + 1
    new = [e for e in dict.fromkeys(evidence) if not e.uuid or e.uuid not in have]
    store.run_many(
        "INSERT INTO evidence VALUES (?, ?, ?, ?, ?)",
        [(row_id, seq + n, pack_uuid(e.uuid) if e.uuid else None, e.turn_id, e.session_id) for n, e in enumerate(new)],
    )


def change_episode(
    store: Store, episode: Episode, action: str, reason: str = "", *, run_id: int | None = None, **changes: Any
) -> Episode:
    """Change fields of an episode and keep history; text changes drop its vector. Inside ``writing``."""
    if not changes:
        return episode
    after = dataclasses.replace(episode, **changes, revision=episode.revision + 1, updated_at_ms=store.now_ms())
    is_text = bool({"summary", "content", "entities"} & set(changes))
    if is_text:
        unindex_episode(store, episode.id)
    columns = _values(after)
    if "content" in changes:
        columns["packed_content"] = None
    else:
        del columns["content"]  # packed content stays packed
    assignments = ", ".join(f"{name} = ?" for name in columns)
    store.run(f"UPDATE episode SET {assignments} WHERE id = ?", [*columns.values(), episode.id])
    if is_text:
        index_episode(store, episode.id)
        store.run("DELETE FROM vector WHERE owner = 'e' AND owner_id = ?", (episode.id,))
        store.run("DELETE FROM episode_entity WHERE episode_ref = ?", (episode.id,))
        _link_entities(store, after)
    before, now = snapshot(episode), snapshot(after)
    keys = [key for key in now if now[key] != before.get(key)]
    add_history(
        store,
        episode.episode_id,
        action,
        reason,
        {k: before.get(k) for k in keys},
        {k: now[k] for k in keys},
        run_id=run_id,
    )
    return after


def note_access(store: Store, episode_id: str) -> None:
    """Count that a memory was expanded."""
    with store.writing():
        store.run(
            "UPDATE episode SET access_count = access_count + 1, accessed_at_ms = ? WHERE episode_id = ?",
            (store.now_ms(), episode_id),
        )
        store.run(
            "UPDATE injection SET expanded_at_ms = ? WHERE id = (SELECT max(id) FROM injection WHERE episode_id = ?) "
            "AND expanded_at_ms IS NULL",
            (store.now_ms(), episode_id),
        )


def delete_episode(store: Store, episode: Episode) -> None:
    """Forget an episode for good: row, index, vector, entities, history, injections. Inside ``writing``.

    Leaves tombstones for its id and its slot, so that neither an import nor the extractor brings it back.
    """
    now = store.now_ms()
    unindex_episode(store, episode.id)
    store.run("DELETE FROM vector WHERE owner = 'e' AND owner_id = ?", (episode.id,))
    store.run("DELETE FROM evidence WHERE episode_ref = ?", (episode.id,))
    store.run("DELETE FROM episode_entity WHERE episode_ref = ?", (episode.id,))
    store.run("DELETE FROM entity WHERE id NOT IN (SELECT entity_id FROM episode_entity)")
    store.run("DELETE FROM history WHERE episode_id = ?", (episode.episode_id,))
    store.run("DELETE FROM injection WHERE episode_id = ?", (episode.episode_id,))
    store.run(
        "UPDATE episode SET superseded_by = '' WHERE superseded_by = ? AND superseded_by <> ''", (episode.episode_id,)
    )
    store.run("DELETE FROM episode WHERE id = ?", (episode.id,))
    store.run("INSERT OR IGNORE INTO tombstone VALUES ('episode', ?, ?)", (episode.episode_id.encode(), now))
    if episode.slot:
        store.run("INSERT OR IGNORE INTO tombstone VALUES ('slot', ?, ?)", (episode.slot.encode(), now))


def is_slot_forgotten(store: Store, slot: str) -> bool:
    """True where the user forgot what this slot held."""
    return store.row("SELECT 1 FROM tombstone WHERE kind = 'slot' AND key = ?", (slot.encode(),)) is not None


@dataclass(frozen=True, slots=True)
class Change:
    """One step of an episode's history."""

    at_ms: int
    action: str
    reason: str
    run_id: int | None
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    episode_id: str = ""
    id: int = 0


def add_history(
    store: Store, episode_id: str, action: str, reason: str, before: Mapping[str, Any], after: Mapping[str, Any], *,
    run_id: int | None = None,
) -> None:  # fmt: skip
    """Keep one step of an episode's history. Inside ``writing``."""
    store.run(
        "INSERT INTO history (episode_id, at_ms, action, reason, run_id, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (episode_id, store.now_ms(), action, reason, run_id,
         json.dumps(before, ensure_ascii=False), json.dumps(after, ensure_ascii=False)),
    )  # fmt: skip


def history_of(store: Store, episode_id: str) -> list[Change]:
    """An episode's history, the oldest step first."""
    rows = store.rows(
        "SELECT at_ms, action, reason, run_id, before, after, episode_id, id FROM history WHERE episode_id = ? ORDER BY id",
        (episode_id,),
    )
    return [
        Change(row[0], row[1], row[2], row[3], json.loads(row[4]), json.loads(row[5]), row[6], row[7]) for row in rows
    ]


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


def snapshot(episode: Episode) -> dict[str, Any]:
    """What history keeps of an episode."""
    left_out = {"id", "revision", "updated_at_ms", "accessed_at_ms", "access_count", "project"}
    facts = {k: v for k, v in dataclasses.asdict(episode).items() if k not in left_out}
    return facts | {"facts": list(episode.facts), "entities": list(episode.entities)}


def _beginning(episode: Episode) -> dict[str, Any]:
    """What history keeps of a new episode. The rest stands in the episode, or in what a later change replaced."""
    facts = snapshot(episode)
    return {key: facts[key] for key in ("kind", "status", "importance", "confidence", "source", "extractor")}


def index_episode(store: Store, row_id: int) -> None:
    """Take an episode into the text index as it stands in the table. Inside ``writing``."""
    store.run_many("INSERT INTO episode_fts(rowid, summary, content, entities) VALUES (?, ?, ?, ?)",
                   _indexed(store, row_id))  # fmt: skip


def unindex_episode(store: Store, row_id: int) -> None:
    """Take an episode out of the text index; it must stand in the table as it was indexed. Inside ``writing``."""
    store.run_many("INSERT INTO episode_fts(episode_fts, rowid, summary, content, entities) VALUES ('delete', ?, ?, ?, ?)",
                   _indexed(store, row_id))  # fmt: skip


def rebuild_episode_index(store: Store) -> None:
    """Make the text index of episodes anew. Inside ``writing``."""
    store.run("INSERT INTO episode_fts(episode_fts) VALUES ('delete-all')")
    for (row_id,) in store.rows("SELECT id FROM episode ORDER BY id"):
        index_episode(store, int(row_id))


def _indexed(store: Store, row_id: int) -> list[tuple[Value, ...]]:
    """What the index holds of an episode. Content that was packed because of its age is not in it."""
    rows = store.rows("SELECT id, summary, content, entities FROM episode WHERE id = ?", (row_id,))
    return [(row[0], row[1], unpack_text(row[2]), row[3]) for row in rows]


def _link_entities(store: Store, episode: Episode) -> None:
    for name in dict.fromkeys(episode.entities):
        store.run("INSERT OR IGNORE INTO entity (kind, name) VALUES ('', ?)", (name,))
        store.run(
            "INSERT OR IGNORE INTO episode_entity SELECT id, ? FROM entity WHERE kind = '' AND name = ?",
            (episode.id, name),
        )


def related_episodes(store: Store, episode: Episode, limit: int = 5) -> list[Episode]:
    """Episodes that share the most, and the rarest, entities with this one; never of another project, never suspect."""
    rows = store.rows(
        "SELECT o.episode_ref, sum(1.0 / (SELECT count(*) FROM episode_entity x WHERE x.entity_id = o.entity_id)) AS weight "
        "FROM episode_entity m JOIN episode_entity o ON o.entity_id = m.entity_id AND o.episode_ref <> m.episode_ref "
        "JOIN episode e ON e.id = o.episode_ref WHERE m.episode_ref = ? AND e.status IN ('active', 'provisional') "
        "AND e.suspect = '' AND e.is_lowered = 0 AND (e.scope = 'global' OR e.project_id IS ?) GROUP BY o.episode_ref ORDER BY weight DESC, o.episode_ref LIMIT ?",
        (episode.id, episode.project_id, limit),
    )
    by_row = episodes_by_row(store, [int(row[0]) for row in rows])
    return [by_row[int(row[0])] for row in rows if int(row[0]) in by_row]


def count_episodes(store: Store) -> Iterable[tuple[str, str, str, int]]:
    """(project, importance, status, number) of all episodes."""
    return [
        (row[0], row[1], row[2], row[3])
        for row in store.rows(
            "SELECT coalesce(p.name, ''), e.importance, e.status, count(*) FROM episode e "
            "LEFT JOIN project p ON p.id = e.project_id GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
    ]


def unpacked_before(store: Store, before_ms: int) -> list[Episode]:
    """Episodes that were neither said, kept nor used since a time, and whose content is not packed yet."""
    last_touched = "max(e.created_at_ms, e.kept_at_ms, coalesce(e.accessed_at_ms, 0))"
    return select_episodes(store, f"{last_touched} < ? AND e.packed_content IS NULL AND e.content <> ''", (before_ms,))
