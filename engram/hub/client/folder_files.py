"""Paths and names of the files in a folder that serves as a hub, and what this machine records about them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from engram.errors import HubUnreachable
from engram.hub.protocol.frames import MAX_SEGMENT_BYTES
from engram.models.engine.transaction import Reader, Tx
from engram.models.hub.spaces import put_folder_state, read_folder_state
from engram.system.atomic import explain_error, read_regular, write_atomic
from engram.system.lazy_regex import lazy_regex

#: Prefix of the address of a plain folder, and of a folder in a git checkout that rounds fetch and push.
FOLDER, GIT = "file://", "git+file://"
#: Number of a folder's only member; all machines belong to one person.
MEMBER_ID = 1
#: Age, in milliseconds, at which a fetch is repeated although no user is waiting for it.
FETCH_EVERY_MS = 300_000
#: Maximum number of machines that one folder is designed for.
MAX_DEVICES = 16
#: How long data may be missing or unreadable before it is sent again and reported, in milliseconds. Each machine waits
#: between 1 and 2.5 times as long, so that they don't all resend the same data.
PATIENCE_MS = 600_000
#: This machine's small files are merged once there are more than this many of them; and the size below which a file is
#: small, in bytes.
MAX_SMALL_FILES, SMALL_BYTES = 24, 128_000
#: Maximum number of rows and bytes in a merged file.
MAX_JOINED_ROWS, MAX_JOINED_BYTES = 1_000, 4_000_000
#: Maximum number of files that this machine has deleted and remembers, because a sync program may restore them.
MAX_RETIRED = 1_000
#: The usual reason why a file can't be read: the sync program has not finished with it.
ON_ITS_WAY = "it is truncated, damaged or still on its way"
DEVICE = lazy_regex("[0-9a-f]{16}")
_NAME = lazy_regex(r"([0-9]{8})-([0-9]{8})-([0-9a-f]{32})\.seg")
COPY = lazy_regex(r"([0-9]{8}-[0-9]{8}-[0-9a-f]{32})\b.*\.seg")
_README = """Engram keeps what your machines exchange in this folder, sealed: only they can read it.
Do not change the files. `engram hub status` shows the state of the sync.
"""


def is_folder(url: str) -> bool:
    """Return True for the address of a folder; False for that of a service."""
    return url.startswith((FOLDER, GIT))


def folder_url(folder: Path, *, with_git: bool) -> str:
    """Return the address of a folder: its absolute path with links resolved."""
    return (GIT if with_git else FOLDER) + quote(str(folder.resolve()))


def folder_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


def space_id_of(key: bytes) -> int:
    """Return the number of the space that belongs to a key. Machines with the same phrase share a space."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, person=b"engram folder").digest()) >> 2


def device_id_of(token: str) -> int:
    """Return the number of the machine that made a token."""
    return int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8, person=b"engram device").digest()) >> 2


