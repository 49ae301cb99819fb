"""A project's folder was renamed or moved: recognise it by its hints, and join the new folder to the project."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from engram.enums import Actor
from engram.errors import BadRequest
from engram.models.project_folders import ProjectHints, list_hints, merge_projects, note_hints
from engram.models.store import Store
from engram.transcripts.git_hints import read_git_hints

logger = logging.getLogger(__name__)

#: Hints younger than this are not read again, in milliseconds.
FRESH_MS = 86_400_000
#: Repositories that are looked at in one call, so that it stays short.
MAX_READ = 3


@dataclass(frozen=True, slots=True)
class Move:
    """A project whose folder is gone, and the project of another folder that may be the same."""

    former: ProjectHints
    present: ProjectHints
    #: Both hints agree, and no other project fits.
    is_certain: bool


def read_hints(store: Store, limit: int = MAX_READ) -> int:
    """Read the hints of projects whose folders are there and were not looked at lately; returns how many."""
    now_ms = store.now_ms()
    due = [one for one in list_hints(store) if not 0 <= now_ms - one.read_at_ms < FRESH_MS and _present_folder(one)]
    for one in sorted(due, key=lambda one: one.read_at_ms)[:limit]:
        hints = read_git_hints(Path(_present_folder(one)))
        note_hints(store, one.project.id, hints.remote, hints.first_commit)
    return min(len(due), limit)


def find_moves(store: Store) -> list[Move]:
    """Projects whose every folder is gone, each with the present projects that have the same remote or first commit."""
    known = list_hints(store)
    gone = [one for one in known if (one.remote or one.first_commit) and not _present_folder(one)]
    present = [one for one in known if _present_folder(one)]
    moves = []
    for former in gone:
        same = [one for one in present if _agree(former, one)]
        is_certain = len(same) == 1 and len([one for one in gone if _agree(one, same[0])]) == 1
        moves += [Move(former, one, is_certain) for one in same]
        if not same:
            moves += [Move(former, one, False) for one in present if _share_a_hint(former, one)]
    return moves


def join_moved(store: Store) -> list[str]:
    """Join the folders of projects that have certainly moved; returns the projects' names."""
    joined = []
    for move in find_moves(store):
        if not move.is_certain:
            continue
        try:
            reason = f"moved from {move.former.project.root}: same remote and first commit"
            merge_projects(store, move.former.project, move.present.project, reason, actor=Actor.TIDYING)
        except BadRequest as error:
            logger.info("action=join_moved project=%d not=%s", move.former.project.id, error)
            continue
        logger.info("action=join_moved project=%d folder_of=%d", move.former.project.id, move.present.project.id)
        joined.append(move.former.project.name)
    return joined


def _agree(one: ProjectHints, other: ProjectHints) -> bool:
    """True where both hints are known of both and the same."""
    hints = (one.remote, one.first_commit)
    return all(hints) and hints == (other.remote, other.first_commit)


def _share_a_hint(one: ProjectHints, other: ProjectHints) -> bool:
    return bool(one.remote and one.remote == other.remote) or bool(
        one.first_commit and one.first_commit == other.first_commit
    )


def _present_folder(one: ProjectHints) -> str:
    """The first of a project's folders that is there; "" where all are gone."""
    return next((folder for folder in (one.project.root, *one.folders) if folder and os.path.isdir(folder)), "")
