"""Identify the project of a working directory by its repository, without running git.

An existing folder belongs to the repository that contains it. For a folder that is gone, evidence decides: git's own
list of worktrees, the nearest ancestor that still exists, or the only known repository with the name that a tool's
worktree folder implies. Without evidence, folders are kept separate, because splitting one project does less harm than
showing one project's memories in another.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, TypeVar

from engram.system.atomic import read_regular
from engram.system.lazy_regex import any_case, lazy_regex
from engram.transcripts.git_files import (
    MAX_DEPTH,
    broken_worktree_link,
    describes_moved_worktree,
    git_folder,
    is_bare,
    main_folder_of_bare,
    main_folder_of_submodule,
    read_link,
    tracks,
    worktrees_of,
)

#: Folders in which tools create worktrees, as the last parts of a path: ``X/.claude/worktrees``, ``X/.worktrees``.
_WORKTREE_FOLDERS = (
    *((tool, folder) for tool in (".claude", ".cursor", ".codex", ".git") for folder in ("worktrees", "worktree")),
    ("conductor", "workspaces"),
    (".claude-worktrees",),
    (".worktrees",),
    (".worktree",),
    ("worktrees",),
    (".trees",),
    (".conductor",),
    (".wt",),
)
#: Names of folders next to a repository that contain its worktrees.
_BESIDE = lazy_regex(r"([^.].*)[.-]worktrees")
#: Worktree folders that are inside a repository, unless they are in a home folder. All other worktree folders need
#: proof.
_INSIDE = frozenset({".claude", ".git", ".worktrees", ".worktree", ".trees", ".conductor", ".wt"})
#: Tools that name a worktree ``ID/REPOSITORY``; all others name it ``REPOSITORY/NAME``.
_REPOSITORY_LAST = frozenset({".codex", "vibe-kanban"})
#: Home folders, on this machine or another one. They contain projects, but are never the base of a project's worktrees.
_HOME = any_case(r"/(?:var/|export/)?(?:home|users)/[^/]+|/root|[a-z]:\\users\\[^\\]+")
#: Uninformative names of bare repositories; the name of the enclosing folder is used instead.
_NAMELESS = frozenset({".bare", ".git", ".repo", "bare", "git", "repo", "bare.git", "repo.git"})
_WINDOWS = lazy_regex(r"[A-Za-z]:[\\/]|\\\\")
#: The prefix with which Windows programs mark a path that must not be interpreted, and a network share in such a path.
_VERBATIM = any_case(r"(?:\\\\[?.]\\|//\?/)(UNC[\\/])?")
#: A WSL folder, as Windows names it; a folder on a drive; a home folder on a drive, as Linux names it.
_IN_LINUX = lazy_regex(r"[\\/]{2}wsl(?:\$|\.localhost)[\\/][^\\/]+(.*)", re.IGNORECASE | re.DOTALL)
_DRIVE = lazy_regex(r"([A-Za-z]):([\\/].*)", re.DOTALL)
_OTHER_NAMES = ("//", "/\\", "/mnt/")
_MOUNTED = lazy_regex(r"/mnt/([a-z])(/users/.*)", re.IGNORECASE | re.DOTALL)
#: Number of bytes read from Jujutsu's record of a workspace.
_CHECKOUT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Project:
    #: A value that is the same for every folder and worktree of a repository; "" if nothing is known.
    identity: str
    #: Folder of the repository or, without one, the working directory.
    root: str
    #: Short name for display; not unique.
    name: str
    #: True for a session that was started in a root folder itself; its memories are global.
    is_global: bool = False
    #: True if a repository was found on disk or among the known ones.
    is_repository: bool = False
    #: For a new project: the remote and first commit of its repository, as far as its files show.
    remote: str = ""
    first_commit: str = ""


class KnownRoot(NamedTuple):
    """The folder of a known project, and what is known about the folder in case it is gone."""

    path: str
    #: True if it has been seen as a repository, so that its remote or first commit is known.
    is_repository: bool = False
    #: True if sessions in the folder itself were on a branch, so that it was a repository or inside one.
    had_branch: bool = False
    #: Row id of its project, which may have several folders; 0 if unknown.
    project_id: int = 0
    #: The resolved path, if it was resolved once for many lookups; otherwise, each lookup resolves it.
    real: PurePath | None = None


@dataclass(slots=True)
class KnownRoots:
    """The folders of known projects, for any number of lookups.

    They are read, and their links resolved, when first needed.
    """

    read: Callable[[], Iterable[KnownRoot]]
    _roots: list[KnownRoot] | None = None

    def __iter__(self) -> Iterator[KnownRoot]:
        if self._roots is None:
            self._roots = [root._replace(real=_real(_pure(root.path))) if root.path else root for root in self.read()]
        return iter(self._roots)


class _Worktree(NamedTuple):
    """A path into a folder of worktrees."""

    #: The part before the folder of worktrees.
    base: PurePath
    #: The repository that the folder is next to, judging by the folder's name; None if the folder is inside a
    #: repository.
    beside: PurePath | None
    #: Parts of the path after the folder of worktrees.
    inner: tuple[str, ...]
    #: The folder of worktrees itself.
    folder: PurePath
    #: The first name that marks it as such a folder, or ``X`` for ``X/worktrees``; "" if it is next to a repository.
    tool: str


# -- Look up the folders of many sessions on disk, each only once per run.

P = TypeVar("P", str, PurePath)
R = TypeVar("R")

#: The results found in this run, by question and path; None outside a run.
_answers: ContextVar[dict[tuple[Any, Any], Any] | None] = ContextVar("answers", default=None)


@contextlib.contextmanager
def one_run() -> Iterator[None]:
    """Until the block ends, look up only once where a path leads, and what is above a folder that is gone."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


