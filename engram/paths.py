"""Paths of all files and folders in ENGRAM_HOME, and of the agents' folders."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engram.errors import HomeError
from engram.system.atomic import explain_error, identity_of, make_private_folder, read_regular, write_atomic
from engram.system.lazy_regex import lazy_regex

#: A session id as written by Claude Code, for ``fullmatch``.
_SESSION_ID = lazy_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
#: Maximum size of the file that notes the disks of memory folders, in bytes.
_DISKS_BYTES = 1_000_000


def is_session_id(text: object) -> bool:
    """Return True for a string that can be a session id, and is therefore safe in a file name."""
    return isinstance(text, str) and _SESSION_ID.fullmatch(text) is not None


def user_home() -> Path:
    """Return the user's home folder. Raises HomeError if it is unknown, as in some containers."""
    return absolute_path("~")


def absolute_path(name: str | Path) -> Path:
    """Return the absolute path of a name that may begin with ``~``; ``..`` is kept only after a symbolic link.

    However a folder is typed, it gets the same path, which can be compared with stored ones.

    Raises:
        HomeError: ``~`` can't be resolved, or the current folder was deleted.
    """
    try:
        if str(name).partition("/")[0] == "~" and os.environ.get("HOME") == "":
            raise HomeError("HOME is empty: set it to your home folder")
        path = Path(name).expanduser().absolute()
    except FileNotFoundError:
        raise HomeError(f"the current folder has been deleted: give the full path of {str(name)!r}") from None
    except RuntimeError:
        user = str(name).partition("/")[0].removeprefix("~")
        why = f"there is no user {user!r}: give the full path of {str(name)!r}" if user else "HOME is not set: set it"
        raise HomeError(why if user else f"{why} to your home folder") from None
    plain = os.path.normpath(path)
    return Path(plain) if ".." in path.parts and os.path.realpath(plain) == os.path.realpath(path) else path


def spellings_of(path: str) -> tuple[str, ...]:
    """Return a path as written, with composed letters, and with their marks apart: on a Mac, all are one folder.

    Identities of folders have composed letters, but earlier versions stored them as they were written.
    """
    if path.isascii():
        return (path,)
    import unicodedata  # here, because hooks import this module

    return tuple(dict.fromkeys((path, unicodedata.normalize("NFC", path), unicodedata.normalize("NFD", path))))


#: Separates the path in an identity from the suffix that distinguishes successive repositories at that path. No
#: normalised path contains it.
AT_SAME_PATH = "//"
#: Suffix of the identity for text that may belong to any of several projects that used to be at a path.
OF_ANY = f"{AT_SAME_PATH}gone"


def path_of(identity: str) -> str:
    """Return an identity without the suffix that distinguishes successive repositories at one path."""
    return identity.partition(AT_SAME_PATH)[0]


def may_be_of(identity: str, other: str) -> bool:
    """Return True if text stored under ``identity`` belongs, or may belong, to the project with identity ``other``."""
    if identity.endswith(OF_ANY):
        identity, other = path_of(identity), path_of(other)
    return identity in spellings_of(other) or other in spellings_of(identity)


def is_text(name: str) -> bool:
    """Return False for a name that isn't valid UTF-8, which can't be stored in a database, settings or service file."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def current_folder() -> str:
    """Return the current folder; if it has been deleted, the shell's path for it ("" if unknown)."""
    try:
        return os.getcwd()
    except OSError:
        named = os.environ.get("PWD", "")
        return named if os.path.isabs(named) else ""


def default_home() -> Path:
    """Return ``ENGRAM_HOME``, or ``~/.claude-memory``.

    Raises:
        HomeError: its path can't be resolved.
    """
    named = os.environ.get("ENGRAM_HOME", "")
    return named_home(named) if named else user_home() / ".claude-memory"


def named_home(named: str) -> Path:
    """Return the folder that a value of ``ENGRAM_HOME`` specifies.

    Raises:
        HomeError: it begins with ``~``, which the hooks' shell does not expand in a variable.
    """
    if named.startswith("~"):
        raise HomeError(f"ENGRAM_HOME is {named!r}, which the hooks take literally: give the full path")
    return absolute_path(named)


def is_default_home(home: Home) -> bool:
    """Return True for ``~/.claude-memory``, which hooks and the MCP server find without a setting."""
    return home.root == user_home() / ".claude-memory"


