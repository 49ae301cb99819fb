"""Find and open agents' files.

Links are followed only once, and only to the user's own files; skipped files are listed. People link individual project
folders or sessions (dotfiles, shared accounts, moved history), and agents follow such links. Only regular files are
opened; pipes and devices are never read, so they can't block.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

#: Suffix of files compressed with Zstandard.
COMPRESSED = ".zst"
#: Maximum window that a compressed file may request, as a power of two: 32 MB.
_MAX_WINDOW_LOG = 25
#: Maximum number of bytes to which a compressed file is expanded; anything beyond that counts as damage.
MAX_EXPANDED_BYTES = 1024 * 1024 * 1024
#: Maximum number of files whose beginning is cached. If there are more files, each sweep reads all of them again.
MAX_HEADS = 65_536
_STEP_BYTES = 256 * 1024
#: Number of compressed bytes to expand, and of bytes of a first line to read, at a time. Up to this many bytes before
#: any damage in a compressed file are lost.
_PIECE_BYTES = 16 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Skipped(NamedTuple):
    """A file in an agent's session folders that is not read."""

    path: Path
    #: The reason, as part of a sentence, such as ``a link to a folder of another user``.
    reason: str


class Walk:
    """A pass over an agent's folders. No folder or linked file is returned twice, so loops of links terminate."""

    def __init__(self, root: Path) -> None:
        """Start at ``root``, which may itself be a link and is not returned again."""
        self.skipped: list[Skipped] = []
        self._root = os.path.realpath(root)
        #: Folders and files by device and number, each with the path under which it was returned.
        self._seen: dict[tuple[int, int], Path] = {}
        with suppress(OSError, ValueError):
            self._seen[_identity(os.stat(root))] = root

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """Return a folder's entries sorted by name, links last, so that a file precedes a link to it."""
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError) as error:
            self.skip(folder, f"it can't be read: {getattr(error, 'strerror', None) or error}")
            return []

    def folder(self, entry: os.DirEntry[str]) -> Path | None:
        """Return the path of an entry that is a folder to descend into; None for any other entry."""
        try:
            return self.folder_at(Path(entry.path)) if entry.is_symlink() or entry.is_dir() else None
        except OSError:
            return None

    def folder_at(self, path: Path) -> Path | None:
        """Return the path if it is a folder to descend into, or a link to a folder of the user; otherwise None."""
        facts, is_link = self._look_at(path)
        if facts is None or not stat.S_ISDIR(facts.st_mode):
            return None
        known = self._seen.setdefault(_identity(facts), path)
        reason = reason_against_link(facts) if is_link else ""
        if not reason and is_link and self._root.startswith(os.path.join(os.path.realpath(path), "")):
            reason = "a link to a folder above"
        if not reason and known != path:
            reason = f"the same folder as {known}"
        if reason:
            self.skip(path, reason)
        return None if reason else path

    def file(self, path: Path) -> os.stat_result | None:
        """Return the stat result of a file with the name of a session or, if it is a link, of its target.

        Links must be passed last. Return None if the file must not be read; ``skipped`` then contains the reason.
        """
        facts, is_link = self._look_at(path)
        if facts is None:
            return None
        reason = reason_against_link_to_file(path, facts) if is_link else _reason_against_kind(facts)
        known = path if reason else self._seen.setdefault(_identity(facts), path)
        if is_link and known != path:
            reason = f"the same file as {known}"
        if reason:
            self.skip(path, reason)
        return None if reason else facts

    def _look_at(self, path: Path) -> tuple[os.stat_result | None, bool]:
        """Return the stat result of a path, or None if it leads nowhere, and whether it is a link."""
        is_link = os.path.islink(path)
        try:
            return os.stat(path), is_link
        except (OSError, ValueError):
            if is_link:
                self.skip(path, "a dangling link")
            return None, is_link

    def skip(self, path: Path, reason: str) -> None:
        """Record that a path is not read, and why."""
        self.skipped.append(Skipped(path, reason))


def files_below(walk: Walk, folder: Path, depth: int) -> Iterator[Path]:
    """Yield every non-folder entry below a folder, at most ``depth`` folders deep."""
    for entry in walk.entries(folder):
        inner = walk.folder(entry)
        if inner is None:
            yield Path(entry.path)
        elif depth:
            yield from files_below(walk, inner, depth - 1)


def facts_of(path: Path) -> os.stat_result | None:
    """Return the stat result of a readable file, or of a link's target; None if it must not be read or is gone."""
    return Walk(path.parent).file(path)