def spaces_in(folder: Path) -> list[str]:
    """Return the names of the spaces in a folder. Raises HubUnreachable if it can't be read."""
    with using(folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found = os.scandir(folder / "spaces")
        return sorted(entry.name for entry in found if DEVICE.fullmatch(entry.name) and entry.is_dir())
    return []


def machines_in(folder: Path) -> dict[str, int]:
    """Return how many machines have files in each space, by the space's name. Raises HubUnreachable."""
    with using(folder):
        machines = {name: devices_in(folder / "spaces" / name) for name in spaces_in(folder)}
        return {name: sum(bool(list_files(path)[0]) for path in paths) for name, paths in machines.items()}


def devices_in(space: Path) -> list[Path]:
    """Return the folders of the machines in a space, sorted by name."""
    found = sorted(os.scandir(space), key=lambda entry: entry.name)
    return [Path(e.path) for e in found if DEVICE.fullmatch(e.name) and e.is_dir(follow_symlinks=False)]


def notes_of_spaces(folder: Path, own: str, *, with_git: bool) -> Iterator[str]:
    """Yield a note for each space except ``own``.

    Such a space was created by a machine before the other machines' files arrived. All machines agree to abandon the
    space that fewer machines use. Raises HubUnreachable.
    """
    if len(spaces_in(folder)) < 2:
        return
    machines = machines_in(folder)
    stays = min(machines, key=lambda name: (-machines[name], name))
    sync = f"engram sync {shlex.quote(str(folder))}{' --git' if with_git else ''} --phrase"
    for name in sorted(machines.keys() - {own}):
        begun = f"the folder contains another space, with another recovery phrase (spaces/{name})"
        if name == stays:
            yield f"{begun}: this machine has to leave its own: run `engram hub leave`, then `{sync}`"
        elif own == stays:
            yield (
                f"{begun}: on the machine that began it, run `engram hub leave`, then `{sync}`; if no machine uses it "
                f"any more, delete {folder / 'spaces' / name}"
            )


def make_space(folder: Path, ns_id: int, *, with_readme: bool) -> None:
    """Create the folder of a space. Raises HubUnreachable."""
    with using(folder):
        space_folder(folder, ns_id).mkdir(parents=True, exist_ok=True)
        readme = folder / "README.txt"
        if with_readme and not os.path.lexists(readme):
            write_atomic(readme, _README.encode())


def space_folder(folder: Path, ns_id: int) -> Path:
    return folder / "spaces" / f"{ns_id:016x}"


class StoredFile(NamedTuple):
    """A device's file; its key in ``FolderState`` is the name that describes its content."""

    path: Path
    size: int
    mtime_ns: int


@dataclass(slots=True)
class FolderState:
    """What this machine has written and read; stored as JSON in memory.db."""

    #: This machine's number in the folder; it changes when the machine becomes another device.
    device: int = 0
    #: The greatest number that it has assigned to a file.
    top: int = 0
    #: Its files: name → size and time.
    own: dict[str, list[int]] = field(default_factory=dict)
    #: The files that it has started to write, and the hashes of those that it has deleted.
    planned: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    #: Device → file name → its position in this machine's reading order, and its size.
    read: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    #: Device → the greatest number that was read, and the device's name.
    tops: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    #: The position of the last file that was read.
    seq: int = 0
    #: Device → which of its files are missing, since when, and which were missing when files were last rewritten.
    gaps: dict[str, list[Any]] = field(default_factory=dict)
    #: Path of an unreadable file → since when, why, its size and time.
    strange: dict[str, list[Any]] = field(default_factory=dict)
    #: True if this machine's own files must be checked because something was forgotten.
    is_due: bool = False
    #: True if everything must be sent and read again.
    is_healing: bool = False
    #: When the checkout was last fetched, in milliseconds since 1970, and the branch that is used.
    fetched_ms: int = 0
    branch: str = ""
    #: Notices for a person.
    notes: list[str] = field(default_factory=list)


def change_state(tx: Tx, server_id: int, **changes: Any) -> None:
    state = json.loads(read_folder_state(tx, server_id) or "{}")
    put_folder_state(tx, server_id, json.dumps(state | changes))


def branch_of(store: Reader, server_id: int) -> str:
    """Return the branch that is used in a checkout; "" if it has not been settled."""
    return str(json.loads(read_folder_state(store, server_id) or "{}").get("branch", ""))


def neighbours(names: Sequence[str], live: Mapping[str, int], own: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """Group neighbouring files that together fit into one file, in order; every file is in exactly one group."""
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

    If the file itself is missing, a copy that a sync program made next to it takes its place.
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
    """Return the numbers, up to ``top``, that no complete file covers; "" if there are none."""
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
    """Turn any file system error into HubUnreachable."""
    try:
        yield
    except OSError as error:
        raise HubUnreachable(f"{folder} can't be used: {explain_error(error)}") from error
