"""``engram projects``: a list with folders and memories, and what a person does where a folder moved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from engram.models.sessions import list_projects
from engram.models.store import Store

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_projects_are_listed_with_folder_sessions_and_memories(filled: Store, run: Run, run_json: RunJson) -> None:
    found = run_json("projects", "list")

    assert {one["name"] for one in found["projects"]} == {"harbor", "lantern"}
    assert all(one["sessions"] and one["memories"] and not one["folder_exists"] for one in found["projects"])
    assert found["moves"] == []
    assert "lantern (gone)" in " ".join(run("projects").stdout.split())
    assert run_json("projects", "show", "harbor")["name"] == "harbor"
    assert "no project" in run("projects", "show", "castle", code=1).stderr


def test_a_merge_is_asked_about_and_moves_everything(filled: Store, run: Run, run_json: RunJson) -> None:
    before = {one["name"]: one for one in run_json("projects", "list")["projects"]}

    assert "can't be taken apart" in run("projects", "merge", "lantern", "harbor", code=1, stdin="n\n").stdout
    assert len(list_projects(filled)) == 2
    run("projects", "merge", "lantern", "harbor", "--yes")

    (one,) = run_json("projects", "list")["projects"]
    assert one["memories"] == sum(found["memories"] for found in before.values())
    assert one["joined_folders"] == [before["lantern"]["folder"]]
    assert run_json("recall", "pnpm", "--project", "harbor")["hits"]
    assert "itself" in run("projects", "merge", "harbor", "harbor", "--yes", code=1).stderr


def test_a_paused_project_is_not_merged(filled: Store, run: Run) -> None:
    run("pause", "--project", "lantern")

    assert "paused" in run("projects", "merge", "lantern", "harbor", "--yes", code=1).stderr


def test_a_new_folder_may_be_linked_and_a_known_one_is_to_be_merged(
    filled: Store, run: Run, run_json: RunJson, folder: Path
) -> None:
    run("projects", "link", str(folder), "harbor", code=1, stdin="n\n")
    assert run_json("projects", "show", "harbor")["joined_folders"] == []

    run("projects", "link", str(folder), "harbor", "--yes")

    assert run_json("projects", "show", "harbor")["joined_folders"] == [str(folder)]
    assert run_json("recall", "tests", "--project", str(folder))["hits"]
    assert "already" in run("projects", "link", str(folder), "harbor", code=1).stderr
    known = run_json("projects", "show", "lantern")["folder"]
    assert "projects merge lantern harbor" in run("projects", "link", known, "harbor", code=1).stderr


def test_a_name_may_be_changed_and_stays_one_projects_alone(filled: Store, run: Run, run_json: RunJson) -> None:
    folder = run_json("projects", "show", "harbor")["folder"]

    run("projects", "rename", "harbor", "the\x1b[31m harbor")

    assert run_json("projects", "show", "the[31m harbor")["folder"] == folder
    assert "another project" in run("projects", "rename", "lantern", "the[31m harbor", code=1).stderr


def test_doctor_proposes_what_may_have_moved(filled: Store, run: Run, run_json: RunJson, folder: Path) -> None:
    harbor, lantern = sorted(list_projects(filled), key=lambda one: one.name)
    filled.run("UPDATE project SET remote = 'code.example/x', hints_at_ms = 1")
    filled.run("UPDATE project SET root = ? WHERE id = ?", (str(folder), lantern.id))

    advice = [one["advice"] for one in run_json("doctor", code=1)["checks"] if one["name"] == "moved project"]

    assert advice == ["if it is: engram projects merge lantern harbor"]
    assert "engram projects merge lantern harbor" in run("projects").stdout
    assert harbor.name == "harbor"
