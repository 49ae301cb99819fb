"""What every test may use: the shared data where it is at hand, a private home, nothing of the real machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram.embedding.embedder import Embedder

REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data beside the checkout; skips the test where it is absent."""
    folder = Path(os.environ.get("ENGRAM_SHARED", REPO.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("the shared data folder is not beside this checkout (set ENGRAM_SHARED to name it)")
    return folder


@pytest.fixture(scope="session")
def corpus(shared: Path) -> Path:
    """The folder of real sessions; skips the test where it is absent."""
    folder = shared / "corpus"
    if not folder.is_dir():
        pytest.skip("the corpus of real sessions is not at hand")
    return folder


@pytest.fixture(autouse=True)
def private_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's own home, settings or transcripts."""
    for name in [n for n in os.environ if n.startswith(("ENGRAM_", "CLAUDE_")) and n != "ENGRAM_SHARED"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("ENGRAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))


@pytest.fixture(scope="session", autouse=True)
def bundled_folder() -> Path:
    """The folder of the bundled model; made here if this checkout was never installed."""
    from engram.embedding.source import BUNDLED_FOLDER

    if not (BUNDLED_FOLDER / "model.safetensors").is_file():
        subprocess.run([sys.executable, str(REPO / "hatch_build.py")], check=True, timeout=900)
    return BUNDLED_FOLDER


@pytest.fixture(scope="session")
def bundled(bundled_folder: Path) -> Embedder:
    """The bundled model, ready to run."""
    from engram.embedding.load import load_embedder

    return load_embedder("bundled", bundled_folder, compile_if_missing=False)
