"""Copy everything in a project from one database into another, with new row ids, by raw SQL.

Row ids are shifted past the target's highest one, and so are references to them. The new rows are added to the text
indexes, and keep their vectors. Data that has a meaning only in the source (runs, spending, pauses) is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from peewee import AutoField, ForeignKeyField

from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories.memory_index import index_memory
from engram.models.projects.projects import ProjectRow, ensure_project, find_project_of_identity
from engram.models.rescue.clean_copies import read_tombstones
from engram.models.sessions.reading_progress import read_from_beginning

#: The sessions that belong to the project in the target, including those that began elsewhere and worked in it.
_IS_OF_PROJECT = "(project_id = {p} OR id IN (SELECT session_ref FROM source.turn WHERE project_id = {p}))"
_SESSIONS = f"SELECT id FROM source.session WHERE {_IS_OF_PROJECT}"
_SESSION_IDS = f"SELECT session_id FROM source.session WHERE {_IS_OF_PROJECT}"
_TURNS = "SELECT id FROM source.turn WHERE project_id = {p}"
_MEMORIES = "SELECT id FROM source.episode WHERE project_id = {p}"
_MEMORY_IDS = "SELECT episode_id FROM source.episode WHERE project_id = {p}"
#: Prefixes of the ids of the project's quotations, like ``quotation_prefix`` in ``engram.models.sessions``.
_QUOTED = f"SELECT printf('q_%012x', (key >> 16) & 281474976710655) FROM source.entry WHERE turn_id IN ({_TURNS})"
_TRANSCRIPTS = (
    f"SELECT id FROM source.transcript WHERE session_ref IN ({_SESSIONS}) "
    "UNION SELECT transcript_id FROM source.turn WHERE project_id = {p}"
)
_SESSION_OR_NONE = f"CASE WHEN session_ref IN ({_SESSIONS}) THEN session_ref + {{session}} END"
_TURN_OR_NONE = f"CASE WHEN turn_id IN ({_TURNS}) THEN turn_id + {{turn}} END"

#: For each table, the condition of the rows to copy, and the columns that are replaced by an expression; row ids and
#: foreign keys are added by ``_references``. ``{TABLE}`` is the offset that is added to that table's row ids; ``{p}``
#: and ``{t}`` are the project's row ids in the source and the target. A row is copied after the rows that it refers to.
_ROWS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("session", _IS_OF_PROJECT, {}),
    ("pull_request", f"session_ref IN ({_SESSIONS})", {}),
    ("known_value", f"session_ref IN ({_SESSIONS})", {}),
    ("context", f"session_id IN ({_SESSION_IDS})", {}),
    ("copied_history", f"session_id IN ({_SESSION_IDS})", {}),
    ("transcript", f"id IN ({_TRANSCRIPTS})", {"session_ref": _SESSION_OR_NONE}),
    ("bad_line", f"transcript_id IN ({_TRANSCRIPTS})", {}),
    ("turn", "project_id = {p}", {}),
    ("entry", f"turn_id IN ({_TURNS})", {"turn_id": "turn_id + {turn}"}),
    ("said", f"turn_id IN ({_TURNS})", {}),
    ("failed_call", f"turn_id IN ({_TURNS})", {}),
    ("model_reading", f"turn_id IN ({_TURNS})", {}),
    (
        "passage",
        f"turn_id IN ({_TURNS})",
        {"turn_id": "turn_id + {turn}", "session_ref": "session_ref + {session}", "project_id": "{t}"},
    ),
    ("episode", "project_id = {p}", {"session_ref": _SESSION_OR_NONE}),
    ("evidence", f"episode_ref IN ({_MEMORIES})", {"turn_id": _TURN_OR_NONE}),
    (
        "history",
        f"episode_id IN ({_MEMORY_IDS}) OR substr(episode_id, 1, 14) IN ({_QUOTED})",
        {"run_id": "NULL", "undoes": "undoes + {history}"},
    ),
    ("contradiction", f"older_id IN ({_MEMORY_IDS}) AND newer_id IN ({_MEMORY_IDS})", {"run_id": "NULL"}),
    ("injection", f"session_id IN ({_SESSION_IDS})", {}),
    ("shown", f"session_id IN ({_SESSION_IDS})", {}),
    ("outcome", f"session_id IN ({_SESSION_IDS})", {"project_id": "{t}"}),
    ("outcome_candidate", f"outcome_id IN (SELECT id FROM source.outcome WHERE session_id IN ({_SESSION_IDS}))", {}),
    ("work", f"key IN ({_SESSION_IDS})", {}),
    ("branch", "project_id = {p}", {}),
    ("standing_file", "project_id = {p}", {}),
    ("project_folder", "project_id = {p}", {"project_id": "{t}"}),
    ("tombstone", "1", {}),
)
#: Tables whose rows may already exist in the target; those rows are not copied.
_SHARED = frozenset({"transcript", "context", "copied_history", "work", "standing_file", "project_folder", "tombstone"})
#: Tables whose rows are deleted with their session, with the condition for those rows.
_OF_SESSION = (
    ("known_value", "session_ref IN ({sessions})"),
    ("context", "session_id IN ({session_ids})"),
    ("copied_history", "session_id IN ({session_ids})"),
    ("work", "key IN ({session_ids})"),
)

_TABLES = {table._meta.table_name: table for table in tables.ALL_TABLES}


def _references(name: str) -> Iterator[tuple[str, str]]:
    """Yield each row id and foreign key of a table with the expression that replaces it."""
    for field in _TABLES[name]._meta.sorted_fields:
        if isinstance(field, ForeignKeyField):
            owner = field.rel_model._meta.table_name
            yield field.column_name, "{t}" if owner == "project" else f"{field.column_name} + {{{owner}}}"
        elif isinstance(field, AutoField):
            yield field.column_name, f"{field.column_name} + {{{name}}}"


_COPIES = tuple((name, rows, dict(_references(name)) | others) for name, rows, others in _ROWS)


def copy_project(target: Store, source: Path, project: ProjectRow) -> ProjectRow:
    """Copy everything in a project into another database in one transaction; return the project as stored there.

    If the target has one of its sessions or memories, nothing is copied, because an earlier call copied everything.

    Raises:
        StoreError: a database can't be read or written; the target is unchanged.
    """
    with target.attached(source, "source"), target.transaction() as tx:
        known = find_project_of_identity(tx, project.identity)
        if known is not None and _is_copied(tx, project.id):
            return known
        copy = ensure_project(tx, project.identity, project.name, project.root)
        tx.run(
            "UPDATE project SET (remote, first_commit) = "
            "(SELECT remote, first_commit FROM source.project WHERE id = ?) WHERE id = ?",
            (project.id, copy.id),
        )
        offsets = {
            name: int(tx.value(f'SELECT coalesce(max(id), 0) FROM "{name}"'))
            for name, _, columns in _COPIES
            if "id" in columns
        }
        for name, condition, columns in _COPIES:
            _copy_rows(tx, name, condition, columns, offsets | {"p": project.id, "t": copy.id})
        _copy_entities(tx, project.id, offsets["episode"])
        _fill_text_indexes(tx, offsets)
        _copy_vectors(tx, project.id, offsets)
    return copy


def _is_copied(tx: Tx, project_id: int) -> bool:
    for table, key, rows in (("session", "session_id", _SESSION_IDS), ("episode", "episode_id", _MEMORY_IDS)):
        if tx.value(f"SELECT 1 FROM {table} WHERE {key} IN ({rows.format(p=project_id)}) LIMIT 1"):
            return True
    return False


def take_over_salt(target: Store, source: Reader) -> None:
    """Copy another database's salt to a new one, so that a value from an ``.env`` file has the same hash in both."""
    with target.transaction() as tx:
        put_meta(tx, "salt", get_meta(source, "salt") or "")


