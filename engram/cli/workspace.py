"""The context of every command: the settings, the open memory, the redactor and the worker."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.output import say
from engram.errors import BadRequest, MissingHome, NotFound, OlderSchema, ServiceError, SettingsError, StoreError
from engram.paths import Home, absolute_path, check_private, current_folder
from engram.settings import ConfigFault, Loaded, Settings
from engram.trust.display import shell_quoted
from engram.vaults import (
    explain_same_repository,
    list_vaults,
    load_inside,
    own_vault,
    takes_vault,
    vault_of_same_repository,
)

if TYPE_CHECKING:
    from engram.models.engine.transaction import Store
    from engram.models.projects.projects import ProjectRow


@dataclass(slots=True)
class Workspace:
    """Loads lazily, so that ``--help`` and commands without settings work with a broken config.toml."""

    #: Settings given as flags, by name.
    flags: Mapping[str, str] = field(default_factory=dict)
    _loaded: Loaded | None = None
    #: The project whose vault the command works on; None for the memory folder itself.
    vault: str | None = None
    #: False for a command that only reads or changes an existing memory.
    may_make_home: bool = True

    @property
    def loaded(self) -> Loaded:
        """The settings, with the source of each. Raises SettingsError."""
        if self._loaded is None:
            self._loaded = load_inside(self.flags, self.vault)
        return self._loaded

    def reload(self) -> None:
        """Read the settings again at their next use, because config.toml has changed."""
        self._loaded = None

    def load_around_faults(self) -> list[ConfigFault]:
        """Load the settings without the faulty lines of config.toml, and return the faults."""
        faults: list[ConfigFault] = []
        self._loaded = load_inside(self.flags, self.vault, faults=faults)
        return faults

    def pass_over_faults(self) -> None:
        """Load the settings without the faulty lines of config.toml, and report those lines.

        Commands that stop Engram or diagnose it use this, because they must work with a faulty config.toml.
        """
        for fault in self.load_around_faults():
            advise(f"Ignored: {fault.text}", err=True)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def places(self) -> Home:
        return self.settings.places

    def use_flags(self, **flags: str) -> None:
        self.flags = {**self.flags, **flags}
        self.reload()

    def with_flags(self, **flags: str) -> Workspace:
        return Workspace({**self.flags, **flags}, vault=self.vault)

    def arguments(self) -> list[str]:
        """Return the global flags as arguments for a child process, so that it uses the same folders."""
        arguments: list[str] = [] if self.vault is None else ["--vault", self.vault]
        for name, value in self.flags.items():
            arguments += ["--set", f"{name}={value}"]
        return arguments

    def log_warnings(self) -> None:
        """Write what this process warns of to cli.log instead of the terminal. The memory folder exists."""
        from engram.log import log_warnings

        log_warnings(self.places.logs, "cli", lambda text: self.redactor()(text))

    @contextlib.contextmanager
    def store(self, *, may_upgrade: bool = False) -> Iterator[Store]:
        """Open the memory; its folder and database are created if they are missing. Raises HomeError or StoreError.

        Args:
            may_upgrade: first copy the memory.db of an earlier version, and upgrade it.
        """
        from engram.models.open_memory import open_memory  # takes a tenth of a second, which help can do without

        self.require_home()
        self.places.prepare()
        self.log_warnings()
        if may_upgrade:
            self.upgrade()
        with open_memory(self.places.memory_db, driver=self.settings.sqlite_driver, is_made=True) as store:
            yield store

    @contextlib.contextmanager
    def existing_store(self) -> Iterator[Store]:
        """Open a memory that must not be made. Raises StoreError."""
        from engram.models.open_memory import open_memory  # as in ``store``

        self.log_warnings()
        with open_memory(self.places.memory_db, driver=self.settings.sqlite_driver, is_made=False) as store:
            yield store

    @contextlib.contextmanager
    def stores(self, *, with_vaults: bool = True) -> Iterator[list[Store]]:
        """Open the memory and its vaults, for a command about everything; report vaults that can't be opened.

        Raises HomeError or StoreError for the memory itself.
        """
        from engram.models.open_memory import open_vaults

        with self.store() as store:
            if not with_vaults:
                yield [store]
                return
            with open_vaults(self.places, driver=self.settings.sqlite_driver) as (vaults, faults):
                yield [store, *vaults]
        for fault in faults:
            say(fault, err=True)

    def require_home(self) -> None:
        """Raise MissingHome if there is no memory folder and the command must not create one: its name may be wrong."""
        places = self.places
        if self.may_make_home or places.memory_db.exists() or places.logs.is_dir() or places.root.is_file():
            return
        places.check_place()
        self.require_claude_folder()
        if self.loaded.sources["home"] == "default":
            raise MissingHome(f"there is no memory yet in {places.root}. Type: engram install")
        if places.root.is_dir():
            check_private(places.root, is_dry=True)
        raise MissingHome(
            f"there is no memory in {places.root}. Is the name right? (`engram` without --home and ENGRAM_HOME uses "
            "~/.claude-memory.) To read your sessions into a new one: engram up --once"
        )

    def require_claude_folder(self) -> None:
        """Raise NotFound for a typed --claude-folder that is not there.

        A folder of the settings may be mounted later, and ~/.claude is made when Claude Code first starts.
        """
        folder = self.settings.claude_folder
        if self.loaded.sources["claude_folder"] == "flag" and not folder.is_dir():
            raise NotFound(f"there is no folder {folder}; --claude-folder takes a folder that has projects/ in it")

    def upgrade(self) -> None:
        """Upgrade the memory.db of an earlier version, and print how to go back.

        Raises:
            OlderSchema: a worker or watcher of another version is running.
            StoreError: the database can't be opened or copied.
        """
        from engram.worker.memory_file import upgrade_memory

        copy = upgrade_memory(self.places, self.settings)
        if copy is not None:
            advise(
                f"memory.db was upgraded. To go back: `engram restore {copy.name}` with the earlier version",
                err=True,
            )

    def wake_worker(self) -> None:
        """Notify a running worker that memories have changed."""
        from engram.worker.worker_client import wake_worker

        wake_worker(self.places)

    def read_rest(self, store: Store, session_id: str) -> None:
        """Read what was said in a session and has not been read yet."""
        from engram.ingest.read_sources import ingest_session
        from engram.redaction import redact

        ingest_session(store, session_id, settings=self.settings, redact=redact)

    def redactor(self) -> Callable[[str], str]:
        """Return a function that masks secrets in a text."""
        from engram.redaction import redact

        return redact


# -- Commands in messages: each is printed so that it works on the same memory when the user types it.

#: The commands that read or change Claude Code's folder.
_OF_CLAUDE_FOLDER = frozenset("up install uninstall setup service doctor".split())


def advise(text: str, *, err: bool = False, **style: Any) -> None:
    """Print one of Engram's own messages that contains commands to type.

    Args:
        style: as in ``click.style``.
    """
    say(as_called_here(text), err=err, **style)


def as_called_here(text: str) -> str:
    """Return a message with every Engram command written the way this process was called, for the same memory."""
    context = click.get_current_context(silent=True)
    root = context.find_root() if context is not None else None
    if root is None or not isinstance(root.obj, Workspace) or not isinstance(root.command, click.Group):
        return text
    workspace, names = root.obj, "|".join(root.command.list_commands(root))
    named = rf"(?<![\w/.-])engram (?=(projects (?:un)?vault|{names}|--vault|--help)\b)"
    return re.sub(named, lambda found: f"{call_of(workspace, found[1])} ", text)


def call_of(workspace: Workspace, command: str) -> str:
    """Return how to call a command on this memory from here: ``engram``, or its path, with the necessary flags."""
    started_as = Path(sys.argv[0])
    program = "engram" if shutil.which("engram") or started_as.name != "engram" else shlex.quote(sys.argv[0])
    names = ("home", "claude_folder") if command in _OF_CLAUDE_FOLDER else ("home",)
    folders = [
        f"--{name.replace('_', '-')} {shell_quoted(_from_here(workspace.flags[name]))}"
        for name in names
        if workspace.flags.get(name)
    ]
    name = workspace.vault if takes_vault(command) else None
    vault = [] if name is None else [f"--vault {shlex.quote(name)}"]
    return " ".join([program, *folders, *vault])


def _from_here(folder: str) -> str:
    """Return a folder as a path that is valid from the current folder."""
    path, here = absolute_path(folder), current_folder()
    return os.path.relpath(path, here) if here and path.is_relative_to(here) else str(path)


def flags_from(home: str | None, claude_folder: str | None, assignments: tuple[str, ...]) -> dict[str, str]:
    """Return the global flags by setting name. Raises SettingsError for an unknown name."""
    known = {setting.name for setting in dataclasses.fields(Settings)}
    flags: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise SettingsError(f"--set {assignment!r}: there is no such setting. `engram config` lists them all.")
        if not equals:
            raise SettingsError(f"--set {assignment!r}: give its value, too: --set {name}=VALUE")
        flags[name] = value
    if home is not None:
        flags["home"] = home
    if claude_folder is not None:
        flags["claude_folder"] = claude_folder
    return flags


pass_workspace = click.make_pass_decorator(Workspace, ensure=True)


def require_project_id(store: Store, settings: Settings, name: str | None, *, hint: str) -> int:
    """Return the row id of the project given by ``--project``, or else of the current folder's. Create a new project.

    ``name`` is a folder, a known project's name, or the name that the current folder's project would get.

    Args:
        hint: what else the user can do if the folder does not belong to a project, such as "name one with --project".

    Raises:
        NotFound: no project with that name is known.
        BadRequest: the folder is one that contains projects.
    """
    place = _wanted_project(store, settings, name, hint=hint, make=True)
    assert place is not None
    return place.id


def check_project(store: Store, settings: Settings, name: str | None, *, hint: str) -> None:
    """Raise what ``require_project_id`` would, but create nothing."""
    _wanted_project(store, settings, name, hint=hint, make=False)


def _wanted_project(store: Store, settings: Settings, name: str | None, *, hint: str, make: bool) -> ProjectRow | None:
    """Return the project. If it is new, create it if ``make``; otherwise return None."""
    from engram.ingest.session_project import project_for, scope_of_folder
    from engram.transcripts.project import holds_homes

    here = current_folder()
    if name is None and not here:
        raise BadRequest(f"the current folder has been deleted{hint}")
    folder = Path(here) if name is None else _named_folder(name)
    if name is not None and (folder is None or not folder.is_dir()):
        try:
            return find_project(store, settings, name)
        except NotFound:
            if project_for(store, here, settings).name != name:
                raise
            folder = Path(here)
    _refuse_folder_of_vault(settings, str(folder))
    # The home folder becomes a project only with a session in it, as a repository, or if ``name`` names it.
    is_around = name is None and holds_homes(Path(here)) and not project_for(store, here, settings).is_repository
    scope = scope_of_folder(store, settings, str(folder), make=make and not is_around)
    if scope.is_elsewhere:
        raise BadRequest(f"{folder} is not in the project of this vault{hint}")
    if scope.project is None and (make or scope.is_global or is_around):
        raise BadRequest(f"{folder} is a folder of projects, not a project{hint}")
    return scope.project


def project_of_folder(store: Store, settings: Settings, folder: str) -> ProjectRow | None:
    """Return the project that a folder belongs to, if it is known.

    Raises:
        BadRequest: the project is in a vault, so this memory contains nothing of it.
    """
    from engram.ingest.session_project import scope_of_folder

    _refuse_folder_of_vault(settings, folder)
    return scope_of_folder(store, settings, folder).project


def _refuse_folder_of_vault(settings: Settings, folder: str) -> None:
    """Raise BadRequest for a folder whose memory is in a vault, with the command that uses the vault."""
    from engram.ingest.session_project import identify_folder

    if message := vault_note(settings, folder):
        raise BadRequest(message)
    place = identify_folder(folder, settings)
    same = vault_of_same_repository(settings.places, place.identity)
    if same is not None and own_vault(settings.places) is None:
        raise BadRequest(". ".join(explain_same_repository(same, place.root)))


def vault_note(settings: Settings, folder: str) -> str:
    """Return a sentence that says in which vault a folder's memory is, and how to use it; "" if it is in none."""
    if not list_vaults(settings.places):
        return ""  # without importing what identifies a folder
    from engram.ingest.session_project import vault_of

    vault = vault_of(settings, folder)
    if vault is None:
        return ""
    context = click.get_current_context(silent=True)
    command = "" if context is None else f" {context.command_path.partition(' ')[2]}"
    return f"the memory of {folder} is in the vault of {vault.name}: engram --vault {shlex.quote(vault.name)}{command}"


