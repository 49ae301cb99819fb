"""``engram install``: connect Claude Code, start the service, and read existing sessions; all of it can be undone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from engram.cli import options
from engram.cli.options import agrees, if_stopped, json_command, yes_option
from engram.cli.output import has_terminal, print_json, say, say_wrapped
from engram.cli.report_commands import can_compare, extractor_settings, offer_comparison, store_settings
from engram.cli.up_once import (
    Existing,
    OwnQuestion,
    find_existing,
    find_new,
    find_own_question,
    history_lines,
    import_earlier,
    import_existing,
    print_history,
    reading_time,
    say_unless,
    waiting_note,
)
from engram.cli.workspace import Workspace, as_called_here
from engram.enums import ComparisonAnswer
from engram.errors import BadRequest, InstallError
from engram.extraction.model.compare_extractors import note_answer
from engram.models.rescue.restore import put_copy_back
from engram.reports.engram_checks import find_missing
from engram.reports.processes import OtherProcess, process_state, processes_of_other_code, terminal_run
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.setup.agents.claude_code import AGENTS, NOT_DONE, Choices, ClaudeCode, choose, find_claude_code
from engram.setup.edits.install_steps import Step
from engram.setup.edits.journal import Journal, load_journal
from engram.setup.installing.install_plan import Installation, is_upgrade, make_way, plan_installation, undone_steps
from engram.setup.installing.install_run import Outcome
from engram.setup.installing.install_uninstall import install_steps
from engram.setup.installing.preflight import (
    SERVED_BY_MODEL,
    SERVED_BY_RULES,
    CostEstimate,
    SelfTest,
    check_machine,
    cost_lines,
    estimate_cost,
    make_home,
    mod_price,
    run_self_test,
)
from engram.setup.installing.stray import find_leftovers
from engram.setup.old_engram.find import EarlierEngram, find_earlier
from engram.setup.services.service_definition import SystemName, has_login, network_variables
from engram.setup.services.service_plan import best_system
from engram.version import VERSION
from engram_hooks.block import link_interpreter

# -- What `engram install` asks: the earlier Engram, the permission, and who writes the memories.

_LEAVES = (
    "What then leaves this machine: what you and Claude said, with secrets masked, and the commands that were run, "
    "with their exit codes; no files and no tool output. Your own Claude Code sends it to Anthropic, with your login."
)
#: The answer of a user who wants to compare both ways before choosing.
COMPARE = "compare"
#: The command that shows what works.
STATUS = "engram status"


def show_earlier(found: EarlierEngram) -> None:
    click.echo("An earlier Engram is on this machine:")
    for line in found.lines():
        say(f"  {line}")
    say("It uses the same folder and socket, so only one can run. It will be stopped; its files are kept.")


def show_other_versions(found: Sequence[OtherProcess]) -> None:
    """Print which processes of another version are running, and what will happen to them."""
    click.echo("Another version of Engram is still running:")
    for process in found:
        say(f"  {process.described}")
    say("It will be stopped, and this version takes over; memory.db is copied before its tables change.")


def ask_extractor(settings: Settings, claude: ClaudeCode, cost: CostEstimate) -> str:
    """Ask who writes the memories; return a value of the setting ``extractor``, or ``COMPARE``."""
    from engram.extraction.model.claude_provider import seems_logged_out  # no other command of this module needs it

    click.echo("\nWho writes the memories?")
    # Don't recommend what can't be used right away.
    is_ready = claude.command is not None and not seems_logged_out(settings)
    has_model = is_ready or can_compare(settings)
    if claude.command is None:
        say("  claude  Your own Claude Code. It was not found here, so it can't be chosen yet.")
    else:
        claude_text = (
            f"Your own Claude Code. {'Recommended: such' if is_ready else 'Such'} memories help with {SERVED_BY_MODEL} "
            f"% of the prompts that a memory can help with; those of the rules, with {SERVED_BY_RULES} %."
        )
        say_wrapped(claude_text, first="  claude  ", rest=" " * 10)
        for line in [*cost_lines(settings, cost), _LEAVES]:
            say_wrapped(line, first=" " * 10, rest=" " * 10)
    say("  local   Rules on this machine. Nothing leaves it, and it costs nothing.")
    say("  openai  OpenAI or a compatible server, including one of your own, with your key.")
    if has_model:
        compare_text = (
            "Rules for now. At the end, you see the memories that each way makes from one of your own sessions, and "
            "choose. It takes one call to the language model, and you see its price first."
        )
        say_wrapped(compare_text, first="  compare ", rest=" " * 10)
    if claude.command is not None and not is_ready:
        say_wrapped("No Claude Code login was found: run `claude` and type /login before you choose claude.")
    answers = [*(["claude"] if claude.command else []), "local", "openai", *([COMPARE] if has_model else [])]
    # Pressing Enter must not send anything that was not sent before.
    default = settings.extractor if settings.extractor in answers else "local"
    return options.choose("Choose", answers, default)


def ask_mod(existing: Existing) -> bool:
    """Ask whether Claude Code should show what Engram handed to Claude."""
    say(
        "\nInside Claude Code, a dim line can say when a memory was handed to Claude, and /engram can show and search "
        "your memories. This needs a mod: a small program of Engram's that Claude Code runs. It changes nothing."
    )
    say(mod_price([*existing.first, *existing.rest], time.time()))
    return agrees("Add it? `engram install --no-mod` removes it again")


def ask_session_start() -> bool:
    """Ask whether Claude Code's sessions should start the worker and the watcher, if nothing starts them at login."""
    say("This machine has no launchd or systemd that could start Engram again after a restart.")
    return agrees("May a Claude Code session start Engram if it is not running?", default=True)


