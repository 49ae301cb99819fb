"""``engram service``: start, stop and inspect the worker and watcher; ``engram pause``: read nothing for a while."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shlex
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import click

from engram.cli import options
from engram.cli.options import duration_option, json_command, limit_option, require_alone
from engram.cli.output import print_facts, print_json, safe, say, when
from engram.cli.results import pauses_in_words
from engram.cli.workspace import Workspace, advise, as_called_here, find_project, pass_workspace
from engram.errors import AlreadyRunning
from engram.models.work.work import FOREVER_MS, current_pauses, resume
from engram.models.work.work import pause as pause_scope
from engram.reports.processes import ProcessState, process_state, terminal_run
from engram.settings import Settings
from engram.setup.edits.install_steps import FileChange
from engram.setup.services.service_definition import PROCESSES, ServiceStatus, ServiceSystem, SystemName
from engram.setup.services.service_plan import best_system, installed_system, system_by_name
from engram.system.clock import iso_or_none
from engram.vaults import settings_around

#: Names of the systems in messages.
_TITLES = {
    SystemName.LAUNCHD: "launchd",
    SystemName.SYSTEMD: "systemd",
    SystemName.BACKGROUND: "a supervisor in the background",
}


#: What is printed if there was nothing to stop.
_IDLE = "Nothing was running"


@click.group("service")
def service() -> None:
    """Start, stop and inspect the worker and the watcher, which run without a terminal.

    launchd (macOS) or systemd (Linux) runs them if `engram install` registered them there; otherwise a supervisor in
    the background does, until the next restart of the machine.

    Example: engram service status
    """


@service.command("start")
@json_command
def start(workspace: Workspace, as_json: bool) -> None:
    """Start the worker and the watcher, and wait until they are running.

    Example: engram service start
    """
    system = _system_to_start(workspace)
    _leave_terminal_alone(
        workspace, "started", "To let the service run them, press Ctrl-C there, then: engram service start"
    )
    system.start()
    _tell(workspace, system, "Running", as_json)


@service.command("stop")
@json_command
def stop(workspace: Workspace, as_json: bool) -> None:
    """Stop the worker and the watcher, and wait until they have ended. Interrupted work is done later.

    Processes of an `engram up` in a terminal are left alone.

    Example: engram service stop
    """
    workspace.pass_over_faults()
    system = _system(workspace)
    was_running = system.status().is_running
    system.stop()
    _tell(workspace, system, "Stopped" if was_running else _IDLE, as_json)


@service.command("restart", short_help="Restart the worker and the watcher.")
@json_command
def restart(workspace: Workspace, as_json: bool) -> None:
    """Stop the worker and the watcher and start them again, for example after an update or a change of settings.

    Processes of an `engram up` in a terminal are left alone.

    Example: engram service restart
    """
    system = _system_to_start(workspace)
    _leave_terminal_alone(workspace, "restarted", "To restart them, press Ctrl-C there and start it again")
    system.restart()
    _tell(workspace, system, "Running", as_json)


def _leave_terminal_alone(workspace: Workspace, verb: str, instead: str) -> None:
    """Raise AlreadyRunning if an `engram up` runs the worker or the watcher, because a second one would only wait."""
    up = terminal_run(settings_around(workspace.settings).places)
    if up is not None:
        raise AlreadyRunning(
            f"nothing was {verb}: `engram up` (pid {up}) runs the worker and the watcher in a terminal. {instead}"
        )


@service.command("status", short_help="Show what runs the worker and the watcher.")
@json_command
@click.pass_context
def status(ctx: click.Context, workspace: Workspace, as_json: bool) -> None:
    """Show what runs the worker and the watcher, and whether they are running. The exit code is 1 if either is not
    running.

    Example: engram service status --json
    """
    workspace.pass_over_faults()
    system = _system(workspace)
    said, states = system.status(), _states(workspace)
    up = terminal_run(settings_around(workspace.settings).places)
    if as_json:
        print_json(_status_json(said, states) | {"terminal": up})
    else:
        print_facts(
            [
                ("run by", _run_by(said, up, states)),
                ("starts by itself", _describe_start(said)),
                *((name, _describe(state)) for name, state in states.items()),
                (said.system.value, _details(said)),
            ]
        )
    ctx.exit(options.OK if all(state.is_alive for state in states.values()) else options.FAILED)


@service.command("logs", short_help="Show why the worker or the watcher did not start.")
@limit_option(20, "lines of each source", "--lines")
@json_command
def logs(workspace: Workspace, limit: int, as_json: bool) -> None:
    """Show why the worker or the watcher did not start: the system's records, and their latest log records.

    `engram logs` shows only the log records.

    Example: engram service logs --lines 50
    """
    from engram.log import read_records

    workspace.pass_over_faults()
    folder = settings_around(workspace.settings).places.logs
    sources = {"system": _system(workspace).output(limit).splitlines()[-limit:]}
    for kind in ("supervisor", "worker", "watcher"):
        sources[kind] = [record.text for record in read_records(folder, kind)][-limit:]
    if as_json:
        print_json(sources)
        return
    for kind, texts in sources.items():
        for text in texts:
            click.echo(f"{kind}: {safe(text)}")
    if not any(sources.values()):
        click.echo(f"No records in {folder}.")


#: Size, in bytes, above which a service's error file is emptied at the next start.
MAX_OUTPUT_BYTES = 1_000_000


@service.command("run", short_help="Run the worker or the watcher in the foreground.")
@click.argument("process", type=click.Choice(["worker", "watcher"]), required=False)
@click.option(
    "--lifeline",
    type=click.IntRange(3),
    default=None,
    hidden=True,
    metavar="FD",
    help="A pipe; its end means that the parent has ended (default: none).",
)
@pass_workspace
@click.pass_context
def run(ctx: click.Context, workspace: Workspace, process: str | None, lifeline: int | None) -> None:
    """Run the worker or the watcher in the foreground, or a supervisor with both, until SIGTERM or Ctrl-C.

    launchd and systemd start the worker, which makes memories and answers questions, and the watcher, which reads new
    transcript lines. The supervisor restarts a process that exited or hangs: use it as the command of a container. If
    the process is already running, this one exits at once. The worker ends with exit code 75, "restart me", when its
    memory use exceeds limit_rss_mb.

    Example: engram service run worker
    """
    _prepare_errors()
    if lifeline is not None:
        threading.Thread(target=_end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    try:
        ctx.exit(_loop_of(process, workspace, has_parent=lifeline is not None)(workspace.settings))
    except AlreadyRunning as error:
        click.echo(str(error), err=True)


def _loop_of(process: str | None, workspace: Workspace, *, has_parent: bool) -> Callable[[Settings], int]:
    """Return the function that runs until a signal. Only its module is imported, because each one needs much memory."""
    if process == "worker":
        from engram.worker.lifecycle import run_worker

        return partial(run_worker, has_parent=has_parent)
    if process == "watcher":
        from engram.watcher.watch import run_watcher

        return partial(run_watcher, has_parent=has_parent)
    from engram.setup.services.supervisor import run_supervisor

    return partial(run_supervisor, arguments=workspace.arguments())


def _prepare_errors() -> None:
    """Limit the size of the file to which a service manager appends errors, and record in it where a process hung.

    A service manager stops a hung process with SIGABRT; the stacks of its threads are then printed.
    """
    with contextlib.suppress(OSError, ValueError):
        facts = os.fstat(2)
        if stat.S_ISREG(facts.st_mode) and facts.st_size > MAX_OUTPUT_BYTES:
            os.ftruncate(2, 0)
        faulthandler.enable(2)


def _end_with_parent(lifeline: int) -> None:
    """Block until the parent closes its end of the pipe, then stop this process cleanly."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


