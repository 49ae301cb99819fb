"""A command line in a home of its own, with the sample sessions read and their memories made."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engram.cli.main import engram
from engram.cli.up_commands import SAMPLES
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.paths import Home, default_home

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``engram …`` in this process on the sample sessions, in an empty memory folder, without the real model."""
    Home(default_home()).prepare()
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(SAMPLES))

    def invoke(*arguments: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(engram, list(arguments), input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return invoke


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run ``engram … --json`` and read what it prints."""
    return lambda *arguments, **more: json.loads(run(*arguments, "--json", **more).stdout)


@pytest.fixture
def home() -> Home:
    """The memory folder of the test."""
    return Home(default_home())


@pytest.fixture(scope="session")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A memory folder after everything was read, extracted and embedded once; it is only copied."""
    made = Home(tmp_path_factory.mktemp("read-once") / "home")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ENGRAM_HOME", str(made.root))
        environment.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
        environment.setenv("CLAUDE_CONFIG_DIR", str(SAMPLES))
        result = CliRunner().invoke(engram, ["up", "--once", "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    return made


@pytest.fixture
def filled(run: Run, home: Home, read_once: Home) -> Iterator[Store]:
    """The open memory after everything was read, extracted and embedded once."""
    shutil.copytree(read_once.root, home.root, dirs_exist_ok=True)
    _rename_folder(home.memory_db, str(read_once.root), str(home.root))
    store = open_store(home.memory_db)
    yield store
    store.close()


def _rename_folder(memory_db: Path, old: str, new: str) -> None:
    """Let the stored paths of a copied memory folder lead to the copy."""
    with contextlib.closing(sqlite3.connect(memory_db)) as database, database:
        database.execute("UPDATE note SET path = replace(path, ?, ?)", (old, new))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of a project that was never seen."""
    made = tmp_path / "work" / "boats"
    made.mkdir(parents=True)
    monkeypatch.chdir(made)
    return made