def _asked_once(ask: Callable[[P], R]) -> Callable[[P], R]:
    @wraps(ask)
    def answer(path: P) -> R:
        answers = _answers.get()
        if answers is None:
            return ask(path)
        if (ask, path) not in answers:
            answers[ask, path] = ask(path)
        known: R = answers[ask, path]
        return known

    return answer


def identify_project(
    cwd: str,
    *,
    known_roots: Iterable[KnownRoot] = (),
    root_folders: Collection[str] = (),
    join_worktrees: bool = True,
) -> Project:
    """Return the project of a working directory recorded in a transcript.

    If the folder exists, its repository decides (a worktree belongs to the repository that lists it); outside any
    repository, the folder is a project of its own. If the folder is gone, its repository is the first of these that
    exists: the one that lists it as a worktree; for a folder of worktrees, the repository that contains it or is next
    to it or, in a central place, the only known one with that name; the one that contains the nearest existing
    ancestor; the longest known root above it that was a repository. Otherwise, the path as written is a project of its
    own.

    Args:
        cwd: a POSIX or Windows path, as written. Links in it are followed. A relative path is of no project: the folder
            in which this process runs says nothing about it.
        known_roots: folders of known projects.
        join_worktrees: True if a worktree belongs to its repository; False to make each worktree a separate project.
        root_folders: folders that contain projects; a session in such a folder itself is global.
    """
    path = _pure(cwd)
    if not path.is_absolute():
        return Project("", "", "")
    if any(_same(path, _pure(os.path.expanduser(folder))) for folder in root_folders):
        return Project(str(path), str(path), _name_of(path), is_global=True)
    here = cwd if str(path) == os.path.normpath(cwd) else str(path)
    path = _real(path)
    repository = _repository_around(Path(here), join_worktrees) if _exists(here) else None
    if repository is not None:
        link = broken_worktree_link(repository) if join_worktrees else None
        moved = None if link is None else _repository_of_moved(repository, link, known_roots)
        return _project_of(moved or repository)
    if _exists(here):
        return Project(_identity(path), str(path), _name_of(path))
    return _project_of_gone(path, tuple(known_roots), join_worktrees)


