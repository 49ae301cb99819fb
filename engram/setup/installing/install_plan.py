"""The whole plan of an installation: every step in order, including what must be kept from an earlier installation."""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engram.errors import EngramError, InstallError, NewerSchema, OlderSchema, ServiceError, StoreError
from engram.models.open_memory import open_memory
from engram.paths import Home, is_default_home
from engram.reports.processes import OtherProcess
from engram.settings import Settings
from engram.setup.agents.claude_code import CODEX, GEMINI, OPENCODE, Choices, ClaudeCode, leave_files, plan_connection
from engram.setup.agents.other_agents import opencode_folder, plan_codex, plan_gemini, plan_opencode
from engram.setup.edits.apply_edit import apply_change, drop_stale
from engram.setup.edits.file_state import StateKind, read_state, real_path
from engram.setup.edits.install_steps import FileChange, Step
from engram.setup.edits.journal import Journal
from engram.setup.installing.apply_steps import plan_files
from engram.setup.installing.install_run import with_former
from engram.setup.old_engram.find import EarlierEngram
from engram.setup.old_engram.retire import STEP_NAME, plan_retirement
from engram.setup.services.service_plan import end_other_versions, installed_system, plan_service
from engram.trust.display import number_of
from engram.worker.memory_file import upgrade_memory


def plan_installation(
    settings: Settings, choices: Choices, *, claude: ClaudeCode, earlier: EarlierEngram, journal: Journal | None
) -> list[Step]:
    """Return the steps: stop the earlier Engram, connect the agents, then start the service.

    Raises:
        InstallError: a file that must be changed can't be changed.
    """
    retirement = plan_retirement(earlier, settings) if earlier.is_active or earlier.databases else Step(STEP_NAME, "")
    former = journal.ledger.step(STEP_NAME) if journal is not None else None
    steps, folders = [with_former(retirement, former)], list[Settings]()
    for folder in settings.all_claude_folders:
        # The first folder's steps have the names that earlier installations recorded.
        further = "" if folder == settings.claude_folder else f" {folder}"
        of_folder = replace(settings, claude_folder=folder)
        folders.append(of_folder)
        for step in plan_connection(of_folder, choices, claude):
            steps.append(replace(step, name=f"{step.name}{further}"))
    for of_folder in folders:
        steps = [leave_files(step, of_folder) for step in steps]
    steps += _plan_agents(settings, choices)
    if choices.service:
        steps.append(plan_service(settings))
    return [step for step in steps if not step.is_empty or step.notes or step.left]


def _plan_agents(settings: Settings, choices: Choices) -> list[Step]:
    home = None if is_default_home(settings.places) else settings.places
    planners: tuple[tuple[str, Callable[..., Step], Path], ...] = (
        (CODEX, plan_codex, settings.codex_folder),
        (GEMINI, plan_gemini, settings.gemini_folder),
        (OPENCODE, plan_opencode, opencode_folder()),
    )
    return [plan(folder, home) for agent, plan, folder in planners if agent in choices.agents]


