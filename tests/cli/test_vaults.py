"""A vault keeps a project's memory in a separate database, whatever is asked, and gives it back completely."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.rescue.backup import make_backup
from engram.models.work.work import current_pauses, pauses_of
from engram.paths import Home
from engram.system.process_lock import ProcessLock
from engram.vaults import find_vault
from engram.version import code_version
from tests.repositories import Repository

Run = Callable[..., Result]
RunJson = Callable[..., Any]

#: What a copy of everything of a project must have in equal number.
TABLES = ("session", "turn", "said", "entry", "passage", "episode", "evidence", "history", "transcript")


def counts(store: Store, project: str) -> dict[str, int]:
    number = store.value("SELECT id FROM project WHERE name = ?", (project,))
    sessions = f"SELECT id FROM session WHERE project_id = {number}"
    turns = f"SELECT id FROM turn WHERE session_ref IN ({sessions})"
    memories = f"SELECT id FROM episode WHERE project_id = {number}"
    ids = f"SELECT episode_id FROM episode WHERE project_id = {number}"
    where = {
        "session": f"id IN ({sessions})",
        "turn": f"id IN ({turns})",
        "said": f"turn_id IN ({turns})",
        "entry": f"turn_id IN ({turns})",
        "passage": f"turn_id IN ({turns}) AND id IN (SELECT rowid FROM passage_fts_docsize)".replace("rowid", "id"),
        "episode": f"id IN ({memories}) AND id IN (SELECT id FROM episode_fts_docsize)",
        "evidence": f"episode_ref IN ({memories})",
        "history": f"episode_id IN ({ids})",
        "transcript": f"session_ref IN ({sessions})",
    }
    return {table: store.value(f"SELECT count(*) FROM {table} WHERE {where[table]}") for table in TABLES}


def lines_of(run: Run, *arguments: str, project: str = "") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in run(*arguments, "export").stdout.splitlines()]
    return [line for line in lines if line["kind"] != "forgotten" and project in ("", line["project"])]


def by_id(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {line["id"]: line for line in lines}


@pytest.fixture
def words(filled: Store) -> list[bytes]:
    """What nothing outside of the vault may contain: the texts of the project's memories and prompts."""
    texts = filled.rows(
        "SELECT e.summary FROM episode e JOIN project p ON p.id = e.project_id WHERE p.name = 'harbor' "
        "UNION SELECT substr(s.text, 1, 60) FROM said s JOIN turn t ON t.id = s.turn_id "
        "JOIN project p ON p.id = t.project_id WHERE p.name = 'harbor' AND length(s.text) > 30"
    )
    return [text.encode() for (text,) in texts]


