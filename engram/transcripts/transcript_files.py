"""Find and open the files that agents write: links are followed once, to what is the user's; what is skipped is named.

People link single project folders or sessions (dotfiles, shared accounts, moved history), and agents follow such links.
Whatever is opened is a regular file; a pipe or a device never blocks or is read.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

#: How the name of a file ends that is compressed with Zstandard.
COMPRESSED = ".zst"
#: Most memory that a compressed file may ask for its window, as a power of two: 32 MB.
_MAX_WINDOW_LOG = 25
#: Bytes of a compressed file that are expanded at most; what lies behind counts as damage.
MAX_EXPANDED_BYTES = 1024 * 1024 * 1024
_STEP_BYTES = 256 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Skipped(NamedTuple):
    """Something in an agent's folders that is not read although it is where sessions are."""

    path: Path
    #: Why, as half a sentence such as ``a link to a folder of another user``.
    reason: str


class Found(NamedTuple):
    """A regular file, with its facts; those of the file that it links to, if it is a link."""

    path: Path
    facts: os.stat_result


class Walk:
    """One pass over the folders of an agent. No folder or linked file is given out twice; loops end."""

    def __init__(self, root: Path) -> None:
        """Begin at ``root``, which may be a link itself and is not given out again."""
        self.skipped: list[Skipped] = []
        #: Folders and files by device and number, each with the path under which it was given out.
        self._seen: dict[tuple[int, int], Path] = {}
        with suppress(OSError, ValueError):
            self._seen[_identity(os.stat(root))] = root

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """Return what a folder holds: by name, links last, so that what is in its place goes before a link to it."""
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self.skip(folder, f"it can't be read: {getattr(error, 'strerror', None) or error}")
            return []

    def folder(self, entry: os.DirEntry[str]) -> Path | None:
        """Return the path of an entry that is a folder to descend into; None for everything else."""
        if not entry.is_symlink():
            return self._folder_here(entry)
        path = Path(entry.path)
        try:
            facts = os.stat(path)
        except (OSError, ValueError):
            self.skip(path, "a link that leads nowhere")
            return None
        if not stat.S_ISDIR(facts.st_mode):
            return None
        reason = reason_against_link(facts) or self._again(path, facts)
        if reason:
            self.skip(path, reason)
            return None
        return path

    def _folder_here(self, entry: os.DirEntry[str]) -> Path | None:
        try:
            if not entry.is_dir(follow_symlinks=False):
                return None
            self._seen.setdefault(_identity(entry.stat(follow_symlinks=False)), Path(entry.path))
        except OSError:
            return None
        return Path(entry.path)

    def _again(self, path: Path, facts: os.stat_result) -> str:
        """Return why a link is not followed a second time; "" if it is the first time."""
        known = self._seen.setdefault(_identity(facts), path)
        real = os.path.realpath(path)
        inside = any(os.path.realpath(other).startswith(real + os.sep) for other in self._seen.values())
        if inside:
            return "a link to a folder above"
        return "" if known == path else f"a link to what is read as {known}"

    def file(self, path: Path) -> Found | None:
        """Return a file that is named like a transcript; None, and ``skipped`` says why, if it is not to be read."""
        try:
            facts = path.lstat()
            is_link = stat.S_ISLNK(facts.st_mode)
            facts = os.stat(path) if is_link else facts
        except (OSError, ValueError):
            if os.path.lexists(path):
                self.skip(path, "a link that leads nowhere")
            return None
        reason = (reason_against_link_to_file(path, facts) if is_link else "") or _reason_against_kind(facts)
        if not reason and (is_link or facts.st_nlink > 1):
            known = self._seen.setdefault(_identity(facts), path)
            reason = f"a link to what is read as {known}" if is_link and known != path else ""
        if reason:
            self.skip(path, reason)
            return None
        return Found(path, facts)

    def skip(self, path: Path, reason: str) -> None:
        """Note that something is not read."""
        self.skipped.append(Skipped(path, reason))


def facts_of(path: Path) -> os.stat_result | None:
    """Return the facts of a file that may be read, those behind a link included; None if it may not or is gone."""
    return None if (found := Walk(path.parent).file(path)) is None else found.facts


