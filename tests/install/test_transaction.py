"""An installation is one transaction, and its removal gives back every byte, mode and link."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engram.errors import AlreadyRunning, InstallError
from engram.paths import Home
from engram.setup.edits.file_state import FileState, StateKind, digest_of, make_folders, write_state
from engram.setup.edits.install_steps import FileChange, JsonEdit, JsonEntry, Step
from engram.setup.edits.journal import explain_half_done, folder_of, load_journal
from engram.setup.installing import apply_steps
from engram.setup.installing.install_uninstall import install_steps, uninstall
from engram.system.process_lock import ProcessLock
from tests import failpoints
from tests.forked import run_forked
from tests.install.conftest import HOOK, SETTINGS, THEIRS, Machine

OPTIONS: dict[str, Any] = {"service": True}


def install(machine: Machine, **wish: Any) -> Any:
    return install_steps(machine.home, machine.steps(**wish), options=OPTIONS, version="1")


def settings_of(machine: Machine) -> Any:
    from engram.setup.edits.json_document import parse

    root = parse(machine.settings.read_text(encoding="utf-8"))
    return root.value if root else {}


@pytest.mark.parametrize("form", SETTINGS)
def test_install_and_uninstall_leave_every_byte_mode_and_link(machine: Machine, form: str) -> None:
    machine.settings.unlink()
    SETTINGS[form](machine.settings)
    before = machine.snapshot()

    install(machine)
    assert HOOK in settings_of(machine)["hooks"]["Stop"]
    assert "mcp__engram" in settings_of(machine)["permissions"]["allow"]
    assert not (machine.user / "Library" / "old.plist").exists()
    assert machine.switch.read_text() == "on"
    once = machine.snapshot()
    install(machine)
    assert machine.snapshot() == once
    install(machine, word="two", with_plugin=False)
    outcome = uninstall(machine.home)

    assert machine.snapshot() == before
    assert (outcome.notes, outcome.problems) == ([], [])
    assert not folder_of(machine.home).exists()
    assert uninstall(machine.home).changed == []


@pytest.mark.parametrize("form", [form for form in SETTINGS if form not in ("absent", "dangling link")])
def test_what_another_program_changed_meanwhile_stays(machine: Machine, form: str) -> None:
    machine.settings.unlink()
    SETTINGS[form](machine.settings)
    expected = {**settings_of(machine), "model": "haiku"}
    install(machine)
    value = {**settings_of(machine), "model": "haiku"}
    machine.settings.write_text(json.dumps(value, indent=2))
    machine.settings.chmod(0o604)
    (machine.user / "units" / "theirs").write_text("theirs")
    install(machine, word="two")

    outcome = uninstall(machine.home)

    assert settings_of(machine) == expected
    assert stat.S_IMODE(machine.settings.stat().st_mode) == 0o604
    assert [path.name for path in (machine.user / "units").iterdir()] == ["theirs"]
    assert outcome.problems == []


def test_a_change_since_the_last_install_is_reported_and_our_entries_alone_go(machine: Machine) -> None:
    install(machine)
    value = settings_of(machine)
    value["hooks"]["Stop"].append(1)
    value["hooks"]["Stop"][1]["hooks"][0]["timeout"] = 60
    machine.settings.write_text(json.dumps(value))
    hooks = machine.claude / "skills" / "engram" / "hooks.json"
    hooks.write_text("mine")

    outcome = uninstall(machine.home)

    assert settings_of(machine) == {"hooks": {"Stop": [THEIRS, 1]}}
    assert not hooks.exists()
    assert [kept.read_text() for kept in (folder_of(machine.home) / "kept").iterdir()] == ["mine"]
    assert len(outcome.notes) == 2


def test_a_file_that_the_user_deleted_stays_deleted(machine: Machine) -> None:
    install(machine)
    machine.settings.unlink()

    uninstall(machine.home)

    assert not machine.settings.exists()


def test_a_file_that_was_moved_away_stays_away_until_the_uninstallation(machine: Machine) -> None:
    """A step plans what it finds, so the next installation does not plan the same file again."""
    file = machine.claude / "notes.md"
    moving, later = Step("plugin", "", (FileChange(file),)), machine.steps(with_plugin=False)
    plugin = Step("plugin", "", (FileChange(machine.claude / "other", content=b"1"),))

    for content, steps in (("first", moving), (None, plugin), (None, plugin), ("second", moving), (None, plugin)):
        if content is not None:
            file.write_text(content)
        install_steps(machine.home, [steps, *later], options=OPTIONS, version="1")
        assert not file.exists()

    uninstall(machine.home)
    assert file.read_text() == "second"


def test_what_somebody_put_in_the_place_of_a_removed_file_stays(machine: Machine) -> None:
    install(machine)
    agent = machine.user / "Library" / "old.plist"
    agent.write_text("new")

    outcome = uninstall(machine.home)

    assert agent.read_text() == "new"
    assert "is kept" in outcome.notes[0]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda settings: settings.write_text('{"hooks": {'), "settings.json can't be edited: line 1, column 12"),
        (lambda settings: settings.write_bytes(b"\xff\xfe{}"), "is not UTF-8 text"),
        (lambda settings: settings.write_text("[]"), "not an object"),
        (lambda settings: settings.write_text('{"permissions": {"allow": "x"}}'), "'permissions.allow' is not a list"),
        (lambda settings: settings.chmod(0o444), "is read-only. Make it writable"),
        (lambda settings: (settings.unlink(), settings.mkdir()), "is not a file"),
        (lambda settings: (settings.unlink(), settings.symlink_to("settings.json")), "can't"),
    ],
)
@pytest.mark.parametrize("is_upgrade", [False, True])
def test_settings_that_cannot_be_edited_are_named_and_nothing_changes(
    machine: Machine, spoil: Callable[[Path], object], said: str, is_upgrade: bool
) -> None:
    if is_upgrade:
        install(machine)
    spoil(machine.settings)
    before = machine.snapshot()

    more = JsonEdit(add=(JsonEntry(("x",), 1),))
    steps = [*machine.steps(word="two"), Step("more", "Add x", (FileChange(machine.settings, edit=more),))]

    with pytest.raises(InstallError, match=r"Nothing was changed") as refused:
        install_steps(machine.home, steps, options=OPTIONS, version="2")

    assert said in str(refused.value)
    assert machine.snapshot() == before
    assert (load_journal(machine.home) is not None) == is_upgrade
    assert explain_half_done(machine.home) is None


@pytest.mark.parametrize("is_upgrade", [False, True])
def test_a_failing_action_undoes_everything(machine: Machine, is_upgrade: bool) -> None:
    if is_upgrade:
        install(machine)
    before = machine.snapshot()

    with pytest.raises(InstallError, match=r"the switch is broken. Nothing was changed"):
        install(machine, word="two", with_plugin=False, fails=True)

    assert machine.snapshot() == before


@pytest.mark.parametrize("writes", [1, 99])
def test_a_program_that_writes_at_the_same_moment_is_not_overwritten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    left = writes

    def write_too(folder: Path) -> list[Path]:
        nonlocal left
        if folder == machine.claude and left:
            left -= 1
            value = settings_of(machine)
            machine.settings.write_text(json.dumps({**value, "count": value.get("count", 0) + 1}))
        return make_folders(folder)

    monkeypatch.setattr(apply_steps, "make_folders", write_too)

    if writes == 1:
        install(machine)
        assert settings_of(machine)["count"] == 1
        assert HOOK in settings_of(machine)["hooks"]["Stop"]
        uninstall(machine.home)
    else:
        with pytest.raises(InstallError, match=r"keeps changing .*Nothing was changed"):
            install(machine)

    assert settings_of(machine) == {"hooks": {"Stop": [THEIRS]}, "count": 99 - left if writes == 99 else 1}


@pytest.mark.parametrize(
    ("stored", "what", "advice"),
    [("{", "is damaged", "run: mv '"), ('{"version": 99}', "a newer version", "update Engram")],
)
def test_the_advice_for_an_unreadable_journal_is_whole(tmp_path: Path, stored: str, what: str, advice: str) -> None:
    home = Home(tmp_path / "My. memory")
    folder_of(home).mkdir(parents=True)
    home.install_journal.write_text(stored)

    told = explain_half_done(home) or ("", "")

    assert (what in told[0], str(home.install_journal) in told[0], told[1].startswith(advice)) == (True, True, True)


def test_a_file_with_two_names_is_whole_after_a_write_that_fails(tmp_path: Path) -> None:
    """It can't be replaced by a rename, so the disk is full in the middle of it."""
    path = tmp_path / "settings.json"
    path.write_bytes(b"a" * 5000)
    os.link(path, tmp_path / "other")
    data = b"b" * 50_000
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
    try:
        with pytest.raises(OSError, match="too large") as raised:
            write_state(path, FileState(StateKind.FILE, digest_of(data), 0o600), data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert raised.value.filename == str(path)
    assert (path.read_bytes(), path.stat().st_nlink) == (b"a" * 5000, 2)


def test_two_installers_at_once_do_not_meet(machine: Machine) -> None:
    machine.home.root.mkdir(parents=True)
    lock = ProcessLock(machine.home.root / "install.lock")

    with pytest.raises(AlreadyRunning, match=r"engram install"):
        install(machine)

    lock.release()


def test_the_journal_is_private(machine: Machine) -> None:
    install(machine)

    for path in (folder_of(machine.home), *folder_of(machine.home).rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def run_killed(work: Callable[[], object], point: str, count: int) -> bool:
    """Run in a child that dies at the ``count``-th pass of a point. False if it came to its end."""
    return run_forked(work, f"{point}:{count}") == -signal.SIGKILL


def passes(prefix: str) -> list[str]:
    return [name for name in failpoints.NAMES if name.startswith(prefix)]


def kills(work: Callable[[], object], prefix: str, prepare: Callable[[], None]) -> Iterator[tuple[str, int]]:
    """Kill the work at every pass of every point, each time on a prepared machine."""
    for point in passes(prefix):
        for count in range(1, 100):
            prepare()
            if not run_killed(work, point, count):
                break
            yield point, count


@pytest.mark.parametrize("is_upgrade", [False, True])
def test_an_installer_killed_anywhere_is_finished_or_undone(machine: Machine, is_upgrade: bool) -> None:
    before = machine.snapshot()

    def prepare() -> None:
        assert uninstall(machine.home).problems == []
        assert machine.snapshot() == before
        if is_upgrade:
            install(machine)

    def change() -> None:
        install(machine, word="two", with_plugin=not is_upgrade)

    prepare()
    change()
    expected = machine.snapshot()
    seen = set()
    for point, count in kills(change, "install.", prepare):
        seen.add(point)
        if point != "install.finished":
            what, advice = explain_half_done(machine.home) or ("", "")
            assert "interrupted" in what
            assert "engram install" in advice
        if count % 2:
            change()
            assert machine.snapshot() == expected, point
            assert explain_half_done(machine.home) is None
        # The next preparation takes back what is half done, and compares.
    prepare()

    assert seen == set(passes("install.")) - {"install.undone", *(() if is_upgrade else ("install.retired",))}


@pytest.mark.parametrize("is_upgrade", [False, True])
def test_an_undo_killed_anywhere_is_finished(machine: Machine, is_upgrade: bool) -> None:
    if is_upgrade:
        install(machine)
    before = machine.snapshot()

    def fail() -> None:
        install(machine, word="two", with_plugin=not is_upgrade, fails=True)

    number = 0
    for count in range(1, 100):
        if not run_killed(fail, "install.undone", count):
            break
        number += 1
        assert "not undone" in (explain_half_done(machine.home) or ("", ""))[0]
        with pytest.raises(InstallError, match=r"Nothing was changed"):
            fail()
        assert machine.snapshot() == before

    assert number > 3


def test_an_uninstallation_killed_anywhere_is_finished(machine: Machine) -> None:
    before = machine.snapshot()
    install(machine)
    installed = machine.snapshot()

    def prepare() -> None:
        install(machine)
        assert machine.snapshot() == installed

    number = 0
    for _ in kills(lambda: uninstall(machine.home), "uninstall.", prepare):
        number += 1
        if number % 2:
            assert "uninstallation was interrupted" in (explain_half_done(machine.home) or ("", ""))[0]
            uninstall(machine.home)
            assert machine.snapshot() == before

    assert number > 10
