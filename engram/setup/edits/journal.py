"""An installation's journal, in the memory folder: what was there before, what was written, and how far it got.

It is written before each change, so that the next run can finish or undo a killed installation. The previous contents
of changed files are stored next to it, in files named after their digests. They may contain keys, as the original files
did, and uninstall deletes them.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.paths import Home
from engram.setup.edits.file_state import FileState, StateKind, digest_of
from engram.system.atomic import make_private_folder, read_regular, write_atomic

#: Version of the journal's format.
VERSION = 1
#: Maximum size of a journal that is read, in bytes.
_LIMIT_BYTES = 16_000_000


class Phase(StrEnum):
    """What the installer is or was doing."""

    INSTALLING = "installing"
    INSTALLED = "installed"
    #: A failed installation is being undone.
    UNDOING = "undoing"
    UNINSTALLING = "uninstalling"


@dataclass(slots=True)
class FileRecord:
    path: str
    #: The file that ``path`` resolves to.
    real: str
    step: str
    #: Its state before Engram changed it.
    original: FileState
    #: Its state as Engram wrote it.
    written: FileState
    #: What an edit did: ``{"json": AppliedJson}`` or ``{"toml": AppliedToml}``; None for a file of Engram's own.
    applied: dict[str, Any] | None = None
    is_written: bool = False

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> FileRecord:
        states = {name: FileState.from_json(stored[name]) for name in ("original", "written")}
        return cls(**{**stored, **states})


@dataclass(slots=True)
class StepRecord:
    name: str
    summary: str
    before: list[dict[str, Any]] = field(default_factory=list)
    after: list[dict[str, Any]] = field(default_factory=list)
    #: Its changes, without contents (``install_run.change_to_json``).
    changes: list[dict[str, Any]] = field(default_factory=list)
    #: True if its actions may have been applied.
    is_begun: bool = False
    is_done: bool = False


@dataclass(slots=True)
class Ledger:
    """All steps and files of an installation."""

    steps: list[StepRecord] = field(default_factory=list)
    files: dict[str, FileRecord] = field(default_factory=dict)
    #: Folders that were created for the files, outer ones first.
    folders: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": [asdict(step) for step in self.steps],
            "files": [asdict(record) for record in self.files.values()],
            "folders": self.folders,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Ledger:
        records = [FileRecord.from_json(record) for record in stored["files"]]
        return cls(
            steps=[StepRecord(**step) for step in stored["steps"]],
            files={record.path: record for record in records},
            folders=list(stored["folders"]),
        )

    def step(self, name: str) -> StepRecord | None:
        return next((step for step in self.steps if step.name == name), None)


@dataclass(slots=True)
class Journal:
    phase: Phase
    #: The user's choices, for the next installation.
    options: dict[str, Any] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    #: The previous installation, which is restored if the current one fails.
    previous: Ledger = field(default_factory=Ledger)
    #: Path of each file that the current installation changed → its state before.
    before: dict[str, FileState] = field(default_factory=dict)
    #: Version of Engram that wrote it.
    engram: str = ""

    @property
    def is_half_done(self) -> bool:
        """True if an installation or its removal was interrupted."""
        return self.phase is not Phase.INSTALLED


def folder_of(home: Home) -> Path:
    return home.install_journal.parent


def load_journal(home: Home) -> Journal | None:
    """Return the journal; None if there was no installation, or it was undone completely.

    Raises:
        InstallError: it can't be read, or a newer version wrote it.
    """
    path = home.install_journal
    data = read_regular(path, _LIMIT_BYTES)
    if data is None:
        return None
    try:
        stored = json.loads(data)
        if stored["version"] > VERSION:
            raise InstallError(f"a newer version of Engram wrote {path}. Update Engram")
        return Journal(
            phase=Phase(stored["phase"]),
            options=stored["options"],
            ledger=Ledger.from_json(stored["ledger"]),
            previous=Ledger.from_json(stored["previous"]),
            before={path: FileState.from_json(state) for path, state in stored["before"].items()},
            engram=stored["engram"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        folder = folder_of(home)
        move = shlex.join(["mv", str(folder), f"{folder}-damaged"])
        raise InstallError(
            f"{path} is damaged ({error}). Run: {move}, which keeps the files as they were before; then try again"
        ) from error


def save_journal(home: Home, journal: Journal) -> None:
    """Write the journal. Raises OSError."""
    make_private_folder(folder_of(home), with_parents=True)
    stored = {
        "version": VERSION,
        "phase": journal.phase.value,
        "engram": journal.engram,
        "options": journal.options,
        "ledger": journal.ledger.to_json(),
        "previous": journal.previous.to_json(),
        "before": {path: asdict(state) for path, state in journal.before.items()},
    }
    write_atomic(home.install_journal, json.dumps(stored, indent=1).encode())


def keep_content(home: Home, data: bytes) -> str:
    """Store a file's content and return its digest. Raises OSError."""
    digest = digest_of(data)
    folder = make_private_folder(folder_of(home) / "originals", with_parents=True)
    if not (folder / digest).is_file():
        write_atomic(folder / digest, data)
    return digest


def kept_content(home: Home, state: FileState) -> bytes:
    """Return the content of a file's state. Raises InstallError if it is missing."""
    if state.kind is not StateKind.FILE:
        return b""
    path = folder_of(home) / "originals" / state.digest
    try:
        return path.read_bytes()
    except OSError as error:
        raise InstallError(f"the backup {path} is missing") from error


def drop_contents(home: Home, states: Iterable[FileState]) -> None:
    """Delete stored contents except those of ``states``. Raises OSError."""
    wanted = {state.digest for state in states}
    for path in (folder_of(home) / "originals").glob("*"):
        if path.name not in wanted:
            path.unlink(missing_ok=True)


def drop_journal(home: Home) -> None:
    """Delete the journal, then the stored contents, and the folder if it is empty. Raises OSError."""
    folder = folder_of(home)
    home.install_journal.unlink(missing_ok=True)
    shutil.rmtree(folder / "originals", ignore_errors=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def explain_half_done(home: Home) -> tuple[str, str] | None:
    """Return what is half done and what to do about it, one line each; None if nothing is half done.

    For ``engram doctor``, an unreadable journal is also a finding.
    """
    try:
        journal = load_journal(home)
    except InstallError as error:
        # The path may contain a full stop and a space, too.
        what, advice = re.split(r"\. (?=Run: mv |Update Engram)", str(error), maxsplit=1)
        return what, advice[:1].lower() + advice[1:]
    if journal is None or not journal.is_half_done:
        return None
    steps = journal.ledger.steps
    done = [step.name for step in steps if step.is_done]
    open_steps = [step.name for step in steps if not step.is_done]
    match journal.phase:
        case Phase.INSTALLING:
            what = (
                "an installation was interrupted. "
                f"Completed steps: {_listed(done)}; remaining steps: {_listed(open_steps)}"
            )
            return what, "run `engram install` to finish it, or `engram uninstall` to undo it"
        case Phase.UNDOING:
            what = (
                "a failed installation was not undone completely. "
                f"These files may still be changed: {_listed(list(journal.before))}"
            )
            return what, "run `engram install` to undo it and try again, or `engram uninstall`"
        case _:
            what = (
                "an uninstallation was interrupted. "
                f"These steps may not have been undone: {_listed([step.name for step in steps])}"
            )
            return what, "run `engram uninstall` to finish it, or `engram install` to install again"


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"