def drop_project_rows(tx: Tx, project: ProjectRow) -> None:
    """Delete what remains of a project after its contents are erased: its sessions, transcripts and previous names."""
    row_id = (project.id,)
    # A session that also worked in another project is kept, and now belongs to that one.
    tx.run(
        "UPDATE session SET cwd = '', is_global = 0, project_id = (SELECT project_id FROM turn WHERE session_ref = "
        "session.id AND project_id IS NOT NULL LIMIT 1) WHERE project_id = ? AND id IN (SELECT session_ref FROM turn)",
        row_id,
    )
    sessions = "SELECT id FROM session WHERE project_id = ?"
    session_ids = "SELECT session_id FROM session WHERE project_id = ?"
    of_session = [(table, rows.format(sessions=sessions, session_ids=session_ids)) for table, rows in _OF_SESSION]
    for sql in (
        f"UPDATE episode SET session_ref = NULL WHERE session_ref IN ({sessions})",
        f"DELETE FROM bad_line WHERE transcript_id IN (SELECT id FROM transcript WHERE session_ref IN ({sessions}))",
        f"DELETE FROM transcript WHERE session_ref IN ({sessions}) AND id NOT IN (SELECT transcript_id FROM turn)",
        f"UPDATE transcript SET session_ref = NULL WHERE session_ref IN ({sessions})",
        *(f"DELETE FROM {table} WHERE {rows}" for table, rows in of_session),
        "DELETE FROM session WHERE project_id = ?",
        "UPDATE spend SET project_id = NULL WHERE project_id = ?",
        "DELETE FROM project_folder WHERE project_id = ?",
        "DELETE FROM former_name WHERE identity = (SELECT identity FROM project WHERE id = ?)",
        "DELETE FROM project WHERE id = ?",
    ):
        tx.run(sql, row_id)


