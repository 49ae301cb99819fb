"""What a session is told when a command fails: how the same failure was put right in an earlier session."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from engram.enums import Importance, Kind, Voice
from engram.models import contexts
from engram.models.episode_lists import episodes_resting_on_turns
from engram.models.episodes import Episode
from engram.models.failures import EarlierFailure, earlier_failures, turns_from
from engram.models.store import Store
from engram.models.turns import StoredTurn
from engram.recollection.choose import Bite, InjectionRequest, why_barred
from engram.recollection.resolutions import Resolution, find_resolution
from engram.redaction.display import one_line
from engram.redaction.suspicion import why_suspect
from engram.text.failures import error_keys, programs_of, telling_lines

#: Share of an error's telling lines that an earlier error must have too.
MIN_SHARED_LINES = 0.34
#: Earlier failures that are looked at, those with the most shared lines first.
MAX_EARLIER = 8
#: Turns in which a failure may have been put right, that of the failure included.
MAX_TURNS = 4
#: Files that a line names.
MAX_FILES = 3
#: Longest command that a line shows, in characters.
MAX_COMMAND_CHARACTERS = 110
#: Sessions and subagents whose failures are remembered.
MAX_CONTEXTS = 500
_REDIRECTION = re.compile(r"\s*\d?>&\d|\s*\d>/dev/null")
#: Kinds of memories that tell how a failure was put right, or that it was not.
_KINDS = (Kind.FIX, Kind.DEAD_END)


@dataclass(frozen=True, slots=True)
class Failure:
    """A command that has just failed."""

    command: str
    #: Keys of the telling lines of its error.
    keys: tuple[int, ...]

    @property
    def programs(self) -> frozenset[str]:
        """The programs that the command runs."""
        return frozenset(programs_of(self.command))


def read_failure(
    command: str, error: str, redact: Callable[[str], str], branch: str, keys: Sequence[int] = ()
) -> Failure | None:
    """Return the failure of a command; None for one whose error says nothing telling.

    Args:
        command: as it was run.
        error: the whole error message; it is redacted line by line, as in ingest.
        redact: removes secrets.
        branch: the session's branch, which may be part of the message.
        keys: of the error, if they are known.
    """
    keys = tuple(keys) or error_keys(map(redact, telling_lines(error)), [branch])
    return Failure(command=command, keys=keys) if keys and programs_of(command) else None


class SeenFailures:
    """The failures that each context has had, so that it is told about each once. Any thread may call any method."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._keys: OrderedDict[str, set[int]] = OrderedDict()

    def is_new(self, context: str, failure: Failure) -> bool:
        """Record a failure of a session or subagent; returns False if most of its error was seen there before."""
        with self._lock:
            seen = self._keys.setdefault(context, set())
            self._keys.move_to_end(context)
            is_new = 2 * len(seen & set(failure.keys)) < len(failure.keys)
            seen.update(failure.keys)
            while len(self._keys) > MAX_CONTEXTS:
                self._keys.popitem(last=False)
            return is_new

    def forget(self, session_id: str) -> None:
        """Forget the failures of a session whose context was emptied."""
        with self._lock:
            self._keys.pop(session_id, None)


def recall_failure(store: Store, failure: Failure, request: InjectionRequest) -> Bite | None:
    """Return the line about an earlier failure with the same error; mostly None.

    It must be of the same program and project, of another session, and must have been put right there: the fastest way
    counts. Nothing of a tool's output is shown.
    """
    if request.project_id is None:
        return None
    ways = [
        (resolution, turns, earlier)
        for earlier in _candidates(store, failure, request)
        for turns, resolution in _resolutions(store, earlier)
    ]
    for resolution, turns, earlier in sorted(ways, key=lambda way: way[0].calls):
        bite = _bite(store, resolution, turns, earlier, failure, request)
        if bite is not None:
            return bite
    return None


