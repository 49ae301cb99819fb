"""What the worker looks after: its memory, its sockets, the work whose time has come."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from planting import plant

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Scope
from engram.forgetting.forget import forget_memory
from engram.forgetting.whole_project import move_into_vault
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.work.task_runs import note_damage
from engram.models.work.work import make_due
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.cached import lru_cache_by_text
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime
from engram.worker import housekeeping
from engram.worker.housekeeping import Housekeeper
from engram.worker.socket_server import RecallServer


@lru_cache_by_text(8)
def weighed(word: str) -> object:
    return object()


class Office:
    """A worker's parts without its threads."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.reasons: list[str] = []
        self.queue = huey.bind(runtime.settings.places, runtime.settings.sqlite_driver)
        self.queue.storage.listen()
        self.server = RecallServer(runtime).start()
        self.beats = 0
        self.ends: list[str] = []
        self.housekeeper = Housekeeper(
            runtime, self.queue, self.server, stop=self.reasons.append, end=self.ends.append, beat=self._beat
        )

    def _beat(self) -> None:
        self.beats += 1


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    # This very process may be large: other tests load the original model in it.
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: 150.0)
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    settings.places.prepare()
    with open_store(settings.places.memory_db) as store:
        embedder = HashedEmbedder()
        searcher = Searcher(store, settings, embedder=embedder)
        office = Office(Runtime(settings, store, searcher, RecollectionService(store, searcher, settings), embedder))
        yield office
        office.server.close()
        huey.storage.stop_listening()
    huey.storage.close()


def test_a_quiet_look_stops_nothing(office: Office) -> None:
    office.housekeeper.step()

    assert (office.reasons, office.beats) == ([], 1)


def test_a_worker_whose_folder_was_moved_away_ends_for_good_and_creates_nothing(office: Office) -> None:
    home = office.runtime.settings.home
    home.rename(home.with_name("moved"))

    office.housekeeper.step()

    assert (office.ends, office.reasons) == (["the memory folder is gone"], [])
    assert not home.exists()


def test_a_worker_whose_folder_became_an_empty_mount_point_ends_for_good_and_creates_nothing(office: Office) -> None:
    home = office.runtime.settings.home
    home.rename(home.with_name("unmounted"))
    home.mkdir()

    office.housekeeper.step()

    assert (office.ends, office.reasons) == (["the memory folder is gone"], [])
    assert not list(home.iterdir())


def test_a_worker_whose_folder_was_replaced_by_a_copy_starts_again(office: Office) -> None:
    home = office.runtime.settings.home
    home.rename(home.with_name("moved"))
    shutil.copytree(home.with_name("moved"), home, ignore=shutil.ignore_patterns("*.sock"))

    office.housekeeper.step()

    assert (office.ends, office.reasons) == ([], ["memory.db was replaced"])


def test_a_worker_whose_task_or_threads_hang_gives_no_heartbeat(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "MAX_ACTION_SECONDS", 0.0)
    office.runtime.executor.run("a task that never ends", office.housekeeper.step)
    assert office.beats == 0

    monkeypatch.undo()
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: 150.0)
    monkeypatch.setattr(RecallServer, "longest_wait_seconds", 61.0)
    office.housekeeper.step()
    assert office.beats == 0

    monkeypatch.undo()
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: 150.0)
    office.housekeeper.step()
    assert office.beats == 1


@pytest.mark.parametrize(("used_mb", "stops"), [(450.0, False), (511.0, False), (513.0, True)])
def test_above_the_limit_the_worker_is_to_stop(
    office: Office, monkeypatch: pytest.MonkeyPatch, used_mb: float, stops: bool
) -> None:
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: used_mb)

    office.housekeeper.step()

    assert bool(office.reasons) is stops


