"""``engram service``: start, stop and inspect the worker and the watcher as a service."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from engram.cli import options
from engram.cli.options import json_option
from engram.cli.output import print_facts, print_json, safe, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import AlreadyRunning, HomeError, MissingDatabase, StoreError
from engram.reports.checks import Check, State
from engram.reports.health import take_health
from engram.reports.processes import ProcessState, process_state
from engram.setup.doctor.doctor_checks import Machine, run_checks
from engram.setup.doctor.doctor_report import apply_fixes, write_report
from engram.setup.edits.changes import FileChange
from engram.setup.services.definition import ServiceStatus, ServiceSystem, SystemName
from engram.setup.services.service_plan import best_system, installed_system, system_by_name

#: What the systems are called in messages.
_TITLES = {
    SystemName.LAUNCHD: "launchd",
    SystemName.SYSTEMD: "systemd",
    SystemName.BACKGROUND: "a supervisor in the background",
}


@click.group("service")
def service() -> None:
    """Start, stop and inspect the worker and the watcher, which run without a terminal.

    launchd (macOS) or systemd (Linux) runs them if `engram install` registered them there; otherwise a supervisor in
    the background does, until the next restart of the machine.

    Example: engram service status
    """


@service.command("start")
@json_option
@pass_workspace
def start(workspace: Workspace, as_json: bool) -> None:
    """Start the worker and the watcher, and wait until they run.

    Example: engram service start
    """
    system = _system_to_start(workspace)
    system.start()
    _tell(workspace, system, "Running", as_json)


@service.command("stop")
@json_option
@pass_workspace
def stop(workspace: Workspace, as_json: bool) -> None:
    """Stop the worker and the watcher, and wait until they have ended. What they were doing is done later.

    Processes of an `engram up` in a terminal are left alone.

    Example: engram service stop
    """
    system = _system(workspace)
    system.stop()
    _tell(workspace, system, "Stopped", as_json)


@service.command("restart")
@json_option
@pass_workspace
def restart(workspace: Workspace, as_json: bool) -> None:
    """Stop the worker and the watcher and start them again, such as after an update or a changed setting.

    Example: engram service restart
    """
    system = _system_to_start(workspace)
    system.restart()
    _tell(workspace, system, "Running", as_json)


@service.command("status")
@json_option
@pass_workspace
@click.pass_context
def status(ctx: click.Context, workspace: Workspace, as_json: bool) -> None:
    """Show what runs the worker and the watcher, and whether it does. The exit code is 1 if one does not run.

    Example: engram service status --json
    """
    system = _system(workspace)
    said, states = system.status(), _states(workspace)
    if as_json:
        print_json(_status_json(said, states))
    else:
        print_facts(
            [
                ("run by", _TITLES[said.system]),
                ("starts by itself", _describe_start(said)),
                *((name, _describe(state)) for name, state in states.items()),
                *((f"{said.system} says of {name}", text) for name, text in said.details.items()),
            ]
        )
    ctx.exit(options.OK if all(state.is_alive for state in states.values()) else options.FAILED)


@service.command("logs")
@click.option(
    "--lines",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Maximum number of lines of each source.",
)
@json_option
@pass_workspace
def logs(workspace: Workspace, lines: int, as_json: bool) -> None:
    """Show why the worker or the watcher did not start: what the system recorded, and their latest log records.

    `engram logs` shows the log records alone.

    Example: engram service logs --lines 50
    """
    from engram.log import read_records

    folder = workspace.places.logs
    sources = {"system": _system(workspace).output(lines).splitlines()[-lines:]}
    for kind in ("supervisor", "worker", "watcher"):
        sources[kind] = [record.text for record in read_records(folder, kind)][-lines:]
    if as_json:
        print_json(sources)
        return
    for kind, texts in sources.items():
        for text in texts:
            click.echo(f"{kind}: {safe(text)}")
    if not any(sources.values()):
        click.echo(f"No records in {folder}.")


@service.command("run")
@pass_workspace
@click.pass_context
def run(ctx: click.Context, workspace: Workspace) -> None:
    """Run the supervisor in the foreground until SIGTERM or Ctrl-C: the command of a container.

    It restarts a worker or a watcher that ended or hangs. If a supervisor is already running, this one ends at once.

    Example: engram service run
    """
    from engram.setup.services.supervisor import run_supervisor

    try:
        ctx.exit(run_supervisor(workspace.settings, workspace.arguments()))
    except AlreadyRunning as error:
        click.echo(str(error), err=True)


@service.command("print")
@click.option(
    "--system",
    type=click.Choice([SystemName.LAUNCHD.value, SystemName.SYSTEMD.value]),
    default=None,
    help="The target system (default: launchd on macOS, else systemd).",
)
@json_option
@pass_workspace
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
    return installed_system(workspace.settings, workspace.arguments())


def _system_to_start(workspace: Workspace) -> ServiceSystem:
    """What starts the processes. Raises MissingDatabase where they would end again at once."""
    from engram.models.engine.database import is_deleted

    if is_deleted(workspace.places.memory_db):
        raise MissingDatabase()
    return _system(workspace)


def _states(workspace: Workspace) -> dict[str, ProcessState]:
    places = workspace.places
    return {"worker": process_state(places.worker_lock), "watcher": process_state(places.watcher_lock)}


def _tell(workspace: Workspace, system: ServiceSystem, verb: str, as_json: bool) -> None:
    """Say what was done, and what the user may want to know next."""
    states = _states(workspace)
    if as_json:
        print_json(_status_json(system.status(), states))
        return
    pids = ", ".join(f"{name} {state.pid}" for name, state in states.items() if state.is_alive)
    if verb == "Stopped" and pids:
        say(f"Stopped what {_TITLES[system.name]} ran. Still running: {pids} (`engram up` in a terminal?).")
        return
    say(f"{verb}, by {_TITLES[system.name]}{': ' + pids if pids else ''}.")
    if verb == "Stopped" and (said := system.status()).is_installed:
        say(f"They start again {_describe_start(said)}.")
    for hint in _hints(workspace, system) if verb == "Running" else ():
        say(hint)


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


def _describe_start(said: ServiceStatus) -> str:
    if not said.is_installed:
        return "no"
    return "with a Claude Code session" if said.system is SystemName.BACKGROUND else "at login"


def _describe(state: ProcessState) -> str:
    if not state.is_alive:
        return "not running"
    silent = "" if state.silent_seconds is None else f", last heartbeat {state.silent_seconds:.0f} s ago"
    return f"running, pid {state.pid}{silent}"


# -- ``engram doctor``: what is wrong, and what to do about it.

_COLOURS = {State.OK: "green", State.WARN: "yellow", State.BAD: "red"}


@click.command("doctor")
@click.option(
    "--fix",
    "is_fixed",
    is_flag=True,
    help="Mend what is safe: modes of the memory folder, the hooks' interpreter, processes that do not run, hang or "
    "are outdated (default: only say what to do).",
)
@click.option(
    "--report",
    "is_report",
    is_flag=True,
    help="Print a text for a bug report, without paths, names and contents (default: the findings).",
)
@click.option(
    "--quick",
    "is_quick",
    is_flag=True,
    help="Do not read every row of the database (default: read them; that takes seconds for each 10,000 memories).",
)
@json_option
@pass_workspace
@click.pass_context
def doctor(
    ctx: click.Context, workspace: Workspace, is_fixed: bool, is_report: bool, is_quick: bool, as_json: bool
) -> None:
    """Check everything and say what to do. The exit code is 1 if something does not work.

    Checks the program and its interpreter, other programs of the same name, the database and who can read and write
    the memory folder, the transcripts and whether Claude Code is about to delete some, the service, whether watcher
    and worker run, make progress and run the installed code, the models, the hooks or the plugin, the MCP server and
    its permission, an earlier or a half-done installation, stages that fail or are behind, unreadable lines, and tasks
    that were given up.

    Example: engram doctor --fix
    """
    if is_report and (as_json or is_fixed):
        raise click.UsageError("--report is used alone")
    done: list[str] = []
    with _machine(workspace, is_quick) as machine:
        checks = run_checks(machine)
        if is_fixed:
            done = apply_fixes(machine, checks)
        elif is_report:
            click.echo(write_report(machine, checks))
            return
    if done:
        with _machine(workspace, is_quick) as machine:
            checks = run_checks(machine)
    is_well = all(check.state is not State.BAD for check in checks)
    if as_json:
        print_json({"ok": is_well, "fixed": done, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        _show(checks, done)
    ctx.exit(options.OK if is_well else options.FAILED)


def _show(checks: list[Check], done: list[str]) -> None:
    for line in done:
        say(f"fixed: {line}" if not line.startswith("could not") else line)
    for check in checks:
        click.secho(f"{check.state.value:<5}", fg=_COLOURS[check.state], nl=False)
        say(f"{check.name}: {check.detail}")
        if check.advice:
            say(f"     → {check.advice}")


@contextlib.contextmanager
def _machine(workspace: Workspace, is_quick: bool) -> Iterator[Machine]:
    """One look at this machine, with the open memory; if it can't be opened, with the reason."""
    settings, folder = workspace.settings, Path.cwd()
    with contextlib.ExitStack() as opened:
        try:
            store = opened.enter_context(workspace.store())
            machine = Machine(settings, folder, store, take_health(store, settings), is_quick=is_quick)
        except (HomeError, StoreError) as error:
            machine = Machine(settings, folder, error=error)
        yield machine