def test_a_vault_takes_everything_in_and_gives_everything_back(
    filled: Store, run: Run, run_json: RunJson, home: Home, words: list[bytes], tmp_path: Path
) -> None:
    before, others = counts(filled, "harbor"), counts(filled, "lantern")
    exported = lines_of(run, project="harbor")
    rest = [line for line in lines_of(run) if line["project"] != "harbor"]
    assert before["turn"]
    assert before["episode"]
    filled.close()

    files = re.findall(r"\(\d+ files\)", run("status").output)
    moved = run_json("projects", "vault", "harbor", "--yes")
    assert run_json("status")["unread"]["files"] == 0

    # Outside, no byte of it is left, and no answer, export or reading has any of it.
    vault = Path(moved["vault"])
    assert vault.is_relative_to(home.root / "vaults")
    outside = [path for path in home.root.rglob("*") if path.is_file() and vault not in path.parents]
    for path in outside:
        data = path.read_bytes()
        assert not [word for word in words if word in data], path
    assert by_id(lines_of(run)) == by_id(rest)
    assert run_json("up", "--once", "--no-memories")["new_turns"] == 0
    assert run_json("recall", "harbor tariff VAT", "--limit", "50", code=1)["hits"] == []
    assert "engram --vault harbor COMMAND" in run("recall", "x", "--project", "harbor", code=1).stderr
    assert [project["name"] for project in run_json("projects", "list")["projects"]] == ["lantern"]
    with open_store(home.memory_db) as store:
        assert counts(store, "lantern") == others
        assert store.find_damage() == ""
    # Inside, everything is there, and everything works on it.
    with open_store(vault / "memory.db") as store:
        assert counts(store, "harbor") == before
        assert store.find_damage() == ""
        assert store.rows("SELECT name FROM project") == [("harbor",)]
    inside = lines_of(run, "--vault", "harbor")
    assert by_id(inside) == by_id(exported)
    assert run_json("--vault", "harbor", "up", "--once", "--no-memories")["new_turns"] == 0
    assert run_json("--vault", "harbor", "recall", exported[0]["summary"])["hits"][0]["project"] == "harbor"
    assert run_json("--vault", "harbor", "search", exported[0]["summary"])["hits"]
    assert run_json("--vault", "harbor", "status")["episodes"] == len(inside)
    assert "is never shared with a hub" in run("--vault", "harbor", "hub", code=1).stderr
    assert "is never shared with a hub" in run("--vault", "harbor", "hub", "sync", code=1).stderr
    made = run_json("--vault", "harbor", "save", "--global", "The client pays late.")["id"]
    run("--vault", "harbor", "consolidate", "--dry-run")
    run("--vault", "harbor", "forget", made, "--yes")
    kept = run_json("--vault", "harbor", "save", "--global", "The client is called Wilhelmina.")["id"]
    assert not [line for line in lines_of(run) if line["id"] == kept]

    run_json("projects", "unvault", "harbor", "--yes")

    assert not (home.root / "vaults").exists()
    with open_store(home.memory_db) as store:
        after = counts(store, "harbor")
        assert {name: after[name] for name in TABLES if name not in ("episode", "history")} == {
            name: before[name] for name in TABLES if name not in ("episode", "history")
        }
        assert store.find_damage() == ""
    back = by_id(lines_of(run))
    assert {name: back[name] for name in by_id(exported)} == by_id(exported)
    assert made not in back
    assert re.findall(r"\(\d+ files\)", run("status").output) == files
    assert run_json("up", "--once", "--no-memories")["new_turns"] == 0
    assert run_json("recall", exported[0]["summary"])["hits"][0]["id"] == exported[0]["id"]


