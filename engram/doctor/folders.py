"""Checks of the folders: can the memory folder be written, and are the sessions where Engram looks for them?"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from engram.causes import explain_error
from engram.doctor.machine import Machine
from engram.models.transcripts import all_seen, is_changed
from engram.reports.checks import Check, State
from engram.transcripts.claude_code.retention import SOON_DAYS, find_expiring
from engram.transcripts.registry import discover


def check_writable(machine: Machine) -> Iterator[Check]:
    """Check that the memory folder and what lies in it can be written: a file is written and removed."""
    home = machine.home
    probe = home.root / f".doctor.{os.getpid()}.tmp"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
        probe.unlink()
        blocked = [path for path in (home.memory_db, home.logs, home.recollections) if _is_blocked(path)]
        if not blocked:
            return
        detail = f"{blocked[0]} can't be written"
    except OSError as error:
        detail = f"{home.root} can't be written: {explain_error(error)}"
    command = f"chmod -R u+rwX {shlex.quote(str(home.root))}"
    yield Check(
        "unwritable",
        State.BAD,
        detail,
        f"free the disk, mount it for writing, or run: {command}",
        command=command,
        public="the memory folder can't be written",
    )


def _is_blocked(path: Path) -> bool:
    return path.exists() and not os.access(path, os.W_OK)


def check_claude_folder(machine: Machine) -> Iterator[Check]:
    """Check that no other configuration folder of Claude Code has newer sessions than those that are read."""
    ours = machine.settings.claude_folder
    read = machine.settings.all_claude_folders
    newest = max(map(_newest_session, read))
    named = machine.environ.get("CLAUDE_CONFIG_DIR", "")
    for folder in dict.fromkeys([Path(named).expanduser() if named else ours, Path.home() / ".claude"]):
        if folder.absolute() not in read and _newest_session(folder) > newest:
            command = f"engram config set claude_folder {shlex.quote(str(folder.absolute()))}"
            yield Check(
                "sessions elsewhere",
                State.WARN,
                f"Claude Code's newest sessions are in {folder}, and Engram reads {ours}",
                f"if that is where you work, run: {command}. To read it as well, name it in claude_folders",
                command=command,
                public="a newer session in another configuration folder",
            )


def _newest_session(folder: Path) -> float:
    """When a session in a configuration folder changed last, in seconds; 0 if there is none."""
    newest = 0.0
    for path in (folder / "projects").glob("*/*.jsonl"):
        try:
            newest = max(newest, min(path.stat().st_mtime, time.time()))
        except OSError:
            continue
    return newest


def check_cleanup(machine: Machine) -> Iterator[Check]:
    """Check that Claude Code is not about to delete sessions that were not read yet."""
    if machine.store is None:
        return
    sources = discover(machine.settings)
    retention = find_expiring(sources, machine.settings.all_claude_folders, time.time())
    seen = all_seen(machine.store)
    unread = [source for source in retention.expiring if is_changed(source, seen.get(source.place))]
    if unread:
        yield Check(
            "cleanup",
            State.WARN,
            f"Claude Code deletes {len(unread)} unread sessions within {SOON_DAYS} days: it keeps them for "
            f"{retention.days} days (cleanupPeriodDays)",
            "read them now: engram up --once",
            command="engram up --once",
            public=f"{len(unread)} unread sessions, cleanupPeriodDays = {retention.days}",
        )
