"""The worker serves a vault from its own memory, and nobody outside of it."""

from __future__ import annotations

import dataclasses
import errno
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engram.enums import Actor, Scope
from engram.errors import HomeError
from engram.forgetting.whole_project import move_into_vault, move_out_of_vault
from engram.ingest.read_sources import ingest_all
from engram.memories.save import save_memory
from engram.models.engine.meta import put_meta
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project, find_project
from engram.models.rescue.backup import make_backup
from engram.models.work.work import due_work, make_due, release_lease, take_lease
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.runtime import Runtime, make_runtime
from engram.vaults import (
    FILE_NAME,
    Vault,
    find_vault,
    is_excluded_by_vault,
    list_vaults,
    mark_of,
    settings_of,
    write_vault,
)
from engram.worker.hook_answers import Answers, Vaults
from engram.worker.memory_file import BROKEN_NAME
from engram.worker.socket_server import RecallServer
from engram.worker.worker_client import ask_worker
from tests.growing_transcript import Transcript

SECRET = "The client's tariff table is rounded down to whole cents."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "src" / "acme"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return root


@pytest.fixture
def vault(settings: Settings, root: Path) -> Vault:
    """A vault with one memory, and a global memory outside."""
    with open_store(settings.places.memory_db) as store:
        with store.transaction() as tx:
            project = ensure_project(tx, str(root), "acme", str(root))
        save_memory(store, SECRET, redact, actor=Actor.USER, project_id=project.id)
        save_memory(store, "Ropes are nylon.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
        move_into_vault(store, settings, project)
    found = find_vault(settings.places, "acme")
    assert found is not None
    return found


@pytest.fixture
def runtime(settings: Settings, vault: Vault) -> Iterator[Runtime]:
    with open_store(settings.places.memory_db) as store:
        runtime = make_runtime(settings, store)
        runtime.refresh_index()
        yield runtime


@pytest.fixture
def vaults(runtime: Runtime) -> Iterator[Vaults]:
    vaults = Vaults(runtime)
    yield vaults
    vaults.close()


def ask(answers: Answers, **request: Any) -> Any:
    return json.loads(answers.answer(json.dumps(request).encode()) or b"{}")


def prompt(folder: Path, session_id: str) -> dict[str, Any]:
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session_id,
        "cwd": str(folder),
        "prompt": "how is the tariff table of the client rounded, down to whole cents or up?",
    }


def test_hooks_and_questions_get_the_vault_inside_and_never_outside(
    runtime: Runtime, vaults: Vaults, vault: Vault, root: Path, tmp_path: Path
) -> None:
    answers = Answers(runtime, vaults)
    query = {"op": "recall", "query": "tariff table rounded", "limit": 9, "all_projects": True}

    inside = ask(answers, **prompt(root / "deeper", "5e551017-0000-4000-8000-000000000001"))
    outside = ask(answers, **prompt(tmp_path, "5e551017-0000-4000-8000-000000000002"))

    assert SECRET in json.dumps(inside)
    assert SECRET not in json.dumps(outside)
    assert SECRET in json.dumps(ask(answers, **query, vault=vault.folder.name))
    assert SECRET not in json.dumps(ask(answers, **query))
    assert ask(answers, **query, vault="nobody") == {"error": "there is no such vault"}
    vaults.write_down()
    assert runtime.store.value("SELECT count(*) FROM injection") == 0
    # A vault that can't be read: nothing is shown in any folder, rather than the wrong thing.
    (vault.folder / FILE_NAME).write_text("{")
    assert ask(answers, **prompt(tmp_path, "5e551017-0000-4000-8000-000000000003")) == {}


def test_an_answer_that_was_too_late_waits_in_the_vault_and_counts_once_a_hook_has_claimed_it(
    runtime: Runtime, vaults: Vaults, vault: Vault, root: Path
) -> None:
    session_id = "5e551017-0000-4000-8000-00000000000a"
    sent = prompt(root, session_id)
    recollection = vaults.for_payload(sent).recollection
    assert recollection.answer_hook(sent)
    recollection.came_too_late(sent)
    waiting = vault.home.recollections / f"{session_id}.pending"
    assert SECRET in json.loads(waiting.read_text())["hookSpecificOutput"]["additionalContext"]
    waiting.rename(waiting.with_suffix(".injected"))

    vaults.check()
    vaults.close()

    with Store(vault.home.memory_db).open() as inner:
        assert inner.value("SELECT group_concat(state) FROM injection") == "shown"
    assert list(vault.home.recollections.glob(f"{session_id}.[pi]*")) == []


def test_a_prompt_that_no_hook_asked_about_gets_its_bites_at_the_next_tool_call(
    settings: Settings, vaults: Vaults, vault: Vault, root: Path
) -> None:
    session_id = "5e551017-0000-4000-8000-00000000000b"
    folder = settings.projects_folder / "-src-acme"
    folder.mkdir(parents=True)
    own = Transcript(folder / f"{session_id}.jsonl", cwd=str(root))
    own.user(prompt(root, session_id)["prompt"], timestamp=datetime.now(UTC).isoformat())

    vaults.check()
    vaults.close()

    assert SECRET in (vault.home.recollections / f"{session_id}.pending").read_text()
    with Store(vault.home.memory_db).open() as inner:
        assert [work for work in due_work(inner) if work.kind == "recollect"] == []


