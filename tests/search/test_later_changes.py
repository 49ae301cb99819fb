"""An answer says how many of the files that a turn edited were changed since, as git says, and asks git alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from repositories import Repository
from transcript_lines import say

from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.projects.projects import list_projects
from engram.redaction import redact
from engram.search.answer import answer_question
from engram.search.edited_since import WAIT_SECONDS, LaterChanges, read_commit_times
from engram.search.hit_lines import answer_text
from engram.search.hits import PublicHit
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9a"
#: Before and after the session.
EARLIER, LATER = "2026-04-01T00:00:00Z", "2026-06-01T00:00:00Z"


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """The open memory."""
    with open_store(settings.places.memory_db) as opened:
        yield opened


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """A repository with three files that were committed before the session."""
    made = Repository.make(tmp_path / "harbor")
    for name in ("src/crane.py", "src/quay.py", "notes.md"):
        made.write(name, "1\n")
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "add", at=EARLIER)
    return made


def edit(
    settings: Settings, store: Store, repo: Repository, *files: str, commits: bool = False, session: str = SESSION
) -> None:
    """Read a session that edited files; ``commits`` makes it end with a commit."""
    path = settings.projects_folder / "-harbor" / f"{session}.jsonl"
    calls = [("Edit", {"file_path": file, "old_string": "1", "new_string": "2"}, "edited") for file in files]
    calls += [("Bash", {"command": "git commit -qam 'crane: lift'"}, "")] if commits else []
    say(path, "user", "Why does the crane of the harbor drop containers?", cwd=str(repo.root))
    say(path, "assistant", "The crane drops containers that are heavier than eight tons.", cwd=str(repo.root))
    for number, (name, given, printed) in enumerate(calls):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
        say(path, "assistant", [call], cwd=str(repo.root))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": printed}
        say(path, "user", [result], cwd=str(repo.root))
    ingest_path(store, path, settings=settings, redact=redact, close=True)


def commit_later(repo: Repository, **files: str) -> None:
    for name, text in files.items():
        repo.write(name, text)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "later", at=LATER)


def told(settings: Settings, store: Store) -> tuple[str, tuple[PublicHit, ...]]:
    """What is answered, once git has said what it knows."""
    changes = LaterChanges(store.clock)
    for project in list_projects(store):
        changes._times(project.root, deadline=0.0)
    changes._pool.shutdown(wait=True)
    answer = answer_question(
        store,
        Searcher(store, settings),
        Query("crane drops containers", project_id=list_projects(store)[0].id),
        changes_of=lambda turns: changes.of_turns(store, settings, turns),
    )
    return answer_text(answer.hits), answer.hits


def test_files_that_a_later_commit_changed_are_counted(settings: Settings, store: Store, repo: Repository) -> None:
    edit(settings, store, repo, f"{repo.root}/src/crane.py", "src/quay.py", "/elsewhere/other.py", commits=True)
    commit_later(repo, **{"src/crane.py": "3\n", "notes.md": "2\n"})

    text, hits = told(settings, store)

    assert ", 1 of the 2 files it edited changed since:" in text
    assert hits[0].changed_files == (1, 2)
    assert PublicHit.from_json(hits[0].to_json()) == hits[0]


def test_the_commit_of_the_turns_own_change_is_not_a_later_change(
    settings: Settings, store: Store, repo: Repository
) -> None:
    edit(settings, store, repo, "src/crane.py")
    commit_later(repo, **{"src/crane.py": "2\n"})
    assert "changed since" not in told(settings, store)[0]

    commit_later(repo, **{"src/crane.py": "3\n"})
    assert "the file it edited changed since:" in told(settings, store)[0]


@pytest.mark.parametrize("reason", ["no repository", "nothing edited"])
def test_nothing_is_said_where_git_may_not_or_cannot_be_asked(
    settings: Settings, store: Store, repo: Repository, reason: str
) -> None:
    files = () if reason == "nothing edited" else ("src/crane.py",)
    edit(settings, store, repo, *files, commits=True)
    commit_later(repo, **{"src/crane.py": "3\n"})
    if reason == "no repository":
        (repo.root / ".git").rename(repo.root / ".gone")
    text, _ = told(settings, store)

    assert "The crane drops containers" in text
    assert "changed since" not in text


def test_the_latest_two_times_of_a_file_are_read(repo: Repository) -> None:
    for text in ("2\n", "3\n"):
        repo.commit("change", **{"src/crane.py": text})

    times = read_commit_times(str(repo.root))

    assert len(times["src/crane.py"]) == 2
    assert len(times["notes.md"]) == 1
    assert read_commit_times(str(repo.root / "missing")) == {}


def test_an_answer_about_many_repositories_waits_no_longer_than_about_one(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    for number in range(4):
        made = Repository.make(tmp_path / f"harbor{number}")
        edit(settings, store, made, "src/crane.py", session=f"{SESSION[:-1]}{number}")
    clock = FixedClock()

    class HangingGit:
        """Answers no question in the time that is waited for it."""

        def submit(self, *_: object) -> HangingGit:
            return self

        def result(self, timeout_seconds: float) -> dict[str, tuple[int, ...]]:
            clock.steady += timeout_seconds
            raise TimeoutError

    changes = LaterChanges(clock)
    changes._pool = HangingGit()  # type: ignore[assignment]

    assert changes.of_turns(store, settings, range(1, 5)) == {}
    assert clock.steady == pytest.approx(WAIT_SECONDS)