def find_repository(folder: Path) -> Path | None:
    """Return the main folder of the repository that contains ``folder``; None if there is none, or the folder is gone.

    Nothing is run or written. For a bare repository with worktrees, the main folder is the enclosing folder if that was
    created for it (``X/.bare``, or a file ``X/.git`` that points to it); otherwise, it is the bare repository itself. A
    repository at the home folder contains only the files that it tracks.
    """
    return _repository_around(folder) if _exists(str(folder)) else None


def holds_what_is_not_its_own(root: str) -> bool:
    """Return True for a folder in which sessions of many projects may have run: a home folder, or a tool's folder
    there.
    """
    return bool(root) and _holds_tools(_real(_pure(root)))


def is_excluded(cwd: str, globs: Iterable[str]) -> bool:
    """Return True if one of the globs covers the working directory or a folder above it; ``~`` is the home folder."""
    patterns = [unicodedata.normalize("NFC", os.path.expanduser(glob).rstrip("/\\") or glob) for glob in globs]
    if not patterns:
        return False
    path = _pure(unicodedata.normalize("NFC", cwd))
    candidates = [str(path), *(str(parent) for parent in path.parents)]
    return any(fnmatch.fnmatchcase(candidate, pattern) for pattern in patterns for candidate in candidates)


# -- existing folders


def _repository_around(folder: Path, join_worktrees: bool = True, gone: PurePath | None = None) -> Path | None:
    """Return the repository of an existing folder; ``gone`` is a folder below it that doesn't exist.

    If a worktree's repository is no longer in its place, the worktree belongs to the enclosing repository, if there is
    one.
    """
    here = Path(os.path.realpath(folder))
    broken = None
    for candidate in (here, *here.parents)[:MAX_DEPTH]:
        found = _main_folder_at(candidate, join_worktrees)
        if found is None:
            continue
        if join_worktrees and broken is None and found == candidate and broken_worktree_link(candidate) is not None:
            broken = candidate
            continue
        return broken if holds_homes(candidate) and not _is_tracked(candidate, here, gone) else found
    return broken


def _repository_of_moved(worktree: Path, link: Path, known: Iterable[KnownRoot]) -> Path | None:
    """Return the known repository to which a worktree with a broken link belongs, according to that repository."""
    for root in known:
        if _is_repository(root.path):
            repository = Path(os.path.realpath(root.path))
            if describes_moved_worktree(repository, worktree, link):
                return repository
    return None


def _main_folder_at(candidate: Path, join_worktrees: bool) -> Path | None:
    """Return the main folder of the repository that has this folder as its top level; None if it is not a top level."""
    at = os.path.join(candidate, "")  # a string, since most folders are not a top level and joining paths costs more
    if os.path.isfile(f"{at}.git/HEAD"):
        return candidate
    if os.path.isfile(f"{at}.git"):
        return _main_folder(candidate, candidate / ".git") if join_worktrees else candidate
    if os.path.isfile(f"{at}.bare/HEAD") and is_bare(candidate / ".bare"):
        return candidate
    if os.path.isdir(f"{at}.jj/repo"):
        return candidate
    if os.path.isfile(f"{at}.jj/repo"):
        return _main_workspace(candidate, candidate / ".jj" / "repo") if join_worktrees else candidate
    if candidate.name != ".git" and is_bare(candidate):
        return main_folder_of_bare(candidate)
    return None


def _main_folder(worktree: Path, link: Path) -> Path:
    """Return the repository of a worktree if that repository also lists the worktree; otherwise the folder itself.

    Anyone can write a ``.git`` file that points anywhere. Only git writes ``worktrees/<name>`` inside a repository,
    and the ``gitdir`` there points back to the worktree's ``.git`` file. A submodule is its own project, in
    all worktrees of the repository that contains it.
    """
    if os.path.islink(link):
        return worktree
    git_folder = read_link(link, worktree, prefix="gitdir:")
    if git_folder is None:
        return worktree
    git_folder = Path(os.path.realpath(git_folder))
    common = read_link(git_folder / "commondir", git_folder)
    if common is None:
        return main_folder_of_submodule(worktree, git_folder) or worktree
    common = Path(os.path.realpath(common))
    if git_folder.parent != common / "worktrees" or not os.path.isfile(common / "HEAD"):
        return worktree
    named = read_link(git_folder / "gitdir", git_folder)
    if named is None or Path(os.path.realpath(named.parent)) / named.name != link:
        return worktree
    return common.parent if common.name == ".git" else main_folder_of_bare(common)