def reason_against_link(facts: os.stat_result) -> str:
    """Return why a link to a folder or file is not followed, by the facts of what it leads to; "" if it is."""
    return "" if facts.st_uid == os.geteuid() else "a link to what belongs to another user"


def reason_against_link_to_file(path: Path, facts: os.stat_result) -> str:
    """Return why a link to a file is not followed: also if the file is not named as a session is."""
    if os.path.splitext(os.path.realpath(path))[1] != path.suffix:
        return "a link to a file of another kind"
    return _reason_against_kind(facts) or reason_against_link(facts)


def _reason_against_kind(facts: os.stat_result) -> str:
    return "" if stat.S_ISREG(facts.st_mode) else "it is not a regular file"


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def stamp_of(facts: os.stat_result) -> str:
    """Return what differs whenever a file was written: size and time. Its number may change on network folders."""
    return f"{facts.st_size}-{facts.st_mtime_ns}"


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, unbuffered; a link leads to it only where ``Walk`` would follow it.

    Raises:
        OSError: it is gone, a pipe, a device, a folder, or a link that is not followed.
        ValueError: no file can have that name.
    """
    is_link = os.path.islink(path)
    descriptor = os.open(os.path.realpath(path) if is_link else path, _FLAGS)
    file = os.fdopen(descriptor, "rb", buffering=0)
    facts = os.fstat(descriptor)
    reason = reason_against_link_to_file(path, facts) if is_link else _reason_against_kind(facts)
    if reason:
        file.close()
        raise OSError(reason)
    return file


# -- compressed files


def can_expand() -> bool:
    """True if this Python can read files that are compressed with Zstandard."""
    return _zstd() is not None


def _zstd() -> Any:
    """Return the module; None if there is none: a Python from 3.14 may be built without it.

    Loaded here, since most processes read no compressed file and it takes 10 ms.
    """
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        return None
    return zstd


class Expanded:
    """The content of a compressed file, read forward in bounded memory; seeking back begins anew.

    A file that ends too early or is damaged ends where that begins, and ``is_damaged`` says so.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Take over an open file. Raises OSError if this Python can't expand it."""
        self._zstd = _zstd()
        self._file = file
        if self._zstd is None:
            raise OSError("it is compressed, and this Python has no Zstandard")
        self.is_damaged = self._has_begun = False
        self._offset = 0
        self._decompressor = self._fresh()

    def __enter__(self) -> Expanded:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._file.fileno()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; b"" at the end."""
        data = b""
        while not data and not self.is_damaged:
            try:
                if self._decompressor.eof:
                    rest = self._decompressor.unused_data or self._file.read(_STEP_BYTES)
                    if not rest:
                        break
                    self._decompressor = self._fresh()
                    data = self._decompressor.decompress(rest, max_length=size)
                else:
                    more = self._file.read(_STEP_BYTES) if self._decompressor.needs_input else b""
                    if not more and self._decompressor.needs_input:
                        self.is_damaged = self._has_begun
                        break
                    self._has_begun = True
                    data = self._decompressor.decompress(more, max_length=size)
            except self._zstd.ZstdError:
                self.is_damaged = True
        self._offset += len(data)
        if self._offset > MAX_EXPANDED_BYTES:
            self.is_damaged = True
            return b""
        return data

    def seek(self, offset: int) -> int:
        """Go to a place; returns the place, which is the end if the content is shorter."""
        if offset < self._offset:
            self._file.seek(0)
            self._begin()
        while self._offset < offset and self.read(min(offset - self._offset, _STEP_BYTES)):
            pass
        return self._offset

    def _begin(self) -> None:
        self._decompressor = self._fresh()
        self._offset = 0
        self.is_damaged = self._has_begun = False

    def _fresh(self) -> Any:
        options = {self._zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
        return self._zstd.ZstdDecompressor(options=options)


def files_below(walk: Walk, folder: Path, depth: int) -> Iterator[Path]:
    """Yield every entry below a folder that is not a folder, at most ``depth`` folders deep."""
    for entry in walk.entries(folder):
        inner = walk.folder(entry)
        if inner is None:
            yield Path(entry.path)
        elif depth:
            yield from files_below(walk, inner, depth - 1)
