"""The files of a folder that serves as a hub: their places and names, and what this machine keeps of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from engram.errors import HubUnreachable
from engram.hub.protocol.frames import MAX_SEGMENT_BYTES
from engram.models.engine.transaction import Tx
from engram.models.hub.spaces import put_folder_state, read_folder_state
from engram.system.atomic import explain_error, read_regular, write_atomic

#: What the address of a folder begins with; of one in a git checkout that a round fetches and pushes.
FOLDER, GIT = "file://", "git+file://"
#: What the only member of a folder is called by number: all machines are one person's.
MEMBER_ID = 1
#: How old what was fetched may be until it is fetched again, in milliseconds, where nobody waits for it.
FETCH_EVERY_MS = 300_000
#: Machines that one folder is meant for.
MAX_DEVICES = 16
#: How long something may be missing or unreadable until it is said again and named, in milliseconds. Machines take
#: between once and twice and a half as long, so that not all of them say the same again.
PATIENCE_MS = 600_000
#: Small files of this machine that are there before they are joined; below how many bytes a file is small.
MAX_SMALL_FILES, SMALL_BYTES = 24, 128_000
#: Rows and bytes of a file that others were joined to.
MAX_JOINED_ROWS, MAX_JOINED_BYTES = 1_000, 4_000_000
#: Own files that were deleted and are remembered: a sync program may put them back.
MAX_RETIRED = 1_000
#: Why most files can't be read that can't: the sync program is not done with them.
ON_ITS_WAY = "it is cut, damaged or still on its way"
#: How far ahead a statement may lie, in milliseconds: a hundred years. Only this person's machines have the key.
MOST_AHEAD_MS = 3_155_760_000_000
DEVICE = re.compile("[0-9a-f]{16}")
_NAME = re.compile(r"([0-9]{8})-([0-9]{8})-([0-9a-f]{32})\.seg")
COPY = re.compile(r"([0-9]{8}-[0-9]{8}-[0-9a-f]{32})\b.*\.seg")
_README = """Engram keeps what your machines tell each other here, sealed: only they can read it.
Leave the files as they are. `engram hub status` says how it is going.
"""


def is_folder(url: str) -> bool:
    """True for the address of a folder; False for that of a service."""
    return url.startswith((FOLDER, GIT))


def folder_url(folder: Path, *, with_git: bool) -> str:
    """Return the address of a folder: its absolute path without links."""
    return (GIT if with_git else FOLDER) + quote(str(folder.resolve()))


def folder_of(url: str) -> Path:
    """Return the folder of an address."""
    return Path(unquote(urlsplit(url).path))


def space_id_of(key: bytes) -> int:
    """Return the number of the space that a key seals: machines with the same phrase have the same space."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"engram folder").digest()) >> 2


