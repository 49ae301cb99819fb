"""A session that works in several repositories: each turn belongs to the one that it was about, and to no other."""

from __future__ import annotations

import dataclasses
import unicodedata
from pathlib import Path

import pytest
from growing_transcript import Ingest, MakeTranscript, Transcript, Turns
from repositories import Repository, repository

from engram.consolidation.consolidation_run import consolidate as run_consolidation
from engram.consolidation.git_staleness import bound_files
from engram.consolidation.step_context import Context
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.forgetting.whole_project import forget_project
from engram.ingest.session_project import (
    named_project,
    project_for,
    scope_of_folder,
    spans_of,
    vault_of,
    why_not_project,
)
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, memories_of_session, new_memory_id
from engram.models.memories.tombstones import TombstoneKind, add_tombstones
from engram.models.projects.project_folders import list_merges, merge_projects, undo_merge
from engram.models.projects.projects import ensure_project, find_project_of_identity, list_projects
from engram.models.sessions.failures_and_commits import earlier_failures
from engram.models.sessions.recent_work import (
    calls_of_session,
    latest_prompts,
    latest_sessions_on,
    recent_files,
    turns_naming,
)
from engram.models.sessions.sessions import find_session, list_sessions
from engram.models.work.work import FOREVER_MS, pause, resume
from engram.notes.daily_log import log_session
from engram.recollection.blame import blame_file
from engram.recollection.prompts import SessionScope
from engram.reports.session_report import summarize_rows
from engram.search.searcher import Query, Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.vaults import Vault, free_folder, is_excluded_by_vault, vault_of_identity, write_vault

RULE = "We always use the winch library 4.2 here, never 5."


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """A folder with two repositories and one that is none."""
    folder = tmp_path / "group"
    for name in ("repo-a", "repo-b"):
        (repository(folder / name) / "src").mkdir()
    (folder / "notes").mkdir()
    return folder


@pytest.fixture
def session(make_transcript: MakeTranscript, group: Path) -> Transcript:
    """A session that was begun in the folder above the repositories."""
    return make_transcript("s1", cwd=str(group))


def project_names(store: Store, turns: Turns) -> list[str]:
    """The names of the projects of every turn, in order."""
    names = {project.id: project.name for project in list_projects(store)}
    return ["" if turn.project_id is None else names[turn.project_id] for turn in turns()]


#: Work that is told by what tools are called with.
BY_CALLS = {
    "asks git": [("Bash", {"command": "git -C ROOT/repo-a log -3"})],
    "enters in a subshell": [("Bash", {"command": "(cd repo-a/src; make test) 2>&1 | tail"})],
    "runs in its folder": [("exec_command", {"command": "make", "workdir": "ROOT/repo-a"})],
    "searches": [("Grep", {"pattern": "winch", "path": "ROOT/repo-a"})],
    "lists with a server's tool": [("mcp__files__list", {"path": "ROOT/repo-a/src"})],
    "asks git of both": [("Bash", {"command": "git -C repo-a log; git -C repo-b log"})],
    "searches both": [("Grep", {"pattern": "winch", "path": f"ROOT/repo-{name}"}) for name in "ab"],
    "quotes a command": [("Bash", {"command": "echo 'first; cd repo-a && make'"})],
}