def test_words_that_another_process_forgot_leave_the_caches_of_the_worker(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, places = office.runtime.store, office.runtime.settings.places
    saved = save_memory(store, "The vault code is under the mat.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    forget_memory(store, places, saved.episode_id, actor=Actor.USER)
    judged = [weighed("mat")]
    monkeypatch.setattr(forget_memories, "_dropped", {})  # as in a process that did not forget it itself

    for _ in range(2):
        office.housekeeper.step()
        judged.append(weighed("mat"))

    assert judged[0] is not judged[1]
    assert judged[1] is judged[2]


def test_a_large_index_raises_the_limit(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: 700.0)
    monkeypatch.setattr(Runtime, "index_mb", lambda self: 450.0)

    office.housekeeper.step()

    assert office.reasons == []


@pytest.mark.parametrize(("used_mb", "stops"), [(700.0, False), (1_090.0, False), (1_120.0, True)])
def test_a_model_that_runs_with_torch_raises_the_limit_by_what_it_takes(
    office: Office, monkeypatch: pytest.MonkeyPatch, used_mb: float, stops: bool
) -> None:
    monkeypatch.setattr(HashedEmbedder, "runtime", "torch")
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: 600.0)
    housekeeper = Housekeeper(
        office.runtime, office.queue, office.server, stop=office.reasons.append, end=office.ends.append, beat=list
    )
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: used_mb)

    housekeeper.step()

    assert bool(office.reasons) is stops


@pytest.mark.parametrize(("limit_mb", "stops"), [(600, True), (300, True), (800, False)])
def test_a_limit_that_the_user_set_holds_as_it_is(
    office: Office, monkeypatch: pytest.MonkeyPatch, limit_mb: int, stops: bool
) -> None:
    monkeypatch.setattr(housekeeping, "rss_mb", lambda: 700.0)
    monkeypatch.setattr(Runtime, "index_mb", lambda self: 450.0)
    office.runtime.settings = dataclasses.replace(office.runtime.settings, limit_rss_mb=limit_mb)

    office.housekeeper.step()

    assert bool(office.reasons) is stops
    assert not stops or "the vectors alone take 450 MB" in office.reasons[0]


def test_removed_sockets_are_opened_again(office: Office) -> None:
    home = office.runtime.settings.places
    home.recall_socket.unlink()
    home.wake_socket.unlink()

    office.housekeeper.step()

    assert home.recall_socket.is_socket()
    assert home.wake_socket.is_socket()


def test_deleted_folders_and_the_hooks_interpreter_are_put_back(office: Office) -> None:
    home = office.runtime.settings.places
    office.housekeeper.step()
    target = os.readlink(home.python_link)
    for folder in (home.recollections, home.notes, home.logs):
        shutil.rmtree(folder)
    home.python_link.unlink()

    office.housekeeper.step()

    assert (home.recollections.is_dir(), home.saved_notes.is_dir(), home.logs.is_dir()) == (True, True, True)
    assert os.readlink(home.python_link) == target
    assert office.reasons == []
    housekeeping.link_python(home, home.root / "gone" / "python")
    assert os.readlink(home.python_link) == target


