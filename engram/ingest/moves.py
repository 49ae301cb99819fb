"""Recognise a project whose folder was renamed or moved by its hints, and join the new folder to it."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path, PurePath

from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.project_folders import ProjectHints, list_hints, merge_projects, note_hints
from engram.models.projects import MOVED, lose_folder
from engram.models.store import Store
from engram.transcripts.git_hints import is_other_repository, read_git_hints

logger = logging.getLogger(__name__)

#: Hints younger than this are not read again, in milliseconds.
FRESH_MS = 86_400_000
#: What the identity of a project begins with of which only the name is known.
NAME_ONLY = "name:"
#: Most repositories that are read in one call, so that it stays short.
MAX_READ = 3


@dataclass(frozen=True, slots=True)
class Move:
    """A project whose folder is gone, and the project of another folder that may be the same."""

    former: ProjectHints
    present: ProjectHints
    #: Both hints agree, and no other project fits.
    is_certain: bool


def read_hints(store: Store, limit: int = MAX_READ) -> int:
    """Read the hints of projects whose folders exist and were not read lately; returns how many."""
    now_ms = store.now_ms()
    due = [
        hints for hints in list_hints(store) if not 0 <= now_ms - hints.read_at_ms < FRESH_MS and _present_folder(hints)
    ]
    for hints in sorted(due, key=lambda hints: hints.read_at_ms)[:limit]:
        folder = Path(_present_folder(hints))
        if str(folder) == hints.project.root and is_other_repository(folder, hints.remote, hints.first_commit):
            with store.transaction() as tx:
                lose_folder(tx, hints.project.id)
            logger.info("action=lose_folder project=%d", hints.project.id)
            continue
        read = read_git_hints(folder)
        note_hints(store, hints.project.id, read.remote, read.first_commit)
    return min(len(due), limit)


def find_moves(store: Store) -> list[Move]:
    """Return projects whose folders are all gone, each with the present projects of the same remote or first commit."""
    known = list_hints(store)
    gone = [hints for hints in known if (hints.remote or hints.first_commit) and not _present_folder(hints)]
    present = [hints for hints in known if _present_folder(hints)]
    moves = []
    for former in gone:
        same = [hints for hints in present if _agree(former, hints)]
        is_certain = len(same) == 1 and len([hints for hints in gone if _agree(hints, same[0])]) == 1
        moves += [Move(former, hints, is_certain) for hints in same]
        if not same:
            moves += [Move(former, hints, False) for hints in present if _share_a_hint(former, hints)]
    named = [hints for hints in known if hints.project.identity.startswith(NAME_ONLY) and not hints.folders]
    return moves + [Move(former, hints, False) for former in named for hints in present if _has_name_of(hints, former)]


def join_moved(store: Store) -> list[str]:
    """Join the folders of projects that have certainly moved; returns the names of the projects."""
    joined = []
    for move in find_moves(store):
        if not move.is_certain:
            continue
        try:
            reason = f"{MOVED}{move.former.project.root}: same remote and first commit"
            merge_projects(store, move.former.project, move.present.project, reason, actor=Actor.TIDYING)
        except BadRequest as error:
            logger.info("action=join_moved project=%d not=%s", move.former.project.id, error)
            continue
        logger.info("action=join_moved project=%d folder_of=%d", move.former.project.id, move.present.project.id)
        joined.append(move.former.project.name)
    return joined


def _agree(hints: ProjectHints, other: ProjectHints) -> bool:
    """True if both hints are known for both projects, and equal."""
    known = (hints.remote, hints.first_commit)
    return all(known) and known == (other.remote, other.first_commit)


def _share_a_hint(hints: ProjectHints, other: ProjectHints) -> bool:
    return bool(hints.remote and hints.remote == other.remote) or bool(
        hints.first_commit and hints.first_commit == other.first_commit
    )


def _has_name_of(hints: ProjectHints, former: ProjectHints) -> bool:
    """True if a folder is named like a project of which only the name is known, such as an imported one."""
    name = PurePath(former.project.identity.removeprefix(NAME_ONLY)).name
    return PurePath(_present_folder(hints)).name.casefold() == name.casefold()


def _present_folder(hints: ProjectHints) -> str:
    """Return the first of a project's folders that exists; "" if all are gone."""
    return next((folder for folder in (hints.project.root, *hints.folders) if folder and os.path.isdir(folder)), "")