@pytest.mark.parametrize(
    ("work", "project"),
    [
        ("goes to", "repo-a"),
        ("goes to a folder in", "repo-a"),
        ("begins in", "repo-a"),
        ("edits", "repo-a"),
        ("edits by a relative path", "repo-a"),
        ("reads", "repo-a"),
        ("enters by a command", "repo-a"),
        ("asks git", "repo-a"),
        ("enters in a subshell", "repo-a"),
        ("runs in its folder", "repo-a"),
        ("searches", "repo-a"),
        ("lists with a server's tool", "repo-a"),
        ("asks git of both", "group"),
        ("searches both", "group"),
        ("quotes a command", "group"),
        ("edits in one, reads in another", "repo-a"),
        ("edits a file that is gone", "repo-a"),
        ("edits in both", "group"),
        ("goes to both", "group"),
        ("reads in both", "group"),
        ("edits outside", "group"),
        ("says nothing of any", "group"),
    ],
)
def test_a_turn_belongs_to_the_only_repository_that_it_worked_in(
    store: Store, session: Transcript, group: Path, ingest: Ingest, turns: Turns, work: str, project: str
) -> None:
    a, b = group / "repo-a", group / "repo-b"
    session.user("Say hello.")
    session.says("Hello.")
    session.user("Mend the winch.", cwd=str(a if work == "begins in" else group))
    if work.startswith("goes to"):
        session.says("I look at it.", cwd=str(a / "src" if "folder" in work else a))
        if "both" in work:
            session.says("And there.", cwd=str(b))
    elif work == "enters by a command":
        session.calls("Bash", "ok", command=f"cd {a} && make")
    elif work in BY_CALLS:
        for tool, given in BY_CALLS[work]:
            session.calls(tool, "ok", **{key: value.replace("ROOT", str(group)) for key, value in given.items()})
    elif work.startswith("edits"):
        file = {"edits by a relative path": "repo-a/src/x.py", "edits outside": str(group / "notes" / "x.md")}.get(work)
        gone = "gone/x.py" if "gone" in work else "src/x.py"
        session.calls("Edit", "ok", file_path=file or str(a / gone), old_string="1", new_string="2")
        if "both" in work:
            session.calls("Edit", "ok", file_path=str(b / "x.py"), old_string="1", new_string="2")
        elif "reads in another" in work:
            session.calls("Read", "ok", file_path=str(b / "x.py"))
    elif work.startswith("reads"):
        session.calls("Read", "ok", file_path=str(a / "x.py"))
        if "both" in work:
            session.calls("Read", "ok", file_path=str(b / "x.py"))
    session.says("Done.", cwd=str(a if work == "begins in" else group))

    ingest(session)

    assert project_names(store, turns) == ["group", project]
    passages = {number for (number,) in store.rows("SELECT DISTINCT project_id FROM passage")}
    assert passages == {turn.project_id for turn in turns()}


def test_a_session_of_a_repository_keeps_its_turns_but_those_said_in_another_one(
    store: Store, make_transcript: MakeTranscript, group: Path, ingest: Ingest, turns: Turns
) -> None:
    session = make_transcript("s1", cwd=str(group / "repo-a"))
    session.user("Change the other one from here.")
    session.calls("Edit", "ok", file_path=str(group / "repo-b" / "x.py"), old_string="1", new_string="2")
    for folder in ("repo-a/src", "repo-b", "notes", "repo-a/gone"):
        session.user(f"Work in {folder}.", cwd=str(group / folder))
    ingest(session)

    assert project_names(store, turns) == ["repo-a", "repo-a", "repo-b", "repo-a", "repo-a"]


