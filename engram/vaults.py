"""Vaults: projects whose memory is in a separate database, in its own folder inside the memory folder.

A vault (``ENGRAM_HOME/vaults/NAME``) is a complete memory folder, so forget, purge, backup, restore, status and
consolidation work on it. Its file ``vault.json`` names its only project; the enclosing memory folder stores nothing
about that project, nor about another folder with the same repository, which may be the project's folder, renamed or
copied, until the user says which.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from engram.errors import HomeError, NotFound
from engram.paths import Home, is_default_home, may_be_of, path_of, spellings_of
from engram.settings import ConfigFault, Loaded, Settings, load
from engram.system.atomic import locked_folder, make_private_folder, read_regular, write_atomic
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.git_files import read_first_commit, read_remote
from engram.trust.display import shell_quoted

#: Folder of the vaults in the memory folder, and the file that names a vault's project.
FOLDER_NAME, FILE_NAME = "vaults", "vault.json"
_MAX_FILE_BYTES = 100_000
#: Commands that act on the memory folder and all its vaults.
OF_ALL_VAULTS = frozenset(("install", "uninstall", "service", "setup", "projects vault", "projects unvault"))
#: A command in a message, in backticks, with its name.
_COMMAND = lazy_regex(r"(?<=`)engram (projects (?:un)?vault|[a-z]+)")


@dataclass(frozen=True, slots=True)
class Vault:
    #: Display name of its project.
    name: str
    #: Identities of its project: its folder, and the folders joined to it.
    identities: tuple[str, ...]
    #: Its memory folder.
    folder: Path
    #: True if the move into it is complete, so that nothing of the project is left outside.
    is_sealed: bool
    #: The normalised URL of its repository's remote, and its first commit; "" if unknown.
    remote: str = ""
    first_commit: str = ""
    #: Identities of folders that contain the same repository but, as the user said, are not the project's.
    apart: tuple[str, ...] = ()

    @property
    def home(self) -> Home:
        return Home(self.folder)

    @property
    def around(self) -> Path:
        """The memory folder that contains it."""
        return self.folder.parent.parent

    @property
    def spellings(self) -> frozenset[str]:
        """All spellings of its project's identities."""
        return frozenset(spelling for identity in self.identities for spelling in spellings_of(identity))

    def has_identity(self, identity: str) -> bool:
        return not self.spellings.isdisjoint(spellings_of(identity))

    @property
    def present_folder(self) -> str:
        """The first of its project's folders that exists; "" if all are gone."""
        return next(filter(os.path.isdir, map(path_of, self.identities)), "")

    def may_hold_repository(self, remote: str, first_commit: str) -> bool:
        """Return True if a repository at another folder may be its project's: moved, copied or cloned.

        If it has the same first commit but another remote, it is a separate project that began as a copy, unless the
        vault's own folder is gone.
        """
        if remote and remote == self.remote:
            return True
        is_same_begun = bool(first_commit) and first_commit == self.first_commit
        return is_same_begun and not (remote and self.remote and self.present_folder)

    def holds_folder(self, folder: str) -> bool:
        paths = [PurePath(os.path.normpath(spelling)) for spelling in spellings_of(folder)] if folder else []
        return any(path.is_relative_to(identity) for path in paths for identity in self.spellings)


def list_vaults(home: Home) -> tuple[Vault, ...]:
    """Return a memory folder's vaults, sorted by folder. Raises HomeError for a vault that can't be read."""
    folder = home.root / FOLDER_NAME
    _require_target(folder)
    if not os.path.isdir(folder):
        return ()
    for vault in folder.iterdir():
        _require_target(vault)
        _require_target(vault / FILE_NAME)
        # A desktop may leave hidden files of its own in a mount point.
        if mark_of(vault).exists() and vault.is_dir() and all(path.name.startswith(".") for path in vault.iterdir()):
            raise HomeError(f"{vault} is empty: nothing is read or shown until its disk is mounted")
    files = sorted(folder.glob(f"*/{FILE_NAME}"))
    return tuple(_present(file) for file in files)