def _named_folder(name: str) -> Path | None:
    is_path = name == "." or "/" in name or name.startswith("~")
    return absolute_path(name) if is_path else None


def find_project(store: Store, settings: Settings, name: str | None) -> ProjectRow | None:
    """Return the project given by ``--project``, by display name, identity or a folder in it; None without a name.

    Raises:
        NotFound: no such project is known; the message lists those that are.
    """
    if name is None:
        return None
    from engram.ingest.session_project import named_project

    folder = _named_folder(name)
    if folder is not None:
        project = project_of_folder(store, settings, str(folder))
        if project is not None:
            return project
    return named_project(store, name)


def chosen_project(store: Store, settings: Settings, name: str | None) -> ProjectRow | None:
    """Return the project given by ``--project``, else the current folder's, if it is known. Raises NotFound."""
    named = find_project(store, settings, name)
    return named or project_of_folder(store, settings, current_folder())


def _forget_failures(workspace: Workspace) -> None:
    """Forget the failures of stages that may fail because of settings, if the memory can be opened.

    Raises:
        OlderSchema: an earlier version wrote memory.db.
    """
    from engram.models.work.task_runs import STAGES_OF_SETTINGS, clear_failures

    if workspace.places.memory_db.is_file():
        try:
            with workspace.existing_store() as store:
                clear_failures(store, STAGES_OF_SETTINGS)
        except OlderSchema:
            raise
        except StoreError:
            return


