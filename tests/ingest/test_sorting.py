"""What an earlier version put into one project is sorted by what is known now, completely or not at all, and back."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from growing_transcript import Ingest, MakeTranscript
from repositories import repository

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.errors import NotFound
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.forgetting.whole_project import forget_project
from engram.ingest import project_moves
from engram.ingest.project_moves import plan_sorting, sort_if_due, sort_projects
from engram.ingest.read_sources import ingest_all
from engram.ingest.session_project import named_project
from engram.models.engine.transaction import Store
from engram.models.hub.outgoing_statements import begin_enqueuing, enqueue_all
from engram.models.open_memory import open_store
from engram.models.projects.project_folders import list_sortings, merge_projects, undo_sorting
from engram.models.projects.projects import ProjectRow, ensure_project, list_projects
from engram.models.work.work import pause, resume
from engram.notes.daily_log import log_session
from engram.redaction import redact
from engram.search.searcher import Query, Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.forked import run_forked
from tests.models.hub_spaces_made import join_made_up

#: Work of earlier sessions: session → (working folder below the home folder, a word that only it has).
WORK = {
    "codex": (".codex/worktrees/4711/harbor", "anchor"),
    "claude": (".claude-worktrees/acme/brave-fox", "winch"),
    "cursor": (".cursor/worktrees/harbor/x1", "rudder"),
    "plain": ("worktrees/acme/feat", "capstan"),
    "home": (".", "hammock"),
}
#: Where each belongs.
BELONGS = {"codex": "harbor", "claude": "acme", "cursor": "harbor", "plain": "acme", "home": "you"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with two repositories."""
    folder = tmp_path / "home" / "you"
    for name in ("harbor", "acme"):
        repository(folder / "src" / name)
    monkeypatch.setenv("HOME", str(folder))
    return folder


def put_into(store: Store, project: ProjectRow, *session_ids: str) -> None:
    """Store sessions as an earlier version did: with all their turns and memories in one project."""
    with store.transaction() as tx:
        for session_id in session_ids:
            of_session = f"(SELECT id FROM session WHERE session_id = '{session_id}')"
            for table, column in (("turn", "session_ref"), ("passage", "session_ref"), ("episode", "session_ref")):
                tx.run(f"UPDATE {table} SET project_id = ? WHERE {column} = {of_session}", (project.id,))
            tx.run(f"UPDATE session SET project_id = ? WHERE id = {of_session}", (project.id,))


def make_project(store: Store, folder: Path) -> ProjectRow:
    with store.transaction() as tx:
        return ensure_project(tx, str(folder), folder.name, str(folder))


