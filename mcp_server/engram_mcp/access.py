"""What a session may see of the memory: its settings, the project of Claude's folder, and the view of one call."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engram import settings as settings_module
from engram.enums import Actor
from engram.errors import BadRequest, NotFound, StoreError
from engram.ingest.session_project import scope_of_folder, vault_of
from engram.log import start_logging
from engram.models.engine.database import is_replaced
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, find_memory, is_memory_id, may_see
from engram.models.open_memory import open_memory
from engram.models.projects.projects import NO_PROJECT, ProjectRow, find_project
from engram.models.sessions.passage_rows import Quotation, find_quotation, is_quotation_id
from engram.models.sessions.sessions import known_values
from engram.redaction import redact
from engram.reports.processes import start_command
from engram.settings import Settings
from engram.trust.display import fence_safe, one_line
from engram.vaults import settings_of, with_flags
from engram.worker.recall_client import RecallRequest, RecallResponse, ask_memory
from engram.worker.worker_client import wake_worker


@dataclass(frozen=True, slots=True)
class View:
    """What a call may see: one project's memories and global ones, or only the latter."""

    #: None if Claude's folder does not belong to a known project.
    project: ProjectRow | None
    #: True if the caller specified a project other than the one of Claude's folder.
    is_elsewhere: bool = False

    @property
    def project_id(self) -> int:
        """Row id of the project, or an id that no project has."""
        return NO_PROJECT if self.project is None else self.project.id

    @property
    def note(self) -> str:
        """Remark about the view, for the answer; "" for the folder's own project."""
        if self.project is None:
            return "no project is known for this folder: global memories only"
        return f"of project {shown_name(self.project.name)}, not of this folder's project" if self.is_elsewhere else ""

    def is_own(self, memory: Memory) -> bool:
        return memory.project_id in (None, self.project_id)

    def require_quotation(self, store: Store, quotation_id: str) -> Quotation:
        """Return the quotation with the given id. Raises NotFound if it does not come from this view's project."""
        quotation = find_quotation(store, quotation_id)
        if quotation is None or quotation.stored.project_id != self.project_id:
            raise NotFound(
                f"there is no quotation {quotation_id[:40]!r} here; project= gives access to another project's"
            )
        return quotation

    def require(self, store: Store, episode_id: str) -> Memory:
        """Return the memory with the given id, if this view may see it.

        Raises:
            BadRequest: the id belongs to a quotation.
            NotFound: the memory does not exist, or belongs to another project; the message does not say which.
        """
        if is_quotation_id(episode_id):
            from engram.memories.save import QUOTATION_VERBS  # takes 0.1 s, and most sessions do not need it

            raise BadRequest(f"{episode_id} is a quotation: what was said can't be changed. {QUOTATION_VERBS}")
        memory = find_memory(store, episode_id) if is_memory_id(episode_id) else None
        if memory is None or not may_see(memory, self.project_id):
            raise NotFound(
                f"there is no memory {episode_id[:40]!r} here. memory_recall and memory_timeline print ids; "
                "project= gives access to another project's"
            )
        return memory


@dataclass(frozen=True, slots=True)
class Access:
    """A session's access to the memory. Each call opens and closes its own connection in its own thread."""

    settings: Settings
    #: The folder in which Claude Code started the server.
    folder: str
    #: Id of Claude Code's session; "" if unknown.
    session_id: str = ""
    #: The caller: the agent, or the user through a command.
    actor: Actor = Actor.AGENT
    #: The memory folder that contains the vaults; None if there can be none.
    around: Path | None = None

    def is_in_place(self) -> bool:
        """Return False once the folder's project has been moved into or out of a vault. Raises HomeError."""
        if self.around is None:
            return True
        vault = vault_of(dataclasses.replace(self.settings, home=self.around), self.folder)
        return self.settings.home == (self.around if vault is None else vault.folder)

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Yield the open memory for one call. Raises StoreError if there is none yet, or it can't be opened."""
        path = self.settings.places.memory_db
        if not path.parent.is_dir() or not (path.exists() or is_replaced(path)):
            raise StoreError(
                f"there is no memory at {path} yet. Tell the user to run `{self.start_command()}`, and continue "
                "without memory"
            )
        with open_memory(path, driver=self.settings.sqlite_driver, is_made=False) as store:
            yield store

    def start_command(self) -> str:
        """Return the command with which the user starts the worker and the watcher on this machine."""
        return start_command(self.settings)

    def redact(self, store: Store, text: str) -> str:
        """Mask secrets, including those in this session's ``.env`` lines."""
        return redact(text, known_values(store, self.session_id) if self.session_id else ())

    def ask(self, store: Store, request: RecallRequest) -> RecallResponse:
        """Answer a question from the memory: through the worker or, if none answers, by text search only."""
        return ask_memory(store, self.settings, request, with_model=False)

    def wake_worker(self) -> None:
        wake_worker(self.settings.places)

    def as_typed(self, text: str) -> str:
        """Return one of Engram's own messages with its commands as the user types them for this memory."""
        return with_flags(text, self.settings.places)

    def view(self, store: Store, name: str | None = None) -> View:
        """Return the view of a project (default: the project of Claude's folder) and of global memories.

        Raises NotFound if there is no such project; the message does not list other projects.
        """
        own = scope_of_folder(store, self.settings, self.folder).project
        if not name:
            return View(own)
        named = find_project(store, name)
        if named is None:
            raise NotFound(
                f"there is no project {name[:60]!r}. Ask the user for its name (`engram status --json` lists them)"
            )
        return View(named, is_elsewhere=own is None or own.id != named.id)


def shown_name(name: str) -> str:
    """Return a project's name in a form that is safe to print."""
    return fence_safe(one_line(name, 60))


def open_access() -> Access:
    """Create the access for a server that runs in its own process, with its own log. Raises EngramError."""
    access = access_for(os.environ)
    start_logging(access.settings.places.logs, "mcp", access.settings.log_level, redact)
    return access


def access_for(environ: Mapping[str, str], *, home: Path | None = None) -> Access:
    """Create a session's access.

    Args:
        environ: its process's environment variables, as completed by ``engram_mcp.server``.
        home: the memory folder, if the variables do not specify it.

    Raises:
        EngramError: a setting or a vault can't be read.
    """
    folder = environ.get("CLAUDE_PROJECT_DIR", "")
    settings = settings_module.load({"home": home}, environ).settings
    around = settings.home
    vault = vault_of(settings, folder)
    if vault is not None:
        settings = settings_of(vault, settings)
    return Access(settings, folder, environ.get("CLAUDE_CODE_SESSION_ID", ""), around=around)
