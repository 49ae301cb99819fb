"""Read a repository's own files, without running git: branch, remote, commits, worktrees, tracked folders.

For a file that is missing, too large or damaged, every function returns ``None`` or ``""`` or yields nothing.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex

#: The branch that transcripts record for a detached head.
DETACHED = "HEAD"
#: Maximum number of folders to examine, from a folder upwards.
MAX_DEPTH = 64
#: Maximum length of a remote's URL, in characters.
MAX_ADDRESS_CHARS = 500
#: Maximum number of bytes to read from a link file or HEAD, from a config, and from an index or a pack's prefix list.
_LINK_BYTES, _CONFIG_BYTES, _INDEX_BYTES = 4096, 1_000_000, 64_000_000
#: Maximum number of worktrees, packs and alternates of a repository to examine.
_MAX_WORKTREES, _MAX_PACKS, _MAX_BORROWED = 1_000, 2_000, 16
_REF = "ref: refs/heads/"
_COMMIT = lazy_regex(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOGGED = lazy_regex(rb"> (\d{1,12}) [+-]\d{4}\t")
_SCP_FORM = lazy_regex(r"(?:[^@/\s]+@)?([\w.-]+):(?!//)(\S+)")
_SECTION = lazy_regex(r'\[\s*([\w.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')


def read_link(file: Path, base: Path, prefix: str = "") -> Path | None:
    """Return the path in one of git's link files, joined to ``base``; None if the file contains no path."""
    data = read_regular(file, _LINK_BYTES)
    text = data.decode("utf-8", "surrogateescape").strip() if data else ""
    if not text.startswith(prefix) or "\0" in text:
        return None
    target = text[len(prefix) :].strip()
    return base / target if target else None


def is_bare(folder: Path) -> bool:
    """Return True for a folder laid out like git's own: a bare repository, or another repository's ``.git`` folder."""
    return os.path.isfile(folder / "HEAD") and os.path.isdir(folder / "objects") and os.path.isdir(folder / "refs")


def git_folder(root: Path) -> Path | None:
    """Return the git folder of the repository whose main folder is ``root``; None if there is none.

    For a worktree, that is its repository's git folder; for a Jujutsu workspace, the git repository behind it.
    """
    link = root / ".git"
    found: Path | None
    if os.path.isfile(link):
        found = read_link(link, root, prefix="gitdir:")
    else:
        places = (link, root / ".bare", root, root / ".jj" / "repo" / "store" / "git")
        found = next((place for place in places if os.path.isfile(place / "HEAD")), None)
    if found is None:
        return None
    common = read_link(found / "commondir", found)
    return Path(os.path.realpath(common or found))


def read_branch(folder: str) -> str:
    """Return the branch checked out in a folder; ``DETACHED`` for a detached head, "" outside a repository."""
    if not os.path.isabs(folder) or "\0" in folder:
        return ""
    here = Path(os.path.realpath(folder))
    for candidate in (here, *here.parents)[:MAX_DEPTH]:
        link = candidate / ".git"
        if os.path.isfile(link):
            target = read_link(link, candidate, prefix="gitdir:")
            return "" if target is None else _branch_in(target)
        if os.path.isfile(link / "HEAD"):
            return _branch_in(link)
    return ""


def _branch_in(folder: Path) -> str:
    data = read_regular(folder / "HEAD", _LINK_BYTES)
    text = data.decode("utf-8", "replace").strip() if data else ""
    if text.startswith(_REF):
        return text.removeprefix(_REF)
    return DETACHED if text else ""


def worktrees_of(root: Path) -> Iterator[Path]:
    """Yield the folders that a repository lists as its worktrees, whether or not they still exist."""
    folder = git_folder(root)
    if folder is None:
        return
    try:
        names = sorted(os.listdir(folder / "worktrees"))[:_MAX_WORKTREES]
    except OSError:
        return
    for name in names:
        inner = folder / "worktrees" / name
        named = read_link(inner / "gitdir", inner)
        if named is not None:
            yield Path(os.path.normpath(named.parent))


def broken_worktree_link(folder: Path) -> Path | None:
    """Return the place in its repository to which a worktree points if that place is gone; otherwise None.

    This happens after the repository, or a folder that contains both, was moved or renamed.
    """
    link = folder / ".git"
    target = read_link(link, folder, prefix="gitdir:") if os.path.isfile(link) and not os.path.islink(link) else None
    if target is None or target.parent.name != "worktrees" or os.path.lexists(target):
        return None
    return Path(os.path.normpath(target))


def describes_moved_worktree(root: Path, worktree: Path, link: Path) -> bool:
    """Return True if a repository lists a worktree under the name in its broken link.

    The repository's entry must point to the worktree's folder, or to a folder that is gone and had the same path
    relative to the former repository as the worktree has relative to this one.
    """
    folder = git_folder(root)
    described = folder / "worktrees" / link.name if folder is not None else None
    named = read_link(described / "gitdir", described) if described is not None else None
    if named is None:
        return False
    recorded = Path(os.path.normpath(named.parent))
    if os.path.lexists(recorded):
        return Path(os.path.realpath(recorded)) == worktree
    return os.path.relpath(recorded, link.parents[2]) == os.path.relpath(worktree, root)


