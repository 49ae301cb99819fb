"""The edge of the command line: expected failures in one line, faults in the log, a quick and light start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from engram.cli.main import COMMANDS, main
from engram.cli.up_commands import SAMPLES
from engram.paths import Home

Run = Callable[..., Result]


def engram(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the real command line as a process of its own."""
    environment = {**os.environ, "ENGRAM_EMBEDDING_MODEL": "hashed", "CLAUDE_CONFIG_DIR": str(SAMPLES), **more}
    return subprocess.run(
        [sys.executable, "-m", "engram.cli.main", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_expected_failure_is_one_line_and_code_1(home: Home) -> None:
    home.prepare()
    home.config_file.write_text("bites = -1\n")

    result = engram("status")

    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.strip() == "Error: the setting bites = -1 must not be negative"


def test_an_unknown_command_is_a_usage_error() -> None:
    assert engram("fly").returncode == 2


def test_help_works_with_a_broken_configuration(home: Home) -> None:
    home.prepare()
    home.config_file.write_text("bites = = 3")

    assert "Commands:" in engram("--help").stdout
    assert engram("recall", "--help").returncode == 0


def test_a_closed_pipe_is_no_failure() -> None:
    engram("up", "--once", "--json")

    result = subprocess.run(
        f"{sys.executable} -m engram.cli.main export | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (result.stdout, result.stderr) == ("{", "")


def test_output_survives_a_terminal_without_unicode() -> None:
    engram("save", "--global", "Ünïcode 数据")

    result = engram("export", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    shown = engram("timeline", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert result.returncode == shown.returncode == 0
    assert "\\u6570" in result.stdout


def test_a_fault_is_one_line_and_its_traceback_goes_to_the_log(
    monkeypatch: pytest.MonkeyPatch, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("the fault of a test")

    home.prepare()
    monkeypatch.setattr("engram.cli.config_commands.print_json", broken)

    with pytest.raises(SystemExit) as ended:
        main(["config", "--json"])

    assert ended.value.code == 70
    assert capsys.readouterr().err.startswith("Error: a bug in Engram (ZeroDivisionError)")
    assert "the fault of a test" in (home.logs / "cli.log").read_text()
    assert "Traceback" in (home.logs / "cli.log").read_text()


def test_ctrl_c_ends_a_command_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engram.cli.config_commands.print_json", interrupted)

    with pytest.raises(SystemExit) as ended:
        main(["config", "--json"])

    assert ended.value.code == 130


def test_every_file_that_a_command_makes_is_private(home: Home) -> None:
    engram("up", "--once")

    open_files = [path for path in home.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert open_files == []


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (("--help",), {"numpy", "torch", "sentence_transformers", "openai", "onnxruntime", "mcp", "huey", "watchdog"}),
        (("status",), {"torch", "sentence_transformers", "openai", "mcp", "huey", "watchdog", "psycopg"}),
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


def test_the_help_lists_every_command(run: Run) -> None:
    shown = run("--help").stdout

    assert all(f"\n  {name} " in shown for name in COMMANDS if name != "bench")