def test_what_is_asked_about_a_vault_is_answered_from_the_vault(
    settings: Settings, runtime: Runtime, vaults: Vaults, vault: Vault, root: Path
) -> None:
    answers = Answers(runtime, vaults)
    inner = vaults.named(vault.folder.name).store
    project = find_project(inner, "acme")
    assert project is not None
    asked = {"prompt": prompt(root, "")["prompt"], "project_id": project.id, "query": "tariff table rounded"}

    for op in ("explain", "briefing", "rank"):
        assert "error" in ask(answers, op=op, **asked) or ask(answers, op=op, **asked) == {"hits": []}
        assert ask(answers, op=op, vault=vault.folder.name, **asked).keys() & {"text", "verdict", "hits"}
    save_memory(inner, "Invoices have nine digits.", redact, actor=Actor.USER, project_id=project.id)
    assert ask(answers, op="wake", vault=vault.folder.name) == {"ok": True}
    assert inner.value("SELECT count(*) FROM vector WHERE owner = 'e'") == 2
    # The client of a vault asks the worker of the memory folder around it.
    server = RecallServer(runtime).start()
    try:
        for op in ("explain", "status", "wake"):
            answer = ask_worker(vault.home, {"op": op, **asked})
            assert answer is not None
            assert "error" not in answer
    finally:
        server.close()


def test_a_session_in_a_vault_that_has_fallen_silent_is_in_the_daily_log(
    settings: Settings, vaults: Vaults, vault: Vault, root: Path
) -> None:
    session_id = "5e551017-0000-4000-8000-00000000000c"
    folder = settings.projects_folder / "-src-acme"
    folder.mkdir(parents=True)
    own = Transcript(folder / f"{session_id}.jsonl", cwd=str(root))
    own.user("Is the tariff table rounded?")
    own.says("It is.")
    inner = vaults.named(vault.folder.name).store
    take_lease(inner, "consolidate", "earlier", 60)
    release_lease(inner, "consolidate", "earlier")  # it would write the log, too
    ingest_all(inner, settings=settings_of(vault, settings), redact=redact)
    with inner.transaction() as tx:
        make_due(tx, "extract", session_id, inner.now_ms())

    vaults.check()
    vaults.close()

    (log,) = vault.home.daily_notes.glob("*.md")
    assert "Is the tariff table rounded?" in log.read_text()


def test_a_vault_on_a_disk_that_is_not_mounted_keeps_its_project_out(
    settings: Settings, runtime: Runtime, vaults: Vaults, vault: Vault, root: Path, tmp_path: Path
) -> None:
    vault.folder.rename(tmp_path / "disk")
    vault.folder.symlink_to(tmp_path / "disk")
    assert is_excluded_by_vault(settings.places, str(root))
    (tmp_path / "disk").rename(tmp_path / "ejected")

    with pytest.raises(HomeError, match="leads nowhere"):
        is_excluded_by_vault(settings.places, str(root))
    # All vaults may be on one disk.
    vault.folder.parent.rename(tmp_path / "vaults")
    vault.folder.parent.symlink_to(tmp_path / "nowhere")
    with pytest.raises(HomeError, match="leads nowhere"):
        is_excluded_by_vault(settings.places, str(root))
    assert ask(Answers(runtime, vaults), **prompt(tmp_path, "5e551017-0000-4000-8000-00000000000c")) == {}


def tear(path: Path) -> None:
    """Overwrite every second page of a database, its first one too."""
    with path.open("r+b") as file:
        for offset in range(0, path.stat().st_size, 8192):
            file.seek(offset)
            file.write(b"\xa5" * 4096)


def test_an_empty_mount_point_of_a_vault_keeps_its_project_out(
    settings: Settings, runtime: Runtime, vault: Vault, root: Path, tmp_path: Path
) -> None:
    vault.folder.rename(tmp_path / "disk")
    vault.folder.mkdir()
    with pytest.raises(HomeError, match="until its disk is mounted"):
        is_excluded_by_vault(settings.places, str(root))
    (vault.folder / ".DS_Store").touch()
    with pytest.raises(HomeError, match="until its disk is mounted"):
        is_excluded_by_vault(settings.places, str(root))
    (vault.folder / ".DS_Store").unlink()
    vault.folder.rmdir()
    (tmp_path / "disk").rename(vault.folder)
    move_out_of_vault(runtime.store, settings, vault)
    assert not (settings.home / "vaults").exists()


def test_a_vault_of_an_earlier_version_gets_its_mark_when_it_is_opened(vaults: Vaults, vault: Vault) -> None:
    mark_of(vault.folder).unlink()

    vaults.named(vault.folder.name)

    assert mark_of(vault.folder).stat().st_mode & 0o777 == 0o600


