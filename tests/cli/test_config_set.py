"""`engram config set` changes one line of config.toml, checked, and nothing else in it."""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.config_file import set_value
from engram.errors import EngramError, HomeError, ServiceError, SettingsError
from engram.extraction.model.provider import read_env
from engram.models.open_memory import open_store
from engram.paths import Home
from engram.reports.settings_report import explained_settings
from engram.settings import Settings, load
from engram.setup.services import service_plan
from engram.system.process_lock import ProcessLock
from engram.tasks.runtime import make_runtime
from engram_hooks.block import settings_block


@pytest.fixture
def home(home: Home) -> Home:
    """The memory folder, made."""
    return home.prepare()


def invoke(home: Home, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(engram, ["--home", str(home.root), "config", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_a_setting_is_written_and_read_back(home: Home) -> None:
    assert invoke(home, "set", "extractor", "off") == (0, "extractor = off\n", "")

    loaded = load({"home": str(home.root)}, environ={})
    assert (loaded.settings.extractor, loaded.sources["extractor"]) == ("off", "config.toml")
    assert invoke(home, "extractor")[1] == "off\n"
    assert stat.S_IMODE(home.config_file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "address", ["http://localhost:1234/v1/", "http://[::1]:8080", "https://me:pass@llm.local:8443/v1"]
)
def test_an_address_of_any_server_is_taken(home: Home, address: str) -> None:
    assert invoke(home, "set", "llm_base_url", address)[0] == 0


@pytest.mark.parametrize(
    ("extractor", "missing", "advice"),
    [
        ("openai", "OPENAI_API_KEY is not set: the local extractor is used", "Write OPENAI_API_KEY=… into "),
        ("claude", "'claude' can't be found: the local extractor is used", "Install Claude Code, or run: "),
    ],
)
def test_a_model_that_lacks_something_is_chosen_with_what_it_lacks(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extractor: str, missing: str, advice: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    code, printed, said = invoke(home, "set", "extractor", extractor)
    status = CliRunner().invoke(engram, ["--home", str(home.root), "status"]).output

    assert (code, printed) == (0, f"extractor = {extractor}\n")
    assert f"Note: extractor = {extractor}, but {missing}. {advice}" in said
    assert f"{extractor}, but {missing}" in status
    home.env_file.write_text("OPENAI_API_KEY=sk-made-up-for-a-test\n")
    home.env_file.chmod(0o600)
    if extractor == "openai":
        said = " ".join(invoke(home, "set", "extractor", "openai")[2].split())
        assert "Note:" not in said
        assert "is sent to OpenAI, with your key (model gpt-4.1-nano), with secrets masked." in said
        assert "at most $1.00 in 24 hours and $0.50 in an hour" in said
        assert f"`engram --home {home.root} config unset extractor` ends it." in said
        assert invoke(home, "set", "extractor", "openai", "--json")[1].startswith("{")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("embedding_model", "all-mpnet", "may be bundled, hashed, "),
        ("embedding_model", "~/no-model", "there is no model folder"),
        ("embedding_model", "/", "no file in it ends with .safetensors"),
        ("codex_folder", "/no/codex", ""),
        ("note_folders", "/,/no/notes", ""),
    ],
)
def test_a_model_must_exist_and_a_folder_that_does_not_is_told(home: Home, name: str, value: str, reason: str) -> None:
    code, _, error = invoke(home, "set", name, value)

    assert (code, home.config_file.exists()) == ((1, False) if reason else (0, True))
    assert (reason or f"Note: there is no folder {value.rpartition(',')[2]} yet.") in " ".join(error.split())
    assert invoke(home, "set", "embedding_model", "hashed") == (0, "embedding_model = hashed\n", "")
    assert "Note" not in invoke(home, "set", name, "/" if not reason else "hashed")[2]


def test_a_command_of_claude_that_is_none_is_told_before_it_is_needed(home: Home, tmp_path: Path) -> None:
    command = tmp_path / "claude"
    command.write_text("#!/bin/sh\n")
    for wrong in (str(command), str(tmp_path), "claude --model opus", "./claude"):
        told = " ".join(invoke(home, "set", "claude_command", wrong)[2].split())
        assert told == (
            f"Note: {wrong!r} is not a command that can be run; give the whole path of claude, without arguments."
        )
    command.chmod(0o755)

    assert invoke(home, "set", "claude_command", str(command)) == (0, f"claude_command = {command}\n", "")


@pytest.mark.parametrize("folders", ["~/diary", "/srv/acme,~", "*/acme", "?:/work", "[/]srv", "C:\\work", ""])
def test_patterns_that_can_cover_a_folder_are_kept(home: Home, folders: str) -> None:
    assert invoke(home, "set", "exclude", folders)[0] == 0


def test_comments_order_and_formatting_stay(home: Home) -> None:
    home.config_file.write_text("# my settings\nbites   =  2   # few\n\n# folders\nexclude = [\n  'a',  # one\n]\n")

    invoke(home, "set", "bites", "1")
    invoke(home, "set", "recall-limit", "7")

    assert home.config_file.read_text() == (
        "# my settings\nbites   =  1   # few\n\n# folders\nexclude = [\n  'a',  # one\n]\nrecall_limit = 7\n"
    )


def test_a_byte_order_mark_before_a_file_of_settings_is_passed_over(home: Home) -> None:
    home.config_file.write_bytes(b"\xef\xbb\xbfbites = 2\r\n")
    home.env_file.touch(mode=0o600)
    home.env_file.write_bytes(b"\xef\xbb\xbfOPENAI_API_KEY=fresh\r\n")

    assert invoke(home, "bites") == (0, "2\n", "")
    assert invoke(home, "set", "recall-limit", "7")[0] == 0
    assert load({"home": str(home.root)}, environ={}).settings.bites == 2
    assert read_env(home.env_file) == {"OPENAI_API_KEY": "fresh"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("capture", "off", False),
        ("llm_dollars_per_day", "0.5", 0.5),
        ("exclude", "/a/*, /b", ("/a/*", "/b")),
        ("claude_command", "/opt/claude code/claude", "/opt/claude code/claude"),
        ("claude_folder", "/somewhere/claude", Path("/somewhere/claude")),
        ("log_level", "debug", "debug"),
    ],
)
def test_every_type_of_value_comes_back_as_it_was_meant(home: Home, name: str, text: str, value: object) -> None:
    assert invoke(home, "set", name, text)[0] == 0

    assert getattr(load({"home": str(home.root)}, environ={}).settings, name) == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("colour", "red", "no setting 'colour'"),
        ("bites", "many", "bites = 'many'"),
        ("bites", "-1", "must not be negative"),
        ("claude_folder", "", "must name a folder"),
        ("llm_dollars_per_day", "nan", "must be a number"),
        ("llm_dollars_per_day", "inf", "must be a number"),
        ("claude_timeout_seconds", "1e999", "must be a number"),
        ("extractor", "gpt", "must be one of local, claude, openai, off"),
        ("home", "/elsewhere", "ENGRAM_HOME"),
        ("exclude", "~/diary,clients/acme", "has 'clients/acme', which covers no folder; write a whole path"),
        ("exclude", "$HOME/diary", "covers no folder"),
        ("exclude", "~no-such-user/diary", "covers no folder"),
    ],
)
def test_a_wrong_value_changes_nothing(home: Home, name: str, text: str, reason: str) -> None:
    home.config_file.write_text("bites = 2\n")

    code, _, errors = invoke(home, "set", "--", name, text)

    assert code == 1
    assert reason in errors
    assert home.config_file.read_text() == "bites = 2\n"


