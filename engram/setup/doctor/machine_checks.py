"""The checks of this machine, and what they examine: settings, the open memory, environment, processes."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from xml.sax.saxutils import escape

from engram.errors import BrokenDatabase, EngramError, MissingDatabase, MissingHome, OlderSchema
from engram.hub.client.membership import list_unknown
from engram.models.engine.transaction import Store
from engram.models.search.vector_rows import count_vectors_by_model
from engram.models.sessions.reading_progress import unread_of
from engram.paths import Home, absolute_path, default_home, is_default_home, user_home
from engram.reports.claude_checks import check_claude, server_command, server_name
from engram.reports.engram_checks import Check, State, check_all, check_config, check_language_model
from engram.reports.health import Health
from engram.reports.hub_report import report_hubs
from engram.reports.processes import holder_of, process_state, terminal_run
from engram.settings import ConfigFault, Settings, config_state
from engram.setup.agents.claude_code import check_mod
from engram.setup.agents.plugin import check_registrations, has_plugin, is_switched_off, permission_rule, plugin_name
from engram.setup.agents.registered import Registration, find_registrations, read_documents
from engram.setup.edits.journal import explain_half_done
from engram.setup.old_engram.find import find_earlier
from engram.setup.services.service_definition import ServiceSystem, SystemName
from engram.setup.services.service_plan import best_system, installed_system
from engram.setup.services.systemd import Systemd, quoted_word
from engram.system.atomic import closed_files, explain_error, read_regular
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.claude_code.discover import SOON_DAYS, find_expiring
from engram.transcripts.project import find_repository
from engram.transcripts.registry import discover
from engram.vaults import settings_around
from engram.version import code_version
from engram.worker.worker_client import WorkerStatus, ask_status
from engram_hooks.block import settings_block


@dataclass(frozen=True)
class Machine:
    """This machine, as one run of the checks sees it. Each part is read once, when a check first needs it."""

    settings: Settings
    #: The current folder, whose project may have its own settings.
    folder: Path
    #: The open memory and its health; None if it can't be opened.
    store: Store | None = None
    health: Health | None = None
    #: Why the memory can't be opened; None if it is open.
    error: EngramError | None = None
    #: True if only SQLite's own checks of the database are run.
    is_quick: bool = False
    #: The faults in config.toml, which ``settings`` leaves out.
    faults: Sequence[ConfigFault] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def home(self) -> Home:
        """The files of the memory folder."""
        return self.settings.places

    @property
    def around(self) -> Settings:
        """The settings used by the worker, the watcher and hooks; for a vault, those of the folder that contains it."""
        return settings_around(self.settings)

    @cached_property
    def registrations(self) -> list[Registration]:
        """Every place where Engram's hooks are configured for Claude Code."""
        project = find_repository(self.folder) or self.folder
        return find_registrations(read_documents(self.settings.claude_folder, project))

    @cached_property
    def service(self) -> ServiceSystem:
        """The system that starts the processes of this memory folder."""
        return installed_system(self.around)


# -- Checks of the folders: is the memory folder writable, and are the sessions where Engram looks for them?


def check_writable(machine: Machine) -> Iterator[Check]:
    """Check that the memory folder and its contents are writable, by writing and removing a file."""
    if isinstance(machine.error, MissingHome):
        return
    home = machine.home
    with contextlib.suppress(OSError):
        if home.root.stat().st_uid != os.geteuid():
            return  # the finding about the folder names its owner; its modes are that user's affair
    probe = home.root / f".doctor.{os.getpid()}.tmp"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
        probe.unlink()
        blocked = list(closed_files(home.root))
        if not blocked:
            return
        detail = f"{blocked[0]} can't be written"
        is_foreign = any(path.lstat().st_uid != os.geteuid() for path in blocked)  # as after one `sudo engram …`
    except OSError as error:
        is_foreign = False
        detail = f"{home.root} can't be written: {explain_error(error)}"
    folder = shlex.quote(str(home.root))
    command = f"sudo chown -R {os.geteuid()} {folder}" if is_foreign else f"chmod -R u+rwX {folder}"
    yield Check(
        "unwritable",
        State.BAD,
        detail,
        f"free the disk, mount it for writing, or run: {command}",
        command=command,
        public="the memory folder is not writable",
    )