def _main_workspace(workspace: Path, link: Path) -> Path:
    """Return the main workspace of a Jujutsu workspace if the two belong together; otherwise the folder itself.

    A secondary workspace has a file ``.jj/repo`` that points to the ``.jj/repo`` of the main one. Anyone can write such
    a file, so it must be confirmed: either the main workspace has a record of the operation that checked this one out,
    or this one is next to or inside the main one.
    """
    store = read_link(link, link.parent)
    if store is None or os.path.islink(link):
        return workspace
    store = Path(os.path.realpath(store))
    main = store.parent.parent
    if store != main / ".jj" / "repo" or not os.path.isdir(store):
        return workspace
    is_near = workspace.parent == main.parent or workspace.is_relative_to(main)
    return main if is_near or _knows_checkout(store, workspace) else workspace


def _knows_checkout(store: Path, workspace: Path) -> bool:
    """Return True if the operation with which a workspace was last checked out belongs to this repository."""
    data = read_regular(workspace / ".jj" / "working_copy" / "checkout", _CHECKOUT_BYTES) or b""
    # The file is a protocol buffer, in which field 2 is the id of the operation (64 bytes).
    begin = data.find(b"\x12\x40")
    operation = data[begin + 2 : begin + 66].hex() if begin >= 0 else ""
    return len(operation) == 128 and os.path.isfile(store / "op_store" / "operations" / operation)


def holds_homes(folder: Path) -> bool:
    """Return True for the home folder and every folder above it, where a repository contains only tracked files."""
    return Path(os.path.realpath(os.path.expanduser("~"))).is_relative_to(folder)


def _is_tracked(root: Path, folder: Path, gone: PurePath | None) -> bool:
    """Return True if a repository at or above the home folder tracks an existing folder, or ``gone`` below it."""
    if gone is not None and gone != folder and folder == root:
        return tracks(root, Path(gone))
    return folder == root or tracks(root, folder)


def _project_of(repository: PurePath) -> Project:
    return Project(_identity(repository), str(repository), repository_name(repository), is_repository=True)


def repository_name(folder: PurePath) -> str:
    """Return the name of a repository: its folder's, ``X`` for ``X.git``, the enclosing folder's for ``.bare``."""
    if folder.name in _NAMELESS and folder.parent.name:
        return folder.parent.name
    stem = folder.name.removesuffix(".git")
    return stem or folder.name or str(folder)


# -- folders that are gone


def _project_of_gone(path: PurePath, known: Sequence[KnownRoot], join_worktrees: bool) -> Project:
    worktree = _worktree_in(path)
    if not join_worktrees:
        return _project_above(path, known) if worktree is None else _own_project(worktree, depth=1)
    named = _repository_that_names(path, known)
    if named is not None:
        return _project_of(named)
    if worktree is None or _is_at_repository(path, worktree, known):
        return _project_above(path, known)
    if worktree.beside is not None:
        is_other = _exists(str(worktree.beside)) or _is_home(worktree.beside)
        is_proven = _repository_above(worktree.beside) == worktree.beside
        return _own_project(worktree, 1) if is_other and not is_proven else _project_above(worktree.beside, known)
    if worktree.tool in _INSIDE and not _holds_tools(worktree.base) and not _exists(str(worktree.base)):
        return _project_above(worktree.base, known)
    return _project_of_name(worktree, known)


def _is_at_repository(path: PurePath, worktree: _Worktree, known: Sequence[KnownRoot]) -> bool:
    """Return True if a repository contains a folder of worktrees, or lies between that folder and the path."""
    around = _repository_above(path)
    top = _longest_root(path, known, around) or around
    if top is None:
        return False
    if top != worktree.folder and _is_below(top, worktree.folder):
        return True
    return _is_below(worktree.base, top) and not _holds_tools(worktree.base)