def undone_steps(steps: Sequence[Step], journal: Journal | None) -> tuple[str, ...]:
    """Return the summaries of the steps of an earlier installation that are no longer planned."""
    planned = {step.name for step in steps}
    former = () if journal is None else journal.ledger.steps
    return tuple(record.summary for record in former if record.name not in planned)


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that one run of `engram install` does. It is decided before anything is done.

    A dry run prints ``lines``; a run does what the fields say, and decides nothing else.
    """

    home: Home
    #: What is written to config.toml.
    settings: Mapping[str, str]
    #: Processes of another version, which will be stopped.
    others: Sequence[OtherProcess]
    #: True if memory.db will be upgraded.
    is_upgrade: bool
    steps: Sequence[Step]
    #: What an earlier installation did and this one does not; it is undone.
    undone: Sequence[str]
    #: Number of transcripts that will be read, and that are left to the service or `engram up`.
    reads: int
    left: int
    #: How long preparing their texts for the search by meaning takes; "" if the service does that later.
    preparing: str
    #: True if the memories of the earlier Engram will be imported.
    imports_earlier: bool

    def lines(self) -> Iterator[str]:
        """Yield what is done, line by line, in order. Raises InstallError, as ``preview`` does."""
        if self.settings:
            yield f"Write the settings {self.home.config_file}"
            yield from (f"  {name} = {value}" for name, value in self.settings.items())
        yield from (f"Stop a process of another version: {other.described}" for other in self.others)
        if self.is_upgrade:
            yield f"Copy {self.home.memory_db}, then upgrade it"
        elif not self.home.memory_db.exists():
            yield f"Create the memory {self.home.memory_db}"
        yield from preview(self.steps)
        yield from (f"Undo: {summary}" for summary in self.undone)
        if self.left:
            yield "Leave what is not read yet to the service or `engram up`"
        elif self.reads:
            also = f" and prepare the search by meaning (about {self.preparing})" if self.preparing else ""
            yield f"Read {number_of(self.reads, 'transcript')} into {self.home.root}{also}"
        if self.imports_earlier:
            yield "Import the memories of the earlier Engram"


# -- Before the steps: is memory.db from an earlier version, and which processes use it?


def is_upgrade(settings: Settings) -> bool:
    """Return True if memory.db is from an earlier version.

    Raises:
        NewerSchema: this version can't work with it; nothing has been asked or changed yet.
    """
    path = settings.places.memory_db
    if not path.is_file():
        return False
    try:
        with open_memory(path, driver=settings.sqlite_driver, is_made=False):
            return False
    except NewerSchema:
        raise
    except StoreError as error:
        return isinstance(error, OlderSchema)


def make_way(settings: Settings, others: Sequence[OtherProcess]) -> tuple[list[OtherProcess], Path | None]:
    """Stop another version's processes, and upgrade memory.db. Return the processes, and the copy from before.

    Raises:
        EngramError: nothing was upgraded, and a service's processes are running again.
    """
    system = installed_system(settings)
    was_running = bool(others) and system.status().is_running
    try:
        ended = end_other_versions(settings) if others else []
        return ended, upgrade_memory(settings.places, settings)
    except (EngramError, KeyboardInterrupt):
        if was_running:
            with contextlib.suppress(ServiceError):
                system.start()
        raise


# -- Show what a plan would do, as lines for `engram install --dry-run`. Nothing is written.


def preview(steps: Sequence[Step]) -> Iterator[str]:
    """Yield each step with its actions and files; for an edited file, only the lines that change.

    Raises:
        InstallError: a file can't be edited, or steps contradict each other.
    """
    files = plan_files(steps)
    for step in steps:
        yield step.summary
        yield from (f"  {action.describe()}" for action in step.before)
        changes = [list(_file_lines(change)) for name, change in files.values() if name == step.name]
        yield from (f"  {line}" for lines in changes for line in lines)
        if changes and not any(changes):
            yield "  already done"
        yield from (f"  {action.describe()}" for action in step.after)
        yield from (f"  note: {note}" for note in step.notes)


def _file_lines(change: FileChange) -> Iterator[str]:
    real = real_path(change.path, is_link=change.link_target is not None or change.is_removal)
    state, data = read_state(real)
    if change.is_removal:
        if state.kind is not StateKind.ABSENT:
            yield f"move {change.path} into the backup"
    elif change.link_target is not None:
        yield f"link {change.path} to {change.link_target}"
    elif change.edit is None:
        if state.kind is StateKind.ABSENT or data != change.content:
            yield f"{'create' if state.kind is StateKind.ABSENT else 'replace'} {change.path}"
    else:
        new, _ = apply_change(change, drop_stale(change.path, data, change))
        # The installation keeps the order of what it wrote earlier; the edit above may change it.
        if new != data and not _is_same_json(new, data):
            yield f"{'edit' if data else 'create'} {change.path}"
            yield from _changed_lines(change.path, data, new)


def _is_same_json(new: bytes, old: bytes) -> bool:
    try:
        return bool(json.loads(new) == json.loads(old))
    except ValueError:
        return False


def _changed_lines(path: Path, old: bytes, new: bytes) -> Iterator[str]:
    try:
        before, after = old.decode().splitlines(), new.decode().splitlines()
    except UnicodeDecodeError as error:
        raise InstallError(f"{path} is not UTF-8 text") from error
    for line in list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]:
        if not line.startswith("@@"):
            yield f"  {line}"
