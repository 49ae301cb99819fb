"""The table of all checks of ``engram doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from engram.doctor.folders import check_claude_folder, check_cleanup, check_writable
from engram.doctor.installation import check_earlier, check_half_done, check_interpreters, check_service
from engram.doctor.machine import Machine
from engram.doctor.programs import check_programs
from engram.doctor.running import check_processes, check_worker
from engram.errors import BrokenDatabase, EngramError, MissingDatabase, OlderSchema
from engram.paths import is_default_home
from engram.plugin.checks import check_registrations, has_plugin, plugin_name
from engram.plugin.plan import permission_rule
from engram.plugin.registered import find_registrations, read_documents
from engram.reports.checks import Check, State, check_all
from engram.reports.claude_checks import check_claude, server_name
from engram.reports.model_checks import check_language_model
from engram_hooks.block import settings_block


def check_memory(machine: Machine) -> Iterable[Check]:
    """The checks of the memory itself; if it can't be opened, that is the finding."""
    if machine.store is not None and machine.health is not None:
        return check_all(machine.store, machine.settings, machine.health, is_quick=machine.is_quick)
    if isinstance(machine.error, BrokenDatabase):
        advice = "run `engram up`, which sets the file aside and reads the transcripts again, or `engram restore`"
        return [Check("memory.db", State.BAD, str(machine.error), advice, command="engram up", public="damaged")]
    if isinstance(machine.error, MissingDatabase):
        advice = "to bring the newest backup back, run: engram restore. To begin anew, run: engram restore --new"
        return [Check("memory.db", State.BAD, str(machine.error), advice, command="engram restore", public="deleted")]
    if isinstance(machine.error, OlderSchema):
        advice = "run: engram install"
        return [Check("memory.db", State.BAD, str(machine.error), advice, command="engram install", public="older")]
    advice = "correct that, or set another folder in ENGRAM_HOME"
    return [Check("memory folder", State.BAD, str(machine.error), advice, public="can't be used")]


def check_hooks(machine: Machine) -> Iterator[Check]:
    """The checks of the hooks, the plugin, the MCP server, and the permission to use it."""
    by_plugin = has_plugin(machine.registrations)
    home = None if is_default_home(machine.home) else machine.home
    yield from check_registrations(machine.registrations, home)
    for folder in machine.settings.all_claude_folders[1:]:
        if not find_registrations(read_documents(folder)):
            yield Check(
                "configuration folder",
                State.WARN,
                f"{folder} (claude_folders) is read, but Claude Code is not connected there",
                "run: engram install",
                command="engram install",
                public="not connected",
            )
    yield from check_claude(
        machine.settings,
        settings_block(),
        machine.folder,
        rule=permission_rule(
            plugin_name(machine.registrations) if by_plugin else server_name(machine.settings), is_plugin=by_plugin
        ),
        has_plugin=by_plugin,
    )


def check_language_models(machine: Machine) -> Iterator[Check]:
    """The check of the language model. Nothing is sent."""
    return check_language_model(machine.settings)


#: Every check, in the order of the output: a name for failures, and a function.
CHECKS: tuple[tuple[str, Callable[[Machine], Iterable[Check]]], ...] = (
    ("memory", check_memory),
    ("writing", check_writable),
    ("programs", check_programs),
    ("interpreters", check_interpreters),
    ("installation", check_half_done),
    ("earlier Engram", check_earlier),
    ("service", check_service),
    ("processes", check_processes),
    ("worker", check_worker),
    ("language model", check_language_models),
    ("Claude Code", check_hooks),
    ("sessions elsewhere", check_claude_folder),
    ("cleanup", check_cleanup),
)


def run_checks(machine: Machine) -> list[Check]:
    """Run every check. One that fails is a finding, and the others still run."""
    findings: list[Check] = []
    for name, check in CHECKS:
        try:
            findings += check(machine)
        except (EngramError, OSError) as error:
            findings.append(
                Check(name, State.WARN, f"can't be checked: {error}", "correct that, then run: engram doctor")
            )
    return findings
