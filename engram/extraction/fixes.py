"""Fix episodes: a command fails, files are edited, the same command passes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engram.transcripts.record import Action, Turn

#: Commands whose failing and passing is informative: tests, builds, checks, and runs of the program.
_TELLING = re.compile(
    r"\b(?:tests?|spec|pytest|jest|vitest|tox|nox|rspec|phpunit|ctest|build|compile|check|lint\w*|vet|mypy|ruff|tsc|"
    r"clippy|"
    r"typecheck|verify|make|mise|cargo|go|npm|pnpm|yarn|bun|npx|mix|gradle\w*|mvn|dotnet|swift|python3?|node|deno|uv|"
    r"just|"
    r"git (?:push|commit|merge|rebase)|docker|terraform|pre-commit)\b"
)
_WRAPPING = re.compile(
    r"\s*(?:2>&1|2>/dev/null|\|\s*(?:head|tail|grep|sed|awk|less|cat|tee|wc)\b[^|]*|;\s*echo\b[^;]*)"
)
_CHANGE_FOLDER = re.compile(r"^(?:cd\s+\S+\s*(?:&&|;)\s*)+")


@dataclass(frozen=True, slots=True)
class FixEpisode:
    """A command that failed and passed after edits."""

    #: The command as it stood when it failed.
    command: str
    #: First telling line of the error; "" if none was stored.
    error_line: str
    #: Files edited in between, each once.
    files: tuple[str, ...]
    #: Uuid of the call that failed, and of the one that passed.
    failed_uuid: str
    passed_uuid: str
    #: Key of the turn in which the command passed.
    turn_key: str
    #: Uuids of the entries from the failing to the passing call, in order.
    between: tuple[str, ...]


def normal_command(command: str) -> str:
    """Return the command without folder changes, redirections and filters, so that two runs can be compared."""
    text = _CHANGE_FOLDER.sub("", " ".join(command.split()))
    return _WRAPPING.sub("", text).strip()


def fix_episodes(turns: Sequence[Turn]) -> list[FixEpisode]:
    """Return every failing command that passes after edits, across the turns, in the order of passing.

    A command that passes without an edit in between is a retry, not a fix.
    """
    failed: dict[str, tuple[Action, int]] = {}
    edits: list[tuple[int, Action]] = []
    episodes: list[FixEpisode] = []
    steps = [(turn, action) for turn in turns for action in turn.actions]
    places = {e.uuid: i for i, e in enumerate(e for turn in turns for e in turn.entries)}
    order = sorted(places, key=lambda uuid: places[uuid])
    for index, (turn, action) in enumerate(steps):
        if action.is_edit and not action.is_error:
            edits.append((index, action))
        name = normal_command(action.command)
        if not name or not _TELLING.search(name) or action.refusal or action.is_refused:
            continue
        if action.is_error:
            failed.setdefault(name, (action, index))
        elif action.is_error is False and name in failed:
            first, began = failed.pop(name)
            files = tuple(dict.fromkeys(f for at, edit in edits if at > began for f in edit.files))
            if files:
                episodes.append(_episode(turn, first, action, files, places, order))
    return episodes


def _episode(
    turn: Turn, first: Action, last: Action, files: tuple[str, ...], places: dict[str, int], order: list[str]
) -> FixEpisode:
    start, stop = places.get(first.uuid, 0), places.get(last.uuid, 0)
    return FixEpisode(
        command=first.command,
        error_line=first.error_line,
        files=files,
        failed_uuid=first.uuid,
        passed_uuid=last.uuid,
        turn_key=turn.key,
        between=tuple(order[start : stop + 1]),
    )
