"""What a forgotten memory said goes also where others repeat it: merged, in copies, in reasons, in cut lines of
notes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engram.cli.main import engram as root_command
from engram.consolidation.graduation import note_line
from engram.consolidation.step_context import Context
from engram.consolidation.tidying_steps import merge_near_duplicates
from engram.enums import Actor, Scope, Status
from engram.forgetting import forget_files
from engram.forgetting.forget import forget_memory
from engram.forgetting.forget_files import clean_exports, clean_recollections
from engram.memories.correct import correct_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.judgements import note_contradiction, open_contradictions
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.open_memory import open_store
from engram.models.rescue.backup import make_backup
from engram.models.work.task_runs import list_stages, note_failure
from engram.models.work.work import fail, find_work, make_due
from engram.redaction import redact
from engram.settings import Settings

Keep = Callable[..., Memory]
WORD = "quokkafied"
KEPT, GONE = "The hull is painted with lead-free paint", f"The hull shines in a {WORD} zanzibarian gloss"


def files_with(folder: Path, word: str) -> list[str]:
    """The files below a folder that hold a word."""
    return [str(path) for path in sorted(folder.rglob("*")) if path.is_file() and word in path.read_text("latin-1")]


def engram(settings: Settings, *words: str) -> None:
    flags = ("--home", str(settings.home), "--set", "embedding_model=hashed")
    result = CliRunner().invoke(root_command, [*flags, *words])
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.fixture
def merged(store: Store, settings: Settings, keep: Keep) -> tuple[Memory, Memory]:
    """Two memories of which the older took up the words of the newer."""
    older = keep(KEPT, entities=("hull",), evidence=[Evidence("11111111-1111-4111-8111-111111111111", "s1")])
    newer = keep(GONE, entities=(f"{WORD}.py",), evidence=[Evidence("22222222-2222-4222-8222-222222222222", "s2")])
    merge_near_duplicates(Context(store, settings, similar=lambda *_: iter([(older.id, newer.id, 0.95)])))
    host = find_memory(store, older.episode_id)
    assert host is not None
    assert WORD in host.summary
    return older, newer


def test_the_words_of_a_merged_memory_go_from_backups_exports_and_bites(
    store: Store, settings: Settings, merged: tuple[Memory, Memory]
) -> None:
    older, newer = merged
    backup = make_backup(store, settings.places.backups)
    assert backup is not None
    engram(settings, "export", "--output", str(settings.home / "export.jsonl"))
    bite = settings.places.recollections / "s9.pending"
    bite.write_text(json.dumps({"additionalContext": f"- [{older.episode_id}] {KEPT} | The hull shines in a {WORD}…"}))

    forget_memory(store, settings.places, newer.episode_id, actor=Actor.USER)

    assert files_with(settings.home, WORD) == []
    host = find_memory(store, older.episode_id)
    assert host is not None
    assert (host.summary, host.entities) == (KEPT, ("hull",))
    (line,) = (settings.home / "export.jsonl").read_text().splitlines()
    assert (json.loads(line)["id"], json.loads(line)["summary"]) == (older.episode_id, KEPT)
    (copy,) = settings.places.backups.glob("*.db")
    with open_store(copy) as opened:
        assert [one.summary for one in memory_records.all_memories(opened)] == [KEPT]


@pytest.mark.parametrize("is_dry", [True, False])
def test_only_files_that_tell_it_are_named_though_every_list_of_failed_programs_goes(
    settings: Settings, is_dry: bool
) -> None:
    folder = settings.places.prepare().recollections
    files = {
        "s1.failures": "make test\n",
        "s2.failures": f"make {WORD}\n",
        "s3.pending": json.dumps({"text": f"the {WORD}"}),
        "s4.pending": json.dumps({"text": "the hull"}),
        "s5.failures": "",
    }
    for name, text in files.items():
        (folder / name).write_text(text)

    named = clean_recollections(settings.places, lambda text: WORD not in text, is_dry=is_dry)

    assert sorted(named) == ["s2.failures", "s3.pending"]
    assert sorted(path.name for path in folder.iterdir()) == (sorted(files) if is_dry else ["s4.pending"])


def test_reasons_that_quote_a_forgotten_memory_go_with_it(store: Store, settings: Settings, keep: Keep) -> None:
    gone = save_memory(store, GONE, redact, scope=Scope.GLOBAL, actor=Actor.AGENT)
    correct_memory(store, gone.episode_id, "The hull is matt", f"“{GONE}” was a mistake", redact, actor=Actor.AGENT)
    other, mine, theirs = keep("The mast is brown"), keep("The sail is white"), keep("The sail is grey")
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx, other, "archive", f"taken back: {GONE}", status=Status.ARCHIVED, actor=Actor.TIDYING
        )
    with store.transaction() as tx:
        note_contradiction(tx, mine.episode_id, theirs.episode_id, f"corrects it: {GONE}")
    make_backup(store, settings.places.backups)

    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)

    assert files_with(settings.home, WORD) == []
    assert [one.newer_id for one in open_contradictions(store)] == [theirs.episode_id]


def test_a_line_of_a_note_that_holds_the_beginning_of_a_forgotten_memory_goes(
    store: Store, settings: Settings, keep: Keep
) -> None:
    gone = keep(f"{GONE} and lasts {'for very many years under the sun ' * 10}")
    line = note_line(gone).removesuffix(f" <!-- {gone.episode_id} -->")
    assert line.endswith("…")
    settings.places.memory_note.write_text(f"# Memory\n\n{line}\n- a line of my own\n")

    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)

    assert settings.places.memory_note.read_text() == "# Memory\n\n- a line of my own\n"


def test_an_import_leaves_nothing_superseded_by_a_forgotten_memory(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    first = save_memory(store, "The hull is red", redact, scope=Scope.GLOBAL, actor=Actor.AGENT)
    second = correct_memory(store, first.episode_id, GONE, "it was painted", redact, actor=Actor.AGENT).made
    engram(settings, "export", "--output", str(tmp_path / "outside.jsonl"))
    forget_memory(store, settings.places, second.episode_id, actor=Actor.USER)
    restored = find_memory(store, first.episode_id)
    assert restored is not None
    with store.transaction() as tx:
        memory_changes.delete_memory(tx, restored, is_purge=True, actor=Actor.USER)

    engram(settings, "import", str(tmp_path / "outside.jsonl"))

    (left,) = memory_records.all_memories(store)
    assert (left.summary, left.status, left.superseded_by) == ("The hull is red", "active", "")


def test_forgetting_the_corrections_one_by_one_brings_back_what_each_replaced(store: Store, settings: Settings) -> None:
    first = save_memory(store, "The hull is red", redact, scope=Scope.GLOBAL, actor=Actor.AGENT)
    second = correct_memory(store, first.episode_id, "The hull is green", "painted", redact, actor=Actor.AGENT).made
    third = correct_memory(store, second.episode_id, "The hull is blue", "painted", redact, actor=Actor.AGENT).made

    forget_memory(store, settings.places, third.episode_id, actor=Actor.USER)
    states = {one.episode_id: one.status for one in memory_records.all_memories(store)}
    forget_memory(store, settings.places, second.episode_id, actor=Actor.USER)

    assert states == {first.episode_id: "superseded", second.episode_id: "active"}
    assert {one.episode_id: one.status for one in memory_records.all_memories(store)} == {first.episode_id: "active"}


@pytest.mark.parametrize("name", ["export.jsonl", "export.json", "mine/2026/export.jsonl", "all memories"])
def test_an_export_is_cleaned_whatever_its_name_and_folder(
    store: Store, settings: Settings, keep: Callable[..., Memory], name: str
) -> None:
    kept = keep(KEPT)
    gone = keep(
        "The hull is painted.", content=f"A first line.\u2028A {WORD} one.", evidence=[Evidence("a" * 32, "s1")]
    )
    path = settings.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    engram(settings, "export", "--output", str(path))

    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)

    assert files_with(settings.home, WORD) == []
    assert [json.loads(line)["id"] for line in path.read_text().split("\n") if line] == [kept.episode_id]


def test_what_was_written_until_the_rows_were_deleted_goes_too(
    store: Store, settings: Settings, keep: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = keep(f"The hull is {WORD} all over.")
    places = settings.places.prepare()
    delete = forget_memories.delete_forgotten

    def write_first(*arguments: Any, **options: Any) -> int:
        (places.recollections / "s1.pending").write_text(f"[{gone.episode_id}] {gone.summary}")
        places.memory_note.write_text(f"# Memory\n- {gone.summary} <!-- {gone.episode_id} -->\n")
        return delete(*arguments, **options)

    monkeypatch.setattr(forget_memories, "delete_forgotten", write_first)
    report = forget_memory(store, places, gone.episode_id, actor=Actor.USER)

    assert files_with(settings.home, WORD) == []
    assert report.files == ("MEMORY.md",)


def test_a_run_that_goes_on_meanwhile_keeps_nothing_of_it(
    store: Store, settings: Settings, keep: Callable[..., Memory]
) -> None:
    gone, kept = keep(f"The hull is {WORD} all over."), keep(KEPT)
    run = memory_history.begin_run(store)
    report = {
        "lines": [f"archive {one.episode_id}: {one.summary}" for one in (gone, kept)],
        "files_before": {"MEMORY.md": f"# Memory\n- {gone.summary} <!-- {gone.episode_id} -->\n"},
    }

    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)
    with store.transaction() as tx:
        memory_history.update_run(tx, run, position="", report=report)

    assert files_with(settings.home, WORD) == []
    (stored,) = memory_history.list_runs(store)
    assert stored.report == {
        "lines": [f"archive {kept.episode_id}: {kept.summary}"],
        "files_before": {"MEMORY.md": "# Memory\n"},
    }


def test_memories_that_replace_each_other_in_a_circle_are_forgotten(
    store: Store, settings: Settings, keep: Callable[..., Memory]
) -> None:
    ids = ("ep_0123456789ab", "ep_0123456789ac")
    for name, other in zip(ids, ids[::-1], strict=True):
        keep(f"{name} is so.", episode_id=name, status=Status.ARCHIVED, superseded_by=other)

    forget_memory(store, settings.places, ids[0], actor=Actor.USER)

    assert find_memory(store, ids[0]) is None


def test_no_message_of_a_failure_keeps_it(store: Store, settings: Settings, keep: Callable[..., Memory]) -> None:
    gone = keep(f"The hull is {WORD} all over.")
    with store.transaction() as tx:
        make_due(tx, "extract", "s1", 5)
    work = find_work(store, "extract", "s1")
    assert work is not None
    fail(store, work, f"ValueError: can't read 'The hull is {WORD} all over.'")
    note_failure(store, "extract", f"can't read 'The hull is {WORD} all over.'")

    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)

    assert files_with(settings.home, WORD) == []
    (stage,) = list_stages(store)
    assert (stage.last_error != "", stage.last_error_ms) == (True, store.now_ms())


def test_an_export_is_cleaned_whatever_its_size(
    settings: Settings, store: Store, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, _ = keep(GONE), keep(KEPT)
    settings.places.prepare()
    export = settings.home / "all.jsonl"
    engram(settings, "export", "--output", str(export))
    monkeypatch.setattr(forget_files, "_MAX_FILE_BYTES", 100)

    forget_memory(store, settings.places, gone.episode_id, actor=Actor.USER)

    assert files_with(settings.home, WORD) == []
    assert KEPT in export.read_text()


def test_looking_through_the_files_of_the_memory_keeps_the_locks_on_memory_db(
    store: Store, settings: Settings, keep: Keep
) -> None:
    memory = keep(GONE)
    log = settings.places.memory_db.with_name("memory.db-wal")
    assert log.exists()

    clean_exports(settings.places, [memory.episode_id], is_dry=True)

    # Another process that finds no locks takes itself for the last one, and deletes the log that is open here.
    code = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('SELECT * FROM episode'); d.close()"
    subprocess.run([sys.executable, "-c", code, str(settings.places.memory_db)], check=True)
    assert log.exists()
