"""A memory about a file says so when the file changed a lot since; git is only read."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript_lines import say

from engram.consolidation import git_staleness
from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.git_staleness import changes_since
from engram.enums import Actor, Kind
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts import git_commands

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
Keep = Callable[..., Memory]
SESSION = "11111111-2222-3333-4444-555555555555"
SAID_MS = 1_767_225_600_000


class Repository:
    """A repository whose commits have the times they are given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "-q")

    def git(self, *arguments: str, at_seconds: int = SAID_MS // 1000) -> str:
        environment = {
            **os.environ,
            "GIT_AUTHOR_DATE": f"@{at_seconds} +0000",
            "GIT_COMMITTER_DATE": f"@{at_seconds} +0000",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        done = subprocess.run(["git", *arguments], cwd=self.root, env=environment, capture_output=True, check=True)
        return done.stdout.decode()

    def commit(self, name: str, text: str | None, *, days: float) -> None:
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "m", at_seconds=int(SAID_MS / 1000 + days * 86_400))


def lines(word: str, count: int = 60) -> str:
    return "".join(f"{word} {n}\n" for n in range(count))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "demo")
    made.commit("src/cache.py", lines("old"), days=-10)
    return made


@pytest.fixture
def bound(store: Store, settings: Settings, repository: Repository, keep: Keep) -> Callable[..., Memory]:
    """Keeps a memory about ``src/cache.py``, made in a session of the repository."""
    import json

    path = settings.projects_folder / "-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    common = {
        "sessionId": SESSION,
        "cwd": str(repository.root),
        "timestamp": "2026-01-01T00:00:00.000Z",
        "isSidechain": False,
    }
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "Edit",
        "input": {"file_path": str(repository.root / "src" / "cache.py"), "old_string": "a", "new_string": "b"},
    }
    entries = [
        {
            "type": "user",
            "uuid": "00000000-0000-4000-8000-000000000001",
            "message": {"role": "user", "content": "Fix it"},
        },
        {
            "type": "assistant",
            "uuid": "00000000-0000-4000-8000-000000000002",
            "message": {
                "role": "assistant",
                "id": "m",
                "content": [{"type": "text", "text": "The lock was missing."}, call],
            },
        },
    ]
    path.write_text("".join(json.dumps(common | one) + "\n" for one in entries))
    ingest_path(store, path, settings=settings, redact=redact)
    session = find_session(store, SESSION)
    assert session is not None
    (turn,) = turns_of_session(store, session.id)

    def make(summary: str = "cache.py holds the lock", **changes: object) -> Memory:
        fields: dict[str, object] = {
            "kind": "fact",
            "scope": "project",
            "project_id": session.project_id,
            "session_id": SESSION,
            "entities": ("cache.py",),
            "created_at_ms": SAID_MS,
            "valid_from_ms": SAID_MS,
        }
        return keep(summary, evidence=[Evidence("", SESSION, turn.id)], **(fields | changes))

    return make


def reason(store: Store, memory: Memory) -> str:
    found = memory_records.find_memory(store, memory.episode_id)
    assert found is not None
    return found.stale_reason


def test_many_changes_since_mark_it_and_undo_reverts_that(
    store: Store, settings: Settings, repository: Repository, bound: Callable[..., Memory]
) -> None:
    from engram.consolidation.undo import undo_run

    memory = bound()
    repository.commit("src/cache.py", lines("new"), days=5)

    report = consolidate(store, settings, is_forced=True)

    assert reason(store, memory).startswith("src/cache.py changed a lot: 120 lines in 1 commit, last 2026-01-0")
    undo_run(store, settings, report.run_id, actor=Actor.USER)
    assert reason(store, memory) == ""


def test_a_file_that_went_marks_it(
    store: Store, settings: Settings, repository: Repository, bound: Callable[..., Memory]
) -> None:
    memory = bound()
    repository.commit("src/cache.py", None, days=5)

    consolidate(store, settings, is_forced=True)

    assert "has been gone since" in reason(store, memory)


def test_small_changes_changes_before_it_and_other_files_do_not(
    store: Store, settings: Settings, repository: Repository, bound: Callable[..., Memory]
) -> None:
    memory = bound()
    repository.commit("src/cache.py", lines("older still"), days=-1)
    repository.commit("src/other.py", lines("new"), days=5)
    repository.commit("src/cache.py", lines("older still", 62), days=6)

    consolidate(store, settings, is_forced=True)

    assert reason(store, memory) == ""


def test_wishes_decisions_and_memories_that_name_no_file_do_not_go_stale(
    store: Store, settings: Settings, repository: Repository, bound: Callable[..., Memory]
) -> None:
    spared = [bound(kind=Kind.DECISION), bound(kind=Kind.PREFERENCE), bound("the lock matters", entities=())]
    repository.commit("src/cache.py", lines("new"), days=5)

    consolidate(store, settings, is_forced=True)

    assert [reason(store, one) for one in spared] == ["", "", ""]