def default_claude_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return ``CLAUDE_CONFIG_DIR``, or ``~/.claude``."""
    named = (os.environ if environ is None else environ).get("CLAUDE_CONFIG_DIR", "")
    return absolute_path(named) if named else user_home() / ".claude"


def claude_user_file(folder: Path, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of Claude Code's user file, which contains its login and MCP servers.

    The file is in ``folder``. For ``~/.claude``, it is ``~/.claude.json``, unless ``CLAUDE_CONFIG_DIR`` is set to that
    folder.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("CLAUDE_CONFIG_DIR", "")
    is_named = bool(named) and os.path.realpath(absolute_path(named)) == os.path.realpath(folder)
    is_beside = folder == user_home() / ".claude" and not is_named
    return (user_home() if is_beside else folder) / ".claude.json"


def default_codex_folder() -> Path:
    """Return ``CODEX_HOME``, or ``~/.codex``."""
    named = os.environ.get("CODEX_HOME", "")
    return absolute_path(named) if named else user_home() / ".codex"


def default_gemini_folder() -> Path:
    """Return ``.gemini`` in the folder ``GEMINI_CLI_HOME``, or ``~/.gemini``."""
    named = os.environ.get("GEMINI_CLI_HOME", "")
    return (absolute_path(named) if named else user_home()) / ".gemini"


@dataclass(frozen=True, slots=True)
class Home:
    """The memory folder, and the path of every file and folder in it."""

    root: Path

    @property
    def memory_db(self) -> Path:
        """The database, the only source of truth."""
        return self.root / "memory.db"

    @property
    def queue_db(self) -> Path:
        """The task queue. It only notifies the worker and may be deleted at any time."""
        return self.root / "queue.db"

    @property
    def recall_socket(self) -> Path:
        """The socket on which the worker answers questions."""
        return self.root / "engram.sock"

    @property
    def worker_coming(self) -> Path:
        """Its modification time is when a worker began to start. For 10 s after that, hooks wait for the worker."""
        return self.root / "worker.coming"

    @property
    def mcp_socket(self) -> Path:
        """The socket on which the worker serves MCP to all sessions."""
        return self.root / "mcp.sock"

    @property
    def wake_socket(self) -> Path:
        """A datagram to this socket makes the worker check the queue."""
        return self.root / "wake.sock"

    @property
    def watcher_lock(self) -> Path:
        """Held (flock) by the watcher."""
        return self.root / "watcher.lock"

    @property
    def worker_lock(self) -> Path:
        """Held (flock) by the worker."""
        return self.root / "worker.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held (flock) by the supervisor, which replaces launchd or systemd if there is neither."""
        return self.root / "supervisor.lock"

    @property
    def page_lock(self) -> Path:
        """Held (flock) by the process of the page."""
        return self.root / "page.lock"

    @property
    def page_state(self) -> Path:
        """Where the page listens, as JSON; valid only while ``page_lock`` is held."""
        return self.root / "page.json"

    @property
    def page_entries(self) -> Path:
        """Files that take a browser to the page; each can be used once."""
        return self.root / "page"

    @property
    def python_link(self) -> Path:
        """A link to the interpreter, for hooks that need only the standard library."""
        return self.root / "python"

    @property
    def config_file(self) -> Path:
        return self.root / "config.toml"

    @property
    def install_journal(self) -> Path:
        return self.root / "install" / "journal.json"

    @property
    def env_file(self) -> Path:
        """KEY=VALUE lines, such as an API key; refused unless the mode is 0600."""
        return self.root / ".env"

    @property
    def hub_keys(self) -> Path:
        """Tokens of joined hubs, and keys of sealed spaces; mode 0600."""
        return self.root / "hub-keys.json"

    @property
    def recollections(self) -> Path:
        """Pending bites for hooks."""
        return self.root / "recollections"

    @property
    def notes(self) -> Path:
        return self.root / "notes"

    @property
    def memory_note(self) -> Path:
        """The note that collects graduated memories."""
        return self.notes / "MEMORY.md"

    @property
    def daily_notes(self) -> Path:
        """One Markdown file per day."""
        return self.notes / "daily"

    @property
    def saved_notes(self) -> Path:
        """Notes saved on request, by day; Engram only appends to them."""
        return self.notes / "saved"

    @property
    def archive_notes(self) -> Path:
        """Old sections of notes, by month."""
        return self.notes / "archive"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def backups(self) -> Path:
        """Daily backups of memory.db; two are kept."""
        return self.root / "backups"

    @property
    def call_folder(self) -> Path:
        """Empty working folder for a language model's command."""
        return self.root / "calls"

    def prepare(self, *, must_exist: bool = False) -> Home:
        """Create missing folders (mode 0700) and make sure that other users can't access them.

        Args:
            must_exist: do not create the memory folder itself.

        Raises:
            HomeError: the folder belongs to another user, can't be made private, or can't be created.
        """
        self.check_place()
        try:
            if self.root.exists() and not self.root.is_dir():
                raise HomeError(f"{self.root} is a file; choose another memory folder")
            if not must_exist:
                make_private_folder(self.root, with_parents=True)
            check_private(self.root)
            notes = (self.notes, self.daily_notes, self.saved_notes, self.archive_notes)
            for folder in (self.recollections, *notes, self.logs):
                make_private_folder(folder)
            _note_disk(self.root)
        except OSError as error:
            reason = explain_error(error).removeprefix(f"{self.root}: ")
            raise HomeError(
                f"can't use the memory folder {self.root}: {reason}. Another folder: --home DIR, or ENGRAM_HOME"
            ) from error
        return self

    def check_place(self) -> None:
        """Raise HomeError if the memory is on a disk that is not mounted, since another one must not be made instead.

        Then the memory folder is a link that leads nowhere, an empty mount point, or missing like the folders above it.
        """
        if os.path.islink(self.root) and not os.path.exists(self.root):
            raise HomeError(
                f"{self.root} is a link to {os.path.realpath(self.root)}, which does not exist: if it is on another "
                "disk, mount that first"
            )
        disk = "" if os.path.lexists(self.memory_db) else _noted_disks().get(str(self.root), "")
        if disk and not os.path.ismount(disk):
            raise HomeError(
                f"the memory of {self.root} is missing: it was on the disk mounted at {disk}, which is not mounted "
                "now. Mount it. If that memory is lost for good, start a new one: engram restore --new"
            )

    def is_still(self, identity: tuple[int, int] | None) -> bool:
        """Return False if the folder that had this identity is gone, and no other memory has taken its place."""
        found = identity_of(self.root)
        return found is not None and (found == identity or os.path.lexists(self.memory_db))

    def forget_disk(self) -> bool:
        """Forget which disk the memory is on, so that a new one can be made elsewhere; return True if that was known.

        Raises OSError.
        """
        disks = _noted_disks()
        if disks.pop(str(self.root), None) is None:
            return False
        _write_disks(disks)
        return True