@pytest.mark.parametrize(
    "line",
    [
        "llm_dollars_per_day = nan",
        "llm_dollars_per_hour = inf",
        "bites = inf",
        "bites = 1.5",
        "bites = [1]",
        "llm_dollars_per_day = 1" + "0" * 400,
        "bites = true",
    ],
)
def test_a_number_in_the_file_that_is_none_is_refused(home: Home, line: str) -> None:
    home.config_file.write_text(f"{line}\n")

    code, _, errors = invoke(home, "bites")

    assert code == 1
    assert re.search("must be a (whole )?number|too large", errors)
    assert line.partition(" ")[0] in errors


def test_a_file_with_the_line_ends_of_windows_keeps_them(home: Home) -> None:
    home.config_file.write_bytes(b"# mine\r\nbites = 2\r\n")

    assert invoke(home, "set", "extractor", "off")[0] == 0

    assert home.config_file.read_bytes() == b'# mine\r\nbites = 2\r\nextractor = "off"\r\n'


def test_a_file_with_a_byte_order_mark_keeps_it(home: Home) -> None:
    home.config_file.write_bytes(codecs.BOM_UTF8 + b"bites = 2\n")

    assert invoke(home, "set", "extractor", "off")[0] == 0

    assert home.config_file.read_bytes() == codecs.BOM_UTF8 + b'bites = 2\nextractor = "off"\n'


