"""The checks of ``engram doctor`` on Engram itself."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engram.config_file import line_of
from engram.embedding.load_model import needs_torch
from engram.embedding.model_source import BUNDLED, EXTRA, HASHED, has_extra, is_bundled_intact
from engram.errors import EmbeddingError, EngramError, HomeError, StoreError
from engram.extraction.model.bounded_command import run_bounded
from engram.extraction.model.claude_provider import (
    billed_key,
    call_environment,
    find_claude,
    find_moved_claude,
    seems_logged_out,
    who_pays,
)
from engram.extraction.model.provider import STAGE as PROVIDER_STAGE
from engram.extraction.model.provider import api_key_of
from engram.ingest.project_moves import find_moves
from engram.ingest.session_project import identify_folder
from engram.log import has_problems
from engram.models.engine.database import SAFE_SQLITE, sqlite_version
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_memory
from engram.models.projects.projects import list_projects, name_of_scope
from engram.models.rescue.backup import earlier_backups
from engram.models.rescue.restore import list_rescues
from engram.models.rescue.soundness import find_all_damage, quick_damage
from engram.models.sessions import reading_progress
from engram.models.work.task_runs import note_failure
from engram.models.work.work import WorkState, current_pauses, list_work
from engram.paths import current_folder, path_of
from engram.reports.health import SEE_LOG, Health, disk_trouble
from engram.reports.use_report import REPORT_DAYS, late_of_days, late_text
from engram.settings import WITHDRAWN, ConfigFault, Settings
from engram.transcripts.growing_file import line_number
from engram.transcripts.project import is_excluded
from engram.transcripts.registry import present_folders, skipped
from engram.trust.display import as_arguments, number_of
from engram.vaults import (
    explain_same_repository,
    list_vaults,
    own_vault,
    settings_around,
    settings_of,
    vault_of_identity,
    vault_of_same_repository,
)
from engram.version import install_command

#: Warn below this much free disk space, in bytes.
MIN_FREE_BYTES = 500_000_000
#: Warn if more than this share of prompts, and at least this many, were answered late.
MAX_LATE_SHARE = 0.05
MIN_LATE = 5
#: Maximum number of unreadable lines that are listed; the others are only counted.
MAX_LISTED_FAULTS = 5
#: What to do about skipped files.
_ADVICE_ON_SKIPPED = "nothing to do, unless your sessions are there"
#: Prefix of a set-aside database's file name → what the database is.
_SET_ASIDE = {
    "memory.v2": "another program's database",
    "memory.broken": "a damaged database",
    "memory.replaced": "the database from before a restore",
}


class State(StrEnum):
    OK = "ok"
    #: Works, and there is nothing to do, but the user may want to know something.
    NOTE = "note"
    #: Works, but the user should do something, or decide.
    WARN = "warn"
    #: Does not work.
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    detail: str
    #: What to do; "" if all is well. By default, advice to run ``command``.
    advice: str = ""
    #: The command that fixes it, with its arguments; "" if one command is not enough.
    command: str = ""
    #: Name of the fix that ``engram doctor --fix`` applies; "" if only the user should act.
    fix: str = ""
    #: The finding without private words, for a bug report; "" if name and state suffice.
    public: str = ""

    def __post_init__(self) -> None:
        if self.command and not self.advice:
            object.__setattr__(self, "advice", f"run: {self.command}")


def check_config(path: Path, faults: Iterable[ConfigFault]) -> Iterator[Check]:
    for name, text, stops in faults:
        line = line_of(path, name) if name else 0
        command = f"engram config unset {as_arguments(name)}" if name else ""
        detail = f"line {line} of {path}: {text}" if line else text
        if not stops:
            public = "an outdated setting" if name in WITHDRAWN else "a setting is too large"
            yield Check("config.toml", State.WARN, detail, command=command, public=public)
            continue
        mend = f"correct the line, or run: {command}" if name else "correct the file, or move it away"
        yield Check(
            "config.toml",
            State.BAD,
            detail,
            f"{mend}. Until then, no part of Engram can start",
            command=command,
            public="a setting is invalid" if name else "can't be read",
        )


def check_all(store: Store, settings: Settings, health: Health, *, is_quick: bool = False) -> list[Check]:
    """Return every check except those of Claude Code's settings and the language model.

    With ``is_quick``, the database is checked by SQLite only; reading every row takes seconds per 10,000 rows.
    """
    return [
        *_program(store),
        *_home(store, settings),
        *_memory(store, is_quick),
        *_earlier_memory(store, settings),
        *_transcripts(settings, health),
        *_processes(settings, health),
        *_model(settings),
        *_answers(store),
        *_moves(store),
        *_vaults(store, settings),
        *_leftovers(store, settings, health),
    ]


def _answers(store: Store) -> Iterator[Check]:
    """Yield the number of answers that arrived after their prompt's hook had exited."""
    by_cause, prompts = late_of_days(store)
    late = sum(by_cause.values())
    is_often = late > MAX_LATE_SHARE * prompts and late >= MIN_LATE
    text = f"{late} of {prompts} prompts in {REPORT_DAYS} days were answered too late" if prompts else "no prompt yet"
    yield Check(
        "answers in time",
        State.WARN if is_often else State.OK,
        f"{text} ({late_text(by_cause)})" if late else text,
        "late memories are injected at the next tool call; `engram status` shows what is running" if is_often else "",
        public=text,
    )