def check_claude_folder(machine: Machine) -> Iterator[Check]:
    """Check that no other configuration folder of Claude Code has newer sessions than the folders that are read."""
    ours = machine.settings.claude_folder
    read = machine.settings.all_claude_folders
    newest = max(map(_newest_session, read))
    named = machine.environ.get("CLAUDE_CONFIG_DIR", "")
    for folder in dict.fromkeys([absolute_path(named) if named else ours, user_home() / ".claude"]):
        if folder not in read and _newest_session(folder) > newest:
            command = f"engram config set claude_folder {shlex.quote(str(folder))}"
            yield Check(
                "sessions elsewhere",
                State.WARN,
                f"Claude Code's newest sessions are in {folder}, but Engram reads {ours}",
                f"if that is where you work, run: {command}. To read it as well, add it to claude_folders",
                command=command,
                public="a newer session in another configuration folder",
            )


def _newest_session(folder: Path) -> float:
    """Return when a session in a configuration folder last changed, in seconds since 1970; 0 if there is none."""
    newest = 0.0
    for path in (folder / "projects").glob("*/*.jsonl"):
        try:
            newest = max(newest, min(path.stat().st_mtime, time.time()))
        except OSError:
            continue
    return newest


def check_cleanup(machine: Machine) -> Iterator[Check]:
    """Check that Claude Code is not about to delete sessions that have not been read yet."""
    if machine.store is None:
        return
    sources = discover(machine.settings)
    retention = find_expiring(sources, machine.settings.all_claude_folders, time.time())
    unread = unread_of(machine.store, retention.expiring)
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


# -- Checks of the installation: interpreters, service files, a half-done installation, the earlier Engram.

#: Maximum size of a service file that is read, in bytes.
_MAX_FILE_BYTES = 100_000
#: Maximum number of traces of the earlier Engram that are listed; any others are only counted.
MAX_LISTED_LINES = 5


def check_interpreters(machine: Machine) -> Iterator[Check]:
    """Check that the hooks and the MCP server run with this installation's interpreter."""
    link = machine.around.places.python_link
    restore = "engram setup hooks" if machine.registrations else "engram install"
    if isinstance(machine.error, MissingHome):
        pass  # the installation creates it, with the folder
    elif not link.exists():
        yield Check(
            "hooks' interpreter",
            State.BAD,
            f"{link} is missing or a broken link, so hooks do nothing",
            command=restore,
            fix="link-python",
            public="missing or broken",
        )
    elif os.path.realpath(link) != os.path.realpath(sys.executable):
        yield Check(
            "hooks' interpreter",
            State.WARN,
            f"{link} points to {os.path.realpath(link)}, but Engram runs with {os.path.realpath(sys.executable)}",
            command=restore,
            fix="link-python",
            public="another interpreter",
        )
    command = server_command(machine.around)
    if command and Path(command).exists() and command != sys.executable:
        yield Check(
            "MCP server's interpreter",
            State.WARN,
            f"the server is registered with {command}, but this installation is {sys.executable}",
            command="engram install",
            public="another interpreter",
        )


def check_service(machine: Machine) -> Iterator[Check]:
    """Check that something starts the processes, using this installation and these folders."""
    status = machine.service.status()
    is_config_readable = all(fault.name for fault in machine.faults)
    if is_in_other_container(machine.around.places):
        yield Check("service", State.OK, "the worker and the watcher run in another container", public="elsewhere")
    elif not status.is_installed and is_config_readable:
        yield _check_start(machine, status.system)
    wanted = {
        "interpreter": sys.executable,
        "memory folder": str(machine.around.home),
        "configuration folder of Claude Code": str(machine.settings.claude_folder),
    }
    for change in machine.service.files():
        text = (read_regular(change.path, _MAX_FILE_BYTES) or b"").decode("utf-8", "replace")
        differing = [what for what, value in wanted.items() if not any(form in text for form in _forms_of(value))]
        if change.content is not None and differing:
            detail = f"{change.path} names another {' and another '.join(differing)}"
            yield Check(
                "service file",
                State.BAD if not text else State.WARN,
                detail if text else f"{change.path} is missing",
                command="engram install",
                public=f"differs in {', '.join(differing)}",
            )
            return
    if status.is_installed:
        yield Check("service", State.OK, f"{status.system}", public=status.system)
        yield from _check_linger(machine)


def _forms_of(value: str) -> tuple[str, ...]:
    """Return a path in the form that launchd agents and systemd units contain."""
    quoted = quoted_word(value)[1:-1]
    return escape(value), quoted, quoted.replace("$", "$$")


