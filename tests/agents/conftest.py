"""Two agents that Claude Code's reader knows nothing of, each registered by one line, and their sessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts import registry
from tests.agents.database_agent import SCHEMA, DatabaseAgent
from tests.agents.document_agent import DocumentAgent
from tests.empty_memory import open_empty

NOW_MS = 1_780_000_000_000


class Sessions:
    """Writes sessions as one of the agents does. Each message is a minute after the one before."""

    agent: str
    title: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.at_ms = NOW_MS - 86_400_000

    def say(self, session: str, role: str, text: str, cwd: str = "/work/harbour") -> Path:
        """Add a message; returns the file."""
        self.at_ms += 60_000
        return self._add(session, role, text, cwd)

    def id_of(self, session: str) -> str:
        """The session's id in Engram."""
        return f"{self.agent.removesuffix('-agent')}-{session}"

    def edit(self, session: str, old: str, new: str) -> Path:
        """Change a text that was said before."""
        raise NotImplementedError

    def _add(self, session: str, role: str, text: str, cwd: str) -> Path:
        raise NotImplementedError


class DatabaseSessions(Sessions):
    """Rows of one database."""

    agent, title = DatabaseAgent.name, DatabaseAgent.title

    @property
    def path(self) -> Path:
        return self.folder / "sessions.db"

    def _add(self, session: str, role: str, text: str, cwd: str) -> Path:
        with sqlite3.connect(self.path) as database:
            database.executescript(SCHEMA)
            database.execute("INSERT OR IGNORE INTO session (name, cwd) VALUES (?, ?)", (session, cwd))
            database.execute(
                "INSERT INTO message (session, role, text, at_ms) "
                "VALUES ((SELECT id FROM session WHERE name = ?), ?, ?, ?)",
                (session, role, text, self.at_ms),
            )
        database.close()
        return self.path


class DocumentSessions(Sessions):
    """Files that are rewritten whole."""

    agent, title = DocumentAgent.name, DocumentAgent.title

    def path_of(self, session: str) -> Path:
        return self.folder / f"{session}.session.json"

    def _add(self, session: str, role: str, text: str, cwd: str) -> Path:
        path = self.path_of(session)
        whole = json.loads(path.read_text()) if path.exists() else {"cwd": cwd, "messages": []}
        number = len(whole["messages"])
        whole["messages"].append({"id": f"{session}-{number}", "role": role, "text": text, "at_ms": self.at_ms})
        return self._write(path, whole)

    def edit(self, session: str, old: str, new: str) -> Path:
        path = self.path_of(session)
        whole = json.loads(path.read_text())
        for message in whole["messages"]:
            message["text"] = message["text"].replace(old, new)
        return self._write(path, whole)

    def _write(self, path: Path, whole: object) -> Path:
        new = path.with_suffix(".new")
        new.write_text(json.dumps(whole))
        new.replace(path)
        return path


@pytest.fixture
def database_sessions(tmp_path: Path) -> Iterator[DatabaseSessions]:
    """The database agent, registered, without sessions yet."""
    sessions = DatabaseSessions(tmp_path / "database agent")
    registry.register(DatabaseAgent(sessions.folder))
    yield sessions
    del registry._agents[DatabaseAgent.name]


@pytest.fixture
def document_sessions(tmp_path: Path) -> Iterator[DocumentSessions]:
    """The document agent, registered, without sessions yet."""
    sessions = DocumentSessions(tmp_path / "document agent")
    registry.register(DocumentAgent(sessions.folder))
    yield sessions
    del registry._agents[DocumentAgent.name]


@pytest.fixture(params=["database_sessions", "document_sessions"])
def sessions(request: pytest.FixtureRequest) -> Sessions:
    """The sessions of one agent, then of the other."""
    made: Sessions = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A separate memory folder, and no Claude Code transcripts."""
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    return made


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """An open, empty memory under a clock that stands still."""
    with open_empty(settings.places.memory_db, clock=FixedClock(NOW_MS)) as opened:
        yield opened
