"""The pull requests that a transcript names are kept with the session, under the same rules as its words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transcript_lines import say

from engram.enums import Actor
from engram.forgetting.whole_project import forget_project
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.projects.projects import list_projects
from engram.models.sessions.failures_and_commits import MAX_PULL_REQUESTS, pull_requests_of
from engram.models.work.work import pause
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts.agents import PullRequest

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"
AT = "2026-05-01T10:05:00.000Z"
AT_MS = 1_777_629_900_000


@pytest.fixture
def path(settings: Settings) -> Path:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    say(path, "user", "Open a pull request for the cursor fix.", at="2026-05-01T10:00:00.000Z")
    return path


def link(path: Path, number: int, at: str = AT, host: str = "github.com") -> str:
    """Append the line that Claude Code writes when it sees a pull request; returns its address."""
    url = f"https://{host}/acme/harbor/pull/{number}"
    line = {"type": "pr-link", "sessionId": SESSION, "prNumber": number, "prUrl": url, "timestamp": at}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return url


def read(store: Store, settings: Settings, path: Path) -> None:
    ingest_path(store, path, settings=settings, redact=redact, close=True)


def kept(store: Store) -> list[PullRequest]:
    return list(pull_requests_of(store, [SESSION]).get(SESSION, ()))


def test_a_pull_request_is_kept_once_with_the_time_at_which_it_was_named(
    store: Store, settings: Settings, path: Path
) -> None:
    url = link(path, 754)
    read(store, settings, path)
    link(path, 754, at="2026-05-01T11:00:00.000Z")
    other = link(path, 755, at="2026-05-01T12:00:00.000Z")
    read(store, settings, path)

    assert kept(store) == [PullRequest(AT_MS, url), PullRequest(AT_MS + 115 * 60_000, other)]


def test_what_is_not_a_web_address_is_not_kept(store: Store, settings: Settings, path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        for url in ("javascript:alert(1)", "https://a b/1", "https://" + "a" * 400, 7, None):
            file.write(json.dumps({"type": "pr-link", "prUrl": url, "timestamp": AT}) + "\n")
    read(store, settings, path)

    assert kept(store) == []


def test_a_secret_in_the_address_is_masked(store: Store, settings: Settings, path: Path) -> None:
    link(path, 1, host="x-access-token:ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789@github.com")
    read(store, settings, path)

    (pull_request,) = kept(store)
    assert "ghp_" not in pull_request.url


def test_a_session_keeps_a_bounded_number(store: Store, settings: Settings, path: Path) -> None:
    for number in range(MAX_PULL_REQUESTS + 5):
        link(path, number)
    read(store, settings, path)

    assert len(kept(store)) == MAX_PULL_REQUESTS


def test_what_is_named_in_a_pause_is_not_kept(store: Store, settings: Settings, path: Path, clock: FixedClock) -> None:
    clock.at_ms = AT_MS - 60_000
    pause(store, "", AT_MS + 60_000)
    link(path, 754)
    clock.at_ms = AT_MS + 120_000
    link(path, 755, at="2026-05-01T12:00:00.000Z")
    read(store, settings, path)

    assert [pull_request.url[-3:] for pull_request in kept(store)] == ["755"]


def test_they_go_with_their_project_and_do_not_come_back(
    store: Store, settings: Settings, path: Path, clock: FixedClock
) -> None:
    clock.at_ms = AT_MS + 60_000
    link(path, 754)
    read(store, settings, path)
    (project,) = list_projects(store)

    forget_project(store, settings.places, project, actor=Actor.USER)
    link(path, 754)
    read(store, settings, path)

    assert kept(store) == []
