"""What every command works with: the settings, the open memory, the redactor, the worker."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.errors import BadRequest, NotFound, ServiceError, SettingsError
from engram.paths import Home
from engram.settings import Loaded, Settings
from engram.vaults import load_inside

if TYPE_CHECKING:
    from engram.models.engine.transaction import Store
    from engram.models.projects.projects import ProjectRow


@dataclass(slots=True)
class Workspace:
    """Loads lazily: ``--help`` and commands without settings work with a broken config.toml."""

    #: Settings given as flags, by name.
    flags: Mapping[str, str] = field(default_factory=dict)
    _loaded: Loaded | None = None
    #: The project whose vault the command works on; None for the memory folder itself.
    vault: str | None = None

    @property
    def loaded(self) -> Loaded:
        """The settings, with the source of each. Raises SettingsError."""
        if self._loaded is None:
            self._loaded = load_inside(self.flags, self.vault)
        return self._loaded

    def reload(self) -> None:
        """Read the settings again at their next use, after config.toml was changed."""
        self._loaded = None

    @property
    def settings(self) -> Settings:
        """The settings. Raises SettingsError."""
        return self.loaded.settings

    @property
    def places(self) -> Home:
        """Every place in the memory folder."""
        return self.settings.places

    def with_flags(self, **flags: str) -> Workspace:
        """A copy with more flags."""
        return Workspace({**self.flags, **flags}, vault=self.vault)

    def arguments(self) -> list[str]:
        """The global flags as arguments for a child process, so that it uses the same folders."""
        arguments: list[str] = [] if self.vault is None else ["--vault", self.vault]
        for name, value in self.flags.items():
            arguments += ["--set", f"{name}={value}"]
        return arguments

    @contextlib.contextmanager
    def store(self, *, may_upgrade: bool = False) -> Iterator[Store]:
        """The open memory; folder and database are created if they are missing. Raises HomeError or StoreError.

        Args:
            may_upgrade: copy a memory.db of an earlier version and bring it up to date first.
        """
        from engram.models.open_memory import open_memory  # a tenth of a second that help does not need

        self.places.prepare()
        if may_upgrade:
            self.upgrade()
        with open_memory(self.places.memory_db, driver=self.settings.sqlite_driver, is_made=True) as store:
            yield store

    def upgrade(self) -> None:
        """Bring a memory.db of an earlier version up to date, and say where the copy from before is.

        Raises:
            OlderSchema: a worker or watcher of another version runs.
            StoreError: it can't be opened, or not copied.
        """
        from engram.worker.memory_file import upgrade_memory

        copy = upgrade_memory(self.places, self.settings)
        if copy is not None:
            click.echo(
                f"memory.db was brought up to date. The way back: `engram restore {copy.name}` with the version of "
                "before",
                err=True,
            )

    def wake_worker(self) -> None:
        """Tell a running worker that memories changed."""
        from engram.worker.client import wake_worker

        wake_worker(self.places)

    def redactor(self) -> Callable[[str], str]:
        """A function that masks secrets in a text."""
        from engram.redaction import redact

        return redact


def flags_from(home: str | None, claude_folder: str | None, assignments: tuple[str, ...]) -> dict[str, str]:
    """The global flags by setting name. Raises SettingsError for an unknown name."""
    known = {setting.name for setting in dataclasses.fields(Settings)}
    flags: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise SettingsError(f"--set {assignment!r}: there is no such setting. `engram config` lists them all.")
        flags[name] = value
    if home is not None:
        flags["home"] = home
    if claude_folder is not None:
        flags["claude_folder"] = claude_folder
    return flags


pass_workspace = click.make_pass_decorator(Workspace, ensure=True)


def current_folder() -> str:
    """Return the folder that the command runs in; "" if it was deleted meanwhile."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def require_project_id(store: Store, settings: Settings, name: str | None, *, hint: str) -> int:
    """Row id of the project that ``--project`` names, else of the current folder's, made where its folder is new.

    A folder may be named by its path, or by the name of its project if that is the current one.

    Args:
        hint: what else the user may do where the folder is no project's, such as "name one with --project".

    Raises:
        NotFound: no project of that name is known.
        BadRequest: the folder is one of projects.
    """
    from engram.ingest.scope import project_for, scope_of_folder

    folder = Path.cwd() if name is None else _named_folder(name)
    if name is not None and (folder is None or not folder.is_dir()):
        try:
            place = find_project(store, settings, name)
        except NotFound:
            if project_for(store, current_folder(), settings).name != name:
                raise
            place = scope_of_folder(store, settings, current_folder(), make=True).project
            if place is None:
                raise
        assert place is not None
        return place.id
    scope = scope_of_folder(store, settings, str(folder), make=True)
    if scope.project is None:
        raise BadRequest(f"{folder} is a folder of projects, not a project{hint}")
    return scope.project.id


def _named_folder(name: str) -> Path | None:
    """Return the folder that the name of a project is the path of; None for a name."""
    is_path = name == "." or "/" in name or name.startswith("~")
    return Path(name).expanduser().absolute() if is_path else None


def find_project(store: Store, settings: Settings, name: str | None) -> ProjectRow | None:
    """The project that ``--project`` names, by display name, identity or a folder in it; None if no name is given.

    Raises:
        NotFound: no such project is known; the message lists those that are.
    """
    if name is None:
        return None
    from engram.ingest.scope import named_project, scope_of_folder

    folder = _named_folder(name)
    if folder is not None:
        project = scope_of_folder(store, settings, str(folder)).project
        if project is not None:
            return project
    return named_project(store, name)


def restart_with_settings(workspace: Workspace) -> None:
    """Let a worker and a watcher that run use what was written to config.toml, and say so on standard error.

    They read the settings once, when they start: without this, a folder that was just excluded would still be read.

    Args:
        workspace: the memory; of a vault the memory folder around it counts.
    """
    from engram.cli.output import say
    from engram.reports.processes import process_state
    from engram.setup.services.service_plan import restart_if_running

    try:
        settings = Workspace(workspace.flags).settings
    except SettingsError:
        # Nothing starts with such settings; the next command says what is wrong with them.
        return
    places = settings.places
    if not any(process_state(lock).is_alive for lock in (places.worker_lock, places.watcher_lock)):
        return
    click.echo("Restarting the worker and the watcher, so that they use it …", err=True)
    try:
        if not restart_if_running(settings):
            click.echo("They run in a terminal: stop that `engram up` and start it again.", err=True)
    except ServiceError as error:
        say(f"They could not be restarted: {error}. Run: engram service restart", err=True)
