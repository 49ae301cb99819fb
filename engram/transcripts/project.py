"""Identify the project of a working directory by its repository, without running git."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from engram.atomic import read_regular

#: Folders in which tools keep worktrees of a repository; the path before them is the repository.
_WORKTREE_FOLDERS = (
    (".claude", "worktrees"),
    (".worktrees",),
    ("worktrees",),
    (".cursor", "worktrees"),
    (".codex", "worktrees"),
    (".git", "worktrees"),
    (".trees",),
    (".conductor",),
)
#: Names of folders beside the repository that hold its worktrees.
_BESIDE = re.compile(r"(.+)[.-]worktrees")
#: Bytes of ``.git`` and ``commondir`` that are read.
_LINK_BYTES = 4096
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")
#: Maximum number of folders that are looked at, from the inside out.
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Project:
    """A project by its identity."""

    #: Same for every folder and worktree of one repository; "" if nothing is known.
    identity: str
    #: Folder of the repository or, without one, the working directory.
    root: str
    #: Short name for display; not unique.
    name: str
    #: True for a session that was started in a root folder itself: its memories hold everywhere.
    is_global: bool = False


def identify_project(
    cwd: str,
    *,
    known_roots: Iterable[str] = (),
    root_folders: Collection[str] = (),
    join_worktrees: bool = True,
) -> Project:
    """Return the project of a working directory as a transcript names it.

    If the folder exists, its repository decides (a worktree belongs to the repository that names it); outside any
    repository it is a project of its own. If it is gone, the path as written counts, with known worktree suffixes cut;
    then the longest known project root above it.

    Args:
        cwd: POSIX or Windows path, as written.
        known_roots: roots of known projects.
        join_worktrees: a worktree belongs to its repository; off makes each a project of its own.
        root_folders: folders that hold projects; a session in such a folder itself has global scope.
    """
    if not cwd.strip():
        return Project("", "", "")
    path = _pure(cwd)
    if any(_same(path, _pure(os.path.expanduser(folder))) for folder in root_folders):
        return Project(str(path), str(path), _name_of(path), is_global=True)
    repository = find_repository(Path(cwd), join_worktrees=join_worktrees) if _is_local(cwd) else None
    if repository is not None:
        return Project(str(repository), str(repository), repository.name or str(repository))
    if _exists(cwd):
        return Project(_identity(path), str(path), _name_of(path))
    path = _without_worktree(path) if join_worktrees else path
    if _is_local(cwd) and path != _pure(cwd):
        repository = find_repository(Path(str(path)))
        if repository is not None:
            return Project(str(repository), str(repository), repository.name or str(repository))
    root = _longest_root(path, known_roots) or path
    return Project(_identity(root), str(root), _name_of(root))


def find_repository(folder: Path, *, join_worktrees: bool = True) -> Path | None:
    """Return the main folder of the repository that holds ``folder``; None outside any. Runs and writes nothing."""
    if not _exists(str(folder)):
        return None
    here = Path(os.path.realpath(folder))
    for candidate in (here, *here.parents)[:MAX_DEPTH]:
        git = candidate / ".git"
        if os.path.isfile(git / "HEAD"):
            return candidate
        if os.path.isfile(git):
            return _main_folder(candidate, git) if join_worktrees else candidate
    return None


def is_excluded(cwd: str, globs: Iterable[str]) -> bool:
    """True if one of the globs covers the working directory or a folder above it; ``~`` is the home folder."""
    patterns = [os.path.expanduser(glob).rstrip("/\\") or glob for glob in globs]
    if not patterns:
        return False
    path = _pure(cwd)
    candidates = [str(path), *(str(parent) for parent in path.parents)]
    return any(fnmatch.fnmatchcase(candidate, pattern) for pattern in patterns for candidate in candidates)


def _main_folder(worktree: Path, link: Path) -> Path:
    """Return the repository of a worktree if that repository names the worktree too; else the folder itself.

    Anybody can write a ``.git`` file that points anywhere. Only git writes ``worktrees/<name>`` inside a repository,
    and its ``gitdir`` names the ``.git`` file that belongs to it. A submodule is its own project.
    """
    if os.path.islink(link):
        return worktree
    git_folder = read_link(link, worktree, prefix="gitdir:")
    if git_folder is None:
        return worktree
    git_folder = Path(os.path.realpath(git_folder))
    common = read_link(git_folder / "commondir", git_folder)
    if common is None:
        return worktree
    common = Path(os.path.realpath(common))
    if git_folder.parent != common / "worktrees" or not os.path.isfile(common / "HEAD"):
        return worktree
    named = read_link(git_folder / "gitdir", git_folder)
    if named is None or Path(os.path.realpath(named.parent)) / named.name != link:
        return worktree
    return common.parent if common.name == ".git" else common


def read_link(file: Path, base: Path, prefix: str = "") -> Path | None:
    """Return the path that a link file of git names, relative to ``base``; None if it names none."""
    data = read_regular(file, _LINK_BYTES)
    text = data.decode("utf-8", "surrogateescape").strip() if data else ""
    if not text.startswith(prefix) or "\0" in text:
        return None
    target = text[len(prefix) :].strip()
    return base / target if target else None


def _pure(text: str) -> PurePath:
    return PureWindowsPath(text) if _WINDOWS.match(text) else PurePosixPath(os.path.normpath(text))


def _is_local(text: str) -> bool:
    return os.path.isabs(text) and "\0" not in text


def _exists(text: str) -> bool:
    try:
        return _is_local(text) and os.path.isdir(text)
    except (OSError, ValueError):
        return False


def _without_worktree(path: PurePath) -> PurePath:
    """Return the path before a worktree folder; one at the top of the file system does not count."""
    parts = path.parts
    for index in range(2, len(parts)):
        for folder in _WORKTREE_FOLDERS:
            if parts[index : index + len(folder)] == folder and len(parts) > index + len(folder):
                return type(path)(*parts[:index])
        beside = _BESIDE.fullmatch(parts[index])
        if beside and len(parts) > index + 1:
            return type(path)(*parts[:index], beside[1])
    return path


def _longest_root(path: PurePath, roots: Iterable[str]) -> PurePath | None:
    above = [p for p in map(_pure, (r for r in roots if r)) if type(p) is type(path) and path.is_relative_to(p)]
    useful = [p for p in above if len(p.parts) > 1]
    return max(useful, key=lambda p: len(p.parts), default=None)


def _same(path: PurePath, other: PurePath) -> bool:
    if type(path) is not type(other):
        return False
    return path == other or (
        isinstance(path, PurePosixPath) and os.path.realpath(str(path)) == os.path.realpath(str(other))
    )


def _identity(path: PurePath) -> str:
    """Return the identity of a path: Windows paths without case and with one kind of slash."""
    return str(path).lower() if isinstance(path, PureWindowsPath) else str(path)


def _name_of(path: PurePath) -> str:
    return path.name or str(path)
