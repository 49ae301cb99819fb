"""A vault knows its project's repository: no other folder with that repository is read into the memory folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from engram.forgetting.whole_project import move_into_vault, note_repository
from engram.ingest.read_sources import ingest_all
from engram.ingest.session_project import scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_memory
from engram.redaction import redact
from engram.settings import Settings
from engram.vaults import Vault, change_vault, find_vault, is_excluded_by_vault
from tests.growing_transcript import Transcript
from tests.repositories import Repository

REMOTE = "git@host.example:acme/tariffs.git"


@pytest.fixture
def acme(tmp_path: Path) -> Repository:
    repository = Repository.make(tmp_path / "src" / "acme")
    repository.git("remote", "add", "origin", REMOTE)
    return repository


def another(root: Path) -> Repository:
    """A repository whose first commit differs from any other, even in the same second."""
    root.mkdir(parents=True)
    repository = Repository(root)
    repository.git("init", "-q", "-b", "main")
    repository.commit("begin another", SITE=f"{root}\n")
    return repository


def vault_of_acme(settings: Settings) -> Vault:
    found = find_vault(settings.places, "acme")
    assert found is not None
    return found


def move_in(store: Store, settings: Settings, repository: Repository) -> Vault:
    project = scope_of_folder(store, settings, str(repository.root), make=True).project
    assert project is not None
    move_into_vault(store, settings, project)
    return vault_of_acme(settings)


def turns_read_in(store: Store, settings: Settings, folder: Path) -> int:
    file = settings.projects_folder / "-x" / "5e551017-0000-4000-8000-000000000031.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    session = Transcript(file, cwd=str(folder))
    session.user("From now on, round the client's tariff table down to whole cents.")
    session.says("Understood.")
    ingest_all(store, settings=settings, redact=redact)
    return int(store.value("SELECT count(*) FROM turn"))


@pytest.mark.parametrize("kept", ["both", "remote", "first commit"])
def test_a_renamed_folder_of_a_vault_is_not_read_outside(
    store: Store, settings: Settings, acme: Repository, kept: str
) -> None:
    if kept == "first commit":
        acme.git("remote", "remove", "origin")
    move_in(store, settings, acme)
    moved = acme.root.with_name("acme-2")
    acme.root.rename(moved)
    if kept == "remote":
        shutil.rmtree(moved / ".git" / "logs")
    if kept == "first commit":
        Repository(moved).git("remote", "add", "origin", REMOTE)

    assert is_excluded_by_vault(settings.places, str(moved))
    assert turns_read_in(store, settings, moved) == 0


def test_a_clone_and_a_worktree_beside_it_are_not_read_outside_while_the_folder_exists(
    store: Store, settings: Settings, acme: Repository, tmp_path: Path
) -> None:
    move_in(store, settings, acme)
    acme.git("clone", "-q", str(acme.root), str(tmp_path / "clone"))
    Repository(tmp_path / "clone").git("remote", "set-url", "origin", "https://host.example/acme/tariffs")

    assert is_excluded_by_vault(settings.places, str(tmp_path / "clone"))
    assert turns_read_in(store, settings, tmp_path / "clone") == 0


def test_another_repository_is_read_outside(store: Store, settings: Settings, acme: Repository, tmp_path: Path) -> None:
    move_in(store, settings, acme)
    begun_from_it = tmp_path / "src" / "other"
    shutil.copytree(acme.root, begun_from_it)
    Repository(begun_from_it).git("remote", "set-url", "origin", "git@host.example:other/site.git")
    another(tmp_path / "src" / "new")

    assert turns_read_in(store, settings, begun_from_it) == 1
    assert not is_excluded_by_vault(settings.places, str(tmp_path / "src" / "new"))
    assert not is_excluded_by_vault(settings.places, str(tmp_path / "gone"))
    acme.root.rename(acme.root.with_name("acme-2"))
    # Now its remote may have changed with its name.
    assert is_excluded_by_vault(settings.places, str(begun_from_it))


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_vault_made_before_learns_its_repository(
    store: Store, settings: Settings, acme: Repository, is_gone: bool
) -> None:
    vault = move_in(store, settings, acme)
    facts = json.loads((vault.folder / "vault.json").read_bytes())
    old = {name: facts[name] for name in ("name", "identities", "sealed")}
    (vault.folder / "vault.json").write_text(json.dumps(old))
    assert vault_of_acme(settings).remote == ""
    moved = acme.root.with_name("acme-2")
    if is_gone:
        acme.root.rename(moved)

    with open_memory(vault.home.memory_db, driver=settings.sqlite_driver, is_made=False) as inner:
        note_repository(inner, vault_of_acme(settings))

    assert vault_of_acme(settings).remote == "host.example:acme/tariffs".replace(":", "/")
    assert is_excluded_by_vault(settings.places, str(moved)) is is_gone


def test_another_repository_at_the_vaults_path_does_not_replace_what_it_knows(
    store: Store, settings: Settings, acme: Repository
) -> None:
    known = move_in(store, settings, acme)
    shutil.rmtree(acme.root)
    another(acme.root).git("remote", "add", "origin", "git@host.example:other/site.git")

    note_repository(store, known)

    assert vault_of_acme(settings) == known


def test_a_change_to_a_vault_that_is_gone_does_not_bring_it_back(
    store: Store, settings: Settings, acme: Repository
) -> None:
    vault = move_in(store, settings, acme)
    shutil.rmtree(vault.folder)

    change_vault(vault, remote="")

    assert not vault.folder.exists()


def test_the_commands_say_how_the_vault_learns_a_folder_and_do_it(
    acme: Repository,
    run: Callable[..., Result],
    run_json: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(acme.root)
    run("save", "The tariff table is rounded down.")
    run("projects", "vault", "acme", "--yes")
    moved = acme.root.with_name("acme-2")
    acme.root.rename(moved)
    monkeypatch.chdir(moved)

    for words in (["where"], ["save", "The tariff table has 40 rows."]):
        told = run(*words, code=1).stderr
        assert f"engram --vault acme projects link {moved} acme" in " ".join(told.split())
    findings = [check for check in json.loads(run("doctor", "--json", code=1).stdout)["checks"] if "acme" in str(check)]
    named = {check["name"]: check["advice"] for check in findings}
    assert "engram --vault acme projects link FOLDER acme" in named["moved vault"]
    assert f"engram --vault acme projects link {moved} acme" in named["same repository"]
    run("--vault", "acme", "projects", "link", str(moved), "acme", "--yes")

    assert "engram --vault acme where" in run("where", code=1).stderr
    assert "for acme" in run("--vault", "acme", "save", "The tariff table has 40 rows.").output
    other = tmp_path / "clone"
    Repository(moved).git("clone", "-q", str(moved), str(other))
    Repository(other).git("remote", "set-url", "origin", REMOTE)
    monkeypatch.chdir(other)
    assert f"engram projects vault acme --apart {other}" in " ".join(run("where", code=1).stderr.split())
    run("projects", "vault", "acme", "--apart", str(other))
    run("save", "The demo site is static.")
    assert run_json("projects", "show", "clone")["memories"] == 1


@pytest.mark.parametrize("fault", ["damaged", "missing", "half moved", "unreadable"])
def test_the_doctor_of_the_memory_folder_names_each_vault_that_does_not_work(
    filled: Store, run: Callable[..., Result], run_json: Callable[..., Any], fault: str
) -> None:
    filled.close()
    vault = Path(run_json("projects", "vault", "harbor", "--yes")["vault"])
    if fault == "damaged":
        (vault / "memory.db").write_bytes(b"garbage" * 5000)
    elif fault == "missing":
        (vault / "memory.db").unlink()
    elif fault == "half moved":
        facts = json.loads((vault / "vault.json").read_bytes())
        (vault / "vault.json").write_text(json.dumps(facts | {"sealed": False}))
    else:
        (vault / "vault.json").write_text("{")

    found = [
        check for check in json.loads(run("doctor", "--json", code=1).stdout)["checks"] if check["name"] == "vault"
    ]

    commands = {"half moved": "engram projects vault harbor", "unreadable": ""}
    assert [check["command"] for check in found] == [commands.get(fault, "engram --vault harbor doctor")]
    assert found[0]["state"] == "bad"