def test_a_turn_that_grows_in_a_repository_takes_its_memories_with_it(
    store: Store, settings: Settings, session: Transcript, group: Path, ingest: Ingest, turns: Turns
) -> None:
    session.user(RULE)
    ingest(session)
    extract_session(store, "s1", extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    session.calls("Edit", "ok", file_path=str(group / "repo-a" / "x.py"), old_string="1", new_string="2")
    ingest(session)

    a = named_project(store, "repo-a")
    assert project_names(store, turns) == ["repo-a"]
    assert {memory.project_id for memory in memories_of_session(store, "s1")} == {a.id}
    assert {number for (number,) in store.rows("SELECT DISTINCT project_id FROM passage")} == {a.id}
    assert find_session(store, "s1").project_id == named_project(store, "group").id  # type: ignore[union-attr]


@pytest.fixture
def worked(
    store: Store, settings: Settings, session: Transcript, group: Path, ingest: Ingest, clock: FixedClock
) -> Store:
    """A store with a session that kept a rule and a failure in each of two repositories and in the folder above."""
    for folder, word in ((group, "anchor"), (group / "repo-a", "winch"), (group / "repo-b", "rudder")):
        session.user(f"We always use the {word} library 4.2 here, never 5.", cwd=str(folder))
        block = [{"type": "tool_use", "id": f"t-{word}", "name": "Bash", "input": {"command": f"make {word}"}}]
        session.add({"type": "assistant", "cwd": str(folder), "message": {"id": f"m-{word}", "content": block}})
        error = {"type": "tool_result", "tool_use_id": f"t-{word}", "is_error": True}
        session.user([error | {"content": "Exit code 2\nerror: the hull is not tight at all"}], cwd=str(folder))
        session.says(f"The {word} failed because the hull is not tight.", cwd=str(folder))
    ingest(session, close=True)
    extract_session(store, "s1", extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    return store


WORDS = {"group": "anchor", "repo-a": "winch", "repo-b": "rudder"}


@pytest.mark.parametrize("name", list(WORDS))
def test_each_project_sees_what_was_said_in_it_and_nothing_of_the_others(
    worked: Store, settings: Settings, group: Path, name: str
) -> None:
    project, own = named_project(worked, name), WORDS[name]
    others = set(WORDS.values()) - {own}
    session = find_session(worked, "s1")
    assert session is not None
    searcher = Searcher(worked, settings, embedder=HashedEmbedder())
    searcher.refresh()
    query = Query(text="which library do we use, anchor winch rudder hull", project_id=project.id, limit=50)
    calls = calls_of_session(worked, session.id, project.id)
    keys = [key for turn in turns_naming(worked, project.id, "") for call in turn.calls for key in call.error_keys]
    told = {
        "memories": [memory.summary for memory in memories_of_session(worked, "s1") if memory.project_id == project.id],
        "recall": [str(hit) for hit in searcher.recall(query)],
        "search": [str(hit) for hit in searcher.search(query)],
        "calls": [call.command for call in calls],
        "prompts": latest_prompts(worked, session.id, project.id, 10),
        "failures": [str(failure.programs) for failure in earlier_failures(worked, project.id, keys)],
    }

    for where, texts in told.items():
        assert where == "failures" or any(own in text for text in texts), where
        assert not any(word in text for text in texts for word in others), where
    assert latest_sessions_on(worked, project.id, "main", 5) == [session]
    assert list_sessions(worked, project_id=project.id) == [session]


def test_the_session_says_where_it_worked(worked: Store, settings: Settings) -> None:
    (summary,) = summarize_rows(worked, settings, list_sessions(worked))

    assert (summary.project, summary.other_projects) == ("group", ("repo-a", "repo-b"))


def test_the_daily_log_has_a_section_of_each_project(worked: Store, settings: Settings) -> None:
    for _ in range(2):
        log_session(worked, settings.places, "s1")
    (file,) = settings.places.daily_notes.glob("*.md")
    sections = file.read_text().split("\n## ")[1:]

    assert [section.split("\n")[0] for section in sections] == list(WORDS)
    for section, (name, word) in zip(sections, WORDS.items(), strict=True):
        assert word in section, name
        assert not any(other in section for other in set(WORDS.values()) - {word}), name


@pytest.mark.parametrize("name", list(WORDS))
def test_to_forget_a_project_takes_its_turns_alone(worked: Store, settings: Settings, name: str) -> None:
    log_session(worked, settings.places, "s1")
    forget_project(worked, settings.places, named_project(worked, name), actor=Actor.USER)

    left = {word for word in WORDS.values() if worked.rows("SELECT 1 FROM said WHERE text LIKE ?", (f"%{word}%",))}
    noted = {
        word for word in WORDS.values() for file in settings.places.daily_notes.glob("*.md") if word in file.read_text()
    }
    memories = {word for word in WORDS.values() for one in memories_of_session(worked, "s1") if word in one.summary}
    assert left == memories == set(WORDS.values()) - {WORDS[name]}
    assert WORDS[name] not in noted


def test_a_forgotten_project_is_not_read_again_with_the_session(
    worked: Store, settings: Settings, session: Transcript, ingest: Ingest, clock: FixedClock
) -> None:
    forget_project(worked, settings.places, named_project(worked, "repo-a"), actor=Actor.USER)
    whole = session.path.read_text()
    session.path.write_text("\n" + whole)
    ingest(session)

    assert not worked.rows("SELECT 1 FROM said WHERE text LIKE '%winch%'")
    assert worked.rows("SELECT 1 FROM said WHERE text LIKE '%rudder%'")


@pytest.mark.parametrize("file", ["README.md", "src/app.py", "Makefile", "packages/web/package.json"])
@pytest.mark.parametrize("begun", ["above", "in one of them", "each in its own"])
def test_files_of_one_name_in_two_projects_stay_apart(
    store: Store,
    settings: Settings,
    make_transcript: MakeTranscript,
    group: Path,
    ingest: Ingest,
    file: str,
    begun: str,
) -> None:
    words = {"repo-a": "winch", "repo-b": "rudder"}
    for number, (name, word) in enumerate(words.items()):
        cwd = {"above": group, "in one of them": group / "repo-a", "each in its own": group / name}[begun]
        session = make_transcript(f"s{number}" if begun == "each in its own" else "s0", cwd=str(cwd))
        session.number, session.at_ms = number * 50, session.at_ms + number * 100_000
        where = {"cwd": str(group / name)} if begun == "in one of them" else {}
        session.user(f"We always use the {word} library 4.2 in {file}, never 5.", **where)
        edit = {"type": "tool_use", "id": f"e{number}", "name": "Edit"}
        edit["input"] = {"file_path": str(group / name / file), "old_string": "1", "new_string": "2"}  # type: ignore[assignment]
        session.add({"type": "assistant", "message": {"id": f"m{number}", "content": [edit]}} | where)
        session.user([{"type": "tool_result", "tool_use_id": f"e{number}", "content": "ok"}], **where)
        ingest(session, close=True)
    for number in (0, 1):
        extract_session(store, f"s{number}", extractor=LocalExtractor(), embedder=HashedEmbedder(), settings=settings)
    run_consolidation(store, settings, is_forced=True)

    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    searcher.refresh()
    for name, word in words.items():
        project, (other,) = named_project(store, name), set(words.values()) - {word}
        query = Query(text=f"which library is used in {file}", project_id=project.id, limit=50)
        touches = blame_file(store, project.id, file, project.root)
        for texts in ([str(touch) for touch in touches], [str(hit) for hit in searcher.recall(query)]):
            assert any(word in text for text in texts)
            assert not any(other in text for text in texts)
        assert {touch.id == "" for touch in touches} == {True, False}  # a change, and a memory
        assert recent_files(store, project.id) == [str(group / name / file)]


@pytest.mark.parametrize("file", ["engine.go", "src/engine.go", "cmd/main.go"])
def test_a_decision_is_not_bound_to_the_file_of_that_name_in_another_project(
    store: Store, settings: Settings, session: Transcript, group: Path, ingest: Ingest, turns: Turns, file: str
) -> None:
    name = Path(file).name
    session.user(f"Keep the parser in {name}.", cwd=str(group / "repo-a"))
    session.user("And here.", cwd=str(group / "repo-b"))
    session.calls("Edit", "ok", file_path=str(group / "repo-b" / file), old_string="1", new_string="2")
    ingest(session, close=True)
    a, b = named_project(store, "repo-a"), named_project(store, "repo-b")
    found = {}
    for project in (a, b):
        decision = Memory(
            new_memory_id(), "decision", f"The parser stays in {name}", "-", entities=(name,), project_id=project.id
        )
        with store.transaction() as tx:
            kept = add_memory(tx, decision, [Evidence("s1-1", "s1", turns()[0].id)], actor=Actor.USER)
        context = Context(store, settings)
        found[project.name] = bound_files(context, kept, project.root)

    assert found == {"repo-a": [], "repo-b": [file]}


def test_a_pause_of_a_repository_holds_for_the_turns_in_it(
    store: Store, settings: Settings, session: Transcript, group: Path, ingest: Ingest, turns: Turns
) -> None:
    a = scope_of_folder(store, settings, str(group / "repo-a"), make=True).project
    assert a is not None
    pause(store, a.identity, store.now_ms() + 1_000_000_000)
    session.at_ms = store.now_ms()
    for folder in (".", "repo-a", "repo-b"):
        session.user(f"Say hello in {folder}.", cwd=str(group / folder))
    ingest(session)

    assert project_names(store, turns) == ["group", "repo-b"]


@pytest.mark.parametrize("entered", ["by its folder", "by a file", "in the middle"])
def test_what_is_done_in_an_excluded_repository_is_not_kept(
    store: Store, settings: Settings, session: Transcript, group: Path, ingest: Ingest, turns: Turns, entered: str
) -> None:
    a = str(group / "repo-a")
    session.user("Say hello.")
    session.user("Mend the secret winch.", cwd=a if entered == "by its folder" else str(group))
    if entered == "in the middle":
        session.says("The secret is 7.", cwd=a)
    else:
        session.calls("Edit", "ok", file_path=f"{a}/x.py", old_string="1", new_string="2")
    ingest(session, settings=dataclasses.replace(settings, exclude=(a,)))

    assert project_names(store, turns) == ["group"]
    assert not store.rows("SELECT 1 FROM said WHERE text LIKE '%secret%'")


def test_a_prompt_is_answered_for_the_repository_that_the_session_is_in_now(
    worked: Store, settings: Settings, group: Path
) -> None:
    scope = SessionScope(worked, settings)
    repository(group / "repo-c")

    found = {
        name: scope.project_id("s1", str(group / name)) for name in (".", "repo-a", "repo-b/src", "repo-c", "notes")
    }

    ids = {project.name: project.id for project in list_projects(worked)}
    assert found == {
        ".": ids["group"],
        "repo-a": ids["repo-a"],
        "repo-b/src": ids["repo-b"],
        "repo-c": None,
        "notes": ids["group"],
    }
    pause(worked, named_project(worked, "repo-a").identity, worked.now_ms() + 1_000_000)
    assert not scope.may_show("s1", str(group / "repo-a"))
    assert scope.may_show("s1", str(group / "repo-b"))


@pytest.mark.parametrize(("gone", "into"), [("repo-a", "repo-b"), ("repo-a", "group"), ("group", "repo-a")])
def test_a_merge_that_is_undone_leaves_each_turn_where_it_was(
    worked: Store, turns: Turns, gone: str, into: str
) -> None:
    before = project_names(worked, turns)
    place, other = named_project(worked, into), named_project(worked, gone)
    merge_projects(worked, place, other, "by hand", actor=Actor.USER)
    assert gone not in project_names(worked, turns)
    undo_merge(worked, list_merges(worked)[0].number, actor=Actor.USER)

    assert project_names(worked, turns) == before
    names = {project.id: project.name for project in list_projects(worked)}
    of_memories = {names[memory.project_id or 0]: memory.summary for memory in memories_of_session(worked, "s1")}
    assert all(WORDS[name] in summary for name, summary in of_memories.items())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def projects_of_sessions(store: Store) -> dict[str, str]:
    """The name of the project of every session."""
    names = {project.id: project.name for project in list_projects(store)}
    return {session.session_id: names[session.project_id or 0] for session in list_sessions(store)}


def work_in(make_transcript: MakeTranscript, ingest: Ingest, name: str, folder: Path) -> None:
    session = make_transcript(name, cwd=str(folder))
    session.user("mend the winch")
    session.says("It is mended.")
    ingest(session)


@pytest.mark.parametrize(
    "place",
    [".claude-worktrees/engine-feature", ".codex/worktrees/a1b2/other", ".cursor/worktrees/x/y", "elsewhere/w1"],
)
def test_a_worktree_that_is_gone_belongs_where_its_earlier_sessions_do(
    home: Path, make_transcript: MakeTranscript, ingest: Ingest, store: Store, place: str
) -> None:
    engine, folder = Repository.make(home / "code" / "engine"), home / place
    folder.parent.mkdir(parents=True, exist_ok=True)
    engine.git("worktree", "add", "-q", str(folder), "-b", "feature")
    work_in(make_transcript, ingest, "s1", folder)

    engine.git("worktree", "remove", str(folder))
    work_in(make_transcript, ingest, "s2", folder)

    assert projects_of_sessions(store) == {"s1": "engine", "s2": "engine"}


def test_a_folder_in_which_sessions_of_two_repositories_began_proves_nothing(
    home: Path, make_transcript: MakeTranscript, ingest: Ingest, store: Store
) -> None:
    folder = home / ".claude-worktrees" / "feature"
    folder.parent.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(("engine", "winch")):
        repo = Repository.make(home / "code" / name)
        repo.git("worktree", "add", "-q", str(folder), "-b", "feature")
        work_in(make_transcript, ingest, f"s{number}", folder)
        repo.git("worktree", "remove", str(folder))

    work_in(make_transcript, ingest, "s2", folder)

    assert projects_of_sessions(store) == {"s0": "engine", "s1": "winch", "s2": "feature"}


@pytest.mark.parametrize("cwd", ["harbor", "./harbor", "pier/../harbor", ""])
def test_a_folder_that_is_called_like_a_project_is_none_of_it(
    store: Store, settings: Settings, tmp_path: Path, cwd: str
) -> None:
    repository(tmp_path / "harbor")
    assert scope_of_folder(store, settings, str(tmp_path / "harbor"), make=True).project is not None

    assert scope_of_folder(store, settings, cwd).project is None


#: The identity of a folder as earlier versions stored it, with the marks of its letters apart, and as it is now.
APART, COMPOSED = (unicodedata.normalize(form, "/gone/Äpfel") for form in ("NFD", "NFC"))


def test_a_project_stored_in_another_spelling_goes_on(
    store: Store, make_transcript: MakeTranscript, ingest: Ingest
) -> None:
    with store.transaction() as tx:
        ensure_project(tx, APART, "Äpfel", APART)

    for name, cwd in (("s1", COMPOSED), ("s2", APART)):
        transcript = make_transcript(name, cwd=cwd)
        transcript.user(RULE)
        ingest(transcript)

    assert [project.identity for project in list_projects(store)] == [APART]
    assert find_project_of_identity(store, COMPOSED) == list_projects(store)[0]


@pytest.mark.parametrize(("stored", "cwd"), [(APART, COMPOSED), (COMPOSED, APART), (COMPOSED, COMPOSED)])
def test_a_pause_and_a_tombstone_apply_in_either_spelling_without_their_project(
    store: Store, settings: Settings, stored: str, cwd: str
) -> None:
    with store.transaction() as tx:
        add_tombstones(tx, TombstoneKind.PROJECT, [stored.encode()])
    project = project_for(store, cwd, settings)
    (forgotten,) = spans_of(store, project.identity)

    pause(store, stored, FOREVER_MS)
    now = store.now_ms()
    assert why_not_project(store, cwd, project, settings) == "paused"
    assert spans_of(store, project.identity) == [(now, FOREVER_MS), forgotten]

    assert resume(store, project.identity)
    assert why_not_project(store, cwd, project, settings) == ""


@pytest.mark.parametrize(("stored", "cwd"), [(APART, COMPOSED), (COMPOSED, APART)])
def test_a_vault_holds_its_folder_in_either_spelling(
    store: Store, settings: Settings, make_transcript: MakeTranscript, ingest: Ingest, stored: str, cwd: str
) -> None:
    vault = Vault("Äpfel", (stored,), free_folder(settings.places, "Äpfel"), is_sealed=True)
    write_vault(vault)
    transcript = make_transcript("s1", cwd=f"{cwd}/src")
    transcript.user(RULE)
    ingest(transcript)

    assert list_projects(store) == []
    assert vault_of(settings, cwd) == vault_of_identity(settings.places, cwd) == vault
    assert not is_excluded_by_vault(vault.home, cwd)