@pytest.mark.parametrize("value", ['"/a\\u0000b"', '["/a\\u0000b"]'])
@pytest.mark.parametrize("name", ["claude_folder", "claude_folders", "claude_command", "exclude"])
def test_a_nul_character_in_the_file_is_refused(home: Home, name: str, value: str) -> None:
    """No system call accepts one."""
    home.config_file.write_text(f"{name} = {value}\n")

    code, _, errors = invoke(home, "bites")

    assert code == 1
    assert f"the setting {name}" in errors


@pytest.mark.parametrize("name", ["claude_folders", "note_folders", "project_roots"])
def test_a_list_of_folders_is_the_same_for_each_process(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    home.config_file.write_text(f"{name} = ['~/one', 'two']\n")

    assert invoke(home, name)[:2] == (0, "~/one, ~/two\n")
    assert invoke(home, "set", name, "~/one,two,/three")[0] == 0
    assert f'{name} = ["~/one", "{tmp_path}/two", "/three"]' in home.config_file.read_text()


def test_a_link_to_a_configuration_folder_is_the_same_folder(home: Home, tmp_path: Path) -> None:
    """Otherwise, an installation would connect it twice."""
    (tmp_path / "claude").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "claude")
    flags = {"claude_folder": str(tmp_path / "claude"), "claude_folders": f"{tmp_path}/work,{tmp_path}/link"}

    folders = load({"home": str(home.root), **flags}, environ={}).settings.all_claude_folders

    assert folders == (tmp_path / "claude", tmp_path / "work")


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [("claude_folder", "work", "user/work"), ("codex_folder", "./codex", "user/codex"), ("gemini_folder", "../g", "g")],
)
def test_a_relative_folder_in_the_file_begins_at_the_home_folder(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, written: str, meant: str
) -> None:
    """Commands, worker and services have other current folders, and a file that was valid once must not stop them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", f"{tmp_path}/user")
    home.config_file.write_text(f'{name} = "{written}"\n')

    assert invoke(home, name)[:2] == (0, f"{tmp_path}/{meant}\n")
    assert invoke(home, "set", name, "mine")[0] == 0
    assert f'{name} = "{tmp_path}/mine"' in home.config_file.read_text()


@pytest.mark.parametrize("written", ["$HOME/work", "${HOME}/work", " ~/work "])
def test_the_home_folder_may_be_named_as_in_a_shell(home: Home, monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    home.config_file.write_text(f'claude_folder = "{written}"\n')

    assert invoke(home, "claude_folder")[:2] == (0, "/home/anna/work\n")


@pytest.mark.parametrize("written", ["", " "])
def test_an_empty_folder_in_the_file_is_not_the_home_folder(home: Home, written: str) -> None:
    home.config_file.write_text(f'claude_folder = "{written}"\n')

    code, _, errors = invoke(home, "claude_folder")

    assert code == 1
    assert "it must name a folder" in errors


def test_a_broken_file_is_not_overwritten(home: Home) -> None:
    home.config_file.write_text("bites = = 2\n")

    code, _, errors = invoke(home, "set", "bites", "1")

    assert code == 1
    assert "is not valid TOML" in errors
    assert home.config_file.read_text() == "bites = = 2\n"


def test_a_file_in_another_encoding_is_named_with_its_line(home: Home) -> None:
    home.config_file.write_bytes("bites = 2\n# für später\n".encode("latin-1"))

    code, _, errors = invoke(home)

    assert code == 1
    assert f"{home.config_file} is not in UTF-8 (at line 2). Save it as UTF-8" in errors
    assert "codec" not in errors


@pytest.mark.parametrize(
    ("line", "words", "done"),
    [
        ("bites = = 2", ("service", "stop"), 0),
        ("bites = = 2", ("service", "status"), 1),
        ("bites = = 2", ("service", "logs"), 0),
        ("bites = = 2", ("logs",), 0),
        ("bites = = 2", ("uninstall", "--yes"), 0),
        ('exclude = ["/a",', ("uninstall", "--dry-run"), 0),
        ("bites = -1", ("service", "stop"), 0),
    ],
)
def test_what_stops_engram_or_shows_what_is_wrong_runs_with_a_broken_file(
    home: Home, line: str, words: tuple[str, ...], done: int
) -> None:
    home.config_file.write_text(f"{line}\n")
    home.logs.mkdir(exist_ok=True)

    result = CliRunner().invoke(engram, ["--home", str(home.root), *words])

    assert result.exit_code == done, result.output
    assert "Ignored: " in result.stderr
    assert line.partition(" ")[0] in result.stderr or "is not valid TOML" in result.stderr
    assert home.config_file.read_text() == f"{line}\n"


def test_a_link_to_the_users_own_file_is_followed_and_kept(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text('# mine\nexclude = ["/secret"]\n')
    home.config_file.symlink_to(target)

    assert invoke(home, "exclude")[:2] == (0, "/secret\n")
    assert invoke(home, "set", "bites", "1")[0] == 0
    assert invoke(home, "unset", "exclude")[0] == 0

    assert home.config_file.readlink() == target
    assert target.read_text() == "# mine\nbites = 1\n"


@pytest.mark.parametrize("broken", ["missing", "written by everybody"])
def test_a_link_that_cant_be_trusted_is_neither_passed_over_nor_replaced(
    home: Home, tmp_path: Path, broken: str
) -> None:
    target = tmp_path / "dotfiles.toml"
    home.config_file.symlink_to(target)
    if broken != "missing":
        target.write_text('exclude = ["/secret"]\n')
        target.chmod(0o666)

    for arguments in (("exclude",), ("set", "bites", "1"), ("unset", "exclude")):
        code, _, errors = invoke(home, *arguments)
        assert code == 1
        assert "a link to one" in errors or f"chmod o-w {target}" in errors

    assert home.config_file.is_symlink()
    assert not target.exists() or target.read_text() == 'exclude = ["/secret"]\n'


def test_a_folder_in_the_files_place_is_told(home: Home) -> None:
    home.config_file.mkdir()

    assert "it must be a file that you may read" in invoke(home, "set", "bites", "1")[2]


def test_whoever_sets_a_value_gets_an_expected_error_where_it_cant_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EngramError, match=r"Can't write config\.toml"):
        set_value(tmp_path / "file" / "home", "bites", "1")


def test_a_read_only_file_is_not_replaced(home: Home) -> None:
    home.config_file.write_text("bites = 2\n")
    home.config_file.chmod(0o400)

    code, _, errors = invoke(home, "set", "bites", "1")

    assert code == 1
    assert "read-only" in errors
    assert home.config_file.read_text() == "bites = 2\n"


@pytest.mark.parametrize("line", ['bites = "many"', 'colour = "red"'])
def test_a_file_with_a_wrong_line_can_be_mended_by_unset(home: Home, line: str) -> None:
    home.config_file.write_text(f"{line}\nrecall_limit = 9\n")
    name = line.partition(" ")[0]

    assert invoke(home, "unset", name)[0] == 0

    assert home.config_file.read_text() == "recall_limit = 9\n"


def test_a_wrong_value_can_be_mended_by_set(home: Home) -> None:
    home.config_file.write_text('bites = "many"\n')

    code, output, _ = invoke(home, "set", "bites", "2")

    assert (code, output) == (0, "bites = 2\n")
    assert home.config_file.read_text() == "bites = 2\n"


def test_unset_brings_the_default_back(home: Home) -> None:
    home.config_file.write_text("bites = 2\nrecall_limit = 9\n")

    assert invoke(home, "unset", "bites")[0] == 0
    assert invoke(home, "unset", "bites")[1] == "bites was not set. Default: 3\n"

    assert home.config_file.read_text() == "recall_limit = 9\n"


def test_what_goes_before_the_file_is_said(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_BITES", "3")

    code, _, errors = invoke(home, "set", "bites", "1")

    assert code == 0
    assert "environment also sets bites" in errors


def test_two_writers_at_once_lose_nothing(home: Home) -> None:
    program = (
        "import sys; from pathlib import Path; from engram.config_file import set_value\n"
        "for n in range(30): set_value(Path(sys.argv[1]), sys.argv[2], str(n))"
    )
    names = ("bites", "hourly_memories", "archive_days")
    writers = [subprocess.Popen([sys.executable, "-c", program, str(home.root), name]) for name in names]

    assert [writer.wait(60) for writer in writers] == [0, 0, 0]

    settings = load({"home": str(home.root)}, environ={}).settings
    assert [getattr(settings, name) for name in names] == [29, 29, 29]


def test_a_config_of_another_user_is_refused_by_every_reader_and_writer(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.config_file.write_text('extractor = "openai"\n')
    owner = home.config_file.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)

    with pytest.raises(
        SettingsError, match=rf"another user \(uid {owner}\), so it isn't read. Set ENGRAM_HOME to your own"
    ):
        load({"home": str(home.root)}, environ={})
    for change in (("set", "bites", "2"), ("unset", "extractor"), ()):
        code, _, error = invoke(home, *change)
        assert code == 1
        assert "belongs to another user" in error
        assert "chown" not in error  # the folder is that user's, too

    assert home.config_file.read_text() == 'extractor = "openai"\n'


def test_nothing_is_written_into_another_users_memory_folder(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config.toml that `sudo engram config set` left there would stop all of that user's Engram."""
    home.prepare()
    monkeypatch.setattr(os, "geteuid", lambda: home.root.stat().st_uid + 1)

    with pytest.raises(HomeError, match="belongs to another user"):
        set_value(home.root, "recall_limit", "5")

    assert not home.config_file.exists()


