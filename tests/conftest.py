"""Fixtures of all tests: the shared data, a private home, and an open memory under a clock that stands still."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engram.embedding.embedder import Embedder
from engram.enums import Actor, Kind, Scope
from engram.extraction.local.local_extractor import LocalExtractor
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Evidence, Memory
from engram.settings import Settings
from engram.setup.old_engram import old_processes
from engram.setup.old_engram.old_processes import RunningProcess
from engram.system.clock import Clock, FixedClock
from tests.branch_sessions import Workshop
from tests.empty_memory import open_empty
from tests.repositories import Repository

if TYPE_CHECKING:
    from tests.hub.machines import Hub
    from tests.hub.postgres import Postgres

# The tests start hundreds of processes: without bytecode each would compile Engram anew, and each run all assertions.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

REPO = Path(__file__).resolve().parent.parent
#: Folders whose files run for longest. They come first: a long file at the end lets the other processors wait for it.
LONG_FOLDERS = ("faults", "page", "mcp_server", "docs", "acceptance", "worker")


def pytest_collection(session: pytest.Session) -> None:
    """Let each process of several begin with other files, so that a new checkout is compiled once and not by each.

    What is collected stays until the end: looking for garbage would take a seventh of the time, here and (if it were
    not frozen) again in every full collection while the tests run.
    """
    gc.disable()
    config = session.config
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw").removeprefix("gw")
    if number and config.args_source is config.ArgsSource.TESTPATHS:
        entries = sorted(path for path in (REPO / "tests").iterdir() if path.is_dir() or path.match("test_*.py"))
        start = len(entries) * int(number) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        config.args = [str(path) for path in entries[start:] + entries[:start] if path.name != "__pycache__"]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    gc.freeze()
    gc.enable()
    paths = sorted({item.path for item in items})
    places = {path: (path.relative_to(REPO / "tests").parts[0] not in LONG_FOLDERS, path) for path in paths}
    items.sort(key=lambda item: places[item.path])
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def no_processes_of_other_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Leave out the stand-ins for the earlier Engram that tests beside these start: the system lists them all."""
    own = str(tmp_path_factory.getbasetemp())
    of_all_tests = str(tmp_path_factory.getbasetemp().parent)
    list_all = old_processes.list_processes

    def list_processes(pid: int | None = None) -> list[RunningProcess]:
        return [process for process in list_all(pid) if own in process.command or of_all_tests not in process.command]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(old_processes, "list_processes", list_processes)
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data beside the checkout; skips the test where it is absent."""
    folder = Path(os.environ.get("ENGRAM_SHARED", REPO.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared data folder is not beside this checkout (set ENGRAM_SHARED to name it)")
    return folder


@pytest.fixture(scope="session")
def corpus(shared: Path) -> Path:
    """The folder of real sessions; skips the test where it is absent."""
    folder = shared / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of real sessions is not at hand")
    return folder


@pytest.fixture(autouse=True)
def private_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's own home, settings or transcripts."""
    for name in [n for n in os.environ if n.startswith(("ENGRAM_", "CLAUDE_", "CODEX_")) and n != "ENGRAM_SHARED"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("ENGRAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))


@pytest.fixture(scope="session", autouse=True)
def bundled_folder() -> Path:
    """The folder of the bundled model; made here if this checkout was never installed."""
    from engram.embedding.model_source import BUNDLED_FOLDER

    if not (BUNDLED_FOLDER / "model.safetensors").is_file():
        subprocess.run([sys.executable, str(REPO / "hatch_build.py")], check=True, timeout=900)
    return BUNDLED_FOLDER


@pytest.fixture(scope="session")
def bundled(bundled_folder: Path) -> Embedder:
    """The bundled model, ready to run."""
    from engram.embedding.load_model import load_embedder

    return load_embedder("bundled")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL, the wheel's or else Debian's; skips the test where none is installed."""
    pytest.importorskip("psycopg", reason="the extra hub is not installed")
    from tests.hub.postgres import first_postgres, running_postgres

    with running_postgres(first_postgres()) as server:
        yield server


@pytest.fixture
def hub(postgres: Postgres) -> Iterator[Hub]:
    """A hub that serves an empty database on this machine."""
    from tests.hub.machines import Hub

    with Hub.running(postgres.make_database()) as hub:
        yield hub


@pytest.fixture
def clock() -> FixedClock:
    """A clock that only moves when the test says so."""
    return FixedClock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a private home whose folders exist."""
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.places.prepare()
    return settings


@pytest.fixture
def store(settings: Settings, clock: Clock) -> Iterator[Store]:
    """The open, empty memory of ``settings``. A test that needs another one overrides ``settings`` or ``clock``."""
    with open_empty(settings.places.memory_db, driver=settings.sqlite_driver, clock=clock) as store:
        yield store


@pytest.fixture
def keep(store: Store) -> Callable[..., Memory]:
    """Stores a memory; ``evidence`` names what it rests on, other keywords are fields of ``Memory``."""

    def keep(summary: str, *, evidence: list[Evidence] | None = None, **changes: object) -> Memory:
        memory = Memory(
            episode_id=memory_records.new_memory_id(),
            kind=Kind.DECISION,
            summary=summary,
            content=f"content of {summary}",
            scope=Scope.GLOBAL,
            extractor=LocalExtractor.name,
        )
        memory = dataclasses.replace(memory, **changes)  # type: ignore[arg-type]
        with store.transaction() as tx:
            return memory_changes.add_memory(
                tx,
                memory,
                evidence or [Evidence(f"uuid of {memory.episode_id}", memory.session_id or "s1")],
                actor=Actor.MODEL,
            )

    return keep


@pytest.fixture
def workshop(store: Store, settings: Settings, clock: FixedClock, tmp_path: Path) -> Workshop:
    """A repository in which sessions take place, and the memory that reads them."""
    return Workshop(store, settings, clock, Repository.make(tmp_path / "repo"))
