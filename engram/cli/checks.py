"""What ``engram doctor`` looks at: each check says how it is and what to do about it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engram.embedding.extra import INSTALL_COMMAND, has_extra
from engram.embedding.load import needs_compiling
from engram.embedding.source import BUNDLED, HASHED, is_bundled_intact
from engram.errors import EmbeddingError, StoreError
from engram.ingest.moves import find_moves
from engram.models import counts
from engram.models.database import SAFE_SQLITE, sqlite_version
from engram.models.sessions import paused_scopes
from engram.models.soundness import find_all_damage
from engram.models.store import Store
from engram.models.work import WorkState, list_work, note_failure
from engram.reports.health import Health
from engram.settings import Settings

#: Less free disk than this is worth a word, in bytes.
_DISK_BYTES = 500_000_000


#: Beginnings of the names of databases that were set aside.
_SET_ASIDE = {
    "memory.v2": "another program's database",
    "memory.broken": "a damaged database",
    "memory.replaced": "the database from before a restore",
}


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    #: Works, but somebody should know.
    WARN = "warn"
    #: Does not work.
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    detail: str
    #: What to do; "" where all is well.
    advice: str = ""


def check_all(store: Store, settings: Settings, health: Health) -> list[Check]:
    """Every check but that of Claude Code's side."""
    return [
        *_program(store),
        *_home(settings),
        *_memory(store),
        *_transcripts(settings, health),
        *_processes(health),
        *_model(settings),
        *_moves(store),
        *_leftovers(store, settings, health),
    ]


def _moves(store: Store) -> Iterator[Check]:
    """Projects whose folder is gone and that may be another one now."""
    for move in find_moves(store):
        former, present = move.former.project, move.present.project
        yield Check(
            "moved project",
            State.WARN,
            f"the folder of {former.name} is gone ({former.root}); {present.name} ({present.root}) may be the same",
            f"if it is: engram projects merge {present.name} {former.name}",
        )


def _program(store: Store) -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", State.OK, f"{version}, {sys.executable}")
    number = sqlite_version(store.driver)
    text = f"{store.driver} with SQLite {'.'.join(map(str, number))}"
    if number >= SAFE_SQLITE:
        yield Check("driver", State.OK, text)
    else:
        yield Check(
            "driver", State.WARN, f"{text}; before {'.'.join(map(str, SAFE_SQLITE))} several processes may damage a file",
            "install cysqlite (it brings its own SQLite): pip install cysqlite",
        )  # fmt: skip


def _home(settings: Settings) -> Iterator[Check]:
    places = settings.places
    mode = stat.S_IMODE(places.root.stat().st_mode)
    open_files = [path for path in places.root.rglob("*") if _is_open(path)]
    if mode & 0o077 or open_files:
        named = ", ".join(str(path.relative_to(places.root)) for path in open_files[:3])
        yield Check(
            "memory folder", State.BAD, f"{places.root} is open to other users (mode {mode:04o}{', ' + named if named else ''})",
            f"chmod -R go-rwx {places.root}",
        )  # fmt: skip
    else:
        yield Check("memory folder", State.OK, f"{places.root}, mode {mode:04o}")
    free = shutil.disk_usage(places.root).free
    if free < _DISK_BYTES:
        yield Check(
            "disk", State.WARN, f"{free / 1e6:.0f} MB are free", "make room: nothing is read while the disk is full"
        )
    for path in sorted(places.root.glob("memory.*.db")):
        what = next((what for part, what in _SET_ASIDE.items() if path.name.startswith(part)), "")
        if what:
            yield Check("set aside", State.WARN, f"{what} was moved to {path}", "keep it or delete it by hand")