def test_hooks_stay_silent_where_the_config_is_refused(home: Home) -> None:
    """They run as the user; whatever the settings say, Claude Code is neither blocked nor told anything."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    home.config_file.write_text("start_with_session = true\n")
    os.chown(home.config_file, 54321, -1)
    block = settings_block(home)["hooks"]
    commands = {hook["command"] for groups in block.values() for group in groups for hook in group["hooks"]}
    payload = json.dumps({"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup", "prompt": "x"})

    for command in commands:
        done = subprocess.run(["sh", "-c", command], input=payload, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command
    assert not home.worker_lock.exists()


@pytest.mark.parametrize(
    ("words", "restarts"),
    [
        (("set", "exclude", "~/clients/*"), 1),
        (("set", "inject", "false"), 1),
        (("unset", "bites"), 1),
        (("unset", "exclude"), 0),
        (("set", "nosuch", "1"), 0),
        (("set", "bites", "-1"), 0),
        (("show",), 0),
    ],
)
def test_what_runs_uses_a_changed_setting_at_once(
    home: Home, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], restarts: int
) -> None:
    home.config_file.write_text('bites = 2\nclaude_folder = "/elsewhere"\n')
    restarted: list[Settings] = []
    monkeypatch.setattr(service_plan, "restart_if_running", lambda settings: restarted.append(settings) or True)
    lock = ProcessLock(home.watcher_lock)

    _, _, said = invoke(home, *words)

    lock.release()
    assert len(restarted) == restarts
    assert ("Restarting the worker and the watcher" in said) is bool(restarts)
    assert ("Both are running again, with the new setting." in said) is bool(restarts)
    for settings in restarted:
        assert settings.home == home.root
        # Its folders are those of the file: a supervisor gets them as variables, which come before the file.
        assert str(settings.claude_folder) == "/elsewhere"
        assert settings.exclude == (("~/clients/*",) if "exclude" in words else settings.exclude)


@pytest.mark.parametrize("words", [("set", "embedding_model", "bundled"), ("unset", "embedding_model")])
def test_a_mended_setting_ends_at_once_what_failed_because_of_it(home: Home, words: tuple[str, ...]) -> None:
    home.config_file.write_text('embedding_model = "/no/such/model"\n')
    with open_store(home.memory_db) as store:
        make_runtime(Settings(home=home.root, embedding_model="/no/such/model"), store)
    failing = CliRunner().invoke(engram, ["--home", str(home.root), "status"]).stdout
    assert "/no/such/model" in failing

    invoke(home, *words)

    assert "/no/such/model" not in CliRunner().invoke(engram, ["--home", str(home.root), "status"]).stdout


def test_a_setting_is_explained_in_the_words_of_its_reference(home: Home) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
    for name in (field.name for field in dataclasses.fields(Settings)):
        shown = json.loads(invoke(home, "explain", name, "--json")[1])
        assert f"| `{name}` | {shown['default']} | {shown['meaning']} |" in page.replace("``", "`")

    home.config_file.write_text("bites = 2\n")
    said = invoke(home, "explain", "bites")[1]
    assert said.startswith("bites = 2 (from config.toml; default: 3)\n\nMaximum number of bites for one prompt")
    assert invoke(home, "get", "bites")[1] == invoke(home, "bites")[1] == "2\n"
    assert "bites has its default again: 3" in invoke(home, "unset", "bites")[1]
    assert [invoke(home, *words)[1] for words in (("set", "exclude", "~/diary"), ("unset", "exclude"))][1] == (
        "exclude is empty again.\n"
    )
    assert invoke(home, "unset", "exclude")[1] == "exclude is empty.\n"
    assert "config explain NAME" in invoke(home)[1]
    assert invoke(home, "explain", "nosuch")[0] == 1


def test_settings_are_listed_by_what_they_concern_and_changed_ones_first(home: Home) -> None:
    invoke(home, "set", "bites", "2")

    lines = [line.rstrip() for line in invoke(home)[1].splitlines()]

    groups = [line for line in lines if line and not re.match(r"[a-z_]+(  |$)|`?engram ", line)]
    assert re.split(r" {2,}", groups[0]) == ["Changed", "value", "from", "default"]
    assert groups[1:] == list(dict.fromkeys(setting.section for setting in explained_settings()))
    (bites,) = (line for line in lines if line.startswith("bites "))
    assert re.split(r" {2,}", bites) == ["bites", "2", "config.toml", "3"]
    assert lines.index("What Claude is shown") < next(
        place for place, line in enumerate(lines) if line.startswith("inject ")
    )


def test_nothing_is_restarted_where_nothing_runs_and_a_terminal_is_named(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke(home, "set", "bites", "1")[2] == ""
    lock = ProcessLock(home.worker_lock)

    in_terminal = invoke(home, "set", "bites", "2")[2]
    monkeypatch.setattr(service_plan, "restart_if_running", fail_to_restart)
    failed = invoke(home, "set", "bites", "3")
    lock.release()

    assert "up` and start it again" in in_terminal
    assert failed[0] == 0
    assert f"They could not be restarted: systemd is gone. Run: engram --home {home.root} service restart" in failed[2]


def fail_to_restart(_: Settings) -> bool:
    raise ServiceError("systemd is gone")


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("bites", 1_000_000_000),
        ("live_seconds", 3_153_600_000),
        ("claude_timeout_seconds", 1_000_000),
        ("archive_days", 1_000_000),
    ],
)
def test_a_number_has_an_upper_limit(home: Home, name: str, largest: int) -> None:
    assert invoke(home, "set", name, str(largest))[0] == 0
    code, _, said = invoke(home, "set", name, str(largest + 1))

    assert code == 1
    assert f"is too large: it may be at most {largest:,}" in said


@pytest.mark.parametrize(
    ("line", "used"), [("live_seconds = 9999999999", "3153600000"), ("llm_dollars_per_day = 1e9", "1000000.0")]
)
def test_a_number_in_the_file_that_is_too_large_is_reduced_and_stops_nothing(home: Home, line: str, used: str) -> None:
    """Earlier versions accepted it."""
    home.config_file.write_text(f"{line}\n")
    name = line.partition(" ")[0]

    code, printed, _ = invoke(home, name)
    doctor = CliRunner().invoke(engram, ["--home", str(home.root), "doctor", "--json"]).output
    finding = next(one for one in json.loads(doctor)["checks"] if one["name"] == "config.toml")

    assert (code, printed) == (0, f"{used}\n")
    assert finding["state"] == "warn"
    assert "is too large: it may be at most" in finding["detail"]
    assert finding["command"] == f"engram config unset {name}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("exclude = [1]", "exclude = [1] is invalid: it must be a list of strings"),
        ('exclude = [["/secret"]]', "exclude = [['/secret']] is invalid: it must be a list of strings"),
        ("exclude = [2026-01-02]", "exclude = [2026-01-02] is invalid: it must be a list of strings"),
        ("bites = 2026-01-02", "bites = 2026-01-02 is invalid: it must be a number"),
        ("bites = true", "bites = true is invalid: it must be a number"),
        ("bites = {a = 1}", "bites = {…} is invalid: it must be a number"),
        (f"bites = '{'x' * 100_000}'", "xxx… is invalid: it must be a whole number"),
        (f"bites = {'1' * 5000}", "contains a number that is too long"),
        (f"embedding_model = 0x{'f' * 5000}", "fff… is invalid: it must be a string"),
        (f"exclude = {'[' * 5000}", "its lists are nested too deeply"),
        ("bites = 3\nexclude = ['a\0b']", "contains a NUL character (at line 2). Remove it in an editor"),
    ],
)
def test_a_value_in_the_file_of_another_type_is_named_as_it_is_written(home: Home, line: str, reason: str) -> None:
    home.config_file.write_text(f"{line}\n")

    code, _, errors = invoke(home)

    assert code == 1
    assert reason in errors
    assert len(errors) < 500


def test_every_number_is_far_below_its_upper_limit_by_default() -> None:
    numbers = {
        known.name: known.default
        for known in dataclasses.fields(Settings)
        if isinstance(known.default, int | float) and not isinstance(known.default, bool)
    }
    wrong = []
    for name, default in numbers.items():
        with pytest.raises(SettingsError, match="is too large"):
            load({name: 10**20}, environ={})
        try:
            load({name: 4 * default}, environ={})
        except SettingsError:
            wrong.append(name)
    assert not wrong