def reason_against_link(facts: os.stat_result) -> str:
    """Return why a link must not be followed, judging by the stat result of its target; "" if it may be followed."""
    return "" if facts.st_uid == os.geteuid() else "a link to something that belongs to another user"


def reason_against_link_to_file(path: Path, facts: os.stat_result) -> str:
    """Return why a link to a file must not be followed; the target must also be a regular file with the same suffix."""
    if os.path.splitext(os.path.realpath(path))[1] != path.suffix:
        return "a link to a file of another kind"
    return _reason_against_kind(facts) or reason_against_link(facts)


def _reason_against_kind(facts: os.stat_result) -> str:
    return "" if stat.S_ISREG(facts.st_mode) else "it is not a regular file"


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def stamp_of(facts: os.stat_result) -> str:
    """Return a stamp of size and time, which changes with every write.

    The inode is left out, because network folders may change it.
    """
    return f"{facts.st_size}-{facts.st_mtime_ns}"


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, unbuffered; a link is followed only if ``Walk`` would follow it.

    Raises:
        OSError: it is gone, a pipe, a device, a folder, or a link that is not followed.
        ValueError: the path can't be the name of a file.
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
    """Return True if this Python can read files that are compressed with Zstandard."""
    return _zstd() is not None


def _zstd() -> Any:
    """Return the Zstandard module; None if there is none, because Python 3.14 and later may be built without it.

    It is imported on demand, because the import takes 10 ms and most processes never read a compressed file.
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
    """The content of a compressed file, read in bounded memory; seeking backwards starts over.

    A truncated or damaged file ends where the damage begins, and ``is_damaged`` is then True.
    """

    _decompressor: Any
    #: Position of the next read, in expanded bytes.
    _offset: int
    _has_begun: bool
    _has_ended: bool

    def __init__(self, file: BinaryIO) -> None:
        """Take over an open file. Raises OSError if this Python can't expand it."""
        self._zstd = _zstd()
        self._file = file
        if self._zstd is None:
            raise OSError("it is compressed, and this Python has no Zstandard support")
        self.is_damaged = False
        self._begin()

    def __enter__(self) -> Expanded:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._file.fileno()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; b"" at the end."""
        data = b""
        while not data and not self._has_ended:
            try:
                if self._decompressor.eof:
                    rest = self._decompressor.unused_data or self._file.read(_PIECE_BYTES)
                    if not rest:
                        break
                    self._decompressor = self._fresh()
                    data = self._decompressor.decompress(rest, max_length=size)
                else:
                    more = self._file.read(_PIECE_BYTES) if self._decompressor.needs_input else b""
                    if not more and self._decompressor.needs_input:
                        self._end(is_damaged=self._has_begun)
                        break
                    self._has_begun = True
                    data = self._decompressor.decompress(more, max_length=size)
            except self._zstd.ZstdError:
                self._end(is_damaged=True)
        self._offset += len(data)
        if self._offset > MAX_EXPANDED_BYTES:
            self._end(is_damaged=True)
            return b""
        return data

    def seek(self, offset: int) -> int:
        """Seek to a position and return it, or the end if the content is shorter."""
        if offset < self._offset:
            self._file.seek(0)
            self._begin()
        while self._offset < offset and self.read(min(offset - self._offset, _STEP_BYTES)):
            pass
        return self._offset

    def _begin(self) -> None:
        self._decompressor = self._fresh()
        self._offset = 0
        self._has_begun = self._has_ended = False

    def _end(self, *, is_damaged: bool) -> None:
        self._has_ended = True
        self.is_damaged |= is_damaged

    def _fresh(self) -> Any:
        options = {self._zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
        return self._zstd.ZstdDecompressor(options=options)


def open_content(path: Path) -> BinaryIO | Expanded:
    """Open a file's content, expanded if it is compressed. Raises the same errors as ``open_regular``."""
    file = open_regular(path)
    if path.suffix != COMPRESSED:
        return file
    try:
        return Expanded(file)
    except OSError:
        file.close()
        raise


def read_head(path: Path, limit_bytes: int, *, only_first_line: bool = False) -> bytes:
    """Return the beginning of a file's content, at most ``limit_bytes``. Raises the same errors as ``open_regular``.

    With ``only_first_line``, little more than the first line is read and returned.
    """
    pieces: list[bytes] = []
    with open_content(path) as file:
        step = _PIECE_BYTES if only_first_line else limit_bytes
        while limit_bytes > 0 and (piece := file.read(min(step, limit_bytes))):
            pieces.append(piece)
            limit_bytes -= len(piece)
            if only_first_line and b"\n" in piece:
                break
    return b"".join(pieces)