def restart_with_settings(workspace: Workspace) -> None:
    """Make running worker and watcher processes use what was written to config.toml, and report that on standard error.

    They read the settings once, when they start, so without this, a folder that was just excluded would still be read.
    Failures caused by the previous settings are forgotten at once; whatever still fails is recorded again. Processes of
    an earlier version are left alone: a new worker would upgrade memory.db, which only an installation may do.

    Args:
        workspace: the workspace of the memory; for a vault, of the memory folder that contains it.
    """
    from engram.reports.processes import process_state
    from engram.setup.services.service_plan import restart_if_running

    around = Workspace(workspace.flags)
    try:
        settings = around.settings
    except SettingsError:
        # Nothing can start with such settings; the next command reports what is wrong.
        return
    places, older = settings.places, ""
    try:
        _forget_failures(around)
    except OlderSchema as error:
        older = str(error)
    if not any(process_state(lock).is_alive for lock in (places.worker_lock, places.watcher_lock)):
        return
    if older:
        advise(f"The worker and the watcher keep the former setting until they are replaced: {older}", err=True)
        return
    say("Restarting the worker and the watcher, so that they use the new setting …", err=True)
    try:
        if not restart_if_running(settings):
            advise("They run in a terminal: stop that `engram up` and start it again.", err=True)
        else:
            click.echo("Both are running again, with the new setting.", err=True)
    except ServiceError as error:
        advise(f"They could not be restarted: {error}. Run: engram service restart", err=True)
