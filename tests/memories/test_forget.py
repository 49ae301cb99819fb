"""Forgetting is final: no byte of the text stays in the memory folder, and nothing brings it back."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.enums import Actor
from engram.errors import NotFound
from engram.forgetting.forget import forget_memory
from engram.forgetting.forget_plan import plan_forget, preview_forget
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history, memory_records, tombstones
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.open_memory import open_store
from engram.models.rescue.clean_copies import carry_harmless_tombstones
from engram.models.search import vector_rows
from engram.models.sessions.stored_turns import turns_of_session
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.notes.daily_log import log_session
from engram.notes.note_index import index_notes
from engram.paths import Home, default_home
from engram.redaction import redact
from engram.settings import Settings

SESSION = "5f0e4e0e-5d62-4ae0-9e42-000000000001"
#: Words that stand nowhere else, so that their bytes can be looked for.
WORDS = ("zanzibarian", "quokkafied", "Xylocarpa")


def entry(kind: str, number: int, text: str) -> str:
    content: object = text if kind == "user" else [{"type": "text", "text": text}]
    return json.dumps(
        {
            "type": kind,
            "uuid": f"00000000-0000-4000-8000-{number:012d}",
            "sessionId": SESSION,
            "cwd": "/home/dev/boat",
            "timestamp": f"2026-11-05T09:{number:02d}:00.000Z",
            "message": {"role": kind, "id": f"m{number}", "content": content},
        }
    )


@pytest.fixture
def home() -> Home:
    return Home(default_home()).prepare()


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "claude" / "projects" / "-home-dev-boat" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    lines = [
        entry("user", 1, "Which colour has the hull?"),
        entry("assistant", 2, "The hull is blue, as before."),
        entry("user", 3, "Paint it zanzibarian, in the quokkafied tone please"),
        entry("assistant", 4, "Done: the hull is zanzibarian, and Xylocarpa oil protects it."),
        entry("user", 5, "And the mast?"),
        entry("assistant", 6, "The mast stays brown."),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(params=["cysqlite", "sqlite3"])
def store(request: pytest.FixtureRequest, home: Home, transcript: Path) -> Iterator[Store]:
    opened = open_store(home.memory_db, driver=request.param)
    ingest_path(opened, transcript, settings=Settings(), redact=redact, close=True)
    yield opened
    opened.close()


def remember(store: Store, summary: str, turn_number: int) -> Memory:
    """Keep a memory that rests on a turn, as an extractor would."""
    stored = turns_of_session(store, 1)[turn_number]
    evidence = [Evidence(one.uuid, SESSION, stored.id) for one in stored.turn.said]
    made = Memory(
        memory_records.new_memory_id(),
        "decision",
        summary,
        stored.turn.reply,
        session_id=SESSION,
        project_id=stored.project_id,
        project="boat",
        entities=("hull",),
        facts=(summary,),
        slot=summary[:8],
    )
    with store.transaction() as tx:
        return memory_changes.add_memory(tx, made, evidence, actor=Actor.MODEL)


@pytest.fixture
def target(store: Store) -> Memory:
    return remember(store, "The hull is zanzibarian in a quokkafied tone", 1)


def everything(home: Home) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(home.root.rglob("*")) if path.is_file())


def spread(store: Store, home: Home, target: Memory) -> None:
    """Put the memory into every place that keeps something of it."""
    log_session(store, home, SESSION)
    home.memory_note.write_text(
        f"# Memory\n\n## boat\n- The hull is zanzibarian ({target.episode_id})\n- The mast is brown\n"
    )
    index_notes(store, Settings(), redact)
    line = json.dumps({"id": target.episode_id, "summary": target.summary})
    (home.root / "export.jsonl").write_text(line + '\n{"id": "ep_000000000000", "summary": "other"}\n')
    run = memory_history.begin_run(store)
    with store.transaction() as tx:
        memory_history.update_run(
            tx,
            run,
            position="",
            state="done",
            report={
                "lines": [f"graduate {target.episode_id}", "other"],
                "files_before": {"MEMORY.md": home.memory_note.read_text()},
            },
        )
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("e", target.id, 0, b"zanzibar")])
        changed = memory_changes.change_memory(
            tx, target, "edit", "quokkafied", summary="The hull is quokkafied", actor=Actor.USER
        )
        injections.add_injections(tx, [Injection(SESSION, "p", "prompt", target.episode_id, 0.5, 9, "shown")])
        memory_changes.change_memory(tx, changed, "edit", "back", summary=target.summary, actor=Actor.USER)
    (home.recollections / f"{SESSION}.pending").write_text(f"{target.episode_id}: zanzibarian")
    store.checkpoint("TRUNCATE")
    home.backups.mkdir(mode=0o700)
    shutil.copyfile(home.memory_db, home.backups / "memory-2026-11-05.db")


def test_no_byte_stays_anywhere_in_the_memory_folder(store: Store, home: Home, target: Memory) -> None:
    spread(store, home, target)
    assert all(word.encode() in everything(home) for word in WORDS)

    report = forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)
    index_notes(store, Settings(), redact)
    store.checkpoint("TRUNCATE")

    assert [
        f"{path}: {word}"
        for path in home.root.rglob("*")
        if path.is_file()
        for word in WORDS
        if word.lower().encode() in path.read_bytes().lower()
    ] == []
    assert len(report.plan.turn_ids) == 1
    assert report.backups == 1
    assert set(report.files) >= {"MEMORY.md", "export.jsonl", f"{SESSION}.pending"}
    assert store.find_damage() == ""


@pytest.mark.parametrize("also_source", [False, True])
def test_the_preview_names_what_goes_and_changes_nothing(
    store: Store, home: Home, target: Memory, also_source: bool
) -> None:
    other = remember(store, "The mast stays brown", 2)
    spread(store, home, target)
    before = everything(home)

    preview = preview_forget(store, home, target.episode_id, also_source=also_source)
    assert everything(home) == before
    report = forget_memory(store, home, target.episode_id, also_source=also_source, actor=Actor.USER)

    told = preview.to_json()
    assert [one["id"] for one in told["memories"]] == list(report.plan.episode_ids)
    assert (len(told["turns"]), len(told["entries"])) == (len(report.plan.turn_ids), len(report.plan.cut_entries))
    assert sorted(told["files"]) == sorted(report.files)
    assert (told["backups"], report.backups) == (1, 1)
    words = [*(turn["prompt"] for turn in told["turns"]), *(text for one in told["entries"] for text in one["texts"])]
    assert any("zanzibarian" in text for text in words)
    assert other.episode_id not in repr(told)
    if not also_source:
        assert {(one["session"], one["line"]) for one in told["entries"]} == {(SESSION, 3), (SESSION, 4)}


def test_what_else_was_there_stays(store: Store, home: Home, target: Memory) -> None:
    other = remember(store, "The mast stays brown", 2)
    spread(store, home, target)

    forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)

    assert memory_records.find_memory(store, other.episode_id) is not None
    assert [one.turn.prompt for one in turns_of_session(store, 1)] == ["Which colour has the hull?", "And the mast?"]
    assert "The mast is brown" in home.memory_note.read_text()
    assert "ep_000000000000" in (home.root / "export.jsonl").read_text()
    daily = next(home.daily_notes.glob("*.md")).read_text()
    assert "And the mast?" in daily
    (run,) = memory_history.list_runs(store)
    assert run.report["lines"] == ["other"]
    assert "The mast is brown" in run.report["files_before"]["MEMORY.md"]
    backup = sqlite3.connect(home.backups / "memory-2026-11-05.db")
    assert backup.execute("SELECT episode_id FROM episode").fetchall() == [(other.episode_id,)]
    backup.close()


def test_another_reading_does_not_bring_the_turn_back(
    store: Store, home: Home, target: Memory, transcript: Path
) -> None:
    forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)

    copy = transcript.with_name("5f0e4e0e-5d62-4ae0-9e42-000000000002.jsonl")
    copy.write_bytes(transcript.read_bytes())
    for path in (transcript, copy):
        ingest_path(store, path, settings=Settings(), redact=redact, close=True)

    texts = [str(value) for (value,) in store.rows("SELECT text FROM said")]
    assert len(texts) == 4
    assert not any("zanzibarian" in text for text in texts)


def copied(transcript: Path, number: int = 7) -> Path:
    """A copy of the session whose entries all have other ids, as programs make it that clone sessions."""
    copy = transcript.with_name(f"{SESSION[:-1]}{number}.jsonl")
    text = re.sub(r"0000000\d-0000-", f"0000000{number}-0000-", transcript.read_text())
    copy.write_text(text.replace(transcript.stem, copy.stem))
    return copy


def stored_texts(store: Store) -> list[str]:
    return [str(value) for (value,) in store.rows("SELECT text FROM said")]


@pytest.mark.parametrize("also_source", [False, True])
def test_a_copy_under_other_ids_does_not_bring_the_words_back(
    store: Store, home: Home, target: Memory, transcript: Path, also_source: bool
) -> None:
    run = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "paint --zanzibarian"}}]
    line = json.loads(entry("assistant", 4, ""))
    line["uuid"] = "00000000-0000-4000-8000-000000000009"
    line["message"] |= {"content": run}
    lines = transcript.read_text().splitlines()
    transcript.write_text("\n".join([*lines[:4], json.dumps(line), *lines[4:]]) + "\n")
    ingest_path(store, transcript, settings=Settings(), redact=redact, close=True)
    forget_memory(store, home, target.episode_id, also_source=also_source, actor=Actor.USER)

    copy = copied(transcript)
    with copy.open("a") as file:
        file.write(entry("user", 7, "And the keel?").replace("00000000-0000-", "00000007-0000-") + "\n")
    ingest_path(store, copy, settings=Settings(), redact=redact, close=True)

    # What is known counts once, and what only the copy has is read.
    assert [stored_texts(store).count(text) for text in ("And the mast?", "And the keel?")] == [1, 1]
    assert not any("zanzibarian" in text for text in stored_texts(store))
    commands = [action.command for one in turns_of_session(store, 2) for action in one.turn.actions]
    assert not also_source or commands == []


def test_a_copy_of_a_copy_that_grows_stays_without_them(
    store: Store, home: Home, target: Memory, transcript: Path
) -> None:
    forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)
    copy = copied(transcript)
    ingest_path(store, copy, settings=Settings(), redact=redact)
    with copy.open("a") as file:
        file.write(entry("user", 7, "Is the hull zanzibarian?").replace("00000000-0000-", "00000007-0000-") + "\n")

    for path in (copy, copied(copy, 8)):
        ingest_path(store, path, settings=Settings(), redact=redact, close=True)

    # What is said anew, at another time, is no copy of it.
    assert [text for text in stored_texts(store) if "zanzibarian" in text] == ["Is the hull zanzibarian?"] * 2


def test_a_file_bars_only_words_that_are_not_stored_here(store: Store, transcript: Path) -> None:
    run = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "paint --zanzibarian"}}]
    line = json.loads(entry("assistant", 9, ""))
    line["message"] |= {"content": run}
    transcript.write_text(transcript.read_text() + json.dumps(line) + "\n")
    ingest_path(store, transcript, settings=Settings(), redact=redact, close=True)
    kept = [tombstones.said_key(int(at_ms), str(text)) for at_ms, text in store.rows("SELECT at_ms, text FROM said")]
    (call,) = [action for one in turns_of_session(store, 1) for action in one.turn.actions]
    assert call.at_ms is not None
    kept.append(tombstones.said_key(call.at_ms, call.command))
    gone = tombstones.said_key(1, "What was said elsewhere.")

    with store.transaction() as tx:
        new = carry_harmless_tombstones(tx, [("said", key, 1) for key in (*kept, gone)])

    assert (new, tombstones.forgotten_words(store, [*kept, gone])) == (1, {gone})


def test_the_session_itself_keeps_what_another_memory_rests_on(
    store: Store, home: Home, target: Memory, transcript: Path
) -> None:
    beside = remember(store, "Xylocarpa oil protects the hull", 1)
    forget_memory(store, home, target.episode_id, also_source=False, actor=Actor.USER)
    before = stored_texts(store)
    transcript.write_text(entry("user", 0, "Hello") + "\n" + transcript.read_text())

    ingest_path(store, transcript, settings=Settings(), redact=redact, close=True)

    assert sorted(stored_texts(store)) == sorted([*before, "Hello"])
    assert memory_records.find_memory(store, beside.episode_id) is not None


def test_the_extractor_cannot_keep_it_again(store: Store, home: Home, target: Memory) -> None:
    forget_memory(store, home, target.episode_id, also_source=False, actor=Actor.USER)

    assert target.slot is not None
    assert tombstones.is_slot_gone(store, target.slot)
    assert tombstones.is_memory_gone(store, target.episode_id, with_purged=False)
    assert len(turns_of_session(store, 1)) == 3


def test_all_memories_that_rest_on_the_same_turn_go_with_it(store: Store, home: Home, target: Memory) -> None:
    beside = remember(store, "Xylocarpa oil protects the hull", 1)

    plan = plan_forget(store, target.episode_id, also_source=True)
    report = forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)

    assert [one.episode_id for one in plan.memories] == [target.episode_id, beside.episode_id]
    assert list(report.plan.episode_ids) == [target.episode_id, beside.episode_id]
    assert len(plan.turn_ids) == 1
    assert "2 memories" in report.describe()


def test_the_history_of_others_forgets_it_too(store: Store, home: Home, target: Memory) -> None:
    other = remember(store, "The mast stays brown", 2)
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx,
            other,
            "merge",
            f"with {target.episode_id}",
            summary=f"{other.summary} | zanzibarian",
            actor=Actor.TIDYING,
        )
        merged = memory_records.find_memory(store, other.episode_id)
        assert merged is not None
        memory_changes.change_memory(tx, merged, "undo", "split", summary=other.summary, actor=Actor.USER)

    forget_memory(store, home, target.episode_id, also_source=False, actor=Actor.USER)

    told = [dataclasses.asdict(one) for one in memory_history.history_of(store, other.episode_id)]
    assert target.episode_id not in json.dumps(told)


def test_a_backup_that_cannot_be_cleaned_is_deleted(store: Store, home: Home, target: Memory) -> None:
    home.backups.mkdir(mode=0o700)
    (home.backups / "broken.db").write_bytes(b"zanzibarian, but no database at all" * 100)

    report = forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)

    assert report.dropped_backups == 1
    assert "Deleted 1 damaged copy of memory.db" in report.describe()
    assert not (home.backups / "broken.db").exists()


def test_a_log_that_was_set_aside_without_its_database_is_deleted(store: Store, home: Home, target: Memory) -> None:
    orphan = home.root / "memory.replaced.17.db-wal"
    orphan.write_bytes(b"zanzibarian" * 100)

    report = forget_memory(store, home, target.episode_id, also_source=True, actor=Actor.USER)

    assert report.dropped_backups == 1
    assert not orphan.exists()


def test_what_is_not_there_cannot_be_forgotten(store: Store, home: Home) -> None:
    with pytest.raises(NotFound):
        forget_memory(store, home, "ep_000000000000", also_source=True, actor=Actor.USER)