@service.command("print", short_help="Print the files that start both processes at login.")
@click.option(
    "--system",
    type=click.Choice([SystemName.LAUNCHD.value, SystemName.SYSTEMD.value]),
    default=None,
    help="The target system (default: launchd on macOS, else systemd).",
)
@json_command
def print_files(workspace: Workspace, system: str | None, as_json: bool) -> None:
    """Print the files that start both processes at login, with absolute paths and without secrets. Writes nothing.

    `engram install` writes and registers them.

    Example: engram service print --system systemd
    """
    name = SystemName(system or (SystemName.LAUNCHD if sys.platform == "darwin" else SystemName.SYSTEMD))
    changes = system_by_name(name, workspace.settings).files()
    if as_json:
        print_json({"system": name.value, "files": [_file_json(change) for change in changes]})
        return
    for change in changes:
        if change.content is not None:
            say(f"# {change.path}")
            click.echo(change.content.decode())
        else:
            say(f"# {change.path} → {change.link_target}")


def _file_json(change: FileChange) -> dict[str, str]:
    if change.content is not None:
        return {"path": str(change.path), "text": change.content.decode()}
    return {"path": str(change.path), "link_to": str(change.link_target)}


def _system(workspace: Workspace) -> ServiceSystem:
    return installed_system(settings_around(workspace.settings), workspace.arguments())


def _system_to_start(workspace: Workspace) -> ServiceSystem:
    """Return the system that starts the processes. Raises MissingDatabase or HomeError if they would exit at once."""
    from engram.models.engine.database import check_missing

    check_missing(settings_around(workspace.settings).places.memory_db)
    return _system(workspace)


def _states(workspace: Workspace) -> dict[str, ProcessState]:
    places = settings_around(workspace.settings).places
    return {"worker": process_state(places.worker_lock), "watcher": process_state(places.watcher_lock)}


