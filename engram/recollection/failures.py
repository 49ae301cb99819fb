"""What a session is told when a command fails: how the same failure was put right in an earlier session."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
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
from engram.redaction.suspicion import why_name_suspect, why_suspect
from engram.text.commands import without_comments
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
MAX_COMMAND_CHARACTERS = 100
#: Commands up to this length are shown whole, in characters; of longer ones at most so many words that differ.
MAX_WHOLE_CHARACTERS = 80
MAX_OTHER_WORDS = 8
#: Sessions and subagents whose failures are remembered.
MAX_CONTEXTS = 500
#: Share of a command's words that an error must contain to name it.
MIN_NAMED_WORDS = 0.8
#: Length of an error in which the command that puts it right is looked for, in characters.
MAX_ERROR_CHARACTERS = 20_000
_WORD = re.compile(r"[\w:./-]*\w")
_REDIRECTION = re.compile(r"\s*\d?>&\d|\s*\d>/dev/null")
#: Kinds of memories that tell how a failure was put right, or that it was not.
FIX_KINDS = (Kind.FIX, Kind.DEAD_END)


@dataclass(frozen=True, slots=True)
class Failure:
    """A command that has just failed."""

    command: str
    #: Keys of the telling lines of its error.
    keys: tuple[int, ...]
    #: Words of its error, as far as they are known.
    error_words: frozenset[str] = frozenset()

    @property
    def programs(self) -> frozenset[str]:
        """The programs that the command runs."""
        return frozenset(programs_of(self.command))


def read_failure(
    command: str, error: str, redact: Callable[[str], str], branches: Collection[str], keys: Sequence[int] = ()
) -> Failure | None:
    """Return the failure of a command; None for one whose error says nothing telling.

    Args:
        command: as it was run.
        error: the whole error message; it is redacted line by line, as in ingest.
        redact: removes secrets.
        branches: the session's branch, which may be part of the message, as the transcript and the repository say.
        keys: of the error, if they are known.
    """
    keys = tuple(keys) or error_keys(map(redact, telling_lines(error)), branches)
    if not keys or not programs_of(command):
        return None
    return Failure(command=command, keys=keys, error_words=frozenset(_WORD.findall(error[:MAX_ERROR_CHARACTERS])))


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
        for turns, resolution in resolutions_of(store, earlier)
        if not _is_named(resolution, failure)
    ]
    for resolution, turns, earlier in sorted(ways, key=lambda way: (way[0].calls, len(way[0].passed_as))):
        bite = _bite(store, resolution, turns, earlier, failure, request)
        if bite is not None:
            return bite
    return None


def _candidates(store: Store, failure: Failure, request: InjectionRequest) -> list[EarlierFailure]:
    """Return the earlier failures of other sessions that share enough of the error, the most first."""
    assert request.project_id is not None
    found = earlier_failures(store, request.project_id, failure.keys)
    # Read after the failures: a fork may be read at the same moment.
    in_context = {request.session_id, *(source for source, _ in contexts.copied_history(store, request.session_id))}
    earlier = [
        call
        for call in found
        if call.session_id not in in_context
        and call.programs & failure.programs
        and len(call.shared_keys) >= MIN_SHARED_LINES * len(failure.keys)
    ]
    return sorted(earlier, key=lambda call: -len(call.shared_keys))[:MAX_EARLIER]


def resolutions_of(store: Store, earlier: EarlierFailure) -> Iterator[tuple[list[StoredTurn], Resolution]]:
    """Yield how an earlier failure was put right, with its turn and those that follow it; nothing if it was not."""
    turns = turns_from(store, earlier.turn_id, MAX_TURNS)
    if turns and earlier.seq < len(turns[0].turn.actions):
        failed = turns[0].turn.actions[earlier.seq]
        resolution = find_resolution([stored.turn for stored in turns], failed)
        if resolution is not None:
            yield turns, resolution


def _is_named(resolution: Resolution, failure: Failure) -> bool:
    """Return True if the error itself names the command that puts it right, as ``git push`` does: nothing to add."""
    words = _WORD.findall(_REDIRECTION.sub("", resolution.passed_as or resolution.helper))
    if resolution.files or not words:
        return False
    return sum(word in failure.error_words for word in words) >= MIN_NAMED_WORDS * len(words)


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
    way = way_of(resolution, turns[0].turn.actions[earlier.seq].command)
    if line_id in request.shown or why_suspect(way, is_typed=False, is_assistant=True):
        return None
    memories = memories_between(store, resolution, turns[: resolution.turn_index + 1])
    in_context = request.in_context() if memories else ()
    if any(memory.episode_id in request.shown or memory.episode_id in in_context for memory in memories):
        return None
    episode = next(
        (memory for memory in memories if why_barred(memory.episode_id, memory, request, in_context) is None), None
    )
    words = episode.summary if episode is not None else resolution.words
    if why_suspect(words, is_typed=False, is_assistant=True):
        words = ""
    return Bite(
        episode_id=episode.episode_id if episode is not None else line_id,
        text=f"{way} {words}".strip(),
        created_at_ms=last.turn.ended_at_ms or last.turn.started_at_ms or 0,
        importance=episode.importance if episode is not None else Importance.NORMAL,
        voice=episode.voice if episode is not None else Voice.ASSISTANT,
        origin=episode.origin if episode is not None else "",
        relevance=round(len(earlier.shared_keys) / len(failure.keys), 4),
        evidence=tuple(sorted(resolution.between)),
    )


def way_of(resolution: Resolution, command: str) -> str:
    """Return in words how a failing command was made to pass."""
    said = f"`{_shown_command(command)}` failed like this and passed"
    if resolution.passed_as:
        said += f" {_other_form(command, resolution.passed_as)}"
    if resolution.helper:
        said += f" after `{_shown_command(resolution.helper)}`"
    if resolution.files:
        named = [PurePosixPath(name.replace("\\", "/")).name for name in resolution.files]
        shown = [name for name in named[:MAX_FILES] if not why_name_suspect(name)]
        left_out = len(named) - len(shown)
        more = f"{' and ' if shown else ''}{left_out} more{'' if shown else ' files'}" if left_out else ""
        said += f"{',' if resolution.helper else ''} after changes to {', '.join(shown)}{more}"
    return f"{said}."


def _other_form(failed: str, passed: str) -> str:
    """Return in words how the command that passed differs: whole if it is short, else the words that differ."""
    before, after = _shown_command(failed, 1_000), _shown_command(passed, 1_000)
    removed = [word for word in before.split() if word not in after.split()]
    added = [word for word in after.split() if word not in before.split()]
    is_short = max(len(before), len(after)) <= MAX_WHOLE_CHARACTERS
    if is_short or not removed + added or len(removed + added) > MAX_OTHER_WORDS:
        return f"as `{_shown_command(passed)}`"
    parts = [("without", removed), ("with", added)]
    return " and ".join(f"{word} `{_shown_command(' '.join(words))}`" for word, words in parts if words)


def _shown_command(command: str, limit: int = MAX_COMMAND_CHARACTERS) -> str:
    lines = _REDIRECTION.sub("", without_comments(command)).strip().splitlines()
    return one_line(lines[0] if lines else "", limit).replace("`", "'")


def memories_between(store: Store, resolution: Resolution, turns: Sequence[StoredTurn]) -> list[Episode]:
    """Return the memories of fixes and dead ends that rest on what happened between the failure and the pass."""
    return [
        episode
        for episode, uuids in episodes_resting_on_turns(store, [stored.id for stored in turns])
        if episode.kind in FIX_KINDS and uuids & resolution.between - {""}
    ]
