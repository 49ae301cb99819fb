"""A forgotten project is gone everywhere, nothing brings it back, and what belongs to other projects stays."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from planting import plant
from transcript_lines import line

from engram.cli.main import main
from engram.enums import Actor, Scope, Source
from engram.exchange.export import to_markdown
from engram.forgetting.whole_project import forget_project
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.open_memory import open_store
from engram.models.projects.project_folders import merge_projects
from engram.models.projects.projects import ProjectRow, ensure_project, find_project_of_identity
from engram.models.rescue.carry_over import recover_by_hand
from engram.models.rescue.restore import restore_backup
from engram.models.search import vector_rows
from engram.models.sessions.stored_turns import load_turn_row
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.notes.daily_log import log_session, save_note
from engram.notes.note_index import index_notes
from engram.paths import Home, default_home
from engram.redaction import redact
from engram.reports.memory_report import memory_to_json
from engram.settings import Settings
from tests.forked import run_forked

BOAT, SHED = "/home/dev/boat", "/home/dev/shed"
BOAT_SESSION, SHED_SESSION = "5f0e4e0e-5d62-4ae0-9e42-00000000000b", "5f0e4e0e-5d62-4ae0-9e42-00000000005d"
#: Words that only the project boat says.
CANARIES = ("zanzibarian", "quokkafied", "Xylocarpa", "thrumbelina", "gobbelkraut")
#: Words that only the project shed says.
OTHERS = ("Wunderbalken", "the shed gets a roof of slate before winter")


@pytest.fixture
def home() -> Home:
    return Home(default_home()).prepare()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(claude_folder=tmp_path / "claude")


@pytest.fixture
def speak(settings: Settings) -> Callable[..., Path]:
    """Write lines of a session without reading them."""

    def speak(cwd: str, session: str, *said: tuple[str, str], day: int = 5) -> Path:
        path = settings.projects_folder / cwd.replace("/", "-") / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            for role, text in said:
                file.write(line(role, text, session=session, cwd=cwd, at=f"2026-03-{day:02}T09:00:00.000Z"))
        return path

    return speak


@pytest.fixture
def read(settings: Settings) -> Callable[[Store], None]:
    """Read every transcript, as a sweep does."""

    def read(store: Store) -> None:
        for path in sorted(settings.projects_folder.glob("*/*.jsonl")):
            ingest_path(store, path, settings=settings, redact=redact, close=True)

    return read


@pytest.fixture(params=["cysqlite", "sqlite3"])
def store(
    request: pytest.FixtureRequest, home: Home, speak: Callable[..., Path], read: Callable[[Store], None]
) -> Iterator[Store]:
    speak(
        BOAT,
        BOAT_SESSION,
        ("user", "Paint the hull zanzibarian, in the quokkafied tone please"),
        ("assistant", "Done: the hull is zanzibarian, and Xylocarpa oil protects it."),
        ("user", "And the mast?"),
        ("assistant", "The mast stays thrumbelina brown."),
    )
    speak(SHED, SHED_SESSION, ("user", f"Wunderbalken: {OTHERS[1]}"), ("assistant", "The Wunderbalken carries it."))
    opened = open_store(home.memory_db, driver=request.param)
    read(opened)
    yield opened
    opened.close()


def project(store: Store, folder: str = BOAT) -> ProjectRow:
    found = find_project_of_identity(store, folder)
    assert found is not None
    return found


def remember(store: Store, folder: str, session: str, summary: str, **changes: object) -> Memory:
    """Keep a memory that rests on the first turn of a session, as an extractor would."""
    turn_id = store.value(
        "SELECT t.id FROM turn t JOIN session s ON s.id = t.session_ref WHERE s.session_id = ? ORDER BY t.id",
        (session,),
    )
    stored = load_turn_row(store, turn_id)
    assert stored is not None
    facts: dict[str, object] = {"slot": summary[:9], "entities": ("Xylocarpa",), "facts": (stored.turn.prompt,)}
    made = Memory(
        memory_records.new_memory_id(),
        "decision",
        summary,
        stored.turn.reply,
        session_id=session,
        project_id=project(store, folder).id,
        project=project(store, folder).name,
        **(facts | changes),  # type: ignore[arg-type]
    )
    with store.transaction() as tx:
        return memory_changes.add_memory(
            tx, made, [Evidence(one.uuid, session, stored.id) for one in stored.turn.said], actor=Actor.MODEL
        )


@pytest.fixture
def memory(store: Store) -> Memory:
    return remember(store, BOAT, BOAT_SESSION, "The hull is zanzibarian in a quokkafied tone")


@pytest.fixture
def everywhere(store: Store, home: Home, settings: Settings, memory: Memory) -> Memory:
    """Words of both projects in every place that keeps some; returns the memory of the project shed."""
    other = remember(store, SHED, SHED_SESSION, f"Decided: {OTHERS[1]}", entities=("slate",))
    for session in (BOAT_SESSION, SHED_SESSION):
        log_session(store, home, session)
    save_note(home, "The gobbelkraut hangs in the galley.\n# Where\nleft", redact, 0, project="boat")
    save_note(home, f"Note of the shed: {OTHERS[1]}, and {memory.summary}", redact, 0, project="shed")
    home.memory_note.write_text(
        "# Memory\n\nmy own line\n\n## 2026-03, boat\n"
        f"- 2026-03-05, in boat only: The hull is zanzibarian <!-- {memory.episode_id} -->\n- thrumbelina, by hand\n\n"
        f"## 2026-03, shed\n- 2026-03-05, in shed only: {other.summary} <!-- {other.episode_id} -->\n"
    )
    index_notes(store, settings, redact)
    (home.recollections / f"{BOAT_SESSION}.pending").write_text("thrumbelina")
    exported = [{"id": one.episode_id, "summary": one.summary} for one in (memory, other)]
    (home.root / "export.jsonl").write_text("".join(json.dumps(one) + "\n" for one in exported))
    for name, one in (("hull", memory), ("roof", other)):
        (home.root / f"{name}.md").write_text(to_markdown(memory_to_json(store, one)))
    run = memory_history.begin_run(store)
    report = {
        "lines": [f"graduate {memory.episode_id} zanzibarian", f"graduate {other.episode_id}"],
        "files_before": {"MEMORY.md": home.memory_note.read_text()},
    }
    with store.transaction() as tx:
        memory_history.update_run(tx, run, position="", state="done", report=report)
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("e", memory.id, 0, b"zanzibar"), ("e", other.id, 0, b"slates")])
        changed = memory_changes.change_memory(
            tx, memory, "edit", "quokkafied", summary="The hull is quokkafied", actor=Actor.USER
        )
        memory_changes.change_memory(tx, changed, "edit", "back", summary=memory.summary, actor=Actor.USER)
        injections.add_injections(
            tx,
            [Injection(one, "p", "prompt", other.episode_id, 0.5, 9, "shown") for one in (BOAT_SESSION, SHED_SESSION)],
        )
        tx.run("UPDATE session SET rolling_summary = 'zanzibarian so far', branch = 'gobbelkraut' WHERE id = 1")
    store.checkpoint("TRUNCATE")
    home.backups.mkdir(mode=0o700)
    shutil.copyfile(home.memory_db, home.backups / "memory-2026-11-05.db")
    shutil.copyfile(home.memory_db, home.root / "memory.replaced.db")
    return other


def canaries_in(home: Home) -> list[str]:
    return [
        f"{path.relative_to(home.root)}: {word}"
        for path in sorted(home.root.rglob("*"))
        if path.is_file()
        for word in CANARIES
        if word.lower().encode() in path.read_bytes().lower()
    ]


def words_in(store: Store) -> str:
    texts = [str(value) for (value,) in store.rows("SELECT text FROM said UNION ALL SELECT text FROM note_chunk")]
    return "\n".join([*texts, *(f"{one.summary}\n{one.content}" for one in memory_records.all_memories(store))])


def test_no_word_of_it_stays_in_the_memory_folder_also_after_another_reading(
    store: Store, home: Home, settings: Settings, everywhere: Memory, read: Callable[[Store], None]
) -> None:
    shed_note = "and The hull is zanzibarian in a quokkafied tone"
    saved = next(home.saved_notes.iterdir())
    saved.write_text(saved.read_text().replace(shed_note, ""))
    store.checkpoint("TRUNCATE")
    assert {one.split(": ")[1] for one in canaries_in(home)} == set(CANARIES)

    report = forget_project(store, home, project(store), actor=Actor.USER)
    read(store)
    index_notes(store, settings, redact)
    for session in (BOAT_SESSION, SHED_SESSION):
        log_session(store, home, session)
    store.checkpoint("TRUNCATE")

    assert canaries_in(home) == []
    assert (report.turns, report.memories, report.sessions) == (2, 1, 1)
    assert (report.backups, report.dropped_backups) == (2, 0)
    assert store.find_damage() == ""


def test_what_belongs_to_another_project_stays_word_for_word(store: Store, home: Home, everywhere: Memory) -> None:
    turns = "SELECT * FROM turn WHERE project_id = ?"
    said = "SELECT s.* FROM said s JOIN turn t ON t.id = s.turn_id WHERE t.project_id = ?"
    shed = project(store, SHED)
    before = [store.rows(sql, (shed.id,)) for sql in (turns, said)]
    log = next(home.daily_notes.iterdir()).read_text()

    forget_project(store, home, project(store), actor=Actor.USER)

    assert [store.rows(sql, (shed.id,)) for sql in (turns, said)] == before
    assert memory_records.find_memory(store, everywhere.episode_id) == everywhere
    assert store.value("SELECT count(*) FROM vector WHERE owner = 'e'") == 1
    assert [value for (value,) in store.rows("SELECT session_id FROM injection")] == [SHED_SESSION]
    memory_note = home.memory_note.read_text()
    assert memory_note == f"# Memory\n\nmy own line\n\n{memory_note[memory_note.index('## 2026-03, shed') :]}"
    assert everywhere.summary in memory_note
    # The shed's own note repeats what the boat's memory said: it is the shed's.
    assert "zanzibarian in a quokkafied tone" in next(home.saved_notes.iterdir()).read_text()
    assert log[log.index("## shed") :].strip() in next(home.daily_notes.iterdir()).read_text()
    assert everywhere.episode_id in (home.root / "export.jsonl").read_text()
    (run,) = memory_history.list_runs(store)
    assert run.report["lines"] == [f"graduate {everywhere.episode_id}"]
    assert run.report["files_before"]["MEMORY.md"] == memory_note


@pytest.mark.parametrize("is_merged", [False, True])
def test_an_older_backup_does_not_bring_it_back(
    store: Store, home: Home, everywhere: Memory, tmp_path: Path, read: Callable[[Store], None], is_merged: bool
) -> None:
    global_memory = remember(store, BOAT, BOAT_SESSION, "Always write tests first", scope=Scope.GLOBAL, slot="global")
    hand = remember(store, BOAT, BOAT_SESSION, "saved: gobbelkraut", source=Source.MANUAL, slot=None)
    store.checkpoint("TRUNCATE")
    outside = tmp_path / "outside.db"
    shutil.copyfile(home.memory_db, outside)
    with store.transaction() as tx:
        tx.run("DELETE FROM evidence WHERE episode_ref = ?", (hand.id,))
        memory_changes.delete_memory(tx, hand, is_purge=True, actor=Actor.USER)  # it is in the backup alone
        pier = ensure_project(tx, "/home/dev/pier", "pier")
    if is_merged:
        merge_projects(store, pier, project(store), "by hand", actor=Actor.USER)
    forget_project(store, home, pier if is_merged else project(store), actor=Actor.USER)
    driver = store.driver
    store.close()

    restore_backup(home.memory_db, outside, driver=driver, carry_more=carry_hubs)

    (home.root / "memory.replaced.db").unlink(missing_ok=True)
    with open_store(home.memory_db, driver=driver) as restored:
        read(restored)
        assert [word for word in CANARIES if word in words_in(restored)] == []
        assert all(word in words_in(restored) for word in OTHERS)
        kept = memory_records.find_memory(restored, global_memory.episode_id)
        assert kept is not None
        assert (kept.summary, kept.content, kept.project_id) == ("Always write tests first", "", None)
        saved_shed = next(home.saved_notes.iterdir())
        saved_shed.unlink()
        plant(restored, "DELETE FROM note_chunk")
        restored.checkpoint("TRUNCATE")
    assert canaries_in(home) == []


def test_a_memory_recreated_from_the_transcripts_does_not_read_it_either(
    store: Store, home: Home, tmp_path: Path, everywhere: Memory, read: Callable[[Store], None]
) -> None:
    forget_project(store, home, project(store), actor=Actor.USER)

    with open_store(tmp_path / "new.db", driver=store.driver) as made:
        recover_by_hand(made, [home.memory_db], actor=Actor.USER, carry_more=carry_hubs)
        read(made)

        assert [word for word in CANARIES if word in words_in(made)] == []
        assert all(word in words_in(made) for word in OTHERS)


def test_what_was_said_before_but_not_read_yet_is_never_read_and_what_is_said_later_is(
    store: Store, home: Home, speak: Callable[..., Path], read: Callable[[Store], None]
) -> None:
    late_session, new_session = "5f0e4e0e-5d62-4ae0-9e42-00000000000c", "5f0e4e0e-5d62-4ae0-9e42-00000000000d"
    speak(BOAT, BOAT_SESSION, ("user", "unread thrumbelina"), ("assistant", "unread gobbelkraut"))
    speak(BOAT, late_session, ("user", "a session of which nothing was read: quokkafied"))

    forget_project(store, home, project(store), actor=Actor.USER)
    read(store)
    assert [word for word in CANARIES if word in words_in(store)] == []

    for session in (BOAT_SESSION, new_session):
        path = speak(BOAT, session)
        with path.open("a") as file:
            file.write(
                line("user", f"new words in {session}", session=session, cwd=BOAT, at="2099-01-01T09:00:00.000Z")
            )
    read(store)
    said = [str(value) for (value,) in store.rows("SELECT text FROM said WHERE text LIKE 'new words%' ORDER BY 1")]
    assert said == [f"new words in {BOAT_SESSION}", f"new words in {new_session}"]
    assert {value for (value,) in store.rows("SELECT p.name FROM turn t JOIN project p ON p.id = t.project_id")} == {
        "boat",
        "shed",
    }


def test_a_global_memory_stays_with_its_summary_alone_and_is_named(store: Store, home: Home, memory: Memory) -> None:
    kept = remember(store, BOAT, BOAT_SESSION, "Always write tests first", scope=Scope.GLOBAL, slot="global")
    supported = remember(store, SHED, SHED_SESSION, "Always write docs too", scope=Scope.GLOBAL, slot="docs")
    boat_turn = store.value("SELECT id FROM turn WHERE project_id = ?", (project(store).id,))
    with store.transaction() as tx:
        memory_changes.add_evidence(
            tx, supported, [Evidence("seen-again", BOAT_SESSION, boat_turn)], "again", actor=Actor.MODEL
        )

    report = forget_project(store, home, project(store), actor=Actor.USER)

    assert [one.episode_id for one in report.kept_global] == [kept.episode_id]
    now = memory_records.find_memory(store, kept.episode_id)
    assert now is not None
    assert (now.summary, now.content, now.facts, now.entities, now.session_id) == (kept.summary, "", (), (), "")
    assert memory_records.evidence_of(store, now.id) == []
    elsewhere = memory_records.find_memory(store, supported.episode_id)
    assert elsewhere is not None
    assert elsewhere.content == supported.content
    assert {one.session_id for one in memory_records.evidence_of(store, supported.id)} == {SHED_SESSION}


def test_a_project_that_joins_a_forgotten_one_later_keeps_its_past(
    store: Store, home: Home, everywhere: Memory, tmp_path: Path
) -> None:
    forget_project(store, home, project(store), actor=Actor.USER)
    merge_projects(store, project(store), project(store, SHED), "by hand", actor=Actor.USER)
    store.checkpoint("TRUNCATE")
    outside = tmp_path / "outside.db"
    shutil.copyfile(home.memory_db, outside)
    driver = store.driver
    store.close()

    restore_backup(home.memory_db, outside, driver=driver, carry_more=carry_hubs)

    with open_store(home.memory_db, driver=driver) as restored:
        assert all(word in words_in(restored) for word in OTHERS)


def forget_in_a_process(store: Store, home: Home, crash: str) -> int:
    """Run ``engram projects forget boat`` in a child; returns its exit code."""
    store.close()
    chosen = ["--home", str(home.root), "--set", f"sqlite_driver={store.driver}"]
    return run_forked(lambda: main([*chosen, "projects", "forget", "boat", "--yes"]), crash)


@pytest.mark.parametrize(
    "point",
    [
        "forget_project.marked",
        "forget_project.copies",
        "forget_project.files",
        "forget_project.batch:1",
        "forget_project.batch:2",
    ],
)
def test_forgetting_that_was_killed_can_be_asked_for_again(
    store: Store, home: Home, settings: Settings, everywhere: Memory, read: Callable[[Store], None], point: str
) -> None:
    saved = next(home.saved_notes.iterdir())
    saved.write_text(saved.read_text().replace("and The hull is zanzibarian in a quokkafied tone", ""))

    assert forget_in_a_process(store, home, point) == -signal.SIGKILL
    read(store)
    for session in (BOAT_SESSION, SHED_SESSION):
        log_session(store, home, session)
    index_notes(store, settings, redact)
    assert forget_in_a_process(store, home, "") == 0

    store.checkpoint("TRUNCATE")
    assert canaries_in(home) == []
    assert memory_records.find_memory(store, everywhere.episode_id) == everywhere
    assert store.find_damage() == ""