def _tell(workspace: Workspace, system: ServiceSystem, verb: str, as_json: bool) -> None:
    """Print what was done, and what the user may want to know next."""
    states = _states(workspace)
    if as_json:
        print_json(_status_json(system.status(), states))
        return
    running = {name: state for name, state in states.items() if state.is_alive}
    pids = ", ".join(f"{name} {state.pid}" for name, state in running.items())
    if verb == _IDLE:
        place = "In another container" if any(state.is_elsewhere for state in running.values()) else "In a terminal"
        say(f"Nothing was running.{f' {place}: {pids}.' if pids else ''}")
        return
    if verb == "Stopped" and pids:
        advise(
            f"Stopped the processes run by {_TITLES[system.name]}. Still running: {pids} (`engram up` in a terminal?)."
        )
        return
    if verb == "Stopped":
        say(f"Stopped the processes run by {_TITLES[system.name]}.")
    else:
        say(f"{verb}, by {_TITLES[system.name]}{': ' + pids if pids else ''}.")
    if verb == "Stopped" and (said := system.status()).is_installed:
        say(f"They start again {_describe_start(said)}.")
    for hint in _hints(workspace, system) if verb == "Running" else ():
        advise(hint)


def _hints(workspace: Workspace, system: ServiceSystem) -> Iterator[str]:
    if system.name is not SystemName.BACKGROUND or workspace.settings.start_with_session:
        return
    if best_system(workspace.settings).name is not SystemName.BACKGROUND:
        yield "To start them at login, run: engram install"
    else:
        yield (
            "They run until this machine restarts. To let Claude Code's sessions start them, run: "
            "engram config set start_with_session true"
        )


def _status_json(said: ServiceStatus, states: Mapping[str, ProcessState]) -> dict[str, Any]:
    return {
        "system": said.system.value,
        "starts_by_itself": said.is_installed,
        "running": said.is_running,
        "details": dict(said.details),
        **{name: state.as_json() for name, state in states.items()},
    }


def _run_by(said: ServiceStatus, up: int | None, states: Mapping[str, ProcessState]) -> str:
    if any(state.is_elsewhere for state in states.values()):
        return "another container"
    if said.system is SystemName.BACKGROUND and not any(state.is_alive for state in states.values()):
        return "nothing; to run both in the background: engram service start"
    return _TITLES[said.system] if up is None else f"`engram up` in a terminal, pid {up}"


def _details(said: ServiceStatus) -> str:
    """Return what the system says of its processes; "" for a supervisor, whose processes are those listed above."""
    if said.system is SystemName.BACKGROUND:
        return ""
    return "; ".join(f"{PROCESSES[name]} {text}" for name, text in said.details.items())


def _describe_start(said: ServiceStatus) -> str:
    if not said.is_installed:
        return "no"
    return "with a Claude Code session" if said.system is SystemName.BACKGROUND else "at login"


def _describe(state: ProcessState) -> str:
    if not state.is_alive:
        return "not running"
    silent = "" if state.silent_seconds is None else f", last heartbeat {state.silent_seconds:.0f} s ago"
    return f"running, {state.described}{silent}"


# -- ``engram pause``: read, store and inject nothing for a while.


@click.command("pause")
@click.option(
    "--project", metavar="NAME", default=None, help="Only this project: its name or folder (default: everything)."
)
@duration_option("30m, 1h or 2d", end="engram pause --off")
@click.option("--off", is_flag=True, help="End the pause (default: start one).")
@click.option("--list", "only_list", is_flag=True, help="Only list what is paused (default: pause).")
@json_command
def pause(
    workspace: Workspace, project: str | None, seconds: float | None, off: bool, only_list: bool, as_json: bool
) -> None:
    """Pause a project or everything: nothing is read, kept or shown to Claude.

    What is said during the pause is never kept, even if its transcript is read afterwards. What was said before is
    kept.

    Example: engram pause --project harbor --for 1h
    """
    require_alone("off", but=("project",))
    require_alone("only_list")
    with workspace.stores(with_vaults=project is None and not only_list) as stores:
        store = stores[0]
        place = find_project(store, workspace.settings, project)
        scope = "" if place is None else place.identity
        until_ms = FOREVER_MS if seconds is None else store.now_ms() + int(seconds * 1000)
        what = "everything" if place is None else place.name
        sentence = ""
        if off:
            were_paused = [resume(paused_store, scope) for paused_store in stores]
            sentence = f"Resumed {what}." if any(were_paused) else f"{what if scope else 'Engram'} was not paused."
        elif not only_list:
            of_project = "" if place is None else f" --project {shlex.quote(place.name)}"
            end = f"engram pause --off{of_project}"
            before_ms = current_pauses(store).get(scope, until_ms)
            for paused_store in stores:
                pause_scope(paused_store, scope, until_ms)
            instead = "" if before_ms == until_ms else f", instead of {_until(before_ms, end)}"
            sentence = f"Paused {what} {_until(until_ms, end)}{instead}."
        paused = current_pauses(store)
        in_words = pauses_in_words(store, paused)
    if as_json:
        ends = {scope: iso_or_none(until_ms) if until_ms < FOREVER_MS else None for scope, until_ms in paused.items()}
        print_json({"paused": [{"scope": scope or "everything", "until": end} for scope, end in ends.items()]})
    else:
        say(as_called_here(sentence) or "\n".join(in_words) or "Nothing is paused.")


def _until(end_ms: int, command: str) -> str:
    """Return when a pause ends: at a time or, without one, by a command."""
    return f"until {when(end_ms)}" if end_ms < FOREVER_MS else f"until `{command}`"