def check_private(folder: Path, *, is_dry: bool = False) -> None:
    """Make ``folder`` private, unless ``is_dry``. Raises HomeError if it belongs to another user."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        raise HomeError(f"the memory folder {folder} belongs to another user; set ENGRAM_HOME to a folder of your own")
    if stat.S_IMODE(facts.st_mode) & 0o077 and not is_dry:
        os.chmod(folder, 0o700)


# -- The disks of memory folders. If one is not mounted, nothing in the memory folder shows it. So where it is mounted
# is noted in the user's home folder, for memory folders that are on another disk than that.


def _disks_file() -> Path:
    """Return the file that contains memory folder → mount point, as JSON. Raises HomeError."""
    return user_home() / ".local" / "state" / "engram" / "disks.json"


def _noted_disks() -> dict[str, str]:
    """Return memory folder → the mount point of its disk; empty if the file is missing or damaged."""
    with contextlib.suppress(HomeError, ValueError):
        data = read_regular(_disks_file(), _DISKS_BYTES)
        if not data:
            return {}
        import json  # here, because hooks import this module

        found = json.loads(data)
        if isinstance(found, dict):
            return {folder: disk for folder, disk in found.items() if isinstance(disk, str)}
    return {}


def _note_disk(root: Path) -> None:
    """Note where the disk of a memory folder is mounted, unless it is that of the user's home folder. Never fails."""
    with contextlib.suppress(OSError, HomeError):
        disk, disks = _mount_point(root), _noted_disks()
        wanted = None if disk == _mount_point(_disks_file()) else disk
        if disks.get(str(root)) == wanted:
            return
        disks |= {str(root): disk}
        if wanted is None:
            del disks[str(root)]
        # Those of memories that were deleted are of no use; a memory whose disk is not mounted may come back.
        _write_disks({one: at for one, at in disks.items() if os.path.isdir(one) or not os.path.ismount(at)})


def _write_disks(disks: Mapping[str, str]) -> None:
    """Write the file, or delete it if there is nothing to note. Raises OSError or HomeError."""
    import json  # as above

    file = _disks_file()
    if not disks:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, json.dumps(disks, indent=1).encode())


def _mount_point(path: Path) -> str:
    """Return where the file system is mounted that contains a path, or the nearest folder above it that exists."""
    folder = os.path.realpath(path)
    while not os.path.ismount(folder):
        folder = os.path.dirname(folder)
    return folder