def _moves(store: Store) -> Iterator[Check]:
    """Yield projects with a missing folder, which may have moved."""
    for move in find_moves(store):
        former, present = move.former.project, move.present.project
        yield Check(
            "moved project",
            State.WARN,
            f"the folder of {former.name} is gone ({former.root}); {present.name} ({present.root}) may be the same",
            f"if it is, run: engram projects merge {as_arguments(present.name, former.name)}",
            command=f"engram projects merge {as_arguments(present.name, former.name)}",
        )


def _vaults(store: Store, settings: Settings) -> Iterator[Check]:
    """Yield the vaults that don't work, whose folder is gone, or whose repository is also at another folder."""
    places = settings.places
    if own_vault(places) is not None:
        return
    try:
        vaults = list_vaults(places)
    except HomeError as error:
        yield Check("vault", State.BAD, str(error), "fix that, or mount its disk", public="can't be read")
        return
    for vault in vaults:
        name = as_arguments(vault.name)
        try:
            settings_of(vault, settings)
            if not vault.home.memory_db.exists():
                raise StoreError(f"{vault.home.memory_db} is missing")
            with open_memory(vault.home.memory_db, driver=store.driver, is_made=False) as inner:
                damage = quick_damage(inner)
        except EngramError as error:
            damage = str(error)
        if damage:
            command = f"engram --vault {name} doctor" if vault.is_sealed else f"engram projects vault {name}"
            public = "damaged" if vault.is_sealed else "half moved"
            yield Check("vault", State.BAD, f"{vault.name}: {damage}", command=command, public=public)
        elif not vault.present_folder:
            detail = f"the folder of {vault.name} is gone ({path_of(vault.identities[0])}), which is in a vault"
            advice = f"if it was moved, run: engram --vault {name} projects link FOLDER {name}"
            yield Check("moved vault", State.WARN, detail, advice)
    here = identify_folder(current_folder(), settings)
    known = {project.identity: project.root for project in list_projects(store)} | {here.identity: here.root}
    for identity, folder in known.items():
        same = vault_of_same_repository(places, identity)
        if same is not None and vault_of_identity(places, identity) is None:
            yield Check("same repository", State.WARN, *explain_same_repository(same, folder))