def _is_open(path: Path) -> bool:
    """True for a file that other users may read or write."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(found) and bool(stat.S_IMODE(found) & 0o077)


def _memory(store: Store) -> Iterator[Check]:
    damage = find_all_damage(store)
    if damage:
        # The next start of the worker looks closely, builds an index anew, or sets the file aside.
        with contextlib.suppress(StoreError):
            note_failure(store, "memory", f"engram doctor found damage: {damage}")
        yield Check("memory.db", State.BAD, damage, "start the worker anew: it mends that, or sets the file aside; engram "
                    "restore brings a backup back")  # fmt: skip
    else:
        yield Check("memory.db", State.OK, f"sound, {store.path.stat().st_size / 1e6:.1f} MB")


def _transcripts(settings: Settings, health: Health) -> Iterator[Check]:
    folder = settings.projects_folder
    if not folder.is_dir():
        yield Check(
            "transcripts", State.BAD, f"there is no {folder}",
            "start Claude Code once, or name its configuration folder: CLAUDE_CONFIG_DIR or --claude-folder",
        )  # fmt: skip
    elif not os.access(folder, os.R_OK | os.X_OK):
        yield Check("transcripts", State.BAD, f"{folder} cannot be read", f"chmod u+rx {folder}")
    else:
        yield Check("transcripts", State.OK, f"{health.unread.found} files in {folder}")


def _processes(health: Health) -> Iterator[Check]:
    for name, state in (("watcher", health.watcher), ("worker", health.worker)):
        if state.is_alive:
            yield Check(name, State.OK, f"running, pid {state.pid}, {state.rss_mb} MB")
    for trouble in health.troubles():
        name = trouble.about if trouble.about in ("watcher", "worker") else f"stage {trouble.about}"
        yield Check(name, State.BAD if trouble.is_broken else State.WARN, trouble.text, trouble.advice)


def _model(settings: Settings) -> Iterator[Check]:
    if settings.embedding_model == HASHED:
        yield Check("model", State.WARN, "hashed: words alone, no meaning", 'take a model: embedding_model = "bundled"')
        return
    if settings.embedding_model == BUNDLED:
        if is_bundled_intact():
            yield Check("model", State.OK, "bundled")
        else:
            yield Check("model", State.BAD, "the bundled model is missing or damaged", "install Engram again")
        return
    try:
        is_ready = not needs_compiling(settings.embedding_model, settings.places.models)
    except EmbeddingError as error:
        yield Check("model", State.BAD, str(error), "correct the setting embedding_model")
        return
    if is_ready:
        yield Check("model", State.OK, f"{settings.embedding_model}, ready to run")
    elif not has_extra():
        yield Check(
            "model",
            State.BAD,
            f"{settings.embedding_model} needs packages that are not installed: searches use text alone",
            INSTALL_COMMAND,
        )
    else:
        yield Check(
            "model",
            State.WARN,
            f"{settings.embedding_model} is not compiled: searches outside the worker use text alone",
            "the worker compiles it when it starts: engram up",
        )


def _leftovers(store: Store, settings: Settings, health: Health) -> Iterator[Check]:
    totals = health.totals
    for fault in counts.read_faults(store, 5):
        where = fault.path if fault.offset is None else f"{fault.path} at byte {fault.offset}, {fault.length} bytes"
        yield Check("not readable", State.WARN, f"{where}: {fault.reason}", "nothing: the rest of the file is read")
    if totals.bad_lines > 5:
        yield Check("not readable", State.WARN, f"{totals.bad_lines} lines in all", "nothing: the rest is read")
    dead = list_work(store, (WorkState.DEAD,))
    if dead:
        yield Check(
            "given up", State.BAD, f"{len(dead)} pieces of work failed too often, such as {dead[0].kind}: {dead[0].last_error}",
            "after the cause is gone: engram tasks retry --dead",
        )  # fmt: skip
    if totals.suspects:
        yield Check(
            "suspect", State.WARN, f"{totals.suspects} memories look like instructions and are never injected",
            "see them: engram export, and forget or edit them",
        )  # fmt: skip
    for scope in sorted(paused_scopes(store)):
        what = scope or "everything"
        advice = (
            "engram tasks resume"
            if scope == "tasks"
            else "engram pause --off" + (f" --project {scope}" if scope else "")
        )
        yield Check("paused", State.WARN, f"{what} is paused", advice)
    if not settings.capture or not settings.inject or settings.extractor == "off":
        off = [name for name in ("capture", "inject") if not getattr(settings, name)]
        off += ["extractor"] if settings.extractor == "off" else []
        yield Check("switched off", State.WARN, ", ".join(off), "engram config shows where each setting comes from")


def claude_json(settings: Settings) -> Path:
    """Claude Code's file of user settings that holds MCP servers."""
    default = Path.home() / ".claude"
    return (
        Path.home() / ".claude.json" if settings.claude_folder == default else settings.claude_folder / ".claude.json"
    )
