"""The plan of an installation: values that describe changes outside the memory folder. Nothing is written here.

A planner (plugin, service, earlier Engram, another agent) reads the machine and returns ``Step``s. Only the installer
applies them, so that one mechanism serves dry runs, backups, undoing after a failure or a kill, and uninstalling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias

#: A JSON value.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

#: Mode of a new file if the change specifies none.
NEW_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class JsonEntry:
    """One value in a JSON document: a member of an object, or an item of a list.

    A member: ``JsonEntry(("mcpServers", "engram"), {...})``. An item, found by equality:
    ``JsonEntry(("permissions", "allow"), "mcp__engram", is_item=True)``.
    """

    #: Keys from the top of the document to the member, or to the list.
    path: tuple[str, ...]
    value: Json
    #: True if the value is an item of the list at ``path``.
    is_item: bool = False
    #: A word in the value by which uninstall recognises the entry even if someone has changed it; "" for an exact
    #: match.
    marker: str = ""


@dataclass(frozen=True, slots=True)
class JsonEdit:
    """Entries to remove from, then to add to, a JSON or JSONC file; everything else is kept byte for byte.

    Missing objects and lists are created, and removed again with their last entry. An entry that already exists is not
    added, and uninstall leaves it alone. A member with another value is replaced, and uninstall restores it. To change
    an item, remove it and add the new one.
    """

    add: tuple[JsonEntry, ...] = ()
    #: Entries of other programs, which uninstall restores.
    remove: tuple[JsonEntry, ...] = ()
    #: Outdated entries of Engram's own; uninstall does not restore them.
    drop: tuple[JsonEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class TomlEdit:
    """A table to add at the end of a TOML file that others also write; everything else is kept byte for byte.

    A table with this name is replaced, and uninstall restores it; one with these values is left unchanged. Uninstall
    also removes its subtables, which are settings of what was removed.
    """

    #: Keys from the top of the document: ``("mcp_servers", "engram")``.
    table: tuple[str, ...]
    values: Mapping[str, Json]
    #: A string in the table by which uninstall distinguishes it from one that another program has since put there.
    marker: str = ""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The desired state of one file: new content, a link, an edit of a shared file, or (with none of them) no file.

    A file that belongs to Engram alone gets ``content``; a file that others also write gets ``edit``. Missing folders
    are created, and uninstall removes those that have become empty. A path that is a link is followed, and the link
    is kept.
    """

    #: Absolute path.
    path: Path
    #: The whole content.
    content: bytes | None = None
    #: What to change in a file that others also write.
    edit: JsonEdit | TomlEdit | None = None
    #: Target of a symbolic link to create.
    link_target: str | None = None
    #: Permission bits; None keeps the file's own, and means ``NEW_FILE_MODE`` for a new file.
    mode: int | None = None

    def __post_init__(self) -> None:
        """Reject a change that specifies two things at once."""
        if sum(part is not None for part in (self.content, self.edit, self.link_target)) > 1:
            raise ValueError(f"a change to {self.path} has one of content, edit and link_target")
        if not self.path.is_absolute():
            raise ValueError(f"{self.path} is not absolute")

    @property
    def is_removal(self) -> bool:
        """True if the file is moved into the backup; uninstall restores it."""
        return self.content is None and self.edit is None and self.link_target is None


class Action(Protocol):
    """Something to start or stop. An implementation is a frozen dataclass; its fields are JSON values or tuples.

    The installer stores ``kind`` and the fields in its journal before ``apply``, so that ``undo`` works in another
    process: after a kill, or at uninstall. Whatever ``undo`` needs to know (was it running before?) is therefore a
    field that the planner fills in. All methods may be called in any state, and any number of times.
    """

    #: Name of the class in the journal; listed in ``engram/setup/installing/install_run.py``.
    kind: ClassVar[str]

    def describe(self) -> str:
        """Return one line that says what it will do, in the imperative: "start the worker (systemd --user)"."""

    def apply(self) -> None:
        """Do it. Raises EngramError, which undoes the installation."""

    def verify(self) -> str:
        """Return "" if it is in effect, or else one line that says what is wrong. ``apply`` may check this itself."""
        return ""

    def undo(self) -> None:
        """Undo it, if there is anything to undo.

        Raises:
            EngramError: that is impossible; the uninstallation then continues and reports it.
        """
        return


@dataclass(frozen=True, slots=True)
class Step:
    """A part of an installation that is done completely or not at all: ``before``, then ``changes``, then ``after``.

    Undo runs in the opposite order. An upgrade plans the same step again: files that differ are written, and the
    actions of a step are applied again.
    """

    #: Stable short name: "service", "plugin", "permissions".
    name: str
    #: One line for the user, in the imperative: "Connect Claude Code through the plugin in ~/.claude/skills/engram".
    summary: str
    changes: tuple[FileChange, ...] = ()
    #: Actions before the files change, such as stopping the processes that use them.
    before: tuple[Action, ...] = ()
    #: Actions after the files have changed, such as starting a service.
    after: tuple[Action, ...] = ()
    #: Lines that the user should read in the plan, such as what is kept.
    notes: tuple[str, ...] = ()
    #: Files that must not be changed now, not even to undo what an earlier installation did to them.
    left: tuple[Path, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do."""
        return not (self.changes or self.before or self.after)

    @property
    def only_drops(self) -> bool:
        """True if it only removes entries that are never restored, so that it can't be undone."""
        edits = [change.edit for change in self.changes if isinstance(change.edit, JsonEdit)]
        is_drop = all(replace(edit, drop=()) == JsonEdit() for edit in edits)
        return not self.before and not self.after and bool(edits) and len(edits) == len(self.changes) and is_drop