def make_project_scoped(tx: Tx, project: ProjectRow) -> None:
    """Change the scope of a project's global memories to the project, because they move with it."""
    tx.run("UPDATE episode SET scope = 'project' WHERE project_id = ? AND scope = 'global'", (project.id,))


def tombstone_times(store: Reader) -> dict[tuple[str, bytes], int]:
    return {(kind, key): at_ms for kind, key, at_ms in read_tombstones(store)}


def put_tombstones_back(tx: Tx, before: Mapping[tuple[str, bytes], int]) -> None:
    """Restore the tombstones from before a move.

    A move is not a deletion, so the memories must be allowed to come back.
    """
    now = tombstone_times(tx)
    new = [pair for pair in now if pair not in before]
    tx.run_many("DELETE FROM tombstone WHERE kind = ? AND key = ?", new)
    later = [(at_ms, *pair) for pair, at_ms in before.items() if now.get(pair, at_ms) != at_ms]
    tx.run_many("UPDATE tombstone SET at_ms = ? WHERE kind = ? AND key = ?", later)


def move_out_of_copy(tx: Tx, identities: Collection[str], erase: Callable[[Tx], int]) -> int:
    """Erase a project from a backup with ``erase``, leaving no tombstones; return the result of ``erase``.

    When that backup is restored, the project may have left its vault again, so its data must not count as forgotten,
    nor its transcripts as read.
    """
    before = tombstone_times(tx)
    found = [find_project_of_identity(tx, identity) for identity in identities]
    places = {project.id: project for project in found if project is not None}.values()
    for project in places:
        for (row_id,) in tx.rows("SELECT DISTINCT transcript_id FROM turn WHERE project_id = ?", (project.id,)):
            read_from_beginning(tx, row_id)
    erased = erase(tx)
    put_tombstones_back(tx, before)
    for project in places:
        drop_project_rows(tx, project)
    return erased


def _copy_rows(tx: Tx, name: str, condition: str, columns: dict[str, str], row_ids: dict[str, int]) -> None:
    names = tables.column_names(_TABLES[name])
    values = ", ".join(columns.get(column, f'"{column}"').format(**row_ids) for column in names)
    listed = ", ".join(f'"{column}"' for column in names)
    verb = "INSERT OR IGNORE" if name in _SHARED else "INSERT"
    where = condition.format(**row_ids)
    tx.run(f'{verb} INTO main."{name}" ({listed}) SELECT {values} FROM source."{name}" WHERE {where}')


def _copy_entities(tx: Tx, project_id: int, memory_offset: int) -> None:
    memories = _MEMORIES.format(p=project_id)
    linked = f"SELECT entity_id FROM source.episode_entity WHERE episode_ref IN ({memories})"
    tx.run(
        f"INSERT OR IGNORE INTO main.entity (kind, name) SELECT kind, name FROM source.entity WHERE id IN ({linked})"
    )
    tx.run(
        "INSERT OR IGNORE INTO main.episode_entity (entity_id, episode_ref) "
        f"SELECT e.id, l.episode_ref + {memory_offset} FROM source.episode_entity l "
        "JOIN source.entity s ON s.id = l.entity_id JOIN main.entity e ON e.kind = s.kind AND e.name = s.name "
        f"WHERE l.episode_ref IN ({memories})"
    )


def _fill_text_indexes(tx: Tx, offsets: dict[str, int]) -> None:
    for (row_id,) in tx.rows("SELECT id FROM main.episode WHERE id > ?", (offsets["episode"],)):
        index_memory(tx, row_id)
    tx.run(
        "INSERT INTO passage_fts(rowid, own, before, after) SELECT id, own, before, after FROM main.passage_context "
        "WHERE id > ?",
        (offsets["passage"],),
    )


def _copy_vectors(tx: Tx, project_id: int, offsets: dict[str, int]) -> None:
    """Copy the vectors of the project's memories and passages; those of notes are recomputed."""
    tx.run("INSERT OR IGNORE INTO main.vector_model (name) SELECT name FROM source.vector_model")
    for owner, table in (("e", "episode"), ("p", "passage")):
        rows = f"SELECT id FROM source.{table} WHERE project_id = ?"
        tx.run(
            "INSERT INTO main.vector (owner, owner_id, piece, model_id, data) "
            "SELECT v.owner, v.owner_id + ?, v.piece, here.id, v.data FROM source.vector v "
            "JOIN source.vector_model m ON m.id = v.model_id JOIN main.vector_model here ON here.name = m.name "
            f"WHERE v.owner = ? AND v.owner_id IN ({rows}) ORDER BY v.seq",
            (offsets[table], owner, project_id),
        )
