"""The Makefile says clearly what is missing, and starts what it should."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not on this machine")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the Makefile and a command that prints what it was given."""
    folder = tmp_path / "a checkout"
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copyfile(MAKEFILE, folder / "Makefile")
    for name in ("pyproject.toml", "hatch_build.py"):
        (folder / name).write_text("")
    for name, text in (("engram", 'echo "claude=$CLAUDE_CONFIG_DIR" "$@"'), ("python", "exit 0")):
        (folder / ".venv" / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / ".venv" / "bin" / name).chmod(0o755)
    (folder / ".venv" / ".installed").write_text("")
    return folder


#: Without what the make that runs these tests was given.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "MAKE" not in name and name != "ARGS"}


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT
    )


def test_run_starts_up_with_samples_where_no_folder_is_named(checkout: Path) -> None:
    assert make(checkout, "run", "ARGS=--once").stdout.split()[-4:] == [
        "up",
        "--samples-in",
        ".engram-sample",
        "--once",
    ]


@pytest.mark.parametrize("is_absolute", [True, False])
def test_run_reads_another_configuration_folder(checkout: Path, is_absolute: bool) -> None:
    (checkout / "other place").mkdir()
    named = str(checkout / "other place") if is_absolute else "other place"

    result = make(checkout, "run", f"PROJECTS={named}")

    assert f"claude={checkout / 'other place'} up" in result.stdout
    assert "samples" not in result.stdout


def test_a_folder_that_is_not_there_is_named(checkout: Path) -> None:
    result = make(checkout, "run", "PROJECTS=nowhere")

    assert result.returncode != 0
    assert "PROJECTS=nowhere: there is no such folder" in result.stderr


def test_without_a_python_that_is_new_enough_it_says_what_is_needed(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")

    result = make(checkout, "run", "PYTHON=/bin/false")

    assert result.returncode != 0
    assert "Python 3.11 or newer" in result.stderr
    assert "make run PYTHON=" in result.stderr


def test_a_second_run_installs_nothing(checkout: Path) -> None:
    assert "Installing" not in make(checkout, "run").stdout


def test_a_first_run_says_in_one_line_that_it_installs_and_that_this_takes_a_while(checkout: Path) -> None:
    (checkout / ".venv" / ".installed").unlink()

    result = make(checkout, "run")

    said, *_ = result.stdout.splitlines()
    assert said.startswith("Installing Engram and its packages into .venv")
    assert "a minute or two" in said
    assert "pip" not in result.stdout
    assert result.stderr == ""


def test_make_alone_prints_the_help(checkout: Path) -> None:
    assert "make run ARGS=--once" in make(checkout).stdout


@pytest.mark.parametrize("arguments", [(), ("PROJECTS=.",)])
def test_a_signal_to_make_reaches_what_it_runs(checkout: Path, arguments: tuple[str, ...]) -> None:
    """make passes a signal on to its own child only, so that no shell may stand between them."""
    (checkout / ".venv" / "bin" / "engram").write_text("#!/bin/sh\necho parent=$PPID\n")

    with subprocess.Popen(
        ["make", "run", *arguments], cwd=checkout, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as started:
        said, _ = started.communicate(timeout=60)

    assert f"parent={started.pid}" in said