def test_a_folder_on_a_volume_that_is_not_mounted_is_left_alone(
    office: Office, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    home = office.runtime.settings.places
    shutil.rmtree(home.notes)
    home.notes.symlink_to(tmp_path / "volume")
    office.housekeeper.step()
    assert "action=prepare" not in caplog.text

    (tmp_path / "volume").mkdir()
    office.housekeeper.step()
    assert list((tmp_path / "volume").iterdir()) == []

    (tmp_path / "volume").rmdir()
    for _ in range(2):
        shutil.rmtree(home.recollections)
        office.housekeeper.step()
    shutil.rmtree(home.logs)
    office.housekeeper.step()
    office.housekeeper.step()
    assert caplog.text.count("action=prepare") == 1


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_worker_whose_log_was_deleted_keeps_its_writes_and_starts_again(office: Office, suffix: str) -> None:
    runtime = office.runtime
    office.housekeeper.step()
    save_memory(runtime.store, "The keel is oak.", redact, scope="global", actor=Actor.USER)
    assert office.reasons == []
    path = runtime.settings.places.memory_db
    path.with_name(f"memory.db{suffix}").unlink()

    office.housekeeper.step()

    assert office.reasons == ["the log of memory.db was deleted or replaced"]
    shutil.copyfile(path, path.with_name("copy.db"))
    if suffix == "-wal":
        with Store(path.with_name("copy.db")).open() as copy:
            assert [memory.summary for memory in all_memories(copy)] == ["The keel is oak."]


def test_a_worker_starts_again_where_the_log_of_a_vault_was_deleted(office: Office, tmp_path: Path) -> None:
    runtime = office.runtime
    with runtime.store.transaction() as tx:
        project = ensure_project(tx, str(tmp_path / "acme"), "acme", str(tmp_path / "acme"))
    move_into_vault(runtime.store, runtime.settings, project)
    inner = office.server.vaults.named("acme").store
    office.housekeeper.step()
    save_memory(inner, "The keel is oak.", redact, scope="global", actor=Actor.USER)
    office.housekeeper.step()
    assert office.reasons == []
    inner.path.with_name("memory.db-wal").unlink()

    office.housekeeper.step()

    assert (office.reasons, office.housekeeper.is_log_displaced) == (
        ["the log of memory.db was deleted or replaced"],
        True,
    )
    shutil.copyfile(inner.path, inner.path.with_name("copy.db"))
    with Store(inner.path.with_name("copy.db")).open() as copy:
        assert [memory.summary for memory in all_memories(copy)] == ["The keel is oak."]


def test_what_was_written_is_soon_in_the_file_itself(office: Office) -> None:
    store = office.runtime.store
    office.housekeeper.step()
    with ThreadPoolExecutor(1) as other:
        other.submit(save_memory, store, "The keel is oak.", redact, scope="global", actor=Actor.USER).result()

        office.housekeeper.step()

        shutil.copyfile(store.path, store.path.with_name("copy.db"))
        other.submit(store.close).result()
    with Store(store.path.with_name("copy.db")).open() as copy:
        assert [memory.summary for memory in all_memories(copy)] == ["The keel is oak."]


def test_from_a_deleted_log_nothing_is_copied_into_the_file_of_others(office: Office) -> None:
    store = office.runtime.store
    with ThreadPoolExecutor(1) as other:
        office.housekeeper.step()
        other.submit(save_memory, store, "The keel is oak.", redact, scope="global", actor=Actor.USER).result()
        store.path.with_name("memory.db-wal").replace(store.path.with_name("old-wal"))
        store.path.with_name("memory.db-wal").write_bytes(b"")
        before = store.path.read_bytes()

        office.housekeeper.step()

        other.submit(store.close).result()
    assert office.reasons == ["the log of memory.db was deleted or replaced"]
    assert store.path.read_bytes() == before


def test_due_work_is_rung_for(office: Office) -> None:
    store = office.runtime.store
    with store.transaction() as tx:
        make_due(tx, "extract", "s1", store.now_ms(), reason="messages")
        make_due(tx, "extract", "later", store.now_ms() + 60_000)

    office.housekeeper.step()

    assert [(task.name, task.args) for task in huey.pending()] == [("extract", ("s1",))]


def test_a_damaged_database_stops_the_worker(office: Office) -> None:
    office.runtime.is_damaged.set()

    office.housekeeper.step()

    assert office.reasons == ["memory.db is damaged"]


def test_damage_that_the_watcher_met_stops_the_worker(office: Office) -> None:
    with open_store(office.runtime.settings.places.memory_db) as watchers:
        office.housekeeper.step()
        note_damage(watchers)

    office.housekeeper.step()
    office.housekeeper.step()

    assert office.reasons == ["memory.db is damaged"]


def test_damage_in_the_list_of_work_stops_the_worker(office: Office) -> None:
    store = office.runtime.store
    with store.transaction() as tx:
        make_due(tx, "extract", "s1", store.now_ms())
        tx.run("UPDATE work SET key = CAST(x'61e28261' AS TEXT)")

    office.housekeeper.step()
    office.housekeeper.step()

    assert office.reasons == ["memory.db is damaged"]


def test_damage_that_a_question_meets_stops_the_worker(office: Office) -> None:
    store = office.runtime.store
    save_memory(store, "The retry budget of the importer is three.", redact, scope="global", actor=Actor.AGENT)
    plant(store, "UPDATE episode SET summary = CAST(x'61e28261' AS TEXT)")

    answer = json.loads(office.server.answer(json.dumps({"op": "recall", "query": "retry budget importer"}).encode()))
    office.housekeeper.step()

    assert "damaged" in answer["error"]
    assert office.reasons == ["memory.db is damaged"]
