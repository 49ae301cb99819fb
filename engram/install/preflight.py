"""What must be true before anything is changed; each failure says what to do."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from engram.embedding.source import BUNDLED, is_bundled_intact
from engram.errors import InstallError
from engram.settings import Settings
from engram.version import SOURCE

#: Free space that an installation needs, in bytes.
MIN_FREE_BYTES = 300_000_000
#: Parts of the path of an interpreter that is gone soon: `uvx` and `pipx run` delete their environments.
_TEMPORARY_PARTS = ("archive-v0", "builds-v0", ".cache/pipx", "pipx/.cache")


def check_machine(settings: Settings, *, is_dry: bool = False, interpreter: str = sys.executable) -> None:
    """Check the user, the interpreter, the memory folder and Claude Code's folder.

    Args:
        is_dry: don't create the memory folder.
        interpreter: the interpreter of the hooks and the service.

    Raises:
        InstallError: an installation would not work.
        HomeError: the memory folder can't be used.
    """
    if os.geteuid() == 0 and os.environ.get("SUDO_USER", "root") != "root":
        raise InstallError("Engram belongs to one user: run `engram install` without sudo")
    if not interpreter or not os.access(interpreter, os.X_OK):
        raise InstallError(
            f"Python's interpreter {interpreter!r} can't be run by others. Install Engram in a new environment"
        )
    if any(part in interpreter for part in _TEMPORARY_PARTS):
        raise InstallError(
            f"{interpreter} is a temporary environment, which will be deleted. Install Engram first, with "
            f"`uv tool install {SOURCE}` or `pipx install {SOURCE}` in Engram's folder, then run `engram install`"
        )
    if settings.embedding_model == BUNDLED and not is_bundled_intact():
        raise InstallError("the bundled model is missing or damaged. Install Engram again")
    if not is_dry:
        settings.places.prepare()
    free = shutil.disk_usage(_existing(settings.home)).free
    if free < MIN_FREE_BYTES:
        needed = f"Free {MIN_FREE_BYTES / 1e6:.0f} MB first"
        raise InstallError(f"only {free / 1e6:.0f} MB are free on the disk of {settings.home}. {needed}")
    for folder in settings.all_claude_folders:
        _check_folder(folder)


def _check_folder(folder: Path) -> None:
    """Claude Code's folder, or the first one above it that exists, takes files."""
    existing = _existing(folder)
    if not existing.is_dir():
        raise InstallError(f"{existing} is not a folder. Move it away, or set CLAUDE_CONFIG_DIR")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InstallError(f"{existing} is not writable. Make it writable, or set CLAUDE_CONFIG_DIR to another folder")


def _existing(folder: Path) -> Path:
    """The folder, or the first one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
