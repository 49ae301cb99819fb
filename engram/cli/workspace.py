"""What every command works on: the settings as flags and files say, the open memory, the redactor."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from engram.errors import SettingsError
from engram.ingest.folder import named_project, scope_of_folder
from engram.models.projects import ProjectRow
from engram.models.replacement import using_database
from engram.models.stages import note_failure
from engram.models.store import Store, open_store
from engram.paths import Home
from engram.settings import Loaded, Settings, load
from engram.worker.client import ask_worker


@dataclass(slots=True)
class Workspace:
    """Lazy: a command that needs no settings reads none, and ``--help`` works with a broken config.toml."""

    #: Settings given as flags, by name.
    flags: Mapping[str, str] = field(default_factory=dict)
    _loaded: Loaded | None = None

    @property
    def loaded(self) -> Loaded:
        """Settings with where each came from. Raises SettingsError."""
        if self._loaded is None:
            self._loaded = load(self.flags)
        return self._loaded

    @property
    def settings(self) -> Settings:
        """The settings. Raises SettingsError."""
        return self.loaded.settings

    @property
    def places(self) -> Home:
        """Every place in the memory folder."""
        return self.settings.places

    def with_flags(self, **flags: str) -> Workspace:
        """The same with more flags laid over."""
        return Workspace({**self.flags, **flags})

    def arguments(self) -> list[str]:
        """The global flags as arguments for a child process, so that it works on the same places."""
        found: list[str] = []
        for name, value in self.flags.items():
            found += ["--set", f"{name}={value}"]
        return found

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """The open memory; makes folder and database where they are missing. Raises HomeError or StoreError."""
        self.places.prepare()
        with using_database(self.places.memory_db) as damage:
            opened = open_store(self.places.memory_db, driver=self.settings.sqlite_driver)
            try:
                if damage:
                    note_failure(opened, "memory", damage)
                yield opened
            finally:
                opened.close()

    def redactor(self) -> Callable[[str], str]:
        """Takes secrets out of a text."""
        from engram.redaction import redact

        return redact


def flags_from(home: str | None, claude_folder: str | None, assignments: tuple[str, ...]) -> dict[str, str]:
    """The global flags by setting name. Raises SettingsError for a name that does not exist."""
    known = {one.name for one in dataclasses.fields(Settings)}
    flags: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise SettingsError(f"--set {assignment!r}: there is no such setting; `engram config` lists them")
        flags[name] = value
    if home is not None:
        flags["home"] = home
    if claude_folder is not None:
        flags["claude_folder"] = claude_folder
    return flags


pass_workspace = click.make_pass_decorator(Workspace, ensure=True)


def find_project(store: Store, settings: Settings, name: str | None) -> ProjectRow | None:
    """The project that ``--project`` means: a display name, an identity or a folder in it; None where none is asked.

    Raises:
        NotFound: nothing is known under that name; the message lists the projects that are.
    """
    if name is None:
        return None
    folder = Path(name).expanduser()
    if name == "." or "/" in name or name.startswith("~"):
        found = scope_of_folder(store, settings, str(folder.absolute())).project
        if found is not None:
            return found
    return named_project(store, name)


def wake_worker(workspace: Workspace) -> None:
    """Tell a running worker that memories changed; without one nothing happens, it looks by itself when it starts."""
    ask_worker(workspace.places, {"op": "wake"}, timeout_seconds=1.0)
