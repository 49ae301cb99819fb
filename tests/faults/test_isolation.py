"""P9: what was said in one project is shown in no other, whatever the folders are called and however they lie."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from repositories import repository, worktree
from transcript_lines import say

from engram.embedding.hashed import HashedEmbedder
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.settings import Settings

CANARY = "Always deploy the harbor service with the copper lantern script."
QUESTION = "How do I deploy the harbor service, with which script? copper lantern"


@pytest.fixture(params=["cysqlite", "sqlite3"])
def store(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Store]:
    with open_store(settings.places.memory_db, driver=request.param) as opened:
        yield opened


def talk(settings: Settings, store: Store, cwd: Path, text: str) -> str:
    """A session in a folder; returns its id."""
    session = str(uuid.uuid4())
    path = settings.projects_folder / str(cwd).replace("/", "-") / f"{session}.jsonl"
    say(path, "user", text, cwd=str(cwd))
    say(path, "assistant", "Understood, so it is done from now on.", cwd=str(cwd))
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    extract_session(store, session, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    return session


def shown(settings: Settings, store: Store, cwd: Path, session: str | None) -> str:
    """Everything that the hooks would show to a session in a folder."""
    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    searcher.refresh()
    service = RecollectionService(store, searcher, settings, embedder=HashedEmbedder())
    payload = {"cwd": str(cwd), "prompt": QUESTION, "source": "startup"} | ({"session_id": session} if session else {})
    events = ("SessionStart", "UserPromptSubmit")
    return "".join(service.answer_hook(payload | {"hook_event_name": event}).decode() for event in events)


def test_it_is_shown_where_it_was_said_and_in_a_worktree_of_it(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    repo = repository(tmp_path / "one" / "shop")
    talk(settings, store, repo, CANARY)

    assert "copper lantern" in shown(settings, store, repo, str(uuid.uuid4()))
    assert "copper lantern" in shown(settings, store, worktree(repo, tmp_path / "trees" / "fix"), str(uuid.uuid4()))


def test_a_worktree_that_is_a_separate_project_finds_what_was_said_in_it_and_nothing_else(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    settings = dataclasses.replace(settings, join_worktrees=False)
    repo = repository(tmp_path / "one" / "shop")
    tree = worktree(repo, tmp_path / "trees" / "fix")
    talk(settings, store, tree, CANARY)

    assert "copper lantern" in shown(settings, store, tree, str(uuid.uuid4()))
    assert "copper lantern" not in shown(settings, store, repo, str(uuid.uuid4()))


@pytest.mark.parametrize(
    "where", ["same name", "inside", "above", "worktree of another", "copy of the worktree's name"]
)
def test_it_is_shown_in_no_other_project(settings: Settings, store: Store, tmp_path: Path, where: str) -> None:
    repo = repository(tmp_path / "one" / "shop")
    other = {
        "same name": lambda: repository(tmp_path / "two" / "shop"),
        "inside": lambda: repository(repo / "vendor" / "library"),
        "above": lambda: repository(tmp_path / "one"),
        "worktree of another": lambda: worktree(repository(tmp_path / "two" / "shop"), tmp_path / "shop-fix"),
        "copy of the worktree's name": lambda: repository(tmp_path / "shop-fix"),
    }[where]()
    talk(settings, store, repo, CANARY)
    mine = talk(settings, store, other, "Please look at the tests of the parser today.")

    assert "lantern" not in shown(settings, store, other, mine)
    assert "lantern" not in shown(settings, store, other, str(uuid.uuid4()))
    found = store.row("SELECT project_id FROM session WHERE session_id = ?", (mine,))
    assert found is not None
    hits = Searcher(store, settings, embedder=HashedEmbedder()).search(
        Query(text=QUESTION, project_id=found[0], limit=50)
    )
    assert not any("lantern" in str(hit) for hit in hits)


def test_without_a_session_id_nothing_is_shown_even_at_home(settings: Settings, store: Store, tmp_path: Path) -> None:
    repo = repository(tmp_path / "one" / "shop")
    talk(settings, store, repo, CANARY)

    assert shown(settings, store, repo, None) == ""
    assert shown(settings, store, repo, "../../x") == ""