# -- The report at the end of `engram install`: where everything is and what to type next.


def print_report(
    workspace: Workspace,
    machine: Machine,
    choices: Choices,
    result: Result,
    question: OwnQuestion | None,
    *,
    is_writer_chosen: bool,
) -> None:
    """Print on one screen what was set up, what is kept of the user's history, a question of theirs, and what is next.

    Args:
        question: one of the user's own questions, with its answer; None if none was found.
        is_writer_chosen: the user has just chosen who writes the memories, and is not asked again.
    """
    settings = workspace.settings
    without = "" if result.test.has_vectors else ", without the model"
    click.secho(f"\nInstalled; the self-test passed in {result.test.seconds:.1f} s{without}", bold=True)
    later = waiting_note(workspace, has_service=choices.service)
    claude = machine.claude
    rows = {
        "memory": f"{settings.home}{later}",
        "Claude Code": claude.version or claude.command or "not found here; it finds Engram when it starts",
        **({} if choices.service else {"service": _no_service(settings)}),
        "writer": _writer(settings, is_writer_chosen=is_writer_chosen or claude.command is None),
    }
    for name, value in rows.items():
        say_wrapped(as_called_here(value), first=f"  {name:<12} ", rest=" " * 15)
    for note in result.notes:
        said = note if note.startswith(NOT_DONE) else f"Note: {note}"
        say_wrapped(as_called_here(said), first="  ", rest="  ")
    print_history(history_lines(workspace, machine.existing), question)
    if result.earlier:
        say_wrapped(as_called_here(result.earlier), first="  ", rest="  ")
    say_wrapped(as_called_here(f"Next: work in Claude Code as always. To see what Engram does, type: {STATUS}"))


def variable_notes(workspace: Workspace) -> list[str]:
    """Return notes about settings from this shell's environment variables, which a service does not see."""
    folders = ("home", "claude_folder")
    settings = [
        f"The service does not see this shell's ENGRAM_{name.upper()}; store it with `engram config set {name} …`"
        for name, source in sorted(workspace.loaded.sources.items())
        if source == "environment" and name not in folders
    ]
    if best_system(workspace.settings).name is SystemName.BACKGROUND:  # has this shell's variables
        return settings
    return settings + [
        f"The service does not see this shell's {name}, because its value contains a login."
        for name, value in network_variables(os.environ).items()
        if has_login(value)
    ]


def _no_service(settings: Settings) -> str:
    if settings.start_with_session and best_system(settings).name is SystemName.BACKGROUND:
        return "none now; your next Claude Code session starts it (start_with_session = true)"
    return "none: start it with `engram up`"


def _writer(settings: Settings, *, is_writer_chosen: bool) -> str:
    extractor, missing = settings.extractor, find_missing(settings)
    if missing is not None:
        return f"{missing.detail.removeprefix('extractor = ')}. To change that, {missing.advice}"
    if extractor in MODEL_EXTRACTORS:
        return f"{extractor}, from now on; `engram cost` shows what it spends"
    more = "" if is_writer_chosen else ". To let Claude write: engram install --extractor claude"
    return f"{extractor} rules: only what is sure; nothing leaves this machine{more}"