def _project_above(path: PurePath, known: Sequence[KnownRoot]) -> Project:
    """Return the project of the deepest existing or known repository above a path; otherwise the path's own project."""
    around = _repository_above(path)
    root = _longest_root(path, known, around) or around
    return Project(_identity(path), str(path), _name_of(path)) if root is None else _project_of(root)


@_asked_once
def _repository_above(path: PurePath) -> PurePath | None:
    """Return the repository that contains the nearest existing folder at or above a path."""
    if not isinstance(path, PurePosixPath) or not path.is_absolute():
        return None
    nearest = str(path)
    for _ in range(MAX_DEPTH):
        if _exists(nearest):
            break
        nearest = os.path.dirname(nearest)
    else:
        return None
    found = _repository_around(Path(nearest), gone=path)
    return None if found is None else PurePosixPath(found)


def _longest_root(path: PurePath, known: Sequence[KnownRoot], around: PurePath | None) -> PurePath | None:
    """Return the longest known root at or above a path that was a repository and is deeper than ``around``.

    Inside an existing repository, only folders that were repositories themselves count.
    """
    useful = [
        real
        for root in known
        if root.path
        and (root.is_repository or (root.had_branch and around is None))
        and _is_below(path, real := root.real or _real(_pure(root.path)))
        and len(real.parts) > 1
        and not _is_home(real)
        and (root.is_repository or not _exists(root.path))
    ]
    longest = max(useful, key=lambda root: len(root.parts), default=None)
    is_deeper = longest is not None and (around is None or len(longest.parts) > len(around.parts))
    return longest if is_deeper else None


def _repository_that_names(path: PurePath, known: Sequence[KnownRoot]) -> PurePath | None:
    """Return the known repository that lists a worktree at the path or above it."""
    for root in known:
        if not _is_repository(root.path):
            continue
        repository = Path(os.path.realpath(root.path))
        for folder in worktrees_of(repository):
            if _is_below(path, worktree := PurePosixPath(os.path.realpath(folder))):
                return _submodule_at(repository, path.parts[len(worktree.parts) :]) or PurePosixPath(repository)
    return None


def _submodule_at(repository: Path, inner: Sequence[str]) -> PurePath | None:
    """Return the repository's own submodule that contains a path within it; None if there is none."""
    found = _repository_above(PurePosixPath(repository, *inner))
    git = None if found is None else git_folder(Path(found))
    is_own = git is not None and git.is_relative_to(repository / ".git" / "modules")
    return found if is_own else None


def _worktree_in(path: PurePath) -> _Worktree | None:
    parts = path.parts
    for index in range(1, len(parts) - 1):
        for names in _WORKTREE_FOLDERS:
            end = index + len(names)
            if parts[index] == names[0] and parts[index:end] == names and len(parts) > end:
                tool = parts[index - 1] if names == ("worktrees",) else names[0]
                return _Worktree(type(path)(*parts[:index]), None, parts[end:], type(path)(*parts[:end]), tool)
        beside = _BESIDE.fullmatch(parts[index])
        if beside:
            base = type(path)(*parts[:index])
            return _Worktree(base, base / beside[1], parts[index + 1 :], base / parts[index], "")
    return None


def _project_of_name(worktree: _Worktree, known: Sequence[KnownRoot]) -> Project:
    """Return the project of the only known repository with the name that a worktree implies, or the worktree's."""
    if len(worktree.inner) > 1:
        name = worktree.inner[1 if worktree.tool in _REPOSITORY_LAST else 0]
        same = [root for root in known if root.path and _gives_name(root.path, name)]
        repositories = [root for root in same if root.is_repository or _is_repository(root.path)]
        if repositories and len({root.project_id or root.path for root in same}) == 1:
            return _project_of(_pure(repositories[0].path))
    return _own_project(worktree, depth=2)


def _gives_name(path: str, name: str) -> bool:
    """Return True for a project's folder that has this name and is not itself a worktree in a central place."""
    pure = _pure(path)
    return repository_name(pure) == name and _worktree_in(pure) is None