def _require_target(place: Path) -> None:
    if os.path.islink(place) and not place.exists():
        raise HomeError(f"{place} is a link that leads nowhere: nothing is read or shown until its disk is mounted")


def mark_of(folder: Path) -> Path:
    """Return the file next to a vault's folder that distinguishes an empty mount point from a dissolved vault."""
    return folder.with_name(f".{folder.name}.vault")


def own_vault(home: Home) -> Vault | None:
    """Return the vault whose memory folder this is; None for a memory folder that isn't a vault."""
    file = home.root / FILE_NAME
    return _present(file) if os.path.isfile(file) else None


def config_home(home: Path) -> Path:
    """Return the folder whose config.toml applies: the enclosing memory folder for a vault, otherwise ``home``."""
    own = own_vault(Home(home))
    return home if own is None else own.around


def find_vault(home: Home, name: str) -> Vault | None:
    """Find a vault by the name or folder of its project, or by its own folder's name."""
    fitting = [vault for vault in list_vaults(home) if name in (vault.name, vault.folder.name, *vault.spellings)]
    return fitting[0] if fitting else None


def vault_of_identity(home: Home, identity: str) -> Vault | None:
    return next((vault for vault in list_vaults(home) if vault.has_identity(identity)), None)


def vault_of_folder(home: Home, folder: str) -> Vault | None:
    """Return the vault that a working folder belongs to, judging only by its path."""
    return next((vault for vault in list_vaults(home) if vault.holds_folder(folder)), None)


def is_excluded_by_vault(home: Home, identity: str, folder: str = "") -> bool:
    """Return True if a memory folder must not store a project.

    The project has, or may have, a vault of its own, or the memory folder is another project's vault.
    """
    own = own_vault(home)
    if own is not None:
        return not own.has_identity(identity) and not own.holds_folder(folder)
    identities = (known for vault in list_vaults(home) for known in vault.identities)
    if any(may_be_of(identity, known) for known in identities) or vault_of_folder(home, folder) is not None:
        return True
    return vault_of_same_repository(home, identity) is not None


def vault_of_same_repository(home: Home, identity: str) -> Vault | None:
    """Return the vault whose project's repository is also at another project's folder, judging only by git's files.

    None if the user said that the two are different projects, or if the folder is gone.
    """
    vaults = [vault for vault in list_vaults(home) if vault.remote or vault.first_commit]
    folder = Path(path_of(identity))
    if not vaults or not folder.is_absolute():
        return None
    remote, first_commit, spellings = read_remote(folder), read_first_commit(folder), set(spellings_of(identity))
    for vault in vaults:
        if spellings.isdisjoint(vault.apart) and vault.may_hold_repository(remote, first_commit):
            return vault
    return None


def explain_same_repository(vault: Vault, folder: str) -> tuple[str, str]:
    """Return why nothing from a folder with a vault's repository is stored, and how to say whose folder it is."""
    name, place = shlex.quote(vault.name), shlex.quote(folder)
    return (
        f"nothing of {folder} is stored: it holds the same repository as {vault.name}, which is in a vault",
        f"If it is that project, run: engram --vault {name} projects link {place} {name}. If it is another one, run: "
        f"engram projects vault {name} --apart {place}",
    )


def settings_of(vault: Vault, settings: Settings) -> Settings:
    """Return a vault's settings: those of the enclosing memory folder, with the vault as the memory folder.

    Raises:
        HomeError: a move into or out of it was interrupted, so it can't be used until that is complete.
    """
    if not vault.is_sealed:
        raise HomeError(
            f"moving {vault.name} into or out of its vault was interrupted: repeat `engram projects vault "
            f"{vault.name}` or `engram projects unvault {vault.name}`"
        )
    return replace(settings, home=vault.folder)


def settings_around(settings: Settings) -> Settings:
    """Return the settings of the memory folder whose worker serves this one: for a vault, the enclosing folder."""
    home = config_home(settings.home)
    return settings if home == settings.home else replace(settings, home=home)