@click.command("install")
@click.option("--dry-run", is_flag=True, help="Show what would change, line by line (default: change it).")
@yes_option
@click.option(
    "--service/--no-service",
    default=None,
    help="Start the worker and the watcher at login (default: as last time; the first time, yes).",
)
@click.option(
    "--plugin/--no-plugin",
    default=None,
    help="Connect Claude Code by a plugin, or by its settings files (default: as last time; the first time, a plugin).",
)
@click.option(
    "--statusline/--no-statusline",
    default=None,
    help="Show in Claude Code's status line what Engram is doing (default: as last time; the first time, no).",
)
@click.option(
    "--mod/--no-mod",
    default=None,
    help="Show inside Claude Code what was handed to Claude, and answer /engram there (default: as last time; until "
    "you are asked, no).",
)
@click.option(
    "--no-import", is_flag=True, help="Leave existing sessions to the service or `engram up` (default: read them)."
)
@click.option(
    "--extractor",
    type=click.Choice(["claude", "openai", "local"]),
    help="Who writes the memories (default: ask; with --yes, as last time, and local the first time).",
)
@click.option(
    "--agent",
    "agents",
    type=click.Choice(AGENTS),
    multiple=True,
    help="Also give this agent the memory tools; can be repeated (default: as last time; the first time, none).",
)
@json_command
@click.pass_context
def install(
    ctx: click.Context,
    workspace: Workspace,
    dry_run: bool,
    yes: bool,
    service: bool | None,
    plugin: bool | None,
    statusline: bool | None,
    mod: bool | None,
    no_import: bool,
    extractor: str | None,
    agents: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set up Engram on this machine: connect Claude Code, start the service, and read existing sessions.

    Run it again after an update: it updates what changed and restarts what is running. It saves the original of every
    file that it changes; `engram uninstall` restores them. If it is interrupted, run it again, or uninstall. If a file
    of Claude Code's had to be left as it is, everything else is done, and the exit code is 1.

    Example: engram install --dry-run
    """
    workspace.require_claude_folder()
    settings = workspace.settings
    check_machine(settings)
    journal = load_journal(settings.places)
    machine = _look(workspace, journal)
    stored = journal.options if journal else {}
    agents = tuple(sorted({*stored.get("agents", ()), *agents}))
    choices = choose(stored, service=service, plugin=plugin, statusline=statusline, mod=mod, agents=agents)
    _require_model(settings, extractor, machine.claude)
    answers = Answers(choices)
    questions = [] if yes else list(_questions(workspace, choices, machine, extractor))

    def plan() -> Installation:
        writer = extractor or ("local" if answers.writer == COMPARE else answers.writer)
        wanted = extractor_settings(workspace, writer, machine.claude.command) | answers.settings
        return _plan(workspace, answers.choices, machine, wanted, reads=not no_import, is_upgrade=is_upgrade(settings))

    if dry_run:
        _print_plan(workspace, plan(), [question.decides for question in questions], machine, as_json)
        return
    if as_json and not yes:
        raise BadRequest("--json can't ask: add --yes")
    if machine.earlier.is_active and not as_json:
        show_earlier(machine.earlier)
    if machine.others and not as_json:
        show_other_versions(machine.others)
    try:
        for question in questions:
            question.ask(answers)
    except click.Abort:
        go_on = "To continue, type: engram install" if has_terminal() else "There is no terminal to ask in: add --yes"
        raise InstallError(f"nothing was changed. {go_on}") from None
    planned = plan()
    make_home(settings.places)
    with if_stopped(
        "The changes of this installation were undone, except for the memory in "
        f"{settings.home}. To continue, type: engram install. To delete the memory: engram uninstall --purge"
    ):
        result = _apply(workspace, answers.choices, machine, planned, is_quiet=as_json)
    with if_stopped(
        "Engram is installed; only the end of this report is missing: `engram status` shows what works. "
        "To undo everything, type: engram uninstall"
    ):
        is_chosen = bool(extractor or answers.writer)
        _finish(workspace, answers.choices, machine, result, as_json, is_writer_chosen=is_chosen)
        _compare(workspace, answers.writer)
    ctx.exit(options.FAILED if any(note.startswith(NOT_DONE) for note in result.notes) else options.OK)


@dataclass(frozen=True, slots=True)
class Machine:
    claude: ClaudeCode
    earlier: EarlierEngram
    existing: Existing
    journal: Journal | None
    #: Engram processes that run different code.
    others: Sequence[OtherProcess]


@dataclass(frozen=True, slots=True)
class Result:
    outcome: Outcome
    steps: Sequence[Step]
    imported: dict[str, Any]
    #: What to print about the earlier Engram's memories; "" for nothing.
    earlier: str
    test: SelfTest

    @property
    def notes(self) -> list[str]:
        return [*self.outcome.notes, *(note for step in self.steps for note in step.notes)]


def _look(workspace: Workspace, journal: Journal | None) -> Machine:
    settings = workspace.settings
    worker = process_state(settings.places.worker_lock)
    return Machine(
        claude=find_claude_code(settings),
        earlier=find_earlier(settings, worker_pid=worker.pid or 0),
        existing=find_existing(settings, time.time()),
        journal=journal,
        others=processes_of_other_code(settings.places),
    )


def _plan(
    workspace: Workspace,
    choices: Choices,
    machine: Machine,
    wanted: Mapping[str, str],
    *,
    reads: bool,
    is_upgrade: bool,
) -> Installation:
    """Return everything that the installation will do, including the settings that it writes first."""
    settings = workspace.with_flags(**wanted).settings
    is_first = machine.journal is None or machine.journal.is_half_done
    reads_now = reads and not (choices.service and not is_first)
    steps = plan_installation(
        settings, choices, claude=machine.claude, earlier=machine.earlier, journal=machine.journal
    )
    new = find_new(workspace, machine.existing) if reads_now else None
    return Installation(
        home=settings.places,
        settings=wanted,
        others=machine.others,
        is_upgrade=is_upgrade,
        steps=steps,
        undone=undone_steps(steps, machine.journal),
        reads=new.files if new else 0,
        preparing=reading_time(new) if new and not choices.service else "",
        left=0 if reads_now else machine.existing.number,
        imports_earlier=reads and any(database.memories for database in machine.earlier.databases),
    )


@dataclass(slots=True)
class Answers:
    choices: Choices
    #: Who writes the memories, or COMPARE; None if that was not asked.
    writer: str | None = None
    #: Settings that an answer writes.
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that only the user can answer; most are asked only at the first installation."""

    #: What the answer decides, as a dry run prints it.
    decides: str
    #: Asks the user, and changes the answers. Raises Abort if the user declines or nobody is there to answer.
    ask: Callable[[Answers], None]


def _questions(workspace: Workspace, choices: Choices, machine: Machine, extractor: str | None) -> Iterator[Question]:
    """Yield the questions, in order. A dry run lists them; a real run asks them."""

    def permission(answers: Answers) -> None:
        may_use = agrees("May Claude search and save memories without asking you each time?", default=True)
        answers.choices = choose(answers.choices.to_json(), permissions=may_use)

    def writer(answers: Answers) -> None:
        cost = estimate_cost([*machine.existing.first, *machine.existing.rest], time.time())
        answers.writer = ask_extractor(workspace.settings, machine.claude, cost)

    def start(answers: Answers) -> None:
        if ask_session_start():
            answers.settings["start_with_session"] = "true"

    def mod(answers: Answers) -> None:
        answers.choices = choose(answers.choices.to_json(), mod=ask_mod(machine.existing))

    config = workspace.places.config_file
    if machine.earlier.is_active:
        yield Question("whether the earlier Engram may be stopped", lambda _: _require("Stop it and continue?", False))
    if machine.others:
        yield Question("whether the other version may be stopped", lambda _: _require("Stop them and continue?", True))
    if machine.journal is None:
        yield Question("whether Claude may use the memory tools without asking", permission)
        if extractor is None:
            yield Question(f"who writes the memories (extractor in {config})", writer)
    if _may_ask_session_start(workspace, choices):
        yield Question(f"whether a Claude Code session may start it (start_with_session in {config})", start)
    if choices.mod is None and choices.plugin and machine.claude.supports_mods and has_terminal():
        yield Question("whether the mod is added to the plugin", mod)


def _require(question: str, default: bool) -> None:
    if not agrees(question, default=default):
        raise click.Abort


def _may_ask_session_start(workspace: Workspace, choices: Choices) -> bool:
    """Return True if nothing starts the processes after a reboot, and nobody has chosen yet whether sessions do."""
    is_open = workspace.loaded.sources["start_with_session"] == "default"
    return choices.service and is_open and best_system(workspace.settings).name is SystemName.BACKGROUND


def _print_plan(
    workspace: Workspace, plan: Installation, asked: Sequence[str], machine: Machine, as_json: bool
) -> None:
    """Show what an installation would ask, and what it would do without an answer."""
    redact = workspace.redactor()
    lines = [as_called_here(redact(line)) for line in plan.lines()]
    if as_json:
        print_json({"asks": list(asked), "plan": lines, "sessions": machine.existing.number})
        return
    for question in asked:
        say(f"Ask {question}")
    click.echo("With --yes, no questions are asked, and this would be done:" if asked else "This would be done:")
    for line in lines:
        say(line)
    click.echo("Nothing was changed.")


def _require_model(settings: Settings, extractor: str | None, claude: ClaudeCode) -> None:
    """Raise BadRequest, before anything is asked, if the chosen writer is not available."""
    if extractor == "openai" and find_missing(replace(settings, extractor=extractor)) is not None:
        raise BadRequest(
            "OPENAI_API_KEY is not set, so a model can't write the memories. Write OPENAI_API_KEY=… into "
            f"{settings.places.env_file} (mode 0600), or choose --extractor local"
        )
    if extractor == "claude" and claude.command is None:
        raise BadRequest(
            "Claude Code was not found, so it can't write the memories. Install it, or choose --extractor local; "
            "`engram config set extractor claude` chooses it later"
        )


def _compare(workspace: Workspace, answer: str | None) -> None:
    """Show what each way makes from a session if the user asked for that; note if the user chose the rules."""
    if answer not in (COMPARE, "local"):
        return
    with workspace.store() as store:
        if answer == COMPARE:
            offer_comparison(workspace, store, is_asked_for=True)
        elif can_compare(workspace.settings):
            note_answer(store, ComparisonAnswer.NO)


def _apply(workspace: Workspace, choices: Choices, machine: Machine, plan: Installation, *, is_quiet: bool) -> Result:
    """Change the machine, read sessions before the service starts, and test the result."""
    store_settings(workspace, plan.settings)
    settings = workspace.settings
    imported: dict[str, Any] = {}

    def read_sessions() -> None:
        if not (plan.left or imported):
            imported.update(
                import_existing(
                    workspace,
                    machine.existing,
                    new=plan.reads,
                    preparing=plan.preparing,
                    has_service=choices.service,
                    is_quiet=is_quiet,
                )
            )

    def before_step(step: Step) -> None:
        if step.name == "service":
            read_sessions()
        say_unless(is_quiet, f"• {step.summary.partition(' (')[0]}")

    imported_earlier, test = "", SelfTest("", 0.0)

    def check() -> None:
        """Do the other steps that can fail, so that a failed installation leaves nothing behind."""
        nonlocal imported_earlier, test
        if not choices.service:
            read_sessions()
        # Opening the store creates memory.db, even if no session was read.
        with workspace.store():
            pass
        imported_earlier = _import_earlier(workspace, machine, plan)
        test = run_self_test(settings)
        if test.problem:
            raise InstallError(f"the self-test failed: {test.problem}")

    ended, copy = make_way(settings, plan.others)

    def put_back() -> None:
        if copy is not None:
            put_copy_back(settings.places.memory_db, copy)

    link_interpreter(settings.places)
    for summary in plan.undone:
        say_unless(is_quiet, f"• Undo: {summary.partition(' (')[0]}")
    outcome = install_steps(
        settings.places,
        plan.steps,
        options=choices.to_json(),
        version=VERSION,
        leftovers=find_leftovers(settings) if machine.journal is None else None,
        before_step=before_step,
        check=check,
        put_back=put_back,
    )
    outcome.notes += [f"Ended a process of another version: {other.described}" for other in ended]
    if copy is not None:
        outcome.notes += [f"memory.db was upgraded. To go back: `engram restore {copy.name}` with the earlier version"]
    if choices.service:
        outcome.notes += variable_notes(workspace)
    elif terminal_run(workspace.places) is not None:
        outcome.notes.append("An `engram up` is still running the old code: stop it and start it again.")
    return Result(outcome, plan.steps, imported, imported_earlier, test)


def _import_earlier(workspace: Workspace, machine: Machine, plan: Installation) -> str:
    if not any(database.memories for database in machine.earlier.databases):
        return ""
    if not plan.imports_earlier:
        return "The earlier Engram's memories were not imported; `engram import --from earlier` does that at any time."
    return import_earlier(workspace)


def _finish(
    workspace: Workspace, choices: Choices, machine: Machine, result: Result, as_json: bool, *, is_writer_chosen: bool
) -> None:
    with workspace.store() as store:
        question = find_own_question(store, workspace.settings)
    if not as_json:
        print_report(workspace, machine, choices, result, question, is_writer_chosen=is_writer_chosen)
        return
    print_json(
        {
            "version": VERSION,
            "steps": [step.name for step in result.steps],
            "changed": result.outcome.changed,
            "notes": result.notes,
            "imported": result.imported,
            "earlier": result.earlier or None,
            "self_test": {"ok": not result.test.problem, "problem": result.test.problem or None},
            "next": question.command if question else STATUS,
        }
    )
