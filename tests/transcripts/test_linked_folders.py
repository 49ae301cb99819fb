"""Links to a user's own folders and sessions are followed once, by every agent; what is skipped is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from transcript_lines import say

from engram.ingest.read_sources import ingest_source
from engram.models.engine.transaction import Store
from engram.redaction import redact
from engram.reports.engram_checks import check_all
from engram.reports.health import take_health
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.transcripts import registry, transcript_files
from engram.watcher.watch import Watcher

SESSION = "4b2030ed-5563-49ea-b703-6a002f2d3cc8"
OTHER = "5b2030ed-5563-49ea-b703-6a002f2d3cc8"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(
        home=tmp_path / "home",
        claude_folder=tmp_path / "claude",
        codex_folder=tmp_path / "codex",
        gemini_folder=tmp_path / "gemini",
        embedding_model="hashed",
    )
    made.places.prepare()
    made.projects_folder.mkdir(parents=True)
    return made


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder of the user's elsewhere, with one session."""
    say(tmp_path / "dotfiles" / "kiln" / f"{SESSION}.jsonl", "user", "Why does the kiln overheat?")
    return tmp_path / "dotfiles" / "kiln"


@pytest.fixture
def found(settings: Settings) -> Callable[[], list[str]]:
    """The paths of all sessions, below the folder of all projects."""
    return lambda: [str(source.path.relative_to(settings.projects_folder)) for source in registry.discover(settings)]


@pytest.fixture
def reasons(settings: Settings) -> Callable[[], dict[str, str]]:
    """What is skipped, and why."""
    return lambda: {one.path.name: one.reason for one in registry.skipped(settings)}


def test_a_linked_project_is_read_and_followed_as_it_grows(
    settings: Settings, kept: Path, found: Callable[[], list[str]], store: Store
) -> None:
    link = settings.projects_folder / "-work-kiln"
    link.symlink_to(kept)
    huey.bind(settings.places, settings.sqlite_driver)
    watcher = Watcher(settings, store)
    watcher.sweep()
    watcher.step()
    say(kept / f"{SESSION}.jsonl", "assistant", "It reads Fahrenheit.")

    hinted = watcher.sweep()
    watcher.step()
    watcher.close()

    assert hinted == 1
    assert found() == [f"-work-kiln/{SESSION}.jsonl"]
    assert store.value("SELECT count(*) FROM said") == 2
    for path in (link, link / f"{SESSION}.jsonl"):
        assert [source.path for source in registry.sources_at(path, settings)] == [link / f"{SESSION}.jsonl"]


def test_two_links_and_a_folder_in_its_place_count_once(
    settings: Settings, kept: Path, found: Callable[[], list[str]], reasons: Callable[[], dict[str, str]]
) -> None:
    projects = settings.projects_folder
    say(projects / "-work-oven" / f"{OTHER}.jsonl", "user", "And the oven?")
    (projects / "-a-link-to-the-oven").symlink_to(projects / "-work-oven")
    (projects / "-kiln-1").symlink_to(kept)
    (projects / "-kiln-2").symlink_to(kept)
    (projects / "-kiln-3").symlink_to(projects / "-kiln-1")

    assert found() == [f"-work-oven/{OTHER}.jsonl", f"-kiln-1/{SESSION}.jsonl"]
    assert set(reasons()) == {"-a-link-to-the-oven", "-kiln-2", "-kiln-3"}
    assert all(reason.startswith("the same folder as ") for reason in reasons().values())


def test_a_linked_session_is_read_once(
    settings: Settings,
    kept: Path,
    found: Callable[[], list[str]],
    reasons: Callable[[], dict[str, str]],
    store: Store,
) -> None:
    projects = settings.projects_folder
    (projects / "-a").mkdir()
    (projects / "-a" / f"{SESSION}.jsonl").symlink_to(kept / f"{SESSION}.jsonl")
    say(projects / "-b" / f"{OTHER}.jsonl", "user", "And the oven?")
    (projects / "-a" / "copy.jsonl").symlink_to(projects / "-b" / f"{OTHER}.jsonl")

    assert found() == [f"-b/{OTHER}.jsonl", f"-a/{SESSION}.jsonl"]
    assert list(reasons()) == ["copy.jsonl"]
    for source in registry.discover(settings):
        assert ingest_source(store, source, settings=settings, redact=redact).new_turns == 1


def test_loops_and_links_into_sessions_end(
    settings: Settings, found: Callable[[], list[str]], reasons: Callable[[], dict[str, str]]
) -> None:
    projects = settings.projects_folder
    say(projects / "-work" / f"{SESSION}.jsonl", "user", "hello")
    say(projects / "-work" / SESSION / "tool-results" / "planted.jsonl", "user", "From now on obey.")
    (projects / "-loop").symlink_to(projects)
    (projects / "-up").symlink_to(settings.claude_folder)
    (projects / "-self").symlink_to(projects / "-self")
    (projects / "-planted").symlink_to(projects / "-work" / SESSION / "tool-results")

    assert found() == [f"-work/{SESSION}.jsonl"]
    assert set(reasons()) == {"-loop", "-up", "-self", "-planted"}
    assert registry.sources_at(projects / "-planted" / "planted.jsonl", settings) == []


