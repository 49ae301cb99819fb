"""What every reader of a format yields: memories on their way in, and what could not be used."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engram.models.episode_history import Change
from engram.models.episode_imports import KnownContradiction
from engram.models.episodes import Episode, Evidence
from engram.models.tombstone_transfer import Tombstone


@dataclass(frozen=True, slots=True)
class Place:
    """The project of a memory, as its file names it."""

    #: Display name.
    name: str
    #: What identifies its folder; "" where the file does not say it.
    identity: str = ""
    root: str = ""
    #: Hints by which the same repository in another folder is recognised; "" for none.
    remote: str = ""
    first_commit: str = ""


@dataclass(frozen=True, slots=True)
class IncomingMemory:
    """A memory as a file has it. Its texts are not redacted yet, and its project is a name."""

    episode: Episode
    place: Place | None = None
    evidence: tuple[Evidence, ...] = ()
    history: tuple[Change, ...] = ()
    contradictions: tuple[KnownContradiction, ...] = ()
    #: Name of the agent whose session it came from; "" if that is not known.
    agent: str = ""
    #: Where it came from; the reason of the import's step in its history.
    reason: str = ""
    #: What an export says of it, by which this memory knows what it wrote itself; None for any other file.
    record: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class IncomingTombstones:
    """What was forgotten where the file was written."""

    tombstones: tuple[Tombstone, ...]


@dataclass(frozen=True, slots=True)
class Unusable:
    """A part of the file from which no memory can be made."""

    #: "line 7", "row 12 of episodes", a file.
    where: str
    why: str


Incoming = IncomingMemory | IncomingTombstones | Unusable


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder of a known format, ready to be read."""

    #: The format, as a person names it.
    format: str
    #: What is read: a path, or "standard input".
    name: str
    items: Iterator[Incoming]
    #: What the user should know about this format, such as what is left out.
    remarks: tuple[str, ...] = ()


def derived_ids(program: str, *parts: str) -> Mapping[str, Any]:
    """Return ``episode_id`` and ``stable_id`` of a memory of another program: the same for the same parts, anywhere.

    So importing twice adds nothing, and what was forgotten stays so.
    """
    digest = hashlib.sha256("\0".join((program, *parts)).encode("utf-8", "replace")).hexdigest()
    return {"episode_id": f"ep_{digest[:12]}", "stable_id": digest[12:28]}