def _check_start(machine: Machine, system: SystemName) -> Check:
    """Return the finding that nothing starts the processes, with advice suitable for this machine."""
    if machine.registrations and best_system(machine.settings).name is SystemName.BACKGROUND:
        detail = "the worker and the watcher will not start after a reboot: this machine has no launchd or systemd"
        command = "engram config set start_with_session true"
        advice = f"to let Claude Code's sessions start them, run: {command}"
    else:
        detail, command, advice = "nothing starts the worker and the watcher when you log in", "engram install", ""
    return Check("service", State.WARN, detail, advice, command=command, public=f"{system}, not installed")


def _check_linger(machine: Machine) -> Iterator[Check]:
    """Check that a service outlives an SSH session."""
    is_remote = bool(machine.environ.get("SSH_CONNECTION"))
    if is_remote and isinstance(machine.service, Systemd) and machine.service.is_lingering() is False:
        yield Check(
            "linger",
            State.WARN,
            "the worker and the watcher stop when you log out",
            "to keep them running, run: loginctl enable-linger",
            command="loginctl enable-linger",
            public="off",
        )


def check_half_done(machine: Machine) -> Iterator[Check]:
    """Check that no installation stopped halfway."""
    told = explain_half_done(machine.around.places)
    if told is not None:
        what, advice = told
        command = advice.partition("run `")[2].partition("`")[0]
        yield Check("installation", State.BAD, what, advice, command=command, public="half done")


def check_earlier(machine: Machine) -> Iterator[Check]:
    """Check that the earlier Engram does not run at the same time as this one."""
    worker = holder_of(machine.around.places.worker_lock) or 0
    earlier = find_earlier(machine.around, projects=(machine.folder,), worker_pid=worker)
    if not earlier.is_active:
        return
    lines = earlier.lines()
    more = f"; {len(lines) - MAX_LISTED_LINES} more" if len(lines) > MAX_LISTED_LINES else ""
    yield Check(
        "earlier Engram",
        State.BAD,
        f"an earlier Engram is still active: {'; '.join(lines[:MAX_LISTED_LINES])}{more}",
        "run: engram install, which stops it, keeps its files and imports its memories",
        command="engram install",
        public="active",
    )


# -- The programs called ``engram`` on PATH: this installation's, another installation's, another program's.

#: How much of a program is read to identify it, in bytes.
_HEAD_BYTES = 4096
#: A string that every script of an Engram installation contains.
_MARK = b"engram.cli.main"
_INTERPRETER = lazy_regex(rb"(/[^\s'\"]*/python[0-9.]*)")


@dataclass(frozen=True, slots=True)
class Program:
    """A file called ``engram`` on PATH."""

    path: Path
    #: The interpreter of an Engram installation; None for any other program.
    interpreter: Path | None

    @property
    def is_current(self) -> bool:
        """True if it belongs to this installation."""
        return self.interpreter is not None and _same_folder(self.interpreter.parent, Path(sys.executable).parent)


def find_programs(environ: Mapping[str, str]) -> list[Program]:
    """Return every program called ``engram``, in the order of PATH; a file with several links is returned once."""
    programs: dict[Path, Program] = {}
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "engram"
        if os.path.isabs(folder) and path.is_file() and os.access(path, os.X_OK):
            programs.setdefault(path.resolve(), Program(path, _interpreter_of(path)))
    return list(programs.values())


def check_programs(machine: Machine) -> Iterator[Check]:
    """Check that ``engram`` in a shell is this installation, and the only one."""
    programs = find_programs(machine.environ)
    first_is_current = bool(programs) and programs[0].is_current
    for program in programs:
        if program.interpreter is None:
            yield _other_program(program, is_first=program is programs[0])
        elif not program.is_current:
            yield _other_installation(program, program.interpreter)
    if first_is_current:
        yield Check("command", State.OK, str(programs[0].path), public="this installation")


def _other_program(program: Program, *, is_first: bool) -> Check:
    if not is_first:
        return Check(
            "other program", State.OK, f"{program.path} is another program; Engram comes first", public="comes later"
        )
    return Check(
        "other program",
        State.WARN,
        f"`engram` in a shell runs {program.path}, which is another program",
        "use Engram's other name: engram-recall doctor",
        command="engram-recall doctor",
        public="comes first",
    )


def _other_installation(program: Program, interpreter: Path) -> Check:
    command = _uninstall_command(interpreter)
    return Check(
        "two installations",
        State.WARN,
        f"{program.path} is another installation of Engram, and this one runs with {sys.executable}",
        f"keep one of them: to remove the other, run: {command}; to keep it, remove {Path(sys.executable).parent} from "
        "PATH",
        command=command,
        public="another installation of Engram",
    )