def _candidates(store: Store, failure: Failure, request: InjectionRequest) -> list[EarlierFailure]:
    """Return the earlier failures of other sessions that share enough of the error, the most first."""
    in_context = {request.session_id, *(source for source, _ in contexts.copied_history(store, request.session_id))}
    assert request.project_id is not None
    earlier = [
        call
        for call in earlier_failures(store, request.project_id, failure.keys)
        if call.session_id not in in_context
        and call.programs & failure.programs
        and len(call.shared_keys) >= MIN_SHARED_LINES * len(failure.keys)
    ]
    return sorted(earlier, key=lambda call: -len(call.shared_keys))[:MAX_EARLIER]


def _resolutions(store: Store, earlier: EarlierFailure) -> Iterator[tuple[list[StoredTurn], Resolution]]:
    turns = turns_from(store, earlier.turn_id, MAX_TURNS)
    if turns and earlier.seq < len(turns[0].turn.actions):
        failed = turns[0].turn.actions[earlier.seq]
        resolution = find_resolution([stored.turn for stored in turns], failed)
        if resolution is not None:
            yield turns, resolution


def _bite(
    store: Store,
    resolution: Resolution,
    turns: Sequence[StoredTurn],
    earlier: EarlierFailure,
    failure: Failure,
    request: InjectionRequest,
) -> Bite | None:
    """Return the line about one way to put it right; None if it was shown before, or may not be shown."""
    first, last = turns[0], turns[resolution.turn_index]
    line_id = f"turn_{first.stable_id}"
    way = _way(resolution, turns[0].turn.actions[earlier.seq].command)
    if line_id in request.shown or why_suspect(way, is_typed=False, is_assistant=True):
        return None
    memories = _memories_of(store, resolution, turns[: resolution.turn_index + 1])
    if any(memory.episode_id in request.shown for memory in memories):
        return None
    episode = next((memory for memory in memories if why_barred(memory.episode_id, memory, request) is None), None)
    words = episode.summary if episode is not None else resolution.words
    if why_suspect(words, is_typed=False, is_assistant=True):
        words = ""
    return Bite(
        episode_id=episode.episode_id if episode is not None else line_id,
        text=f"{way} {words}".strip(),
        created_at_ms=last.turn.ended_at_ms or last.turn.started_at_ms or 0,
        importance=episode.importance if episode is not None else Importance.NORMAL,
        voice=episode.voice if episode is not None else Voice.ASSISTANT,
        relevance=round(len(earlier.shared_keys) / len(failure.keys), 4),
        evidence=tuple(sorted(resolution.between)),
    )


def _way(resolution: Resolution, command: str) -> str:
    """Return in words how a failing command was made to pass."""
    said = f"`{_shown_command(command)}` failed like this and passed"
    if resolution.passed_as:
        said += f" as `{_shown_command(resolution.passed_as)}`"
    if resolution.helper:
        said += f" after `{_shown_command(resolution.helper)}`"
    if resolution.files:
        names = [PurePosixPath(name.replace("\\", "/")).name for name in resolution.files]
        more = f" and {len(names) - MAX_FILES} more" if len(names) > MAX_FILES else ""
        said += f"{',' if resolution.helper else ''} after changes to {', '.join(names[:MAX_FILES])}{more}"
    return f"{said}."


def _shown_command(command: str) -> str:
    lines = _REDIRECTION.sub("", command).strip().splitlines()
    return one_line(lines[0] if lines else "", MAX_COMMAND_CHARACTERS).replace("`", "'")


def _memories_of(store: Store, resolution: Resolution, turns: Sequence[StoredTurn]) -> list[Episode]:
    """Return the memories of fixes and dead ends that rest on what happened between the failure and the pass."""
    return [
        episode
        for episode, uuids in episodes_resting_on_turns(store, [stored.id for stored in turns])
        if episode.kind in _KINDS and uuids & resolution.between - {""}
    ]