def _program(store: Store) -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", State.OK, f"{version}, {sys.executable}", public=version)
    number = sqlite_version(store.driver)
    text = f"{store.driver} with SQLite {'.'.join(map(str, number))}"
    if number >= SAFE_SQLITE:
        yield Check("driver", State.OK, text, public=text)
    else:
        yield Check(
            "driver",
            State.WARN,
            f"{text}; before {'.'.join(map(str, SAFE_SQLITE))} several processes can damage a database",
            f"install cysqlite, which has its own SQLite: {shlex.quote(sys.executable)} -m pip install cysqlite",
            command=f"{shlex.quote(sys.executable)} -m pip install cysqlite",
            public=text,
        )


def _home(store: Store, settings: Settings) -> Iterator[Check]:
    places = settings.places
    mode = stat.S_IMODE(places.root.stat().st_mode)
    exposed = [path for path in places.root.rglob("*") if _is_exposed(path)]
    if mode & 0o077 or exposed:
        named = ", ".join(str(path.relative_to(places.root)) for path in exposed[:3])
        is_closed = not mode & 0o077
        yield Check(
            "memory folder",
            State.WARN if is_closed else State.BAD,
            f"{places.root} is closed to other users, but {named} in it would otherwise be open to them"
            if is_closed
            else f"{places.root} can be read by other users (mode {mode:04o}{', ' + named if named else ''})",
            command=f"chmod -R go-rwx {shlex.quote(str(places.root))}",
            fix="close-folder",
            public=f"mode {mode:04o}, {len(exposed)} exposed files",
        )
    else:
        yield Check("memory folder", State.OK, f"{places.root}, mode {mode:04o}")
    free = shutil.disk_usage(places.root).free
    if trouble := disk_trouble(places):
        yield Check("disk", State.BAD, trouble, "once that has ended, work resumes automatically")
    elif free < MIN_FREE_BYTES:
        yield Check(
            "disk", State.WARN, f"{free / 1e6:.0f} MB free", "free some space: reading stops when the disk is full"
        )
    rescues = list_rescues(store)
    for beginning, what in _SET_ASIDE.items():
        # A database with its log; only the log, if memory.db had been moved away.
        files = sorted(places.root.glob(f"{beginning}*.db")) + sorted(places.root.glob(f"{beginning}*.db-*"))
        databases = {file: _database_of(file) for file in files}
        paths = {file: database for file, database in databases.items() if file == database or database not in files}
        noted = [rescues[path] for path in paths if path in rescues]
        if paths:
            size = f"{sum(file.lstat().st_size for file in files) / 1e6:.1f} MB"
            moved = f"{what} was moved to {' and '.join(map(str, paths))}"
            patterns = " ".join(dict.fromkeys(f"{shlex.quote(str(path))}*" for path in paths.values()))
            kept = "the file" if len(paths) == 1 else "the files"
            advice = f"keep {kept} ({size}), or delete what you no longer need: rm {patterns}"
            yield Check("set aside", State.WARN, ". ".join(noted) or moved, advice, public=what)


def _database_of(file: Path) -> Path:
    """Return the database to which a file belongs: itself, or the one of its log."""
    return file.with_name(f"{file.name.partition('.db')[0]}.db")


