"""``engram projects``: a list with folders and memories, and what a person does where a folder moved."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from planting import plant
from repositories import repository, worktree

from engram.models.engine.transaction import Store
from engram.models.projects.projects import ensure_project, find_project, list_projects
from engram.paths import Home

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_projects_are_listed_with_folder_sessions_and_memories(filled: Store, run: Run, run_json: RunJson) -> None:
    listed = run_json("projects", "list")

    assert {project["name"] for project in listed["projects"]} == {"harbor", "lantern"}
    assert all(
        project["sessions"] and project["memories"] and not project["folder_exists"] for project in listed["projects"]
    )
    assert listed["moves"] == []
    assert "lantern (gone)" in " ".join(run("projects").stdout.split())
    assert run_json("projects", "show", "harbor")["name"] == "harbor"
    assert re.search(r"^folder exists +no$", run("projects", "show", "harbor").stdout, re.M)
    assert "no project" in run("projects", "show", "castle", code=1).stderr


def test_a_merge_is_asked_about_and_moves_everything(filled: Store, run: Run, run_json: RunJson) -> None:
    before = {project["name"]: project for project in run_json("projects", "list")["projects"]}

    asked = run("projects", "merge", "lantern", "harbor", code=1, stdin="n\n").stdout
    assert "`engram projects unmerge lantern` undoes that" in asked
    assert len(list_projects(filled)) == 2
    run("projects", "merge", "lantern", "harbor", "--yes")

    (project,) = run_json("projects", "list")["projects"]
    assert project["memories"] == sum(found["memories"] for found in before.values())
    assert project["joined_folders"] == [before["lantern"]["folder"]]
    assert run_json("recall", "pnpm", "--project", "harbor")["hits"]
    assert "itself" in run("projects", "merge", "harbor", "harbor", "--yes", code=1).stderr

    again = run_json("projects", "unmerge", "lantern")
    after = {project["name"]: project for project in run_json("projects", "list")["projects"]}
    assert (again["sessions"], again["memories"]) == (before["lantern"]["sessions"], before["lantern"]["memories"])
    for project in (*before.values(), *after.values()):
        project.pop("id", None)
    assert after == before
    assert "no merge" in run("projects", "unmerge", "lantern", code=1).stderr


def test_what_is_in_a_wrong_project_is_shown_sorted_and_put_back(filled: Store, run: Run, run_json: RunJson) -> None:
    assert run_json("projects", "sort") == {"sorted": []}
    project = find_project(filled, "lantern")
    folder = Path(filled.path).parent / "both"
    repository(folder / "lantern")
    assert project is not None
    with filled.transaction() as tx:
        tx.run("UPDATE project SET root = ?, identity = ? WHERE id = ?", (str(folder), str(folder), project.id))
        inside = str(folder / "lantern")
        tx.run("UPDATE session SET cwd = ? WHERE project_id = ?", (inside, project.id))
        tx.run("UPDATE turn SET cwd = ? WHERE project_id = ?", (inside, project.id))
    before = run_json("projects", "list")["projects"]

    (planned,) = run_json("projects", "sort", "--dry-run")["sorted"]
    assert run_json("projects", "list")["projects"] == before
    assert (planned["from"], planned["folder"]) == ("lantern", inside)
    assert run_json("projects", "sort")["sorted"] == [planned]
    assert "engram projects sort --undo" in run("projects").stdout
    # The project that lost all its sessions holds nothing, and is not listed.
    sorted_into = {one["folder"] for one in run_json("projects", "list")["projects"]}
    assert sorted_into == {one["folder"] for one in before} - {str(folder)} | {inside}
    assert run_json("projects", "sort", "--undo")["sessions"] == planned["sessions"] > 0
    assert [one for one in run_json("projects", "list")["projects"] if one["sessions"]] == before
    assert run_json("projects", "sort") == {"sorted": []}
    assert "nothing was sorted" in run("projects", "sort", "--undo", code=1).stderr


def test_a_paused_project_is_not_merged(filled: Store, run: Run) -> None:
    run("pause", "--project", "lantern")

    assert "paused" in run("projects", "merge", "lantern", "harbor", "--yes", code=1).stderr


def test_a_new_folder_may_be_linked_and_a_known_one_is_to_be_merged(
    filled: Store, run: Run, run_json: RunJson, folder: Path
) -> None:
    run("projects", "link", str(folder), "harbor", code=1, stdin="n\n")
    assert run_json("projects", "show", "harbor")["joined_folders"] == []

    run("projects", "link", str(folder), "harbor", "--yes")

    shown = run_json("projects", "show", "harbor")
    # Its own folder is gone, so the one that is there is shown as its folder.
    assert (shown["folder"], shown["folder_exists"]) == (str(folder), True)
    assert [Path(other).name for other in shown["joined_folders"]] == ["harbor"]
    assert "harbor (gone)" not in " ".join(run("projects").stdout.split())
    assert run_json("recall", "tests", "--project", str(folder))["hits"]
    assert "already" in run("projects", "link", str(folder), "harbor", code=1).stderr
    known = run_json("projects", "show", "lantern")["folder"]
    assert "projects merge lantern harbor" in run("projects", "link", known, "harbor", code=1).stderr


def test_a_folder_whose_project_is_stored_in_another_spelling_is_to_be_merged(filled: Store, run: Run) -> None:
    apart, composed = (unicodedata.normalize(form, "/gone/Äpfel") for form in ("NFD", "NFC"))
    with filled.transaction() as tx:
        ensure_project(tx, apart, "apples", apart)

    assert "projects merge apples harbor" in run("projects", "link", composed, "harbor", "--yes", code=1).stderr


def test_a_printed_command_can_be_typed_whatever_a_project_is_called(
    filled: Store, run: Run, run_json: RunJson, folder: Path
) -> None:
    run("projects", "rename", "lantern", "old lantern")
    run("projects", "rename", "--", "harbor", "-harbor")
    known = run_json("projects", "show", "old lantern")["folder"]

    linked = run("projects", "link", "--", known, "-harbor", code=1).stderr
    assert "run: engram projects merge -- 'old lantern' -harbor" in linked
    asked = run("projects", "merge", "--", "old lantern", "-harbor", code=1, stdin="n\n").stdout
    assert "`engram projects unmerge 'old lantern'` undoes that" in asked
    plant(filled, "UPDATE project SET remote = 'code.example/x', hints_at_ms = 1")
    plant(filled, "UPDATE project SET root = ? WHERE name = 'old lantern'", (str(folder),))
    assert "run: engram projects merge -- 'old lantern' -harbor" in run("projects").stdout
    run("projects", "merge", "--yes", "--", "old lantern", "-harbor")


def test_a_name_may_be_changed_and_stays_one_projects_alone(filled: Store, run: Run, run_json: RunJson) -> None:
    folder = run_json("projects", "show", "harbor")["folder"]

    run("projects", "rename", "harbor", "the\x1b[31m harbor")

    assert run_json("projects", "show", "the[31m harbor")["folder"] == folder
    assert "another project" in run("projects", "rename", "lantern", "the[31m harbor", code=1).stderr


def test_doctor_proposes_what_may_have_moved(filled: Store, run: Run, run_json: RunJson, folder: Path) -> None:
    harbor, lantern = sorted(list_projects(filled), key=lambda one: one.name)
    plant(filled, "UPDATE project SET remote = 'code.example/x', hints_at_ms = 1")
    plant(filled, "UPDATE project SET root = ? WHERE id = ?", (str(folder), lantern.id))

    advice = [check["advice"] for check in run_json("doctor", code=1)["checks"] if check["name"] == "moved project"]

    assert advice == ["if it is, run: engram projects merge lantern harbor"]
    assert "engram projects merge lantern harbor" in run("projects").stdout
    assert harbor.name == "harbor"


def test_the_list_names_clones_and_the_command_that_joins_them(
    filled: Store, run: Run, run_json: RunJson, tmp_path: Path
) -> None:
    plant(filled, "UPDATE project SET remote = 'code.example/x', first_commit = 'abc', hints_at_ms = 1")
    for project in list_projects(filled):
        folder = tmp_path / project.name
        folder.mkdir()
        plant(filled, "UPDATE project SET root = ? WHERE id = ?", (str(folder), project.id))
    first, second = (project.name for project in sorted(list_projects(filled), key=lambda project: project.id))

    assert run_json("projects", "list")["clones"] == [{"project": second, "of": first}]
    assert f"engram projects merge {second} {first}" in run("projects").stdout
    run("projects", "merge", second, first, "--yes")
    assert "merge" not in run("projects").stdout


def test_a_project_is_forgotten_after_a_question_that_counts_and_its_folder_stays_known(
    filled: Store, run: Run, run_json: RunJson, home: Home
) -> None:
    before = {project["name"]: project for project in run_json("projects", "list")["projects"]}
    harbor = next(project for project in list_projects(filled) if project.name == "harbor")
    turns = filled.value("SELECT count(*) FROM turn WHERE project_id = ?", (harbor.id,))
    kept = filled.value("SELECT count(*) FROM episode WHERE project_id = ? AND scope = 'global'", (harbor.id,))
    lantern = "SELECT t.key, s.text FROM turn t JOIN said s ON s.turn_id = t.id WHERE t.project_id <> ? ORDER BY s.id"
    others = filled.rows(lantern, (harbor.id,))
    prompts = [
        str(text)
        for (text,) in filled.rows(
            "SELECT s.text FROM said s JOIN turn t ON t.id = s.turn_id WHERE t.project_id = ? AND s.role = 'user'",
            (harbor.id,),
        )
    ]
    assert prompts

    shown = run("projects", "forget", "harbor", "--dry-run").stdout
    told = run_json("projects", "forget", "harbor", "--dry-run")
    assert f"In all: {before['harbor']['sessions']} sessions with {turns} turns" in shown
    listed = re.findall(r"^memory +“.+” \(ep_\w+, .+, [\d-]+\)$", shown, re.M)
    assert len(listed) == told["memories"] == before["harbor"]["memories"] - kept
    assert shown.endswith("\nNothing was deleted.\n")
    asked = run("projects", "forget", "harbor", code=1, stdin="n\n").stdout
    assert f"{before['harbor']['sessions']} sessions with {turns} turns" in asked
    assert "can't be undone" in asked
    assert asked.count("kept       “") == kept
    assert run_json("projects", "show", "harbor")["memories"] == before["harbor"]["memories"]
    assert "add --yes" in run("projects", "forget", "harbor", "--json", code=1).stderr
    project = run_json("projects", "forget", "harbor", "--yes")
    again = run("projects", "forget", "harbor", "--yes").stdout
    run("up", "--once", "--no-memories", "--json")
    run("up", "--once", "--json")

    assert (project["turns"], project["memories"]) == (turns, before["harbor"]["memories"] - kept)
    assert len(project["kept_global"]) == kept
    assert "New sessions" in again
    assert "harbor is empty" in again
    now = {project["name"]: project for project in run_json("projects", "list")["projects"]}
    assert set(now) == set(before) - {"harbor"}
    known = run_json("projects", "show", "harbor")
    assert (known["folder"], known["sessions"], known["memories"]) == (before["harbor"]["folder"], 0, 0)
    totals = run_json("status")
    assert set(totals["projects"]) - {""} == set(now)
    assert totals["sessions"] == sum(project["sessions"] for project in now.values())
    assert totals["sessions"] == len(run_json("sessions", "--limit", "1000")["sessions"])
    assert now["lantern"] == before["lantern"]
    assert filled.rows(lantern, (harbor.id,)) == others
    filled.checkpoint("TRUNCATE")
    files = b"".join(path.read_bytes() for path in home.root.rglob("*") if path.is_file())
    assert [text for text in prompts if text.encode() in files] == []
    assert "no project" in run("projects", "forget", "castle", "--yes", code=1).stderr


@pytest.fixture
def separate_worktree(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worktree of a known repository, where each worktree is a separate project."""
    monkeypatch.setenv("ENGRAM_JOIN_WORKTREES", "false")
    main = repository(tmp_path / "shop")
    monkeypatch.chdir(main)
    run("save", "The till speaks ESC/POS.")
    return worktree(main, tmp_path / "trees" / "shop-fix")


def test_a_separate_worktree_is_linked_by_its_own_folder(
    separate_worktree: Path, run: Run, run_json: RunJson, filled: Store
) -> None:
    run("projects", "link", str(separate_worktree), "harbor", "--yes")

    assert run_json("projects", "show", "harbor")["folder"] == str(separate_worktree)


def test_a_memory_of_a_separate_worktree_is_found_there_and_not_in_the_repository(
    separate_worktree: Path, run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(separate_worktree)
    run("save", "The till test needs a paper roll.")

    def texts(folder: Path) -> str:
        return str(run_json("recall", "what does the till need", "--project", str(folder))["hits"])

    assert "paper roll" in texts(separate_worktree)
    assert "paper roll" not in texts(separate_worktree.parents[1] / "shop")