def device_id_of(token: str) -> int:
    """Return the number of the machine that made a token."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8, person=b"engram device").digest()) >> 2


def spaces_in(folder: Path) -> list[str]:
    """Return the names of the spaces in a folder. Raises HubUnreachable where it can't be read."""
    with using(folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = os.scandir(folder / "spaces")
        return sorted(entry.name for entry in found if DEVICE.fullmatch(entry.name) and entry.is_dir())
    return []


def make_space(folder: Path, ns_id: int, *, with_readme: bool) -> None:
    """Make the folder of a space. Raises HubUnreachable."""
    with using(folder):
        space_folder(folder, ns_id).mkdir(parents=True, exist_ok=True)
        readme = folder / "README.txt"
        if with_readme and not os.path.lexists(readme):
            write_atomic(readme, _README.encode())


def space_folder(folder: Path, ns_id: int) -> Path:
    return folder / "spaces" / f"{ns_id:016x}"


class StoredFile(NamedTuple):
    """A file of a device: the name that says what it holds is a key beside it."""

    path: Path
    size: int
    mtime_ns: int


@dataclass(slots=True)
class FolderState:
    """What this machine wrote and read; kept as JSON in memory.db."""

    #: Its number in this folder; another one where the machine became another device.
    device: int = 0
    #: The greatest number that it gave.
    top: int = 0
    #: Its files: name → size and time.
    own: dict[str, list[int]] = field(default_factory=dict)
    #: The files that it began to write, and the hashes of those that it deleted.
    planned: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    #: Device → name of a file → the place in the order of this machine at which it was read, and its size.
    read: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    #: Device → the greatest number that was read, and what it is called.
    tops: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    #: The place of the last file that was read.
    seq: int = 0
    #: Device → what is missing of it, since when, and what was missing when it was last said again.
    gaps: dict[str, list[Any]] = field(default_factory=dict)
    #: Path of a file that can't be read → since when, why, its size and time.
    strange: dict[str, list[Any]] = field(default_factory=dict)
    #: Own files are to be looked through: something was forgotten.
    is_due: bool = False
    #: Everything is to be said again and read anew.
    is_healing: bool = False
    #: When the checkout was fetched, in milliseconds since 1970.
    fetched_ms: int = 0
    #: What a person should know.
    notes: list[str] = field(default_factory=list)


def begin_healing(tx: Tx, server_id: int) -> None:
    """Say everything of this machine again in the next round: a person emptied the folder."""
    state = json.loads(read_folder_state(tx, server_id) or "{}")
    put_folder_state(tx, server_id, json.dumps(state | {"own": {}, "is_healing": True, "is_due": True}))


def neighbours(names: Sequence[str], live: Mapping[str, int], own: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Return neighbouring files that fit into one, in their order; every file is in one group."""
    groups: list[list[str]] = []
    rows = size = 0
    for name in names:
        rows, size = rows + live[name], size + own[name][0]
        if not groups or rows > MAX_JOINED_ROWS or size > MAX_JOINED_BYTES:
            groups.append([])
            rows, size = live[name], own[name][0]
        groups[-1].append(name)
    return groups


def list_files(folder: Path) -> tuple[dict[str, StoredFile], list[str]]:
    """Return the files of a device by name, in the order of their numbers, and all other names.

    A copy that a sync program made beside a file stands for it where the file itself is gone.
    """
    files: dict[str, StoredFile] = {}
    others: list[tuple[str, StoredFile]] = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                file = StoredFile(Path(entry.path), facts.st_size, facts.st_mtime_ns)
                if _NAME.fullmatch(entry.name):
                    files[entry.name] = file
                else:
                    others.append((entry.name, file))
    for name, file in others:
        if stem := COPY.fullmatch(name):
            files.setdefault(f"{stem[1]}.seg", file)
    return dict(sorted(files.items())), [name for name, _ in others]


def numbers_of(name: str) -> tuple[int, int]:
    return int(name[:8]), int(name[9:17])


def digest_of(name: str) -> str:
    return name[18:50]


def is_whole(file: StoredFile, name: str) -> bool:
    data = read_regular(file.path, MAX_SEGMENT_BYTES + 1) or b""
    return hashlib.blake2b(data, digest_size=16).hexdigest() == digest_of(name)


def missing_numbers(files: Mapping[str, StoredFile], cut: Sequence[str], top: int) -> str:
    """Return which numbers up to the greatest one no whole file has; "" for none."""
    gaps, upto = [], 0
    for first, last in sorted(numbers_of(name) for name in files if name not in cut):
        if first > upto + 1:
            gaps.append(f"{upto + 1}-{first - 1}")
        upto = max(upto, last)
    if upto < top:
        gaps.append(f"{upto + 1}-{top}")
    return ",".join(gaps[:20])


def newest_ms(files: Mapping[str, StoredFile]) -> int:
    return max((file.mtime_ns for file in files.values()), default=0) // 1_000_000


@contextlib.contextmanager
def using(folder: Path) -> Iterator[None]:
    """Turn what the file system says into one error. Raises HubUnreachable."""
    try:
        yield
    except OSError as error:
        raise HubUnreachable(f"{folder} can't be used: {explain_error(error)}") from error