def _is_exposed(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(stat.S_IMODE(mode) & 0o077)


def _memory(store: Store, is_quick: bool) -> Iterator[Check]:
    damage = quick_damage(store) if is_quick else find_all_damage(store)
    if damage:
        # When it starts, the worker checks the file, and rebuilds an index or sets the file aside.
        with contextlib.suppress(StoreError):
            note_failure(store, "memory", f"engram doctor found damage: {damage}")
        yield Check(
            "memory.db",
            State.BAD,
            damage,
            "restart the worker, which repairs the file or sets it aside: engram service restart. `engram restore` "
            "restores a backup",
            command="engram service restart",
            public="damaged",
        )
    else:
        yield Check("memory.db", State.OK, f"no damage, {store.path.stat().st_size / 1e6:.1f} MB")


def _earlier_memory(store: Store, settings: Settings) -> Iterator[Check]:
    """Yield backups of a damaged or deleted memory.db, which may contain what the transcripts no longer contain."""
    for backup in earlier_backups(store, settings.places.backups):
        command = f"engram restore {backup.path.name}"
        yield Check(
            "earlier memory",
            State.WARN,
            f"memory.db was created again; {backup.path.name} contains an earlier one",
            f"if something is missing, stop Engram and run: {command}. Otherwise, delete {backup.path}",
            command=command,
            public="there is a backup of an earlier one",
        )


#: What to do if transcripts were read, and their folder is gone or empty now.
_ADVICE_ON_GONE = (
    "what was read is kept. If the folder was moved, run: engram config set claude_folder FOLDER, and nothing is read "
    "twice; if its disk isn't mounted, mount it"
)


def explain_missing(settings: Settings) -> str:
    """Return why Claude Code's sessions can't be read: their folder does not exist, or is below a file."""
    folder = settings.claude_folder
    is_file = folder.exists() and not folder.is_dir()
    return f"{folder} is a file, not a folder" if is_file else f"{settings.projects_folder} does not exist"


def _transcripts(settings: Settings, health: Health) -> Iterator[Check]:
    present = present_folders(settings)
    if not present:
        at_first = "start Claude Code once, or set its configuration folder with CLAUDE_CONFIG_DIR or --claude-folder"
        advice = _ADVICE_ON_GONE if health.totals.transcripts else at_first
        yield Check("transcripts", State.BAD, explain_missing(settings), advice)
        return
    closed = [folder for _, folder in present if not os.access(folder, os.R_OK | os.X_OK)]
    for folder in closed:
        what, advice = ("can't be read", f"run: chmod u+rx {shlex.quote(str(folder))}")
        if not folder.is_dir():
            what, advice = ("is a file, not a folder", "move it elsewhere: Claude Code creates the folder")
        yield Check("transcripts", State.BAD, f"{folder} {what}", advice)
    readable = [f"{folder} ({agent.title})" for agent, folder in present if folder not in closed]
    if readable and health.totals.transcripts and not health.unread.found:
        were = "was" if health.totals.transcripts == 1 else "were"
        former = f"{number_of(health.totals.transcripts, 'file')} {were} read earlier"
        detail = f"no file in {', '.join(readable)}, and {former}"
        yield Check("transcripts", State.WARN, detail, _ADVICE_ON_GONE, public="all gone")
    elif readable:
        yield Check("transcripts", State.OK, f"{number_of(health.unread.found, 'file')} in {', '.join(readable)}")
    not_read = skipped(settings)
    for file in not_read[:MAX_LISTED_FAULTS]:
        yield Check("not read", State.NOTE, f"{file.path}: {file.reason}", _ADVICE_ON_SKIPPED, public="skipped")
    if len(not_read) > MAX_LISTED_FAULTS:
        yield Check("not read", State.NOTE, f"{len(not_read)} files, folders and links in all", _ADVICE_ON_SKIPPED)


def _processes(settings: Settings, health: Health) -> Iterator[Check]:
    for name, state in (("watcher", health.watcher), ("worker", health.worker)):
        if state.is_alive:
            memory = f", {state.rss_mb} MB" if state.rss_mb else ""
            yield Check(name, State.OK, f"running, {state.described}{memory}", public=f"running{memory}")
    for trouble in health.troubles():
        state_of_trouble = State.BAD if trouble.is_broken else State.WARN
        is_installed = settings_around(settings).places.install_journal.is_file()
        if trouble.about in ("watcher", "worker"):
            yield Check(
                trouble.about,
                state_of_trouble,
                trouble.text,
                trouble.advice if is_installed else f"Engram is not installed: run engram install, or {trouble.advice}",
                command="engram service start" if is_installed else "engram install",
                fix="start",
                public="not running",
            )
        elif (
            trouble.about != PROVIDER_STAGE or find_missing(settings) is None
        ):  # what is missing has a check of its own
            has_more = SEE_LOG not in trouble.advice or has_problems(settings_around(settings).places.logs)
            advice = trouble.advice if has_more else trouble.remedy
            yield Check(f"stage {trouble.about}", state_of_trouble, trouble.text, advice)


def _model(settings: Settings) -> Iterator[Check]:
    if settings.embedding_model == HASHED:
        yield Check(
            "model",
            State.WARN,
            "hashed: it compares words, not meaning",
            command="engram config set embedding_model bundled",
            public="hashed",
        )
        return
    if settings.embedding_model == BUNDLED:
        if is_bundled_intact():
            yield Check("model", State.OK, "bundled")
        else:
            yield Check("model", State.BAD, "the bundled model is missing or damaged", "install Engram again")
        return
    try:
        with_torch = needs_torch(settings.embedding_model)
    except EmbeddingError as error:
        yield Check("model", State.BAD, str(error), "correct the setting embedding_model")
        return
    if with_torch and not has_extra():
        yield Check(
            "model",
            State.BAD,
            f"{settings.embedding_model} needs packages that are not installed: searches use text alone",
            install_command(EXTRA),
        )
    else:
        way = "runs with torch; without a worker, searches use text alone" if with_torch else "ready to run"
        yield Check("model", State.OK, f"{settings.embedding_model}, {way}")


def _where(fault: reading_progress.ReadFault) -> str:
    """Return the line of a fault, as an editor numbers it; "a part" of a file that is gone or has no lines."""
    number = line_number(Path(fault.path), fault.offset or 0) if ".jsonl" in Path(fault.path).suffixes else None
    return f"a part of {fault.path}" if number is None else f"line {number:,} of {fault.path}"


def _leftovers(store: Store, settings: Settings, health: Health) -> Iterator[Check]:
    totals = health.totals
    for fault in reading_progress.read_faults(store, MAX_LISTED_FAULTS):
        if fault.offset is None and os.path.exists(fault.path) and not os.access(fault.path, os.R_OK):
            advice = f"run: chmod u+r {shlex.quote(fault.path)}"
            yield Check("unreadable", State.WARN, f"{fault.path} can't be read", advice)
            continue
        where = fault.path if fault.offset is None else _where(fault)
        told = f"{where} can't be read ({fault.reason}): what it says is not remembered"
        yield Check("unreadable", State.NOTE, told, "nothing to do: the rest is read")
    if totals.bad_lines > MAX_LISTED_FAULTS:
        told = f"{totals.bad_lines:,} lines in all can't be read"
        yield Check("unreadable", State.NOTE, told, "nothing to do: the rest is read")
    unknown = {name: len(turns) for name, turns in reading_progress.unknown_elements(store).items()}
    if unknown:
        most = sorted(unknown.items(), key=lambda item: (-item[1], item[0]))[:MAX_LISTED_FAULTS]
        yield Check(
            "unknown elements",
            State.NOTE,
            f"messages that don't count as your words: {', '.join(f'<{name}> {count}' for name, count in most)}",
            "nothing to do: a later version may recognise them",
            public=f"{sum(unknown.values())} messages",
        )
    dead = list_work(store, (WorkState.DEAD,))
    if dead:
        latest = max(dead, key=lambda work: work.updated_at_ms)
        yield Check(
            "given up",
            State.BAD,
            f"{number_of(len(dead), 'task')} failed too often; the latest error: {latest.last_error}",
            "remove the cause, then run: engram tasks retry --dead",
            command="engram tasks retry --dead",
            public=number_of(len(dead), "task"),
        )
    if totals.suspects:
        yield Check(
            "suspect",
            State.WARN,
            f"{number_of(totals.suspects, 'memory')} held back from Claude: the text looks like an order to it",
            "decide about each: engram review",
            command="engram review",
            public=number_of(totals.suspects, "memory"),
        )
    for scope in current_pauses(store):
        what = name_of_scope(store, scope)
        project = f" --project {shlex.quote(what)}" if scope else ""
        command = "engram tasks resume" if scope == "tasks" else f"engram pause --off{project}"
        yield Check("paused", State.WARN, f"{what} is paused", f"to continue: {command}", command=command, public="yes")
    if is_excluded(os.path.join(os.path.expanduser("~"), "any-folder"), settings.exclude):
        yield Check(
            "exclude",
            State.WARN,
            "the setting exclude covers your whole home folder: nothing in it is read, or shown to Claude",
            "to continue: engram config set exclude FOLDER,… (or unset it)",
            public="yes",
        )
    if not settings.capture or not settings.inject or settings.extractor == "off":
        off = [name for name in ("capture", "inject") if not getattr(settings, name)]
        off += ["extractor"] if settings.extractor == "off" else []
        yield Check(
            "switched off",
            State.WARN,
            ", ".join(off),
            "`engram config` shows where each setting comes from",
            command="engram config",
            public=", ".join(off),
        )


# -- The language model

#: Flags of print mode that old versions of Claude Code lack.
_NEEDED_FLAGS = ("--safe-mode", "--json-schema", "--no-session-persistence", "--strict-mcp-config", "--max-budget-usd")
#: Timeout for ``claude --help``, in seconds.
_HELP_SECONDS = 20.0


def find_missing(settings: Settings) -> Check | None:
    """Return a finding if the chosen language model can't be used, so that rules write the memories; otherwise None.

    This starts no process and sends nothing, so it can be called wherever the extractor is chosen or shown.
    """
    if settings.extractor == "openai" and not (settings.llm_base_url or api_key_of(settings)):
        return Check(
            "language model",
            State.BAD,
            "extractor = openai, but OPENAI_API_KEY is not set: the local extractor is used",
            f"write OPENAI_API_KEY=… into {settings_around(settings).places.env_file} (mode 0600), then run: "
            "engram service restart",
        )
    if settings.extractor != "claude":
        return None
    if find_claude(settings) is None:
        moved = find_moved_claude(settings)
        return Check(
            "language model",
            State.BAD,
            f"extractor = claude, but {settings.claude_command!r} can't be found: the local extractor is used",
            f"run: engram config set claude_command {shlex.quote(moved)}"
            if moved
            else "install Claude Code, or run: engram config set claude_command /path/to/claude",
        )
    if seems_logged_out(settings):
        return Check(
            "language model",
            State.WARN,
            "extractor = claude, but no Claude Code login was found: the local extractor is used",
            "run: claude, and log in with /login",
            public="no login",
        )
    return None


def check_language_model(settings: Settings) -> Iterator[Check]:
    """Check that the configured language model can be used. Nothing is sent."""
    missing = find_missing(settings)
    if settings.extractor == "claude" and (missing is None or missing.state is State.WARN):
        missing = _check_flags(settings) or missing
    if missing is not None:
        yield missing
    elif settings.extractor == "claude":
        key = f". {who_pays()}" if billed_key() else ""
        yield Check("language model", State.OK, f"{settings.claude_model} by {find_claude(settings)}{key}")
    elif settings.extractor == "openai":
        yield Check("language model", State.OK, f"{settings.llm_model} at {settings.llm_base_url or 'OpenAI'}")


def _check_flags(settings: Settings) -> Check | None:
    """Run Claude Code, and return a finding if it is too old for the flags of print mode that Engram uses."""
    command = find_claude(settings) or ""
    help_text = _help_text(command)
    missing = [flag for flag in _NEEDED_FLAGS if flag not in help_text]
    if not missing:
        return None
    return Check(
        "language model",
        State.BAD,
        f"{command} doesn't support {', '.join(missing)}: the local extractor is used",
        "update Claude Code: claude update",
        command="claude update",
        public="too old",
    )


def _help_text(command: str) -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:
            finished = run_bounded(
                [command, "--help"],
                b"",
                folder=Path(folder),
                environment=call_environment(command),
                seconds=_HELP_SECONDS,
            )
    except OSError:
        return ""
    return (finished.output + finished.errors).decode("utf-8", errors="replace")