def _uninstall_command(interpreter: Path) -> str:
    """Return the command that removes an interpreter's installation with the tool that made it."""
    if "/uv/tools/" in str(interpreter):
        return "uv tool uninstall engram-recall"
    if "/pipx/" in str(interpreter):
        return "pipx uninstall engram-recall"
    return f"{shlex.quote(str(interpreter))} -m pip uninstall engram-recall"


def _interpreter_of(path: Path) -> Path | None:
    """Return the interpreter specified in an Engram script; None for any other program."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    found = _INTERPRETER.search(head) if _MARK in head else None
    return Path(os.fsdecode(found[1])) if found else None


def _same_folder(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


# -- Checks of the running processes: do they make progress, with the installed code and the current settings?


def is_in_other_container(places: Home) -> bool:
    """Return True if the worker or the watcher runs in another container; it can only be changed there."""
    return any(process_state(lock).is_elsewhere for lock in (places.worker_lock, places.watcher_lock))


def restarting(places: Home, faults: Iterable[ConfigFault] = ()) -> dict[str, str]:
    """Return how the processes are restarted, as fields of a finding: by hand in a terminal or a container."""
    if any(fault.stops for fault in faults):
        return {"advice": "correct config.toml first, since nothing starts with it; then run: engram service restart"}
    if is_in_other_container(places):
        return {"advice": "restart that container, or Engram in it"}
    if (up := terminal_run(places)) is not None:
        return {"advice": f"`engram up` (pid {up}) runs it in a terminal: press Ctrl-C there, and start it again"}
    return {"advice": "run: engram service restart", "command": "engram service restart", "fix": "restart"}


def check_processes(machine: Machine) -> Iterator[Check]:
    """Check the heartbeat and the code of the running processes."""
    places = machine.around.places
    for name, lock in (("watcher", places.watcher_lock), ("worker", places.worker_lock)):
        state = process_state(lock)
        if not state.is_alive:
            continue
        if state.hangs:
            yield Check(
                f"{name}'s heartbeat",
                State.BAD,
                f"the {name} ({state.described}) has done nothing for {state.silent_seconds:.0f} s: it hangs",
                **restarting(machine.around.places, machine.faults),
                public=f"stale for {state.silent_seconds:.0f} s",
            )
        elif state.code != code_version():
            runs = state.code or "another, unknown version"
            here = {"command": "engram install", "fix": "end-others"}
            yield Check(
                f"{name}'s version",
                State.WARN,
                f"the {name} ({state.described}) runs {runs}, and {code_version()} is installed",
                "install the same version there, and restart it there; nothing here can stop it"
                if state.is_elsewhere
                else "run: engram install, which stops it and starts this version",
                **({} if state.is_elsewhere else here),
                public=f"runs {state.code or 'unknown'}, installed is {code_version()}",
            )


def check_worker(machine: Machine) -> Iterator[Check]:
    """Check that the worker answers and has the current settings, and that its model made the vectors."""
    if not process_state(machine.around.places.worker_lock).is_alive:
        return
    status = ask_status(machine.around.places)
    if status is None:
        again = restarting(machine.around.places, machine.faults)
        yield Check(
            "worker's answers",
            State.WARN,
            "the worker does not answer on engram.sock: it is starting, or it hangs",
            **{**again, "advice": f"wait a minute; then {again['advice']}", "fix": ""},
            public="silent",
        )
        return
    if status.config not in (None, config_state(machine.around.places.config_file)):
        yield Check(
            "worker's settings",
            State.WARN,
            f"{machine.around.places.config_file} was changed after the worker read it",
            **restarting(machine.around.places, machine.faults),
            public="older than config.toml",
        )
    yield from _check_vectors(machine, status)


def _check_vectors(machine: Machine, status: WorkerStatus) -> Iterator[Check]:
    """Check that every vector was made by the worker's model, because others are not searched."""
    if status.reason:
        yield Check("model", State.WARN, status.reason, "see the log with: engram logs worker")
    if machine.store is None or not status.model:
        return
    others = {name: count for name, count in count_vectors_by_model(machine.store).items() if name != status.model}
    if others:
        listed = ", ".join(f"{count} of {name}" for name, count in sorted(others.items()))
        yield Check(
            "vectors",
            State.WARN,
            f"the model is {status.model}, but there are vectors from another one: {listed}. They are being recomputed",
            "wait until `engram status` shows no texts without a vector. To go back, set embedding_model again",
            command="engram status",
            public=f"{sum(others.values())} from another model",
        )


# -- The table of all checks of ``engram doctor``.