@pytest.mark.parametrize("place", ["vault.begun", "vault.copied", "forget_project.files"])
def test_an_interrupted_move_is_finished_by_the_same_command(
    filled: Store, run: Run, run_json: RunJson, home: Home, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(filled, "harbor")
    filled.close()

    def stop(name: str) -> None:
        if name == place:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("engram.forgetting.whole_project.reach", stop)
        run("projects", "vault", "harbor", "--yes", code=1)
    vault = find_vault(home, "harbor")
    assert vault is not None
    assert not vault.is_sealed
    assert run_json("up", "--once", "--no-memories")["new_turns"] == 0

    run("projects", "vault", "harbor", "--yes")

    assert find_vault(home, "harbor").is_sealed  # type: ignore[union-attr]
    with open_store(vault.home.memory_db) as store:
        assert counts(store, "harbor") == before
    with open_store(home.memory_db) as store:
        assert store.value("SELECT count(*) FROM project WHERE name = 'harbor'") == 0


def test_a_count_with_replaced_memories_says_so(run: Run, run_json: RunJson, folder: Path, tmp_path: Path) -> None:
    made = run_json("save", "The mast is cedar.")["id"]
    run("correct", made, "The mast is spruce.", "--why", "looked")
    (tmp_path / "synced").mkdir()

    both = "2 memories (1 of them replaced or archived)"
    assert "kept             1 memory, 1 replaced" in run("status").output
    assert (
        "(2 memories, 1 of them replaced or archived, and later ones)"
        in run("sync", str(tmp_path / "synced"), stdin="n\n", code=1).output
    )
    assert both in run("projects", "forget", folder.name, "--dry-run").output
    assert both in run("projects", "vault", folder.name, "--yes").output
    assert both in run("projects", "unvault", folder.name, "--yes").output


def test_the_sessions_of_other_projects_are_not_called_excluded(filled: Store, run: Run) -> None:
    run("projects", "vault", "harbor", "--yes")

    assert re.search(r"Skipped +2 files: of other projects\n", run("--vault", "harbor", "up", "--once").stdout)
    said = run("--vault", "harbor", "--set", "exclude=/other", "up", "--once", "--no-memories").stdout
    assert "2 files skipped: of other projects, or excluded\n" in said


def test_a_vault_that_cannot_be_read_lets_nothing_in_or_out(filled: Store, run: Run, home: Home) -> None:
    run("projects", "vault", "harbor", "--yes")
    vault = find_vault(home, "harbor")
    assert vault is not None
    (vault.folder / "vault.json").write_text("{")

    assert "can't be read" in run("--vault", "harbor", "status", code=1).stderr


def test_what_serves_the_memory_folder_serves_its_vaults_too(
    filled: Store, run: Run, run_json: RunJson, home: Home
) -> None:
    filled.close()
    run_json("projects", "vault", "harbor", "--yes")
    assert run_json("--vault", "harbor", "status")["worker"]["alive"] is False

    with contextlib.ExitStack() as held:
        for lock in (home.worker_lock, home.watcher_lock):
            held.callback(ProcessLock(lock, code_version()).release)

        told = run_json("--vault", "harbor", "status")
        assert (told["worker"]["alive"], told["watcher"]["alive"]) == (True, True)
        assert "OFF" not in run("--vault", "harbor", "status").stdout
        states = run_json("--vault", "harbor", "service", "status")
        assert (states["worker"]["alive"], states["watcher"]["alive"]) == (True, True)
        checks = {check["name"]: check["detail"] for check in run_json("--vault", "harbor", "doctor", code=1)["checks"]}

    assert "not running" not in checks["worker"] + checks["watcher"]
    assert "vaults" not in checks.get("hooks' interpreter", "")
    assert "vaults" in checks["memory folder"]


@pytest.mark.parametrize("backup", ["before", "meanwhile"])
def test_a_project_that_left_its_vault_is_there_after_a_restore(
    filled: Store, run: Run, run_json: RunJson, home: Home, backup: str
) -> None:
    before = counts(filled, "harbor")
    exported = by_id(lines_of(run, project="harbor"))
    if backup == "before":
        made = make_backup(filled, home.backups)
    filled.close()
    run("projects", "vault", "harbor", "--yes")
    run("up", "--once", "--no-memories")
    if backup == "meanwhile":
        with open_store(home.memory_db) as store:
            made = make_backup(store, home.backups)
    made.path.rename(made.path.with_name("memory-2026-01-01T000000Z.db"))
    run("projects", "unvault", "harbor", "--yes")

    said = run("restore", "memory-2026-01-01T000000Z.db", "--yes").output

    assert f"  {before['turn']} turns: read again from the transcripts\n" in said
    assert f"  {before['episode']} memories: carried over\n" in said
    assert "lost" not in said
    assert by_id(lines_of(run, project="harbor")).keys() == exported.keys()
    run("up", "--once", "--no-memories")
    with open_store(home.memory_db) as store:
        after = counts(store, "harbor")
        assert store.find_damage() == ""
    read = ("session", "turn", "said", "entry", "passage", "transcript", "episode")
    assert {name: after[name] for name in read} == {name: before[name] for name in read}
    with open_store(home.root / "memory.replaced.db") as aside:
        assert counts(aside, "harbor") == before


def test_a_restore_after_a_vault_loses_nothing_whose_transcripts_are_gone(
    filled: Store, run: Run, home: Home, tmp_path: Path
) -> None:
    before = counts(filled, "harbor")
    with filled.transaction() as tx:
        tx.run("UPDATE transcript SET path = CAST('/gone/' || id AS BLOB)")
    lacking = make_backup(filled, home.backups).path
    filled.close()
    run("projects", "vault", "harbor", "--yes")
    lacking.rename(tmp_path / "lacking.db")
    run("projects", "unvault", "harbor", "--yes")

    assert "Only memory.db has: nothing." in run("restore", "--yes").output
    with open_store(home.memory_db) as store:
        assert counts(store, "harbor") == before
    said = run("restore", str(tmp_path / "lacking.db"), "--yes").output
    assert f"{before['turn']} turns of these are lost: their transcripts are gone" in said


def test_no_restore_brings_a_vaults_project_out_of_it_or_another_into_it(
    filled: Store, run: Run, home: Home, tmp_path: Path, words: list[bytes]
) -> None:
    outside = make_backup(filled, tmp_path / "copies").path
    filled.close()
    run("projects", "vault", "harbor", "--yes")
    vault = find_vault(home, "harbor")
    assert vault is not None
    with open_store(vault.home.memory_db) as store:
        inside = make_backup(store, vault.home.backups).path

    said = [run("restore", str(file), "--yes", code=1).output for file in (inside, outside)]
    in_vault = run("--vault", "harbor", "restore", str(outside), "--yes", code=1).output

    assert all("contains harbor, which is in a vault" in output for output in said)
    assert "which is not the project of this vault" in in_vault
    everything = home.memory_db.read_bytes()
    assert not [word for word in words if word in everything]
    run("--vault", "harbor", "restore", str(inside), "--yes")


def test_what_was_forgotten_before_a_vault_is_all_that_stays_forgotten(filled: Store, run: Run, home: Home) -> None:
    mark = ("project", filled.value("SELECT identity FROM project WHERE name = 'harbor'").encode(), 5)
    with filled.transaction() as tx:
        tx.run("INSERT INTO tombstone (kind, key, at_ms) VALUES (?, ?, ?)", mark)
    backup = make_backup(filled, home.backups).path
    filled.close()

    run("projects", "vault", "harbor", "--yes")

    for path in (home.memory_db, backup):
        with open_store(path) as store:
            assert store.rows("SELECT kind, key, at_ms FROM tombstone") == [mark]


def test_in_the_folder_of_a_vault_commands_about_the_folder_name_the_vault(run: Run, folder: Path) -> None:
    run("save", "The crane stops above wind force 7.")
    run("projects", "vault", folder.name, "--yes")

    for words in (
        ["save", "Crane 3 is slow."],
        ["where"],
        ["why"],
        ["why", "--prompt", "crane wind?"],
        ["how", "git"],
        ["fix", "error"],
        ["blame", "crane.py"],
        ["propose"],
    ):
        assert f"engram --vault {folder.name} {words[0]}" in run(*words, code=1).stderr
    assert "crane" in run("--vault", folder.name, "why", "--prompt", "crane wind?").output


@pytest.mark.parametrize(("command", "code"), [("recall", 0), ("search", 1)])
def test_a_search_of_everything_in_the_folder_of_a_vault_names_the_vault(
    run: Run, folder: Path, command: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("save", "The crane stops above wind force 7.")
    run("save", "--global", "The crane driver is called Kari.")
    run("projects", "vault", folder.name, "--yes")
    hint = f"(the memory of {folder} is in the vault of {folder.name}: engram --vault {folder.name} {command})"

    assert hint in run(command, "crane", code=code).stderr
    assert "is in the vault" not in run("--vault", folder.name, command, "crane", code=code).stderr
    monkeypatch.chdir(folder.parent)
    assert "is in the vault" not in run(command, "crane", code=code).stderr


def test_in_a_worktree_of_a_vaults_repository_commands_name_the_vault(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository.make(tmp_path / "src" / "crane")
    repository.git("worktree", "add", "-q", str(tmp_path / "elsewhere"), "-b", "side")
    monkeypatch.chdir(repository.root)
    run("save", "The crane stops above wind force 7.")
    run("projects", "vault", "crane", "--yes")
    monkeypatch.chdir(tmp_path / "elsewhere")

    for words in (["save", "Crane 3 is slow."], ["where"], ["why"], ["blame", "README"]):
        assert f"engram --vault crane {words[0]}" in run(*words, code=1).stderr
    run("--vault", "crane", "save", "Crane 3 is slow.")
    monkeypatch.chdir(tmp_path)
    told = run("--vault", "crane", "save", "Crane 4 is slow.", code=1).stderr
    assert "is not in the project of this vault. Name one with --project" in told


def test_what_is_about_the_memory_folder_with_all_its_vaults_is_not_done_to_a_vault(
    filled: Store, run: Run, run_json: RunJson, home: Home
) -> None:
    filled.close()
    vault = Path(run_json("projects", "vault", "harbor", "--yes")["vault"])

    for words in (["uninstall", "--purge", "--yes"], ["install", "--dry-run"], ["up"]):
        assert "leave out --vault" in run("--vault", "harbor", *words, code=1).stderr
    assert (vault / "memory.db").is_file()
    # What is only about the connection to Claude Code is the same for the memory folder and its vaults.
    assert run("--vault", "harbor", "setup", "hooks").stdout == run("setup", "hooks").stdout
    with open_store(vault / "memory.db") as store:
        make_backup(store, vault / "backups")
    with contextlib.ExitStack() as held:
        held.callback(ProcessLock(home.worker_lock, code_version()).release)
        assert "Engram is running" in run("--vault", "harbor", "restore", "--yes", code=1).stderr
    assert "is now" in run("--vault", "harbor", "restore", "--yes").stdout


def test_a_vault_that_is_being_brought_back_takes_nothing_in(
    filled: Store, run: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(filled, "harbor")
    filled.close()
    run("projects", "vault", "harbor", "--yes")

    def stop(name: str) -> None:
        if name == "vault.returned":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("engram.forgetting.whole_project.reach", stop)
        run("projects", "unvault", "harbor", "--yes", code=1)
    refused = run("--vault", "harbor", "save", "Piers are of wood.", code=1)

    assert "was interrupted" in refused.stderr
    run("projects", "unvault", "harbor", "--yes")
    with open_store(home.memory_db) as store:
        assert counts(store, "harbor") == before


def test_a_pause_of_everything_pauses_the_vaults_too(filled: Store, run: Run, run_json: RunJson, home: Home) -> None:
    filled.close()
    vault = Path(run_json("projects", "vault", "harbor", "--yes")["vault"])

    for paused, ended, scope in (
        (["pause"], ["pause", "--off"], ""),
        (["tasks", "pause"], ["tasks", "resume"], "tasks"),
    ):
        run(*paused)
        with Store(vault / "memory.db").open() as inner:
            assert list(current_pauses(inner)) == [scope]
        run(*ended)
        with Store(vault / "memory.db").open() as inner:
            assert current_pauses(inner) == {}


@pytest.mark.parametrize("data", [None, b"garbage" * 5000])
def test_a_vault_that_cannot_be_opened_does_not_keep_the_rest_from_pausing(
    filled: Store, run: Run, run_json: RunJson, home: Home, data: bytes | None
) -> None:
    filled.close()
    inner = Path(run_json("projects", "vault", "harbor", "--yes")["vault"]) / "memory.db"
    inner.unlink() if data is None else inner.write_bytes(data)

    said = run("pause")

    with Store(home.memory_db).open() as outer:
        assert list(current_pauses(outer)) == [""]
    assert "Paused everything" in said.stdout
    assert "not done in the vault harbor" in said.stderr
    assert (inner.read_bytes() if data else not inner.exists()) == (data or True)
    for about_no_vault in (["--list"], ["--project", "lantern"], ["--off", "--project", "lantern"]):
        assert run("pause", *about_no_vault).stderr == ""


def test_the_pauses_of_a_project_go_with_it(filled: Store, run: Run, run_json: RunJson, home: Home) -> None:
    filled.close()
    run("pause")
    run("pause", "--off")
    run("pause", "--project", "lantern")
    run("pause", "--project", "harbor")

    vault = Path(run_json("projects", "vault", "harbor", "--yes")["vault"])

    with Store(vault / "memory.db").open() as inner, Store(home.memory_db).open() as outer:
        ((harbor, _),) = current_pauses(inner).items()
        assert harbor.endswith("harbor")
        assert len(pauses_of(inner, harbor)) == 2
        ((lantern, _),) = current_pauses(outer).items()
        assert lantern.endswith("lantern")
        assert len(pauses_of(outer, harbor)) == 1

    run("--vault", "harbor", "pause", "--off", "--project", "harbor")
    run("--vault", "harbor", "pause")
    run_json("projects", "unvault", "harbor", "--yes")

    with Store(home.memory_db).open() as outer:
        assert sorted(current_pauses(outer)) == sorted([harbor, lantern])
        assert len(pauses_of(outer, harbor)) == 4


def test_a_pause_of_everything_ends_for_a_project_that_came_out_of_its_vault_meanwhile(
    filled: Store, run: Run, home: Home
) -> None:
    filled.close()
    run("projects", "vault", "harbor", "--yes")
    run("pause")
    run("projects", "unvault", "harbor", "--yes")
    with Store(home.memory_db).open() as outer:
        assert list(current_pauses(outer)) == [""]
    run("pause", "--off")

    with Store(home.memory_db).open() as outer:
        assert current_pauses(outer) == {}
        assert all(end <= outer.now_ms() for _, end in pauses_of(outer, "/home/dev/harbor"))


def test_a_vault_that_cannot_be_read_stays_in_use_after_an_attempt_to_bring_it_back(
    filled: Store, run: Run, run_json: RunJson, home: Home
) -> None:
    filled.close()
    vault = Home(Path(run_json("projects", "vault", "harbor", "--yes")["vault"]))
    with open_store(vault.memory_db) as inner:
        make_backup(inner, vault.backups)
    vault.memory_db.write_bytes(b"garbage" * 5000)

    run("projects", "unvault", "harbor", "--yes", code=1)
    run("--vault", "harbor", "restore", "--yes")

    found = find_vault(home, "harbor")
    assert found is not None
    assert found.is_sealed