@pytest.fixture
def read(
    store: Store, settings: Settings, make_transcript: MakeTranscript, ingest: Ingest, clock: FixedClock
) -> Callable[..., None]:
    """Reads a session that keeps one rule in each of some folders, and makes its memories and vectors."""

    def read(name: str, *places: tuple[Path | str, str]) -> None:
        transcript = make_transcript(name, cwd=str(places[0][0]))
        for folder, word in places:
            transcript.user(f"We always use the {word} library 4.2 here, never 5.", cwd=str(folder))
            transcript.says(f"The {word} it is.", cwd=str(folder))
        ingest(transcript, close=True)
        extract_session(store, name, extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
        embed_missing(store, HashedEmbedder(), 50)

    return read


@pytest.fixture
def mixed(store: Store, home: Path, read: Callable[..., None]) -> Store:
    """A store in which every session is in the home folder's project."""
    for name in ("harbor", "acme"):
        read(name, (home / "src" / name, f"{name}-own"))
    you = make_project(store, home)
    for name, (folder, word) in WORK.items():
        read(name, (home / folder, word))
        put_into(store, you, name)
    with store.transaction() as tx:
        tx.run("DELETE FROM project WHERE id NOT IN (SELECT project_id FROM session)")
    return store


def state(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Where sessions, turns, passages and memories are, by the names of their projects."""
    return {
        table: store.rows(
            f"SELECT {names}, p.name FROM {table} t {more} LEFT JOIN project p ON p.id = t.project_id ORDER BY 1, 2"
        )
        for table, names, more in (
            ("session", "t.session_id, t.cwd", ""),
            ("turn", "t.stable_id, t.cwd", ""),
            ("passage", "t.id, t.start", ""),
            ("episode", "t.episode_id, t.summary", ""),
        )
    }


def projects_of_words(store: Store) -> dict[str, set[str]]:
    """Project → the words that a search in it finds, in memories and passages, with vectors."""
    words = {word for _, word in WORK.values()}
    searcher = Searcher(store, Settings(home=store.path.parent), embedder=HashedEmbedder())
    searcher.refresh()
    found = {}
    for project in list_projects(store):
        query = Query(f"which library do we use {' '.join(sorted(words))}", project_id=project.id, limit=50)
        hits = [*searcher.search(query), *searcher.recall(query)]
        found[project.name] = {word for word in words for hit in hits if word in str(hit)}
    return found


def test_sessions_in_deleted_worktrees_leave_the_home_folder_and_what_was_said_there_stays(
    mixed: Store, settings: Settings
) -> None:
    before = state(mixed)
    plan = plan_sorting(mixed, settings)
    assert state(mixed) == before

    assert sort_projects(mixed, settings) == plan

    assert {name: project for name, _, project in state(mixed)["session"] if name in WORK} == BELONGS
    assert projects_of_words(mixed) == {
        project: {word for name, (_, word) in WORK.items() if BELONGS[name] == project}
        for project in ("harbor", "acme", "you")
    }
    assert plan_sorting(mixed, settings) == []


def test_a_repository_that_was_cloned_anew_gets_sessions_with_their_turns(
    mixed: Store, settings: Settings, home: Path
) -> None:
    for name in ("harbor", "acme"):
        logs = home / "src" / name / ".git" / "logs"
        logs.mkdir()
        (logs / "HEAD").write_text(f"{'0' * 40} {'1' * 40} a <a@b> 1900000000 +0000\tclone: from there\n")

    assert sum(len(one.turn_ids) for one in sort_projects(mixed, settings)) == 4

    found = state(mixed)
    assert {name: project for name, _, project in found["session"] if name in WORK} == BELONGS
    assert [project for _, cwd, project in found["turn"] if cwd != str(home)].count("you") == 0


def test_a_later_version_sorts_even_if_nothing_new_was_said(mixed: Store, settings: Settings) -> None:
    ingest_all(mixed, settings=settings, redact=redact, sources=())

    assert {name: project for name, _, project in state(mixed)["session"] if name in WORK} == BELONGS


def test_a_sorting_that_is_undone_is_as_before_and_not_repeated(mixed: Store, settings: Settings) -> None:
    before, found = state(mixed), projects_of_words(mixed)
    sort_projects(mixed, settings)
    assert (list_sortings(mixed)[0].sessions, list_sortings(mixed)[0].turns) == (4, 4)

    undone = undo_sorting(mixed, actor=Actor.USER)

    assert undone.sessions == 4
    assert state(mixed) == before
    assert projects_of_words(mixed) == found
    assert sort_if_due(mixed, settings) == []
    assert state(mixed) == before
    with pytest.raises(NotFound):
        undo_sorting(mixed, actor=Actor.USER)


def test_what_earlier_rules_sorted_is_sorted_again(
    mixed: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(project_moves, "_SORTING_RULES", 2)
        earlier.setattr(project_moves, "sort_projects", lambda store, settings: [])
        assert sort_if_due(mixed, settings) == []

    assert sort_if_due(mixed, settings)


def test_sorting_is_done_by_itself_once(mixed: Store, settings: Settings) -> None:
    assert sort_if_due(mixed, settings)
    done = state(mixed)

    assert [sort_if_due(mixed, settings) for _ in range(3)] == [[], [], []]
    assert state(mixed) == done
    assert len(list_sortings(mixed)) == 1


@pytest.mark.parametrize(
    "kind", ["deleted subfolder", "deleted worktree inside", "bare repository", "link", "link above"]
)
def test_a_project_that_is_none_by_itself_goes_to_the_one_that_it_is_part_of(
    store: Store, settings: Settings, home: Path, read: Callable[..., None], kind: str
) -> None:
    harbor = home / "src" / "harbor"
    folder = {
        "deleted subfolder": harbor / "gone",
        "deleted worktree inside": harbor / ".wt" / "f1",
        "bare repository": home / "orchard" / ".bare",
        "link": home / "linked",
        "link above": home / "src-linked" / "harbor",
    }[kind]
    if kind == "bare repository":
        git = ["git", "init", "-q", "--bare", str(folder)]
        folder.parent.mkdir()
        subprocess.run(git, check=True, env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull})
        (folder.parent / ".git").write_text("gitdir: ./.bare\n")
    elif kind == "link":
        folder.symlink_to(harbor)
    elif kind == "link above":
        folder.parent.symlink_to(home / "src")
    if kind != "bare repository":
        make_project(store, harbor)
    former = make_project(store, folder)
    read("s1", (folder, "anchor"))
    put_into(store, former, "s1")
    before = state(store)

    sort_projects(store, settings)

    into = "orchard" if kind == "bare repository" else "harbor"
    assert {name for rows in state(store).values() for *_, name in rows} == {into}
    assert [one.name for one in list_projects(store)] == [into]
    undo_sorting(store, actor=Actor.USER)
    assert state(store) == before
    assert sort_if_due(store, settings) == []


def test_a_link_that_is_younger_than_what_was_said_at_its_path_proves_nothing(
    store: Store, settings: Settings, home: Path, read: Callable[..., None], tmp_path: Path
) -> None:
    folder, plain = home / "linked", home / "plain"
    plain.mkdir()
    folder.mkdir()
    former = make_project(store, folder)
    read("s1", (folder, "anchor"))
    put_into(store, former, "s1")
    folder.rename(tmp_path / "away")
    folder.symlink_to(plain)

    assert plan_sorting(store, settings) == []


@pytest.fixture
def above(store: Store, home: Path, read: Callable[..., None]) -> Store:
    """A store in which a session that began above the repositories belongs to that folder with all its turns."""
    src = home / "src"
    read("s1", (src, "hammock"), (src / "harbor", "anchor"), (src / "acme", "winch"))
    put_into(store, named_project(store, "src"), "s1")
    return store


def test_turns_go_to_the_repositories_in_which_they_were_said(above: Store, settings: Settings) -> None:
    before = state(above)

    sort_projects(above, settings)

    expected = {"src": {"hammock"}, "harbor": {"anchor"}, "acme": {"winch"}}
    assert projects_of_words(above) == expected
    memories = {
        str(summary).split(" library")[0].rsplit(" ", 1)[-1]: name for _, summary, name in state(above)["episode"]
    }
    assert memories == {word: name for name, words in expected.items() for word in words}
    assert state(above)["session"] == before["session"]
    undo_sorting(above, actor=Actor.USER)
    assert state(above) == before
    assert plan_sorting(above, settings) == []


def test_a_session_that_moves_takes_no_turn_of_a_third_project_with_it(
    store: Store, settings: Settings, home: Path, read: Callable[..., None]
) -> None:
    for name in ("harbor", "acme"):
        read(name, (home / "src" / name, f"{name}-own"))
    worktree = home / WORK["codex"][0]
    read("s1", (worktree, "anchor"), (home / "src" / "acme", "winch"))
    put_into(store, make_project(store, home), "s1")

    sort_projects(store, settings)

    found = projects_of_words(store)
    assert (found["harbor"], found["acme"], found["you"]) == ({"anchor"}, {"winch"}, set())


def test_the_daily_log_follows(above: Store, settings: Settings) -> None:
    log_session(above, settings.places, "s1")
    (file,) = settings.places.daily_notes.glob("*.md")
    mixed = file.read_text()
    sort_projects(above, settings)
    assert above.rows("SELECT key FROM work WHERE kind = 'extract' AND state = 'due'") == [("s1",)]
    log_session(above, settings.places, "s1")
    sections = {part.split("\n")[0]: part for part in file.read_text().split("## ")[1:]}

    assert list(sections) == ["src", "harbor", "acme"]
    assert "anchor" in sections["harbor"]
    assert "anchor" not in sections["src"] + sections["acme"]
    undo_sorting(above, actor=Actor.USER)
    log_session(above, settings.places, "s1")
    assert file.read_text() == mixed


CHILD = """
import sys
from pathlib import Path
from engram.ingest import project_moves
from engram.models.open_memory import open_store
from engram.settings import Settings
project_moves._SESSIONS_AT_ONCE = 1
#wait
settings = Settings(home=Path(sys.argv[1]), sqlite_driver=sys.argv[2])
with open_store(Path(sys.argv[3]), driver=settings.sqlite_driver) as store:
    project_moves.sort_projects(store, settings)
"""

#: The same, from a line on standard input on, with an answer at its end.
WAITING_CHILD = CHILD.replace("#wait", "print(flush=True); input()") + "print(flush=True)"


def start(child: subprocess.Popen[bytes], kill_after: float | None = None) -> float:
    """Let a waiting child sort, and kill it after that many seconds; returns the seconds until it ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    began = time.monotonic()
    child.stdin.write(b"\n")
    child.stdin.flush()
    if kill_after is not None:
        select.select([child.stdout], [], [], kill_after)
        child.kill()
    child.stdout.read()
    return time.monotonic() - began


@pytest.mark.parametrize(
    "crash", [f"sort.{point}:{number}" for point in ("moved", "committed") for number in (1, 2, 3)]
)
def test_a_sorting_that_was_killed_continues_and_is_undone_as_one(
    mixed: Store,
    settings: Settings,
    home: Path,
    read: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crash: str,
) -> None:
    gone = home / "src" / "harbor" / "gone"
    former = make_project(mixed, gone)
    read("whole", (gone, "compass"), (home / "src" / "acme", "sextant"))
    put_into(mixed, former, "whole")
    before = state(mixed)
    clean = tmp_path / "clean.db"
    mixed.checkpoint()
    shutil.copyfile(mixed.path, clean)
    mixed.close()

    def sort(path: Path) -> None:
        with open_store(path, driver=settings.sqlite_driver) as store:
            sort_projects(store, settings)

    with monkeypatch.context() as patched:
        patched.setattr(project_moves, "_SESSIONS_AT_ONCE", 1)
        assert run_forked(lambda: sort(clean)) == 0
        assert run_forked(lambda: sort(mixed.path), crash) == -signal.SIGKILL

    sort_projects(mixed, settings)

    with open_store(clean, driver=settings.sqlite_driver) as other:
        assert state(mixed) == state(other)
    undo_sorting(mixed, actor=Actor.USER)
    assert state(mixed) == before
    assert list_sortings(mixed) == []


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_sorting_that_is_killed_at_random_instants_ends_as_if_it_had_not_been(
    mixed: Store, settings: Settings, tmp_path: Path
) -> None:
    before, instants = state(mixed), random.Random(7)
    mixed.checkpoint()
    command = [sys.executable, "-c", WAITING_CHILD, str(settings.home), settings.sqlite_driver]
    clean, torn = tmp_path / "clean.db", tmp_path / "torn.db"
    shutil.copyfile(mixed.path, clean)
    with subprocess.Popen([*command, str(clean)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        seconds = start(child)
    with open_store(clean, driver=settings.sqlite_driver) as other:
        expected = state(other)
    killed = inside = 0
    while killed < 100:
        for old in tmp_path.glob("torn.db*"):
            old.unlink()
        shutil.copyfile(mixed.path, torn)
        for _ in range(instants.randint(1, 3)):
            with subprocess.Popen([*command, str(torn)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
                start(child, kill_after=instants.uniform(0, seconds))
            killed += child.returncode == -signal.SIGKILL
        with open_store(torn, driver=settings.sqlite_driver) as store:
            inside += state(store) not in (before, expected)
            sort_projects(store, settings)
            assert state(store) == expected
            undo_sorting(store, actor=Actor.USER)
            assert (state(store), list_sortings(store)) == (before, [])
    assert inside > 0


@pytest.mark.parametrize("paused", ["you", "harbor", "everything"])
def test_nothing_goes_to_or_from_what_is_paused_until_that_ends(mixed: Store, settings: Settings, paused: str) -> None:
    scope = "" if paused == "everything" else named_project(mixed, paused).identity
    pause(mixed, scope, mixed.now_ms() + 1_000_000)

    sort_if_due(mixed, settings)

    moved = {name for name, _, project in state(mixed)["session"] if name in WORK and project != "you"}
    assert moved == ({"claude", "plain"} if paused == "harbor" else set())
    resume(mixed, scope)
    sort_if_due(mixed, settings)
    assert {name: project for name, _, project in state(mixed)["session"] if name in WORK} == BELONGS


def test_a_hub_hears_nothing_of_a_sorting_or_of_its_end(mixed: Store, settings: Settings) -> None:
    share_memories(mixed)
    before = hub_state(mixed)
    sort_projects(mixed, settings)
    assert hub_state(mixed) == before
    undo_sorting(mixed, actor=Actor.USER)
    assert hub_state(mixed) == before


def test_what_was_done_since_stays_when_a_sorting_is_undone(
    mixed: Store, settings: Settings, home: Path, ingest: Ingest, make_transcript: MakeTranscript
) -> None:
    sort_projects(mixed, settings)
    forget_project(mixed, settings.places, named_project(mixed, "acme"), actor=Actor.USER)
    merge_projects(
        mixed, make_project(mixed, home / "next"), named_project(mixed, "harbor"), "by hand", actor=Actor.USER
    )

    undo_sorting(mixed, actor=Actor.USER)

    projects = {name: project for name, _, project in state(mixed)["session"] if name in WORK}
    assert projects == BELONGS | {"codex": "you", "cursor": "you"}
    assert not mixed.rows("SELECT 1 FROM said WHERE text LIKE '%winch%' OR text LIKE '%capstan%'")


def test_a_session_that_was_sorted_grows_in_its_new_project(
    mixed: Store, settings: Settings, home: Path, ingest: Ingest, make_transcript: MakeTranscript
) -> None:
    sort_projects(mixed, settings)
    again = make_transcript("codex", cwd=str(home / WORK["codex"][0]), number=50, at_ms=1_767_225_650_000)
    again.user("And now the keel.")
    ingest(again, close=True)

    turns = {(cwd, name) for _, cwd, name in state(mixed)["turn"] if "codex" in str(cwd)}
    assert turns == {(str(home / WORK["codex"][0]), "harbor")}


@pytest.mark.parametrize(
    "doubt", ["two of the name", "repository is younger", "other tool's folder", "kept in a vault"]
)
def test_without_proof_nothing_goes_into_a_repository(
    store: Store, settings: Settings, home: Path, read: Callable[..., None], doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read("own", (home / "src" / "harbor", "harbor-own"))
    if doubt == "two of the name":
        read("own2", (repository(home / "fork" / "harbor"), "fork-own"))
    if doubt == "kept in a vault":
        monkeypatch.setattr(
            project_moves, "is_excluded_by_vault", lambda places, identity, root: identity.endswith("harbor")
        )
    if doubt == "repository is younger":
        src = home / "src"
        log = repository(src / "late") / ".git" / "logs"
        log.mkdir()
        (log / "HEAD").write_text(f"{'0' * 40} {'1' * 40} a <a@b> 1900000000 +0000\tclone: from there\n")
        read("s1", (src, "hammock"), (src / "late", "anchor"))
        put_into(store, named_project(store, "src"), "s1")
        with store.transaction() as tx:
            tx.run("UPDATE turn SET cwd = ? WHERE cwd = ?", (str(src / "late" / "x"), str(src / "late")))
            tx.run("UPDATE session SET cwd = ?", (str(src / "late" / "y"),))
    else:
        folder = ".codex/log/harbor" if "other tool" in doubt else WORK["codex"][0]
        read("s1", (home / folder, "anchor"))
        put_into(store, make_project(store, home), "s1")

    sort_projects(store, settings)

    assert projects_of_words(store)["harbor"] == set()


def hub_state(store: Store) -> dict[str, list[tuple[object, ...]]]:
    """Everything that is kept for hubs."""
    tables = [
        name for (name,) in store.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'hub%'")
    ]
    assert tables
    return {name: store.rows(f"SELECT * FROM {name}") for name in tables}


def share_memories(store: Store) -> None:
    """Join a private space that has every memory already."""
    space = join_made_up(store)
    with store.transaction() as tx:
        begin_enqueuing(tx, space.id)
    enqueue_all(store, space)
    with store.transaction() as tx:
        tx.run("UPDATE hub_memory SET pushed = version")
    assert store.rows("SELECT 1 FROM hub_memory")
