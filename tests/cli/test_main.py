"""The edge of the command line: expected failures in one line, faults in the log, a quick and light start."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from repositories import repository

from engram.cli.main import engram as engram_group
from engram.cli.main import main
from engram.cli.up_commands import SAMPLES
from engram.paths import Home, absolute_path
from tests.forked import run_command

Run = Callable[..., Result]
CANNOT_BE_WRITTEN = "Error: the output can't be written: No space left on device\n"


def engram(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the real command line in a separate process."""
    environment = {**os.environ, "ENGRAM_EMBEDDING_MODEL": "hashed", "CLAUDE_CONFIG_DIR": str(SAMPLES), **more}
    return subprocess.run(
        [sys.executable, "-m", "engram.cli.main", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def run_anyhow(run: Run) -> Run:
    """Run ``engram …`` in this process, whatever its exit code is."""
    return lambda *arguments: CliRunner().invoke(engram_group, list(arguments))


def test_an_expected_failure_is_one_line_and_code_1(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    home.config_file.write_text("bites = -1\n")

    result = run_command("status")

    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.strip() == (
        "Error: the setting bites = -1 must not be negative "
        "(set in config.toml; to remove it: engram config unset bites)"
    )
    assert run_command("config", "unset", "bites").returncode == 0
    monkeypatch.setenv("ENGRAM_BITES", "-1")
    assert "(set by ENGRAM_BITES)" in run_command("status").stderr


@pytest.mark.parametrize(
    "arguments", [("save", "the build uses ninja"), ("doctor", "--quick"), ("why", "--prompt", "what builds it")]
)
def test_a_folder_that_was_deleted_is_that_of_its_project(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    """A shell stays in a worktree that was merged and removed."""
    assert run_command("save", "here").returncode == 0
    gone = repository(tmp_path / "app") / ".claude" / "worktrees" / "merged"
    gone.mkdir(parents=True)
    monkeypatch.chdir(gone)
    monkeypatch.setenv("PWD", str(gone))
    gone.rmdir()

    result = run_command(*arguments)

    assert "No such file" not in result.stderr
    assert result.returncode == (1 if "doctor" in arguments else 0)
    assert ("for app" in result.stdout) == ("save" in arguments)


def test_where_no_name_of_a_deleted_folder_is_known_a_project_must_be_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.delenv("PWD", raising=False)
    (tmp_path / "gone").rmdir()

    assert "has been deleted: give the full path of 'memory'" in run_command("--home", "memory", "status").stderr

    result = run_command("save", "the build uses ninja")

    assert (result.returncode, result.stderr[:48]) == (1, "Error: the current folder has been deleted. Name")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "HOME is not set: set it to your home folder"),
        ({"HOME": ""}, "HOME is empty: set it to your home folder"),
        ({"ENGRAM_HOME": "~/memory"}, "ENGRAM_HOME is '~/memory', which the hooks take literally"),
        (
            {"ENGRAM_HOME": "/tmp", "CLAUDE_CONFIG_DIR": "~nobody-here/claude"},
            "no user 'nobody-here': give the full path",
        ),
        ({"ENGRAM_HOME": os.fsdecode(b"/tmp/caf\xe9")}, " is not UTF-8: choose another one with ENGRAM_HOME"),
    ],
)
def test_a_home_folder_that_cannot_be_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    """A container's user has no entry in the system's list; a job of cron may have no HOME."""

    def unknown(_: object) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "ENGRAM_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    result = run_command("status")

    assert (result.returncode, result.stdout) == (1, "")
    assert said in result.stderr.splitlines()[0]


def test_an_empty_home_hides_no_other_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")

    assert absolute_path("~root/notes") == Path(pwd.getpwnam("root").pw_dir, "notes")


def test_an_unknown_command_is_a_usage_error() -> None:
    assert run_command("fly").returncode == 2


def test_help_works_with_a_broken_configuration(home: Home) -> None:
    home.prepare()
    home.config_file.write_text("bites = = 3")

    assert "Keep and fix" in run_command("--help").stdout
    assert run_command("recall", "--help").returncode == 0


@pytest.mark.usefixtures("filled")
def test_a_closed_pipe_is_not_a_failure() -> None:
    result = subprocess.run(
        f"{sys.executable} -m engram.cli.main export | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (result.stdout, result.stderr) == ("{", "")


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_a_command_runs_with_a_closed_output(home: Home, closing: str) -> None:
    """Only a new interpreter begins without a stream; one is enough for several commands."""
    code = (
        "from engram.cli.main import main\n"
        "codes = []\n"
        "for words in (['config', 'set', 'recall_limit', '3'], ['config'], ['config', '--json'], ['help'],\n"
        "              ['save', '--global', 'Use tabs'], ['export']):\n"
        "    try:\n"
        "        codes.append(main(words))\n"
        "    except SystemExit as ended:\n"
        "        codes.append(ended.code)\n"
        "raise SystemExit(0 if not any(codes) else 1)\n"
    )

    assert (
        subprocess.run(
            f'{sys.executable} -c "$CODE" {closing}',
            shell=True,
            env={**os.environ, "CODE": code},
            timeout=60,
            check=False,
        ).returncode
        == 0
    )
    assert home.config_file.read_text() == "recall_limit = 3\n"


@pytest.mark.parametrize(
    "words",
    [
        ("report",), ("status",), ("status", "--json"), ("timeline",), ("recall", "the crane"), ("tasks", "list"),
        ("config",), ("--help",), ("recall", "--help"), ("help",), ("--version",), ("doctor", "--quick"),
    ],
)  # fmt: skip
def test_every_command_ends_quietly_if_nobody_reads_on(
    home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    home.prepare()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        with pytest.raises(SystemExit) as ended:
            main(words)
        monkeypatch.undo()

    assert ended.value.code == 0
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("is_unbuffered", [False, True])
@pytest.mark.parametrize("words", ["--help", "config", "status --json", "timeline --help"])
def test_an_output_that_cannot_be_written_is_one_line(
    home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: str, is_unbuffered: bool
) -> None:
    home.prepare()
    with open("/dev/full", "w", encoding="utf-8") as full:
        full.reconfigure(write_through=is_unbuffered)
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        monkeypatch.undo()

    assert ended.value.code == 1
    assert capfd.readouterr().err == CANNOT_BE_WRITTEN


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_nothing_is_left_to_be_written_when_the_interpreter_ends(home: Home) -> None:
    home.prepare()
    command = f"{sys.executable} -m engram.cli.main config > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (1, CANNOT_BE_WRITTEN)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.write_bytes(b"not a database " * 500), "is damaged"),
        (lambda path: path.write_bytes(b"short"), "is damaged"),
        (lambda path: path.mkdir(), "is not a regular file"),
    ],
    ids=["garbage", "cut short", "a folder"],
)
def test_a_damaged_memory_says_what_tells_more(
    home: Home, capsys: pytest.CaptureFixture[str], make: Callable[[Path], object], told: str
) -> None:
    make(home.prepare().memory_db)

    with pytest.raises(SystemExit):
        main(["timeline"])

    error = capsys.readouterr().err
    assert told in error
    assert error.endswith("Run `engram doctor` to see what to do\n")
    assert "PRAGMA" not in error
    assert "SELECT" not in error


def test_output_survives_a_terminal_without_unicode() -> None:
    run_command("save", "--global", "Ünïcode 数据")

    result = engram("export", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    shown = engram("timeline", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert result.returncode == shown.returncode == 0
    assert "\\u6570" in result.stdout


def test_a_question_in_another_script_is_understood_in_the_c_locale() -> None:
    run_command("save", "--global", "פריסה בימי שני")

    result = engram("recall", "מתי פריסה", LC_ALL="C", PYTHONUTF8="0")

    assert result.returncode == 0
    assert "פריסה בימי שני" in result.stdout


def test_a_fault_is_one_line_and_its_traceback_goes_to_the_log(
    monkeypatch: pytest.MonkeyPatch, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the fault of a test")

    home.prepare()
    monkeypatch.setattr("engram.cli.setup_commands.print_json", broken)

    with pytest.raises(SystemExit) as ended:
        main(["config", "--json"])

    assert ended.value.code == 70
    assert capsys.readouterr().err.startswith("Error: a bug in Engram (ZeroDivisionError)")
    assert "the fault of a test" in (home.logs / "cli.log").read_text()
    assert "Traceback" in (home.logs / "cli.log").read_text()


def test_a_warning_goes_to_the_log_and_not_between_what_a_command_says(home: Home) -> None:
    made = json.loads(run_command("save", "--global", "The buoy is red", "--json").stdout)["id"]
    assert not (home.logs / "cli.log").exists()
    (home.root / "memory.broken.db").write_bytes(b"no database at all " * 500)

    told = engram("forget", made, "--yes")

    assert told.stderr == ""
    assert "Deleted 1 damaged copy of memory.db" in told.stdout
    assert "copy=memory.broken.db" in (home.logs / "cli.log").read_text()


def test_ctrl_c_ends_a_command_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engram.cli.setup_commands.print_json", interrupted)

    with pytest.raises(SystemExit) as ended:
        main(["config", "--json"])

    assert ended.value.code == 130


def test_every_file_that_a_command_makes_is_private(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(SAMPLES))

    assert run_command("up", "--once").returncode == 0

    open_files = [path for path in home.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert open_files == []


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (("--help",), {"numpy", "torch", "sentence_transformers", "openai", "onnxruntime", "mcp", "huey", "watchdog"}),
        (("status",), {"torch", "sentence_transformers", "openai", "mcp", "huey", "watchdog", "psycopg", "pydantic"}),
        (("recall", "pnpm"), {"torch", "sentence_transformers", "openai", "mcp", "huey", "watchdog", "psycopg"}),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: tuple[str, ...], absent: set[str], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom engram.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\nfinally:\n"
        f"    print(sorted({absent!r} & set(sys.modules)), file=sys.stderr)"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert result.stderr.strip().splitlines()[-1] == "[]"


def test_who_asks_the_worker_loads_no_search_and_nothing_that_changes_a_memory(run: Run) -> None:
    run("status")
    # The question's terms and their counts are loaded (6 ms of 160), because what is printed is cut around them.
    absent = {
        *("numpy", "engram.search.searcher", "engram.search.ranking", "engram.search.vectors.vector_index"),
        *(
            "engram.models.forgetting.forget_memories",
            "engram.models.memories.memory_changes",
            "engram.ingest.session_project",
        ),
    }
    code = (
        "import sys, pathlib\n"
        "import engram.cli.recall_commands\n"
        "from engram.cli.workspace import Workspace, find_project\n"
        "workspace = Workspace({})\n"
        "with workspace.store() as store:\n"
        "    find_project(store, workspace.settings, None)\n"
        f"print(sorted({absent!r} & set(sys.modules)))"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert result.stdout.strip() == "[]", result.stderr


def test_the_help_is_one_screen_with_every_command_and_begins_with_what_a_user_types(run: Run) -> None:
    shown = run("--help").stdout

    named = {word.strip(",") for line in shown.splitlines() for word in line.split()}
    assert set(engram_group.list_commands(click.Context(engram_group))) <= named
    assert len(shown.splitlines()) <= 45
    assert max(len(line) for line in shown.splitlines()) <= 82
    assert shown.index("Example: engram recall") < shown.index("Ask") < shown.index("Keep and fix")
    assert shown.index("Look") < shown.index("Set up") < shown.index("Share") < shown.index("Advanced")


def test_help_is_a_word_too(run: Run) -> None:
    assert run("help").stdout == run("--help").stdout
    assert run("help", "service", "run").stdout == run("service", "run", "--help").stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("bad", "ep_0", "--why", "gone"), ("feedback", "ep_0", "wrong", "--why", "gone")),
        (("bad", "ep_0", "--off"), ("feedback", "ep_0", "--off")),
        (("contradictions", "both", "99"), ("review", "both", "99")),
        (("contradictions", "--json"), ("review", "--json")),
        (("ingest", "/nowhere"), ("up", "--once", "--no-memories", "/nowhere")),
        (("ingest", "--json"), ("up", "--once", "--no-memories", "--json")),
        (("hooks", "--json"), ("setup", "hooks", "--json")),
        (("plugin", "--json"), ("setup", "plugin", "--json")),
        (("model", "fetch", "--help"), ("setup", "model", "--help")),
        (("watch", "--help"), ("service", "run", "watcher", "--help")),
    ],
)
def test_a_word_of_an_earlier_version_does_the_same_and_says_the_new_one_on_stderr(
    run_anyhow: Run, old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    run_anyhow(*new)

    before, after = run_anyhow(*old), run_anyhow(*new)

    said, _, rest = before.stderr.partition("\n")
    assert said.startswith(f"`engram {old[0]}` is now `engram {new[0]}")
    assert (before.exit_code, before.stdout, rest) == (after.exit_code, after.stdout, after.stderr)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("recal", "recall"),
        ("timline", "timeline"),
        ("delete", "forget"),
        ("remember", "save"),
        ("stop", "service"),
        ("ask", "recall"),
        ("Doctor", "doctor"),
        ("unins", "uninstall"),
    ],
)
def test_an_unknown_command_names_the_one_that_may_be_meant(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([word])

    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"Error: there is no command {word!r}. Did you mean `engram {meant}`? `engram --help` lists all commands.\n"
    )


def test_completing_a_command_loads_none() -> None:
    code = (
        "import sys\nfrom engram.cli.main import engram\nimport click\n"
        "items = engram.shell_complete(click.Context(engram), 're')\n"
        "print([item.value for item in items], [name for name in sys.modules if name.endswith('_commands')])"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert result.stdout.strip() == "['recall', 'review', 'report', 'restore'] []"


@pytest.mark.parametrize("words", [[], ["service"], ["projects", "--help"]])
def test_a_group_without_a_command_shows_what_there_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)

    said = capsys.readouterr()
    assert said.out.startswith("Usage: engram")
    assert "Error" not in said.out + said.err