def test_a_vault_that_can_not_be_begun_stops_nothing(
    settings: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engram.vaults.write_atomic", is_full)
    with pytest.raises(OSError, match="No space left"):
        write_vault(dataclasses.replace(vault, folder=vault.folder.with_name("other")))

    assert list_vaults(settings.places) == (vault,)


def test_a_damaged_memory_of_a_vault_is_set_aside_and_what_was_saved_comes_back(
    runtime: Runtime, vaults: Vaults, vault: Vault
) -> None:
    with Store(vault.home.memory_db).open() as inner:
        make_backup(inner, vault.home.backups)
    tear(vault.home.memory_db)
    answers = Answers(runtime, vaults)

    told = ask(answers, op="recall", query="tariff table rounded", all_projects=True, vault=vault.folder.name)

    assert SECRET in json.dumps(told)
    assert vault.home.memory_db.with_name(BROKEN_NAME).exists()
    assert not runtime.is_damaged.is_set()


def test_a_vault_that_proves_damaged_is_set_aside_when_it_is_asked_next_and_the_worker_continues(
    runtime: Runtime, vaults: Vaults, vault: Vault, root: Path
) -> None:
    answers = Answers(runtime, vaults)
    query = {"op": "recall", "query": "tariff table rounded", "all_projects": True, "vault": vault.folder.name}
    store = vaults.named(vault.folder.name).store
    make_backup(store, vault.home.backups)
    store.checkpoint("TRUNCATE")
    store.close()
    tear(vault.home.memory_db)

    first = ask(answers, **query)
    hook = ask(answers, **prompt(root, "5e551017-0000-4000-8000-000000000004"))

    assert "damaged" in first["error"]
    assert SECRET in json.dumps(hook)
    assert SECRET in json.dumps(ask(answers, **query))
    assert not runtime.is_damaged.is_set()


def test_the_worker_reads_the_sessions_of_a_vault_into_the_vault_alone(
    settings: Settings, runtime: Runtime, vaults: Vaults, vault: Vault, root: Path
) -> None:
    folder = settings.projects_folder / "-src-acme"
    folder.mkdir(parents=True)
    own = Transcript(folder / "5e551017-0000-4000-8000-000000000009.jsonl", cwd=str(root))
    own.user("From now on, always round the tariff table down to whole cents in every report.")
    own.says("Understood: the tariff table is rounded down to whole cents.")
    ingest_all(runtime.store, settings=settings, redact=redact)
    assert runtime.store.value("SELECT count(*) FROM turn") == 0

    vaults.check()
    vaults.close()

    with Store(vault.home.memory_db).open() as inner:
        assert inner.value("SELECT count(*) FROM turn") == 1
        assert {memory.project for memory in all_memories(inner)} == {"acme"}
        assert inner.value("SELECT count(*) FROM vector WHERE owner = 'e'") >= 1
    assert runtime.store.value("SELECT count(*) FROM turn") == 0
    assert runtime.store.value("SELECT count(*) FROM task_run WHERE kind = 'vault'") == 0


def test_a_new_vault_in_the_same_folder_is_opened_again(
    settings: Settings, runtime: Runtime, vaults: Vaults, vault: Vault, root: Path
) -> None:
    answers = Answers(runtime, vaults)
    assert SECRET in json.dumps(ask(answers, **prompt(root, "5e551017-0000-4000-8000-000000000005")))
    move_out_of_vault(runtime.store, settings, vault)
    project = find_project(runtime.store, "acme")
    assert project is not None
    move_into_vault(runtime.store, settings, project)

    with vaults.named(vault.folder.name).store.transaction() as tx:
        touched = ensure_project(tx, str(root), "acme", str(root))
        put_meta(tx, "test", str(touched.id))

    with Store(vault.home.memory_db).open() as inner:
        assert inner.value("SELECT count(*) FROM meta WHERE key = 'test'") == 1


def test_a_vault_that_is_being_moved_shows_nothing_and_does_not_silence_other_projects(
    runtime: Runtime, vaults: Vaults, vault: Vault, root: Path
) -> None:
    rope = {"hook_event_name": "UserPromptSubmit", "prompt": "are the ropes made of nylon, or which ropes are?"}
    answers = Answers(runtime, vaults)
    assert SECRET in json.dumps(ask(answers, **prompt(root, "5e551017-0000-4000-8000-000000000005")))
    write_vault(dataclasses.replace(vault, is_sealed=False))

    assert ask(answers, **prompt(root, "5e551017-0000-4000-8000-000000000006")) == {}
    for number, served in enumerate((vaults, Vaults(runtime))):
        asked = rope | {"cwd": str(root.parent), "session_id": f"5e551017-0000-4000-8000-00000000001{number}"}
        assert "Ropes are nylon." in json.dumps(ask(Answers(runtime, served), **asked))