def check_memory(machine: Machine) -> Iterable[Check]:
    """Return the checks of the memory itself; if it can't be opened, that is the only finding."""
    if machine.store is not None and machine.health is not None:
        return check_all(machine.store, machine.settings, machine.health, is_quick=machine.is_quick)
    if isinstance(machine.error, BrokenDatabase):
        advice = "run `engram up`, which sets the file aside and reads the transcripts again, or `engram restore`"
        return [Check("memory.db", State.BAD, str(machine.error), advice, command="engram up", public="damaged")]
    if isinstance(machine.error, MissingDatabase):
        advice = "to bring back the newest backup, run: engram restore. To start over, run: engram restore --new"
        return [Check("memory.db", State.BAD, str(machine.error), advice, command="engram restore", public="deleted")]
    if isinstance(machine.error, OlderSchema):
        return [Check("memory.db", State.BAD, str(machine.error), command="engram install", public="older")]
    if isinstance(machine.error, MissingHome):
        return [_missing_home(machine)]
    advice = "fix that, or set another folder in ENGRAM_HOME"
    return [Check("memory folder", State.BAD, str(machine.error), advice, public="can't be used")]


def _missing_home(machine: Machine) -> Check:
    """Return the finding that there is no memory, with the command that creates one in the same folder."""
    root = machine.home.root
    option = "" if root == default_home() else f"--home {shlex.quote(str(root))} "
    command = f"engram {option}install"
    is_named = not is_default_home(machine.home)
    advice = f"run: {command}; or correct ENGRAM_HOME or --home, if another folder is meant" if is_named else ""
    detail = f"there is no memory in {root}"
    return Check("memory folder", State.BAD, detail, advice, command=command, public="no memory in it")


def check_hooks(machine: Machine) -> Iterator[Check]:
    """Yield the checks of the hooks, the plugin, the MCP server, and the permission to use it."""
    by_plugin = has_plugin(machine.registrations) or is_switched_off(machine.registrations)
    places = machine.around.places
    home = None if is_default_home(places) else places
    yield from check_registrations(machine.registrations, home)
    if not machine.is_quick:
        yield from check_mod(machine.around, machine.registrations)
    for folder in machine.settings.all_claude_folders[1:]:
        if not find_registrations(read_documents(folder)):
            yield Check(
                "configuration folder",
                State.WARN,
                f"{folder} (claude_folders) is read, but Claude Code is not connected there",
                command="engram install",
                public="not connected",
            )
    yield from check_claude(
        machine.around,
        settings_block(),
        machine.folder,
        rule=permission_rule(
            plugin_name(machine.registrations) if by_plugin else server_name(machine.settings), is_plugin=by_plugin
        ),
        has_plugin=by_plugin,
    )


def check_hubs(machine: Machine) -> Iterator[Check]:
    """Check for rounds with hubs that fail, and for anything missing, unreadable or foreign in a synced folder."""
    for report in [] if machine.store is None else report_hubs(machine.store):
        for problem in report.problems:
            yield Check("sync", State.WARN, problem, "fix that, then run: engram sync", public="rounds fail")
        for note in report.notes:
            advice = "follow its advice; if it gives none, let the sync program finish"
            yield Check("synced folder", State.WARN, note, advice, public="something is missing or foreign")
    for place, command in ({} if machine.store is None else list_unknown(machine.store, machine.home)).items():
        detail = f"this machine had joined {place}; memory.db is older, or was recreated, and has no record of that"
        yield Check("sync", State.WARN, detail, f"to get back what is there, run: {command}", command=command)


#: Every check, in the order of the output: a name for reporting failures, and a function.
CHECKS: tuple[tuple[str, Callable[[Machine], Iterable[Check]]], ...] = (
    ("config.toml", lambda machine: check_config(machine.around.places.config_file, machine.faults)),
    ("memory", check_memory),
    ("writing", check_writable),
    ("programs", check_programs),
    ("interpreters", check_interpreters),
    ("installation", check_half_done),
    ("earlier Engram", check_earlier),
    ("service", check_service),
    ("processes", check_processes),
    ("worker", check_worker),
    ("synced folder", check_hubs),
    ("language model", lambda machine: check_language_model(machine.settings)),
    ("Claude Code", check_hooks),
    ("sessions elsewhere", check_claude_folder),
    ("cleanup", check_cleanup),
)


def run_checks(machine: Machine) -> list[Check]:
    """Run every check. A check that fails becomes a finding, and the others still run."""
    findings: list[Check] = []
    for name, check in CHECKS:
        try:
            findings += check(machine)
        except (EngramError, OSError) as error:
            findings.append(Check(name, State.WARN, f"can't be checked: {error}", "fix that, then run: engram doctor"))
    return findings
