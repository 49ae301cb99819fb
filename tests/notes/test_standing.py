"""The user's own files are read, never written; what they lose is found again, and what was forgotten stays so."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from transcript_lines import say

from engram.enums import Actor, Scope
from engram.forgetting.forget import forget_memory
from engram.forgetting.whole_project import forget_project
from engram.ingest.read_sources import ingest_path
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.projects.notes import StandingFile, list_standing_files, put_standing_file
from engram.models.projects.projects import ProjectRow, list_projects
from engram.models.work.work import pause
from engram.notes.note_index import index_notes
from engram.notes.standing import standing_of, standing_text
from engram.notes.user_files import auto_memory_folder, read_standing_files
from engram.redaction import redact
from engram.search.answer import answer_question
from engram.search.hit_lines import answer_text
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.settings import Settings

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"
RULE = "Use pnpm for every install, never npm."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work" / "harbor"
    (root / "docs").mkdir(parents=True)
    return root


@pytest.fixture
def project(store: Store, settings: Settings, root: Path) -> ProjectRow:
    path = settings.projects_folder / "-work-harbor" / f"{SESSION}.jsonl"
    say(path, "user", "Tidy the harbor.", cwd=str(root))
    say(path, "assistant", "The harbor is tidy now.", cwd=str(root))
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    (project,) = list_projects(store)
    return project


def write(path: Path, text: str, step: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(10**18 + step, 10**18 + step))


def read(store: Store, settings: Settings) -> int:
    return read_standing_files(store, settings, redact)


def test_every_kind_of_file_is_read_for_its_project_or_for_all(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    slug = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in project.root)
    places = {
        root / "CLAUDE.md": "The build needs clang and ninja.\n\n@docs/style.md",
        root / "docs" / "style.md": "Tabs are forbidden in yaml files.",
        root / "CLAUDE.local.md": "My sandbox host is called otter.",
        root / ".claude" / "rules" / "tests.md": "Tests never sleep to synchronise.",
        settings.claude_folder / "CLAUDE.md": "Answer me in British English.",
        settings.claude_folder / "projects" / slug / "memory" / "db.md": "The replica allows twelve connections.",
    }
    for path, text in places.items():
        write(path, text)

    assert read(store, settings) == len(places)
    assert read(store, settings) == 0

    here, elsewhere = standing_text(store, project.id), standing_text(store, None)
    assert here.file_saying("The build needs clang and ninja.") == "CLAUDE.md"
    assert here.file_saying("Tabs are forbidden in yaml files") == "docs/style.md"
    assert here.file_saying("the sandbox host is called otter") == "CLAUDE.local.md"
    assert here.file_saying("Tests never sleep to synchronise.") == ".claude/rules/tests.md"
    assert here.file_saying("The replica allows twelve connections.") == "auto memory/db.md"
    assert elsewhere.file_saying("Answer me in British English.") == "~/.claude/CLAUDE.md"
    assert elsewhere.file_saying("The build needs clang and ninja.") == ""


@pytest.mark.parametrize("target", ["~nobody-here/style.md", "~~/style.md", "~\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
def test_an_unknown_home_folder_does_not_stop_the_reading(
    store: Store, settings: Settings, project: ProjectRow, root: Path, target: str
) -> None:
    write(root / "CLAUDE.md", f"The build needs clang and ninja.\n\n@{target}")
    write(root / ".claude" / "settings.json", json.dumps({"autoMemoryDirectory": target}))

    assert read(store, settings) == 1
    assert standing_text(store, project.id).file_saying("The build needs clang and ninja.") == "CLAUDE.md"


@pytest.mark.parametrize("folder", [f"/work/{'d' * 300}", "/work" + "/dddddddd" * 600])
def test_a_folder_that_cannot_be_examined_does_not_stop_the_reading(
    store: Store, settings: Settings, project: ProjectRow, root: Path, folder: str
) -> None:
    path = settings.projects_folder / "-work-long" / "22582f02-0391-4a88-b729-f218fbfb8d9f.jsonl"
    say(path, "user", "Tidy the other one.", cwd=folder)
    ingest_path(store, path, settings=settings, redact=redact, close=True)
    write(root / "CLAUDE.md", f"The build needs clang and ninja.\n\n@{folder[1:]}.md")

    assert read(store, settings) == 1
    assert standing_text(store, project.id).file_saying("The build needs clang and ninja.") == "CLAUDE.md"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/work/my.app_2", "-work-my-app-2"),
        ("/work/\N{ROCKET}/\N{LATIN SMALL LETTER U WITH DIAERESIS}", "-work-----"),
        ("/" + "z" * 199, "-" + "z" * 199),
        ("/" + "z" * 200, "-" + "z" * 199 + "-6zubpt"),
        ("/x" + "/abcd\N{LATIN SMALL LETTER E WITH ACUTE}fghij" * 30, ("-x" + "-abcd-fghij" * 19)[:200] + "-ulk63t"),
    ],
)
def test_the_auto_memory_is_in_the_folder_that_claude_code_names(tmp_path: Path, folder: str, name: str) -> None:
    assert auto_memory_folder(tmp_path, Path(folder)) == tmp_path / "projects" / name / "memory"


def test_a_nested_file_is_read_where_somebody_works(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    write(root / "api" / "CLAUDE.md", "Handlers return typed errors.")
    path = settings.projects_folder / "-work-harbor" / f"{SESSION}.jsonl"
    edit = {
        "type": "tool_use",
        "id": "t1",
        "name": "Edit",
        "input": {"file_path": str(root / "api" / "v1" / "user.py")},
    }
    say(path, "assistant", [edit], cwd=str(root))
    ingest_path(store, path, settings=settings, redact=redact, close=True)

    read(store, settings)

    assert standing_text(store, project.id).file_saying("Handlers return typed errors.") == "api/CLAUDE.md"


def test_what_is_deleted_there_is_found_again_and_what_stays_is_not_doubled(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    write(root / "CLAUDE.md", f"# Rules\n\n{RULE}\n\nThe walrus proxy listens on port 7070.\n", 1)
    read(store, settings)
    write(root / "CLAUDE.md", f"# Rules\n\n{RULE}\n", 2)
    read(store, settings)
    index_notes(store, settings, redact)

    (hit, *_) = Searcher(store, settings).search(Query("walrus proxy port", project_id=project.id))

    assert "The walrus proxy listens on port 7070." in hit.text
    assert "pnpm" not in "".join(path.read_text() for path in settings.places.saved_notes.glob("*.md"))
    assert (root / "CLAUDE.md").read_text() == f"# Rules\n\n{RULE}\n"
    assert Searcher(store, settings).search(Query("walrus proxy port", project_id=project.id + 1)) == []


def test_secrets_are_masked(store: Store, settings: Settings, project: ProjectRow, root: Path) -> None:
    write(root / "CLAUDE.md", "Deploy with ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789 as the token.")
    read(store, settings)

    assert "ghp_" not in "".join(file.text for file in list_standing_files(store))


@pytest.mark.parametrize("scope", ["", "own"])
def test_a_paused_project_is_not_read(
    store: Store, settings: Settings, project: ProjectRow, root: Path, scope: str
) -> None:
    write(root / "CLAUDE.md", RULE)
    pause(store, scope and project.identity, store.now_ms() + 60_000)

    assert read(store, settings) == 0


def test_an_excluded_project_is_not_read(store: Store, settings: Settings, project: ProjectRow, root: Path) -> None:
    write(root / "CLAUDE.md", RULE)

    assert read(store, dataclasses.replace(settings, exclude=(str(root),))) == 0


def test_a_link_out_of_the_project_is_not_followed(
    store: Store, settings: Settings, project: ProjectRow, root: Path, tmp_path: Path
) -> None:
    write(tmp_path / "secret.txt", "The vault opens with a brass key.")
    (root / "CLAUDE.md").symlink_to(tmp_path / "secret.txt")

    read(store, settings)

    assert list_standing_files(store) == []


def test_a_memory_that_stands_in_a_file_is_named_without_its_text_and_a_contradiction_is_said(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    write(root / "CLAUDE.md", "- The walrus proxy listens on port 7070.\n- Restart the walrus proxy after a deploy.\n")
    read(store, settings)
    standing, other = (
        save_memory(store, text, redact, scope=Scope.PROJECT, project_id=project.id, actor=Actor.USER)
        for text in ("Restart the walrus proxy after a deploy.", "The walrus proxy listens on port 9090.")
    )

    answer = answer_question(
        store,
        Searcher(store, settings),
        Query("walrus proxy", project_id=project.id),
        standing_of=standing_of(store, project.id),
    )
    text = answer_text(answer.hits, project.name)

    assert f"Also in CLAUDE.md: {standing.episode_id}" in text
    assert "Restart the walrus proxy" not in text
    (line,) = [line for line in text.splitlines() if other.episode_id in line]
    assert "but CLAUDE.md: The walrus proxy listens on port 7070." in line


def test_what_was_forgotten_is_not_kept_again_though_it_stands_in_the_file(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    write(root / "CLAUDE.md", f"{RULE}\n\nThe build runs with make all.\n", 1)
    read(store, settings)
    memory = save_memory(store, RULE, redact, scope=Scope.PROJECT, project_id=project.id, actor=Actor.USER)

    forget_memory(store, settings.places, memory.episode_id, actor=Actor.USER)
    assert "pnpm" not in "".join(file.text for file in list_standing_files(store))

    write(root / "CLAUDE.md", f"{RULE}\n\nThe build runs with make everything.\n", 2)
    read(store, settings)
    write(root / "CLAUDE.md", "The build runs with make everything.\n", 3)
    read(store, settings)
    assert "pnpm" not in "".join(file.text for file in list_standing_files(store))
    assert "pnpm" not in "".join(path.read_text() for path in settings.places.saved_notes.glob("*.md"))


def test_they_go_with_their_project(store: Store, settings: Settings, project: ProjectRow, root: Path) -> None:
    write(root / "CLAUDE.md", f"{RULE}\n\nThe walrus proxy listens on port 7070.\n", 1)
    read(store, settings)
    write(root / "CLAUDE.md", RULE, 2)
    read(store, settings)

    forget_project(store, settings.places, project, actor=Actor.USER)

    assert list_standing_files(store) == []
    assert "walrus" not in "".join(path.read_text() for path in settings.places.saved_notes.glob("*.md"))


def test_of_a_long_file_that_is_deleted_every_paragraph_is_kept(store: Store, settings: Settings) -> None:
    path = settings.claude_folder / "CLAUDE.md"
    rules = [f"Rule {number} says that quay {number} closes at night." for number in range(900)]
    write(path, "\n\n".join([*rules, "x" * 45_000]))
    read(store, settings)

    path.unlink()
    read(store, settings)

    saved = "".join(note.read_text() for note in settings.places.saved_notes.glob("*.md"))
    assert all(rule in saved for rule in rules)
    assert saved.count("x") == 45_000


TARIFF = "The tariff of Wilhelmina is seventeen."


@pytest.mark.parametrize("way", ["../acme/terms.md", "absolute", "~", "memory", "link", "folder", "settings", "nested"])
def test_files_of_a_clone_bring_in_nothing_of_another_project(
    store: Store, settings: Settings, project: ProjectRow, root: Path, way: str
) -> None:
    acme = root.parent / "acme"
    write(acme / "terms.md", TARIFF)
    write(Path.home() / "terms.md", TARIFF)
    write(settings.claude_folder / "projects" / "-acme" / "memory" / "terms.md", TARIFF)
    write(root / "docs" / "more.md", f"@{acme}/terms.md")
    imported = {
        "absolute": f"{acme}/terms.md",
        "~": "~/terms.md",
        "memory": f"{settings.claude_folder}/projects/-acme/memory/terms.md",
        "link": "linked/terms.md",
        "nested": "docs/more.md",
    }.get(way, way)
    write(root / "CLAUDE.md", f"The build needs clang and ninja.\n\n@{imported}")
    if way in ("link", "folder"):
        (root / "linked").symlink_to(acme)
        (root / ".claude").mkdir(exist_ok=True)
        (root / ".claude" / "rules").symlink_to(acme)
    if way == "settings":
        write(root / ".claude" / "settings.json", json.dumps({"autoMemoryDirectory": str(acme)}))

    for text in ("", "Nothing is left."):
        if text:
            write(root / "CLAUDE.md", text)
        read(store, settings)
        assert not [file for file in list_standing_files(store) if TARIFF in file.text]
    saved = "".join(path.read_text() for path in settings.places.saved_notes.glob("*.md"))
    assert "clang and ninja" in saved
    assert TARIFF not in saved


def test_a_file_of_another_project_that_was_read_before_is_read_no_more(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    path = root.parent / "acme" / "CLAUDE.md"
    write(path, TARIFF)
    with store.transaction() as tx:
        put_standing_file(tx, StandingFile(str(path), project.id, "../acme/CLAUDE.md", 3, 1, "Old."))

    read(store, settings)

    assert list_standing_files(store) == []
    assert not list(settings.places.saved_notes.glob("*.md"))


def test_a_project_may_import_the_users_own_instructions(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    write(settings.claude_folder / "mine.md", TARIFF)
    write(root / "CLAUDE.md", f"The build needs clang.\n\n@{settings.claude_folder}/mine.md")

    read(store, settings)

    assert standing_text(store, project.id).file_saying(TARIFF) == f"{settings.claude_folder}/mine.md"


def test_the_users_local_settings_may_name_any_folder(
    store: Store, settings: Settings, project: ProjectRow, root: Path
) -> None:
    write(root.parent / "memories" / "terms.md", TARIFF)
    local = root / ".claude" / "settings.local.json"
    write(local, json.dumps({"autoMemoryDirectory": str(root.parent / "memories")}))

    read(store, settings)

    assert standing_text(store, project.id).file_saying(TARIFF) == "auto memory/terms.md"