def config_value(folder: Path, section: str, key: str, subsection: str = "") -> str:
    """Return the last value of a setting in the git folder's ``config``; "" if it is not set there."""
    wanted = (section, subsection, key)
    return next((value for *name, value in reversed([*_config(folder)]) if tuple(name) == wanted), "")


def _config(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield section, subsection, key and value of each setting in the git folder's ``config``.

    Included files and values that span several lines are not read.
    """
    data = read_regular(folder / "config", _CONFIG_BYTES)
    section = subsection = ""
    for line in data.decode("utf-8", "replace").splitlines() if data else ():
        line = line.strip()
        if header := _SECTION.match(line):
            section, subsection = header[1].lower(), re.sub(r"\\(.)", r"\1", header[2] or "")
            line = line[header.end() :].strip()
        name, separator, value = line.partition("=")
        if separator:
            yield section, subsection, name.strip().lower(), value.strip().strip('"')


def read_remote(root: Path) -> str:
    """Return the normalised URL of a repository's remote ``origin``; "" if there is none.

    For a worktree that was mounted without its repository, as in a container, it is the path of that repository, which
    distinguishes it from others.
    """
    folder = git_folder(root)
    if folder is not None and not os.path.lexists(folder):
        return str(folder.parents[1] if folder.parent.name == "worktrees" else folder)
    return "" if folder is None else normal_address(config_value(folder, "remote", "url", "origin"))


def has_remote(root: Path, remote: str) -> bool:
    """Return True if any of a repository's remotes, whatever its name, has a normalised URL.

    A worktree or submodule without its repository has the path of that repository, also once the repository is there.
    """
    folder = git_folder(root)
    if folder is None:
        return False
    urls = (value for section, _, key, value in _config(folder) if (section, key) == ("remote", "url"))
    return remote in (read_remote(root), str(folder)) or any(normal_address(url) == remote for url in urls)


def is_whole_on_branch(root: Path) -> bool:
    """Return True for a repository with its whole history and a branch checked out, as far as is known."""
    folder = git_folder(root)
    is_whole = folder is not None and not os.path.exists(folder / "shallow")
    return is_whole and read_branch(str(root)) not in ("", DETACHED)


def normal_address(address: str) -> str:
    """Return a normalised remote URL: ``host/path``, with the host in lower case, without credentials or ``.git``.

    A local path remains a path. Return "" for an address that is empty, too long or malformed.
    """
    address = address.strip()
    if not address or len(address) > MAX_ADDRESS_CHARS or any(ord(char) < 32 for char in address):
        return ""
    if "://" in address:
        try:
            parts = urlsplit(address)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return ""
        is_usual = port in (None, 22, 80, 443, 9418)
        normal = f"{host}{'' if is_usual else f':{port}'}/{parts.path.strip('/')}" if host else parts.path
    elif match := _SCP_FORM.fullmatch(address):
        normal = f"{match[1].lower()}/{match[2].strip('/')}"
    else:
        normal = address
    return normal.rstrip("/").removesuffix(".git")


def read_first_commit(root: Path) -> str:
    """Return the hash of a repository's first commit if its HEAD reflog still begins with that commit; otherwise ""."""
    folder = git_folder(root)
    data = read_regular(folder / "logs" / "HEAD", _LINK_BYTES) if folder is not None else None
    words = data.decode("utf-8", "replace").partition("\n")[0] if data else ""
    former, _, rest = words.partition(" ")
    commit = rest.partition(" ")[0]
    is_first = not former.strip("0") and "\tcommit (initial)" in words
    return commit if is_first and _COMMIT.fullmatch(commit) else ""


def begun_at_ms(root: Path) -> int | None:
    """Return when a repository was created or cloned here, in milliseconds since 1970, according to its HEAD reflog.

    Return None if that is unknown. Git drops old reflog entries, so the repository may be older.
    """
    folder = git_folder(root)
    data = read_regular(folder / "logs" / "HEAD", _LINK_BYTES) if folder is not None else None
    match = _LOGGED.search(data.partition(b"\n")[0]) if data else None
    return int(match[1]) * 1000 if match else None


def has_commit(root: Path, commit: str) -> bool | None:
    """Return whether a repository contains a commit (40 or 64 hex digits), packed or not; None if it can't be read."""
    folder = git_folder(root)
    if folder is None or not _COMMIT.fullmatch(commit):
        return None
    places = [folder / "objects"]
    for place in places:
        if os.path.isfile(place / commit[:2] / commit[2:]) or any(_packs_with(place, commit)):
            return True
        borrowed = read_regular(place / "info" / "alternates", _LINK_BYTES)
        for line in borrowed.decode("utf-8", "surrogateescape").splitlines() if borrowed else ():
            if line and not line.startswith("#") and "\0" not in line and len(places) < _MAX_BORROWED:
                places.append(place / line)
    return False if os.path.isdir(places[0]) else None


def _packs_with(objects: Path, commit: str) -> Iterator[Path]:
    """Yield the pack indexes that list the commit."""
    try:
        names = [name for name in os.listdir(objects / "pack") if name.endswith(".idx")][:_MAX_PACKS]
    except OSError:
        return
    wanted = bytes.fromhex(commit)
    for name in names:
        path = objects / "pack" / name
        try:
            with path.open("rb") as file:
                head = file.read(8 + 1024)
                if head[:8] != b"\xfftOc\0\0\0\x02" or len(head) < 8 + 1024:
                    continue
                before = struct.unpack_from(">I", head, 8 + 4 * (wanted[0] - 1))[0] if wanted[0] else 0
                until = struct.unpack_from(">I", head, 8 + 4 * wanted[0])[0]
                file.seek(8 + 1024 + before * len(wanted))
                listed = file.read((until - before) * len(wanted))
        except OSError:
            continue
        if any(listed[i : i + len(wanted)] == wanted for i in range(0, len(listed), len(wanted))):
            yield path


def tracks(root: Path, folder: Path) -> bool:
    """Return True if the repository at ``root`` tracks a file below ``folder``; False if its index cannot be read."""
    git = git_folder(root)
    try:
        inside = folder.relative_to(root).as_posix()
        status = os.stat(git / "index") if git is not None else None
    except (OSError, ValueError):
        return False
    if git is None or status is None:
        return False
    hash_bytes = 32 if config_value(git, "extensions", "objectformat").lower() == "sha256" else 20
    return inside in _tracked_folders(str(git / "index"), hash_bytes, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _tracked_folders(index: str, hash_bytes: int, changed_at_ns: int, size: int) -> frozenset[str]:
    """Return every folder, relative to the repository, that contains a file listed in the index."""
    del changed_at_ns  # part of the cache key
    data = read_regular(Path(index), _INDEX_BYTES + 1) if size <= _INDEX_BYTES else None
    try:
        names = set(_names_in_index(data or b"", hash_bytes))
    except (struct.error, ValueError, IndexError):
        return frozenset()
    folders: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(folders)


def _names_in_index(data: bytes, hash_bytes: int) -> Iterator[str]:
    """Yield the paths that an index of version 2, 3 or 4 lists. Raises struct.error, ValueError or IndexError."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index")
    place, before = 12, b""
    for _ in range(count):
        begin = place
        (flags,) = struct.unpack_from(">H", data, place + 40 + hash_bytes)
        place += 42 + hash_bytes + 2 * bool(flags & 0x4000)
        kept = b""
        if version == 4:
            cut, byte = 0, 0x80
            is_first = True
            while byte & 0x80:
                byte = data[place]
                cut = (byte & 0x7F) if is_first else ((cut + 1) << 7) | (byte & 0x7F)
                place, is_first = place + 1, False
            kept = before[: len(before) - cut]
        end = data.index(b"\0", place)
        before = kept + data[place:end]
        yield before.decode("utf-8", "surrogateescape")
        place = end + 1 if version == 4 else begin + (end - begin + 8) // 8 * 8


def main_folder_of_bare(bare: Path) -> Path:
    """Return the main folder of a repository whose git folder is not called ``.git``.

    This is the enclosing folder, if it was created for the repository or its ``.git`` file points to it; for a
    submodule, the work tree with a ``.git`` file that points to it; otherwise, the bare repository itself.
    """
    if bare.name == ".bare" or is_named_by_dot_git(bare.parent, bare):
        return bare.parent
    tree = config_value(bare, "core", "worktree")
    folder = Path(os.path.realpath(bare / tree)) if tree and "\0" not in tree else None
    return folder if folder is not None and is_named_by_dot_git(folder, bare) else bare


def is_named_by_dot_git(folder: Path, git_folder: Path) -> bool:
    """Return True if the ``.git`` file of a folder points to this git folder."""
    link = folder / ".git"
    target = read_link(link, folder, prefix="gitdir:") if os.path.isfile(link) else None
    return target is not None and Path(os.path.realpath(target)) == git_folder


def main_folder_of_submodule(folder: Path, git_folder: Path) -> Path | None:
    """Return a submodule's folder in the main worktree of its repository, given its folder in another worktree.

    Git keeps the two in ``modules/PATH`` and ``worktrees/NAME/modules/PATH``. Return None for anything else.
    """
    parts = git_folder.parts
    places = [
        place for place in range(1, len(parts) - 3) if (parts[place], parts[place + 2]) == ("worktrees", "modules")
    ]
    if not places or Path(os.path.realpath(git_folder / config_value(git_folder, "core", "worktree"))) != folder:
        return None
    module = Path(*parts[: places[0]], *parts[places[0] + 2 :])
    main = main_folder_of_bare(module) if is_bare(module) else module
    return None if main == module else main
