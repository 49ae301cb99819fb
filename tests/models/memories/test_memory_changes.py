"""The one door to memories: nothing else writes them, and each step names its actor."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.enums import Actor, Importance, Kind, Scope, Source, Status, Voice
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Evidence, Memory, evidence_of, find_memory, new_memory_id
from engram.models.sessions.sessions import ensure_session

ENGRAM = Path(__file__).parents[3] / "engram"
#: Tables that say what a memory is.
GUARDED = ("episode", "evidence", "episode_entity", "entity", "history")
MODELS = {table.__name__ for table in tables.ALL_TABLES if table._meta.table_name in GUARDED}
#: The door: rows are written by ``memory_writes`` for the others.
DOOR = {
    f"models/memories/{name}"
    for name in ("memory_changes", "memory_imports", "memory_undo", "memory_history", "memory_writes")
}
#: Module → why it writes to one of the tables past the door.
REASONS = {
    "models/engine/migrations": "makes the tables of a new version from the old ones; the memories stay what they were",
    "models/rescue/copy_project": "moves a project's rows between a memory and its vault as they are, history included",
    "models/memories/watermarks": "is_unjoined is a note for the joining and no part of the memory",
    "models/forgetting/forget_memories": "deletes steps of histories that quote what was forgotten",
    "models/forgetting/erase_project": "deletes steps of histories that quote what was forgotten",
}
_WRITING = re.compile(
    rf"\b(?:INSERT(?: OR \w+)? INTO|REPLACE INTO|UPDATE(?: OR \w+)?|DELETE FROM)\s+[\"']?({'|'.join(GUARDED)})\b", re.I
)
#: What stands in the text of every module that may write to one of the tables: SQL, a table's class, or the door.
_MAY_WRITE = re.compile(
    rf"\b(?:UPDATE|DELETE|{'|'.join(sorted(MODELS))}|memory_writes)\b"
    rf"|(?i:\b(?:INTO|DELETE\s+FROM|UPDATE(?:\s+OR\s+\w+)?\s+[\"']?(?:{'|'.join(GUARDED)}))\b)"
)
#: What a query of peewee that writes begins with, and the methods of a transaction that write rows of a table.
_WRITERS = {"insert", "insert_from", "insert_many", "replace", "update", "delete"}
_ROW_WRITERS = {"insert_many", "insert_row", "update_row"}


def keep(store: Store, summary: str = "The cache lives in SQLite", **fields: object) -> Memory:
    given = {"scope": Scope.GLOBAL, **fields}
    memory = Memory(new_memory_id(), "decision", summary, summary, **given)  # type: ignore[arg-type]
    with store.transaction() as tx:
        return memory_changes.add_memory(tx, memory, [Evidence("a" * 32, "s1")], actor=Actor.MODEL)


def sql_texts(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every text in a module, f-strings with their constant parts joined."""
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, "?".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def writes(nodes: list[ast.AST]) -> Iterator[int]:
    """Lines that write to a guarded table, by SQL, by a query of peewee, or by a name that is put into SQL."""
    for line, text in sql_texts(nodes):
        if _WRITING.search(" ".join(text.split())) or re.search(r"\b(?:UPDATE|INTO|DELETE FROM) \?", text):
            yield line
    for function in (node for node in nodes if isinstance(node, ast.FunctionDef)):
        inside = list(ast.walk(function))
        assigned = [node for node in inside if isinstance(node, ast.Assign) and last_name(node.value) in MODELS]
        tables_here = MODELS | {last_name(target) for node in assigned for target in node.targets}
        for node in inside:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                written = node.func.value if node.func.attr in _WRITERS else node.args[0] if node.args else node
                if node.func.attr in _WRITERS | _ROW_WRITERS and last_name(written) in tables_here:
                    yield node.lineno