def load_inside(
    flags: Mapping[str, Any] | None, name: str | None, *, faults: list[ConfigFault] | None = None
) -> Loaded:
    """Load the settings of the memory folder or of a vault.

    Args:
        name: the vault's project or folder; None for the memory folder itself.

    Raises:
        SettingsError: a value is invalid, or config.toml can't be read.
        NotFound: there is no such vault.
    """
    loaded = load(flags, faults=faults)
    if name is None:
        return loaded
    vault = find_vault(loaded.settings.places, name)
    if vault is None:
        names = ", ".join(known.name for known in list_vaults(loaded.settings.places)) or "none"
        raise NotFound(f"no vault for {name[:60]!r}; vaults: {names}. `engram projects vault NAME` creates one")
    return replace(loaded, settings=settings_of(vault, loaded.settings))


def takes_vault(command: str) -> bool:
    """Return True if a command acts on a vault when it is given ``--vault``.

    The others act on the memory folder with all its vaults. ``engram up`` stands for starting the worker, which serves
    the vaults too.
    """
    return command not in OF_ALL_VAULTS and command != "up"


def with_flags(text: str, home: Home) -> str:
    """Return a message with the flags that its commands need for the memory in ``home``, wherever they are typed."""
    vault = own_vault(home)
    root = home if vault is None else Home(vault.around)
    folder = [] if is_default_home(root) else ["--home", str(root.root)]

    def completed(found: re.Match[str]) -> str:
        of_vault = ["--vault", vault.name] if vault is not None and takes_vault(found[1]) else []
        return " ".join(["engram", *map(shell_quoted, [*folder, *of_vault]), found[1]])

    return _COMMAND.sub(completed, text)


def free_folder(home: Home, name: str) -> Path:
    """Return an unused folder for a new vault, named after its project."""
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in name).strip(".-_") or "project"
    folder, number = home.root / FOLDER_NAME / plain, 1
    while os.path.lexists(folder):
        number += 1
        folder = home.root / FOLDER_NAME / f"{plain}-{number}"
    return folder


def write_vault(vault: Vault) -> None:
    """Write a vault's file; from then on, the enclosing memory folder does not store its project."""
    make_private_folder(vault.folder.parent)
    make_private_folder(vault.folder)
    facts = {
        "name": vault.name,
        "identities": vault.identities,
        "sealed": vault.is_sealed,
        "remote": vault.remote,
        "first_commit": vault.first_commit,
        "apart": vault.apart,
    }
    write_atomic(vault.folder / FILE_NAME, json.dumps(facts, ensure_ascii=False, indent=1).encode() + b"\n")
    _read.cache_clear()
    # Not earlier: until the file exists, the mark next to the folder would make the vault look like an empty mount
    # point.
    mark_of(vault.folder).touch(mode=0o600)


def change_vault(vault: Vault, **changes: Any) -> None:
    """Change some fields in a vault's file, and keep the others as they are now; a vault that is gone stays gone."""
    with locked_folder(vault.folder.parent):
        present = own_vault(vault.home)
        if present is not None and (changed := replace(present, **changes)) != present:
            write_vault(changed)


def _present(file: Path) -> Vault:
    status = file.stat()
    return _read(str(file), status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=64)
def _read(file: str, changed_at_ns: int, inode: int) -> Vault:
    del changed_at_ns, inode  # part of the cache key; two changes may have one time
    path = Path(file)
    try:
        facts = json.loads(read_regular(path, _MAX_FILE_BYTES) or b"")
        if not isinstance(facts, Mapping):
            raise ValueError("it is not an object")
        return Vault(
            name=str(facts["name"]),
            identities=tuple(str(identity) for identity in facts["identities"]),
            folder=path.parent,
            is_sealed=bool(facts["sealed"]),
            remote=str(facts.get("remote", "")),
            first_commit=str(facts.get("first_commit", "")),
            apart=tuple(str(identity) for identity in facts.get("apart", ())),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HomeError(f"{path} can't be read ({error}): nothing is read or shown until it is fixed") from error