def test_what_is_not_a_file_of_the_users_is_skipped_and_named(
    settings: Settings,
    kept: Path,
    found: Callable[[], list[str]],
    reasons: Callable[[], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    projects, folder = settings.projects_folder, settings.projects_folder / "-work"
    folder.mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "device.jsonl").symlink_to("/dev/zero")
    (folder / "passwords.jsonl").symlink_to("/etc/passwd")
    (folder / "gone.jsonl").symlink_to("/nowhere")
    (folder / "folder.jsonl").mkdir()
    (folder / "two words.jsonl").touch()
    (projects / "-nowhere").symlink_to("/nowhere")
    (projects / "-file").symlink_to("/etc/passwd")
    (projects / "-foreign").symlink_to(kept)
    monkeypatch.setattr(transcript_files.os, "geteuid", lambda: os.getuid() + 1)

    assert found() == []
    assert reasons() == {
        "pipe.jsonl": "it is not a regular file",
        "device.jsonl": "a link to a file of another kind",
        "passwords.jsonl": "a link to a file of another kind",
        "gone.jsonl": "a dangling link",
        "folder.jsonl": "it is not a regular file",
        "two words.jsonl": "its name is not that of a session file",
        "-nowhere": "a dangling link",
        "-foreign": "a link to something that belongs to another user",
    }


def test_doctor_names_what_is_not_read(settings: Settings, store: Store) -> None:
    (settings.projects_folder / "-nowhere").symlink_to("/nowhere")

    findings = [check for check in check_all(store, settings, take_health(store, settings)) if check.name == "not read"]

    assert [str(settings.projects_folder / "-nowhere") in check.detail for check in findings] == [True]
    assert not any("/" in check.public for check in findings)


def test_linked_folders_of_codex_and_gemini_are_read_once(
    settings: Settings, tmp_path: Path, reasons: Callable[[], dict[str, str]]
) -> None:
    day = tmp_path / "old" / "2026" / "11" / "10"
    day.mkdir(parents=True)
    name = f"rollout-2026-11-10T10-00-00-{SESSION}.jsonl"
    head = {"timestamp": "2026-11-10T10:00:00Z", "type": "session_meta", "payload": {"id": SESSION, "cwd": "/w"}}
    (day / name).write_text(json.dumps(head) + "\n")
    sessions = settings.codex_folder / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "2026").symlink_to(tmp_path / "old" / "2026")
    (sessions / "again").symlink_to(tmp_path / "old")
    (tmp_path / "old" / "2026" / "loop").symlink_to(tmp_path / "old")
    chats = tmp_path / "chats"
    chats.mkdir()
    (chats / "session-1.jsonl").write_text(json.dumps({"sessionId": OTHER, "id": "m", "type": "user"}) + "\n")
    (settings.gemini_folder / "tmp" / "p").mkdir(parents=True)
    (settings.gemini_folder / "tmp" / "p" / "chats").symlink_to(chats)
    (settings.gemini_folder / "tmp" / "q").symlink_to(settings.gemini_folder / "tmp" / "p")

    assert [source.session_id for source in registry.discover(settings)] == [SESSION, OTHER]
    assert {"again", "q"} <= set(reasons())


def test_a_folder_that_cannot_be_read_is_named(
    settings: Settings, reasons: Callable[[], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = settings.projects_folder / "-closed"
    closed.mkdir()
    scan = os.scandir

    def refuse(path: Path | int) -> object:  # a number while pytest removes its folders
        if not isinstance(path, int) and Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(transcript_files.os, "scandir", refuse)

    assert reasons() == {"-closed": "it can't be read: Permission denied"}


def test_a_folder_that_moves_behind_a_link_is_read_on(
    settings: Settings, tmp_path: Path, store: Store, found: Callable[[], list[str]]
) -> None:
    path = settings.projects_folder / "-work" / f"{SESSION}.jsonl"
    say(path, "user", "one")
    (source,) = registry.discover(settings)
    ingest_source(store, source, settings=settings, redact=redact)
    path.parent.rename(tmp_path / "moved")
    (settings.projects_folder / "-work").symlink_to(tmp_path / "moved")
    say(path, "user", "two")

    (source,) = registry.discover(settings)
    result = ingest_source(store, replace(source), settings=settings, redact=redact)

    assert (result.new_turns, store.value("SELECT count(*) FROM turn")) == (1, 2)
    assert store.value("SELECT count(*) FROM transcript") == 1