def last_name(node: ast.expr) -> str:
    """The last name of a dotted expression; "" for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@pytest.fixture(scope="module")
def modules() -> dict[str, list[ast.AST]]:
    """The nodes of the modules that may write to one of the tables; a tree of the others would take as long again."""
    return {
        str(path.relative_to(ENGRAM).with_suffix("")): list(ast.walk(ast.parse(text)))
        for path in ENGRAM.rglob("*.py")
        if _MAY_WRITE.search(text := path.read_text(encoding="utf-8"))
    }


def test_nothing_writes_memories_past_the_door(modules: dict[str, list[ast.AST]]) -> None:
    #: SQL whose table is put in by a name: text indexes, and tables that the module lists itself.
    by_name = {
        "models/search/fulltext",
        "models/engine/transaction",
        "models/sessions/turn_changes",
        "models/engine/meta",
        "models/rescue/clean_copies",
    }
    found = {name for name, nodes in modules.items() if any(writes(nodes))} - by_name
    allowed = DOOR | set(REASONS)

    assert found <= allowed
    assert set(REASONS) <= found
    assert (
        DOOR - {"models/memories/memory_undo", "models/memories/memory_imports"} <= found
    )  # the scan sees what there is


def test_rows_are_written_by_the_door_alone(modules: dict[str, list[ast.AST]]) -> None:
    importers = {
        name
        for name, nodes in modules.items()
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        and (
            node.module == "engram.models.memories.memory_writes"
            or (node.module == "engram.models.memories" and any(alias.name == "memory_writes" for alias in node.names))
        )
    }

    assert importers == DOOR - {"models/memories/memory_history", "models/memories/memory_writes"}


def test_a_change_keeps_what_was_before_and_who_changed_it(store: Store) -> None:
    memory = keep(store)

    with store.transaction() as tx:
        memory_changes.change_memory(tx, memory, "edit", "by hand", actor=Actor.USER, summary="It lives in a file")

    made, edited = history_of(store, memory.episode_id)
    assert (made.action, made.actor) == ("add", Actor.MODEL)
    assert (edited.action, edited.actor, edited.reason) == ("edit", Actor.USER, "by hand")
    assert (edited.before, edited.after) == (
        {"summary": "The cache lives in SQLite"},
        {"summary": "It lives in a file"},
    )


def test_a_change_writes_only_what_changes(store: Store) -> None:
    seen = keep(store)
    memory_changes.note_access(store, seen.episode_id)

    with store.transaction() as tx:
        memory_changes.change_memory(tx, seen, "age", "old", actor=Actor.TIDYING, weight=0.5)

    now = find_memory(store, seen.episode_id)
    assert now is not None
    assert (now.weight, now.access_count, now.revision) == (0.5, 1, 2)


def test_a_use_is_counted_and_leaves_no_history(store: Store) -> None:
    memory = keep(store)

    memory_changes.note_access(store, memory.episode_id)

    now = find_memory(store, memory.episode_id)
    assert now is not None
    assert (now.access_count, now.revision) == (1, 1)
    assert len(history_of(store, memory.episode_id)) == 1


def test_what_is_rolled_back_leaves_no_step(store: Store) -> None:
    memory = keep(store)

    def change_and_fail() -> None:
        with store.transaction() as tx:
            memory_changes.change_memory(tx, memory, "pin", actor=Actor.USER, is_pinned=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_and_fail()

    now = find_memory(store, memory.episode_id)
    assert now is not None
    assert not now.is_pinned
    assert [step.action for step in history_of(store, memory.episode_id)] == ["add"]


def test_erased_fields_leave_no_word_in_history(store: Store) -> None:
    memory = keep(store)
    with store.transaction() as tx:
        memory = memory_changes.change_memory(tx, memory, "edit", actor=Actor.USER, content="the quokka")

    with store.transaction() as tx:
        memory_changes.erase_fields(tx, memory, "forgotten", actor=Actor.USER, content="", facts=())

    (step,) = history_of(store, memory.episode_id)
    assert (step.action, step.actor, dict(step.before), dict(step.after)) == ("erase", Actor.USER, {}, {})
    now = find_memory(store, memory.episode_id)
    assert now is not None
    assert now.content == ""


def test_a_deleted_successor_stands_nowhere(store: Store) -> None:
    new = keep(store, "new")
    old = keep(store, "old", status=Status.SUPERSEDED, superseded_by=new.episode_id)
    merged = keep(store, "merged", status=Status.ARCHIVED, superseded_by=new.episode_id)

    with store.transaction() as tx:
        memory_changes.delete_memory(tx, new, actor=Actor.AGENT)

    assert [(s.action, s.actor) for s in history_of(store, old.episode_id)][-1] == ("restore", Actor.AGENT)
    assert [(s.action, s.actor) for s in history_of(store, merged.episode_id)][-1] == ("release", Actor.AGENT)
    for row in store.rows("SELECT before, after, reason FROM history"):
        assert new.episode_id not in "".join(row)
    assert store.value("SELECT count(*) FROM episode WHERE superseded_by <> ''") == 0


def test_evidence_is_added_once_and_replaced_with_a_step_each(store: Store) -> None:
    memory = keep(store)
    again, other = Evidence("a" * 32, "s2"), Evidence("b" * 32, "s2")

    with store.transaction() as tx:
        assert not memory_changes.add_evidence(tx, memory, [again], "said again", actor=Actor.MODEL)
        assert memory_changes.add_evidence(tx, memory, [again, other], "said again", actor=Actor.MODEL)
        memory_changes.replace_evidence(tx, memory, [other], "went on", actor=Actor.MODEL)
        memory_changes.replace_evidence(tx, memory, [other], "went on", actor=Actor.MODEL)
        memory_changes.forget_evidence(tx, memory, tables.Evidence.uuid.is_null(False), "forgotten", actor=Actor.USER)

    assert evidence_of(store, memory.id) == []
    assert [(step.action, step.actor) for step in history_of(store, memory.episode_id)] == [
        ("add", Actor.MODEL),
        ("replace evidence", Actor.MODEL),
        ("erase", Actor.USER),
    ]


def test_memories_of_a_session_move_with_it_and_lose_their_vectors(store: Store) -> None:
    with store.transaction() as tx:
        ensure_session(tx, "s1", agent="claude-code", project_id=None, is_global=False, cwd="", at_ms=1)
        tx.run("INSERT INTO project (id, stable_id, identity, name, updated_at_ms) VALUES (7, 'a', '/a', 'a', 0)")
    memory = keep(store, session_id="s1")
    session_ref = store.value("SELECT id FROM session")
    with store.transaction() as tx:
        tx.run("INSERT INTO vector_model (id, name) VALUES (1, 'm')")
        tx.run("INSERT INTO vector (owner, owner_id, piece, model_id, data) VALUES ('e', ?, 0, 1, x'00')", (memory.id,))
        memory_changes.move_memories_of_session(tx, session_ref, 7, "known", actor=Actor.TIDYING)

    now = find_memory(store, memory.episode_id)
    assert now is not None
    assert (now.project_id, now.revision) == (7, 2)
    assert store.value("SELECT count(*) FROM vector") == 0
    step = history_of(store, memory.episode_id)[-1]
    assert (step.action, step.before, step.after) == ("move", {"project_id": None}, {"project_id": 7})


def test_questions_stay_with_another_summary_only_where_the_change_says_so(store: Store) -> None:
    asked = ("Where do tasks wait?",)
    memory = keep(store, questions=asked)

    wanted = {"summary": "new words", "questions": asked, "content": memory.content}
    changed = memory_changes.differing(memory, wanted)
    assert changed == {"summary": "new words", "questions": asked}
    assert memory_changes.differing(memory, {"questions": asked, "is_pinned": memory.is_pinned}) == {}
    with store.transaction() as tx:
        kept = memory_changes.change_memory(tx, memory, "merge", actor=Actor.TIDYING, **changed)
        dropped = memory_changes.change_memory(tx, kept, "edit", actor=Actor.USER, summary="others")

    assert (kept.questions, dropped.questions) == (asked, ())


#: Fields of a memory that storing it sets, or its session and project.
SET_BY_STORING = {"id", "revision", "created_at_ms", "kept_at_ms", "updated_at_ms", "stable_id"}
OF_ITS_SESSION = {"session_id", "project_id", "project"}
#: Columns that are no field of a memory.
NO_FIELDS = {"session_ref", "packed_content", "is_unjoined"}


def test_every_column_of_a_memory_is_stored_and_read(store: Store) -> None:
    fields = {
        "kind": Kind.FACT,
        "summary": "The cache is a file",
        "content": "The cache is a file beside it.",
        "scope": Scope.GLOBAL,
        "facts": ("a",),
        "entities": ("b",),
        "questions": ("c?",),
        "title": "Where the cache is",
        "importance": Importance.HIGH,
        "source": Source.MANUAL,
        "voice": Voice.USER,
        "status": Status.SUPERSEDED,
        "suspect": "s",
        "is_pinned": True,
        "is_lowered": True,
        "weight": 0.25,
        "stale_reason": "t",
        "valid_from_ms": 1,
        "valid_to_ms": 2,
        "superseded_by": "ep_0123456789ab",
        "extractor": "x",
        "confirmations": 3,
        "slot": "slot",
        "origin": "o",
        "graduated_at_ms": 4,
        "accessed_at_ms": 5,
        "access_count": 6,
        "confidence": 0.125,
        "quality": 0.75,
    }
    memory = Memory(new_memory_id(), **fields)  # type: ignore[arg-type]
    with store.transaction() as tx:
        added = memory_changes.add_memory(tx, memory, [], actor=Actor.USER)

    stored = find_memory(store, memory.episode_id)
    assert stored == added
    assert {name: getattr(stored, name) for name in fields} == fields
    # A default would be read back even from a column that is never written.
    assert {
        field.name for field in dataclasses.fields(Memory) if fields.get(field.name, field) == field.default
    } == set()
    known = {"episode_id", *fields, *SET_BY_STORING, *OF_ITS_SESSION}
    assert {field.name for field in dataclasses.fields(Memory)} == known, "give the new field a value above"
    assert set(tables.column_names(tables.Memory)) - NO_FIELDS <= known
