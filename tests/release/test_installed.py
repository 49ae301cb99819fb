"""Wheel and source distribution, installed as a user installs them, start and remember.

The soak part makes environments with pip, uv and pipx, which takes minutes and the package index; it runs with
``make soak``. What a machine does not have (an interpreter, uv, pipx) is skipped by name.
"""

from __future__ import annotations

import email
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
SAMPLES = REPO / "engram" / "samples"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
#: Goal for a fresh environment, in megabytes.
MAX_ENVIRONMENT_MB = 400
COMMANDS = {"engram", "engram-recall", "engram-mcp"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, bundled_folder: Path) -> Path:
    """A folder with the source distribution and the wheel of this tree."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs hatchling (dependency group dev)")
    folder = tmp_path_factory.mktemp("dist")
    build(REPO, folder, "sdist", "wheel")
    return folder


def build(tree: Path, folder: Path, *targets: str) -> None:
    chosen = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", *chosen, "-d", str(folder)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True, timeout=170)


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_source_distribution_makes_the_same_wheel(built: Path, bundled_folder: Path, tmp_path: Path) -> None:
    (source,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    # What the build would fetch from the package index.
    shutil.copytree(bundled_folder, tree / "engram" / "embedding" / "bundled", dirs_exist_ok=True)
    build(tree, tmp_path / "again", "wheel")
    (again,) = (tmp_path / "again").glob("*.whl")

    assert files_in(again) == files_in(wheel)
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "Makefile", "docs/README.md", "tests/conftest.py"):
        assert (tree / name).is_file(), name


def test_the_wheel_says_what_it_is(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        facts = email.message_from_bytes(archive.read(name))
        entry_points = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    names = files_in(wheel)

    assert facts["Name"] == "engram-recall"
    assert facts["Version"] in (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    assert facts["Requires-Python"] == ">=3.11"
    assert not [line for line in facts.get_all("Requires-Dist", []) if "torch" in line and "extra" not in line]
    assert {line.split(" =")[0] for line in entry_points.splitlines() if " =" in line} == COMMANDS
    assert {"engram/py.typed", "engram_hooks/block.py", "engram_mcp/server.py"} <= names
    assert any(name.startswith("engram/samples/projects/") for name in names)


# -- as a user installs it


def interpreter(version: str) -> str:
    """An interpreter of a version on this machine; skips the test if there is none."""
    roots = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    roots += sorted(Path("/root/.pyenv/versions").glob(f"{version}.*/bin/python")) if os.geteuid() == 0 else []
    named = shutil.which(f"python{version}")
    for candidate in [*map(str, roots), *([named] if named else [])]:
        check = subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True, check=False)
        if check.returncode == 0:
            return candidate
    pytest.skip(f"there is no Python {version} on this machine")


def tool(name: str) -> str:
    """A program on PATH, or next to this interpreter; skips the test if it is missing."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not on this machine")
    return found


def remember(command: Path, user: Path) -> None:
    """Read the sample sessions with an installed Engram, and ask it."""
    shutil.copytree(SAMPLES, user / ".claude")
    environment = {"HOME": str(user), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [str(command), *arguments],
            env=environment,
            cwd=user,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "0.1.0" in run("--version")
    run("up", "--once")
    hits = json.loads(run("recall", "how do we round VAT", "--json"))["hits"]
    assert "vat_cents" in hits[0]["text"]
    assert "_engram_completion" in run("completion", "bash")
    assert json.loads(run("setup", "hooks"))["mcpServers"]["engram"]


def megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_in_a_fresh_environment(built: Path, tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    (wheel,) = built.glob("*.whl")
    subprocess.run([python, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, capture_output=True)
    python_of_venv = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python_of_venv),
            "install",
            "--quiet",
            "--no-compile",
            str(wheel),
        ],
        check=True,
        capture_output=True,
        timeout=800,
    )

    remember(tmp_path / "venv" / "bin" / "engram", tmp_path / "user")
    torch = subprocess.run([python_of_venv, "-c", "import torch"], capture_output=True, check=False)

    assert torch.returncode != 0
    assert megabytes(tmp_path / "venv") <= MAX_ENVIRONMENT_MB


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_uv_tool_install_from_a_checkout(tmp_path: Path) -> None:
    uv = tool("uv")
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    named = {"UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never"}
    environment = os.environ | places | named
    # uv tool install . / uv tool install --reinstall .
    for words in (["install", "."], ["install", "--reinstall", "."]):
        subprocess.run([uv, "tool", *words], cwd=REPO, env=environment, check=True, capture_output=True, timeout=800)

    assert {path.name for path in (tmp_path / "bin").iterdir()} >= COMMANDS
    remember(tmp_path / "bin" / "engram", tmp_path / "user")
    assert megabytes(tmp_path / "tools") <= MAX_ENVIRONMENT_MB


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_pipx_install_of_the_wheel(built: Path, tmp_path: Path) -> None:
    pipx = tool("pipx")
    (wheel,) = built.glob("*.whl")
    places = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    subprocess.run(
        [pipx, "install", "--python", sys.executable, str(wheel)],
        env=os.environ | places,
        check=True,
        capture_output=True,
        timeout=800,
    )

    assert {path.name for path in (tmp_path / "bin").iterdir()} >= COMMANDS
    remember(tmp_path / "bin" / "engram", tmp_path / "user")


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_make_run_in_a_fresh_checkout(tmp_path: Path) -> None:
    tool("make")
    named = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, capture_output=True, text=True).stdout
    tree = tmp_path / "engram"
    for name in filter(None, named.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPO / name, tree / name)
    user = {"HOME": str(tmp_path / "user"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    (tmp_path / "user").mkdir()

    # make run ARGS=--once
    command = ["make", "run", "ARGS=--once", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tree, env=user, capture_output=True, text=True, timeout=800, check=False)

    assert done.returncode == 0, done.stderr
    assert "13 new" in done.stdout
    assert (tree / ".engram-sample" / "memory.db").is_file()
    assert megabytes(tree / ".venv") <= MAX_ENVIRONMENT_MB