def test_a_decision_goes_stale_when_its_file_is_gone_unless_it_says_so_itself(
    store: Store, settings: Settings, repository: Repository, bound: Callable[..., Memory]
) -> None:
    decision = bound("Everything is cached in cache.py, nowhere else", kind=Kind.DECISION)
    carried_out = bound("cache.py is removed as soon as the lock is in", kind=Kind.DECISION)
    wish = bound("The user wants cache.py kept small", kind=Kind.PREFERENCE)
    repository.commit("src/cache.py", None, days=5)

    consolidate(store, settings, is_forced=True)

    assert "has been gone since" in reason(store, decision)
    assert [reason(store, other) for other in (carried_out, wish)] == ["", ""]


def test_git_is_not_asked_about_excluded_or_vanished_folders(
    store: Store,
    settings: Settings,
    repository: Repository,
    bound: Callable[..., Memory],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dataclasses

    asked: list[str] = []
    monkeypatch.setattr(git_staleness, "changes_since", lambda root, since: asked.append(root) or {})
    bound()
    consolidate(store, dataclasses.replace(settings, exclude=(str(repository.root),)), is_forced=True)
    shutil.rmtree(repository.root)

    consolidate(store, settings, is_forced=True)

    assert asked == []


def test_a_folder_that_cannot_be_examined_does_not_stop_the_marking(
    store: Store, settings: Settings, repository: Repository, bound: Callable[..., Memory], keep: Keep
) -> None:
    memory = bound()
    repository.commit("src/cache.py", lines("new"), days=1)
    path = settings.projects_folder / "-long" / "11111111-2222-3333-4444-555555555556.jsonl"
    say(path, "user", "Tidy it.", cwd=f"/work/{'d' * 300}")
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    session = find_session(store, path.stem)
    assert session is not None
    keep("other.py holds it", kind="fact", scope="project", project_id=session.project_id, entities=("other.py",))

    consolidate(store, settings, is_forced=True)

    assert "cache.py changed a lot" in reason(store, memory)


def test_nothing_that_a_repository_configures_is_run(repository: Repository, tmp_path: Path) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "diff.external", "core.pager", "gpg.program", "diff.x.textconv"):
        repository.git("config", name, str(trap))
    repository.git("config", "log.showSignature", "true")
    (repository.root / ".gitattributes").write_text("*.py diff=x\n")
    before = sorted(path.name for path in (repository.root / ".git").rglob("*"))

    found = changes_since(str(repository.root), SAID_MS - 20 * 86_400_000)

    assert list(found) == ["src/cache.py"]
    assert not (tmp_path / "sprung").exists()
    assert sorted(path.name for path in (repository.root / ".git").rglob("*")) == before


def test_where_git_is_missing_slow_or_unwilling_nothing_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Repository
) -> None:
    since = SAID_MS - 20 * 86_400_000
    assert changes_since(str(tmp_path), since) == {}
    assert changes_since(str(repository.root), since) != {}
    monkeypatch.setattr(git_staleness, "MAX_GIT_SECONDS", 0.0)
    assert changes_since(str(repository.root), since) == {}
    monkeypatch.setattr(git_staleness, "MAX_GIT_SECONDS", 10.0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert changes_since(str(repository.root), since) == {}


def test_what_git_prints_is_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "@1700000000\n\n3\t4\tsrc/a b.py\n-\t-\tlogo.png\n@1700000001\n\n1\t0\tsrc/a b.py\nnoise\n"

    monkeypatch.setattr(git_commands, "run_git", lambda *_, **__: text)
    found = changes_since("/repository", 0)

    assert [(one.at_ms, one.lines) for one in found["src/a b.py"]] == [(1_700_000_000_000, 7), (1_700_000_001_000, 1)]
    assert list(found) == ["src/a b.py"]


def test_git_tells_the_history_again_only_after_a_commit_or_for_a_new_memory(
    store: Store,
    settings: Settings,
    clock: FixedClock,
    repository: Repository,
    bound: Callable[..., Memory],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        git_staleness, "changes_since", lambda root, since: asked.append(root) or changes_since(root, since)
    )

    def runs_that_ask() -> int:
        asked.clear()
        for _ in range(2):
            clock.advance(settings.consolidate_seconds + 1)
            consolidate(store, settings, similar=lambda *_: iter(()))
        return len(asked)

    first = bound()
    assert (runs_that_ask(), runs_that_ask()) == (1, 0)
    bound("cache.py has a lock of its own")
    assert runs_that_ask() == 1
    repository.commit("src/cache.py", lines("new"), days=5)
    assert runs_that_ask() == 1
    assert "changed a lot" in reason(store, first)