@_asked_once
def _is_repository(path: str) -> bool:
    """Return True for the main folder of an existing repository."""
    real = Path(os.path.realpath(path)) if path and _exists(path) else None
    return real is not None and _main_folder_at(real, join_worktrees=True) == real


def _own_project(worktree: _Worktree, depth: int) -> Project:
    """Return the project of a worktree about which nothing else is known; the folders inside it are ignored."""
    inner = worktree.inner[:depth]
    root = worktree.folder.joinpath(*inner)
    ordered = inner[::-1] if worktree.tool in _REPOSITORY_LAST else inner
    return Project(_identity(root), str(root), "-".join(ordered))


# -- paths


@_asked_once
def _pure(text: str) -> PurePath:
    """Return a path as this machine would write it; under Windows, a folder in Linux has two names."""
    text = _composed(text)
    if verbatim := _VERBATIM.match(text):
        text = ("\\\\" if verbatim[1] else "") + text[verbatim.end() :]
    if text.startswith("/") and not text.lower().startswith(_OTHER_NAMES):
        return PurePosixPath(os.path.normpath(text))
    if linux := _IN_LINUX.match(text):
        text = linux[1].replace("\\", "/") or "/"
    if (drive := _DRIVE.match(text)) and os.path.isdir(f"/mnt/{drive[1].lower()}"):
        text = f"/mnt/{drive[1].lower()}{drive[2]}".replace("\\", "/")
    elif (drive := _MOUNTED.match(text)) and not os.path.isdir(f"/mnt/{drive[1]}"):
        text = f"{drive[1]}:{drive[2]}"
    return PureWindowsPath(text) if _WINDOWS.match(text) else PurePosixPath(os.path.normpath(text))


def _composed(text: str) -> str:
    """Return a path with composed letters, since programs on a Mac write both forms, unless that is another folder."""
    if text.isascii():
        return text
    there = next((str(folder) for folder in (Path(text), *Path(text).parents) if _exists(str(folder))), "")
    composed = unicodedata.normalize("NFC", there)
    is_other = composed != there and not (_exists(composed) and os.path.samefile(composed, there))
    return text if is_other else unicodedata.normalize("NFC", text)


@_asked_once
def _real(path: PurePath) -> PurePath:
    """Return a path on this machine with its links resolved, as far as it exists; any other path, unchanged."""
    return PurePosixPath(os.path.realpath(path)) if _is_local(str(path)) and _WINDOWS.match(str(path)) is None else path


def _is_local(text: str) -> bool:
    return os.path.isabs(text) and "\0" not in text


def _exists(text: str) -> bool:
    try:
        return _is_local(text) and os.path.isdir(text)
    except (OSError, ValueError):
        return False


def _is_below(path: PurePath, root: PurePath) -> bool:
    if type(path) is not type(root):
        return False
    if isinstance(path, PurePosixPath):  # many times faster
        return path.parts[: len(root.parts)] == root.parts
    return path.is_relative_to(root)


def _is_home(path: PurePath) -> bool:
    """Return True for the home folder of any machine, and for every folder above this machine's."""
    if _HOME.fullmatch(str(path)) is not None:
        return True
    return _is_below(PurePosixPath(os.path.realpath(os.path.expanduser("~"))), path)


def _holds_tools(path: PurePath) -> bool:
    """Return True for a home folder, and for a hidden folder in one, where a tool keeps its own files."""
    return _is_home(path) or (path.name.startswith(".") and _is_home(path.parent))


def _same(path: PurePath, other: PurePath) -> bool:
    if type(path) is not type(other):
        return False
    return path == other or (
        isinstance(path, PurePosixPath) and os.path.realpath(str(path)) == os.path.realpath(str(other))
    )


def _identity(path: PurePath) -> str:
    """Return the identity of a path, for which Windows paths are converted to lower case and one kind of slash."""
    return str(path).lower() if isinstance(path, PureWindowsPath) else str(path)


def _name_of(path: PurePath) -> str:
    return path.name or str(path)
