"""Find how a failure was fixed in an earlier session, for the session in which it recurs and for ``engram fix``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from engram.enums import Importance, Kind, Voice
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, find_memory, memories_resting_on_turns
from engram.models.projects.projects import project_by_id
from engram.models.search.memory_lists import current_memories
from engram.models.sessions import sessions
from engram.models.sessions.failures_and_commits import EarlierFailure, earlier_failures, turns_from
from engram.models.sessions.stored_turns import StoredTurn
from engram.recollection.branch_state import resume_of_id
from engram.recollection.briefing_lines import is_in_force
from engram.recollection.choose_bites import SEEN_FIX, Bite, InjectionRequest, why_barred
from engram.recollection.error_words import MIN_WORDS, WordsOfError, unmarked
from engram.system.clock import iso_or_none
from engram.system.lazy_regex import lazy_regex
from engram.text.shell import (
    MAX_LINE_CHARACTERS,
    QUOTED,
    error_keys,
    normal_command,
    programs_of,
    telling_lines,
    tells_passing,
    without_comments,
    without_redirections,
)
from engram.text.splitting import split
from engram.text.words import topic_words
from engram.transcripts.turns import Action, Role, TextBlock, Turn
from engram.trust.display import one_line
from engram.trust.suspicion import why_name_suspect, why_suspect

# -- Find what made a failing command pass later in its session: what was said, run and changed in between. Pure.

#: Number of tool calls after the failure in which to look for one that passes.
MAX_CALLS = 80
#: Minimum share of words that two commands must have in common, unless one contains all words of the other.
MIN_COMMON_WORDS = 0.67
#: Commands with fewer words than this are not compared by words.
MIN_COMMAND_WORDS = 2
#: Minimum number of topic words in an informative statement.
MIN_TOPIC_WORDS = 4
#: Maximum length of a quote, in characters.
MAX_QUOTE_CHARACTERS = 200

_WORD = lazy_regex(r"[^\s;&|()]+")
#: Words that occur in commands that may fix something.
_HELPING = lazy_regex(
    r"(?:^|[\s:-])(?:fix|format|fmt|install|sync|init|create|update|upgrade|migrate|generate|tidy|clean|reset|stash|"
    r"login"
    r"|checkout|switch|pull|fetch|rebase|restore|start|up|chmod|mkdir|export|write|compile|build|setup)\b"
)
_LOOK_ELSEWHERE = lazy_regex(
    r"^(?:let me|now|i'll|let's|good|great|perfect|ok|okay|done)\b[^.:;]*[.:;!]?$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What made a failing command pass."""

    #: Index of the turn in which it passed, in the given turns.
    turn_index: int
    #: What the assistant said in between, on one line; "" if it said nothing informative.
    words: str
    #: The command that passed, if it differs from the one that failed; otherwise "".
    passed_as: str
    #: The last command in between that fixes something, such as a formatter; "" if there was none.
    helper: str
    #: Files that were edited in between, without duplicates.
    files: tuple[str, ...]
    #: Number of tool calls in between.
    calls: int
    #: Uuids of the entries from the failing to the passing call.
    between: frozenset[str]
    #: Id of the call that passed.
    passed: str


def find_resolution(turns: Sequence[Turn], failed: Action) -> Resolution | None:
    """Return what made a failing command pass; None if it did not pass, or passed when it was simply run again.

    Args:
        turns: the turn of the failure and the turns after it in its session.
        failed: a tool call of the first turn.
    """
    edits: list[str] = []
    helper = ""
    for calls, (index, action) in enumerate(_calls_after(turns, failed)):
        if action.is_edit and not action.is_error:
            edits += action.files
        if not action.command or action.is_error is not False:
            continue
        if not (is_same_command(action.command, failed.command) and tells_passing(action.command, failed.command)):
            helper = action.command if _HELPING.search(QUOTED.sub("", action.command)) else helper
            continue
        is_other = _plain(action.command) != _plain(failed.command)
        if not (edits or helper or is_other):
            return None
        passed = turns[: index + 1]
        return Resolution(
            turn_index=index,
            words=_words_between(passed, failed, action) if edits or not (helper or is_other) else "",
            passed_as=action.command if is_other else "",
            helper="" if is_other else helper,
            files=tuple(dict.fromkeys(edits)),
            calls=calls,
            between=frozenset(_entries_between(passed, failed, action)),
            passed=action.result_uuid or action.uuid,
        )
    return None


def is_same_command(first: str, second: str) -> bool:
    """Return True for two forms of one command, which differ only in folders and filters or share nearly all words."""
    if normal_command(first) == normal_command(second):
        return True
    words, others = _command_words(first), _command_words(second)
    if min(len(words), len(others)) < MIN_COMMAND_WORDS:
        return False
    common = len(words & others)
    return common == min(len(words), len(others)) or common >= MIN_COMMON_WORDS * len(words | others)


def _calls_after(turns: Sequence[Turn], failed: Action) -> Iterator[tuple[int, Action]]:
    """Yield the tool calls after the failing one, each with the index of its turn."""
    calls = [(index, action) for index, turn in enumerate(turns) for action in turn.actions]
    start = next((place for place, (_, action) in enumerate(calls) if action.uuid == failed.uuid), len(calls))
    yield from calls[start + 1 : start + 1 + MAX_CALLS]


def _command_words(command: str) -> set[str]:
    return set(_WORD.findall(QUOTED.sub(" ", normal_command(command.splitlines()[0] if command else ""))))


def _plain(command: str) -> str:
    """Return a command for comparison, without output filters."""
    return " ".join(re.sub(r"2>&1|\|\s*(?:head|tail|grep)\b[^|]*", "", command).split())


def _entries_between(turns: Sequence[Turn], failed: Action, passed: Action) -> list[str]:
    """Return the uuids of the entries from the failing to the passing call, including the latter's result."""
    order = [entry.uuid for turn in turns for entry in sorted(turn.entries, key=lambda entry: entry.offset)]
    start = order.index(failed.uuid) if failed.uuid in order else 0
    stop = order.index(passed.uuid) + 1 if passed.uuid in order else len(order)
    return [*order[start:stop], passed.result_uuid]


def _words_between(turns: Sequence[Turn], failed: Action, passed: Action) -> str:
    """Return the first informative statements of the assistant between the two calls."""
    places = {entry.uuid: (index, entry.offset) for index, turn in enumerate(turns) for entry in turn.entries}
    start, stop = places.get(failed.uuid, (0, 0)), places.get(passed.uuid, (len(turns), 0))
    blocks = [
        (places[block.uuid], block)
        for turn in turns
        for block in turn.said
        if block.role is Role.ASSISTANT and start < places.get(block.uuid, start) <= stop
    ]
    blocks.sort(key=lambda placed: placed[0])
    return next((words for words in (_telling_words(block) for _, block in blocks) if words), "")


def _telling_words(block: TextBlock) -> str:
    """Return the statements of a block on one line, starting with the first informative one, up to
    ``MAX_QUOTE_CHARACTERS``.
    """
    words = ""
    for statement in split(block.text):
        text = statement.text.strip()
        if not words and (_LOOK_ELSEWHERE.match(text) or len(topic_words(text)) < MIN_TOPIC_WORDS):
            continue
        if words and len(words) + len(text) > MAX_QUOTE_CHARACTERS:
            break
        words = f"{words} {text}".strip()
    return words


#: Minimum share of an error's informative lines that an earlier error must have in common.
MIN_SHARED_LINES = 0.34
#: Maximum number of earlier failures to examine, starting with those that share the most lines.
MAX_EARLIER = 8
#: Maximum number of turns in which a failure may have been fixed, including its own.
MAX_TURNS = 4
#: Maximum number of files that a line lists.
MAX_FILES = 3
#: Maximum length of a command in a line, in characters.
MAX_COMMAND_CHARACTERS = 100
#: Maximum length of a command that is shown in full, in characters. A longer one is described by the words that differ,
#: unless there are more than ``MAX_OTHER_WORDS``.
MAX_WHOLE_CHARACTERS = 80
MAX_OTHER_WORDS = 8
#: An error counts as containing a command if it contains at least this share of the command's words.
MIN_NAMED_WORDS = 0.8
#: Maximum length of the part of an error that is searched for the command that fixes it, in characters.
MAX_ERROR_CHARACTERS = 20_000
_FAILURE_WORD = lazy_regex(r"[\w:./-]*\w")
#: Kinds of memories that say how a failure was fixed, or what did not fix it.
FIX_KINDS = (Kind.FIX, Kind.DEAD_END)


@dataclass(frozen=True, slots=True)
class Failure:
    command: str
    #: Keys of the informative lines of its error.
    keys: tuple[int, ...]
    #: Words of its error, if known.
    error_words: frozenset[str] = frozenset()

    @property
    def programs(self) -> frozenset[str]:
        return frozenset(programs_of(self.command))


def read_failure(
    command: str, error: str, redact: Callable[[str], str], branches: Collection[str], keys: Sequence[int] = ()
) -> Failure | None:
    """Return the failure of a command; None if its error contains nothing informative.

    Args:
        error: the whole error message, which is redacted line by line, as during ingest.
        branches: the session's branch in the transcript and in the repository, which may be part of the message.
    """
    keys = tuple(keys) or error_keys(map(redact, telling_lines(error)), branches)
    if not keys or not programs_of(command):
        return None
    return Failure(
        command=command, keys=keys, error_words=frozenset(_FAILURE_WORD.findall(error[:MAX_ERROR_CHARACTERS]))
    )


def recall_failure(store: Store, failure: Failure, request: InjectionRequest) -> Bite | None:
    """Return the line about an earlier failure with the same error; usually None.

    The earlier failure must concern the same program and project, and must have been fixed in its own session, which
    must be a different one. The fix with the fewest tool calls is preferred. No tool output is shown.
    """
    if request.project_id is None:
        return None
    found = earlier_failures(store, request.project_id, failure.keys)
    fixes = [
        _Fix(earlier, turns, resolution)
        for earlier in _candidates(store, found, failure, request)
        for turns, resolution in resolutions_of(store, earlier)
        if not _is_named(resolution, failure)
    ]
    known = _known_fixes(store, found, request) if fixes else set()
    for fix in sorted(fixes, key=lambda fix: (fix.resolution.calls, len(fix.resolution.passed_as))):
        relevance = round(len(fix.earlier.shared_keys) / len(failure.keys), 4)
        bite = None if fix.line_id in known else _bite(store, fix, relevance, request)
        if bite is not None:
            return bite
    return None


@dataclass(frozen=True, slots=True)
class _Fix:
    """An earlier failure and how it was fixed."""

    earlier: EarlierFailure
    #: The turn of the failure and the following ones.
    turns: Sequence[StoredTurn]
    resolution: Resolution

    @property
    def failed(self) -> Action:
        return self.turns[0].turn.actions[self.earlier.seq]

    @property
    def way(self) -> str:
        return way_of(self.resolution, self.failed.command)

    @property
    def passed_at_ms(self) -> int:
        last = self.turns[self.resolution.turn_index].turn
        return last.ended_at_ms or last.started_at_ms or 0

    @property
    def line_id(self) -> str:
        """An id that stays the same if the fix is found in several turns.

        If a command is the fix, the id does not depend on the error. If changes to files are, it does, because
        different errors are fixed by different changes.
        """
        error = sorted(set(self.failed.error_keys)) if self.resolution.files else []
        said = " ".join([self.way, *map(str, error)])
        return f"{SEEN_FIX}{hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:16]}"


def _known_fixes(store: Store, found: Sequence[EarlierFailure], request: InjectionRequest) -> set[str]:
    """Return the ids of the fixes that the session has found itself and still has in its context."""
    own = [earlier for earlier in found if earlier.session_id == request.session_id][:MAX_EARLIER]
    since_ms = sessions.context_start_ms(store, request.session_id) if own else 0
    fixes = [
        _Fix(earlier, turns, resolution) for earlier in own for turns, resolution in resolutions_of(store, earlier)
    ]
    return {fix.line_id for fix in fixes if fix.passed_at_ms >= since_ms}


def _candidates(
    store: Store, found: Sequence[EarlierFailure], failure: Failure, request: InjectionRequest
) -> list[EarlierFailure]:
    """Return the failures in other sessions that share enough of the error, those with the most in common first."""
    # Must be read after the failures, because a fork's transcript may be read at the same time.
    in_context = {request.session_id, *(source for source, _ in sessions.copied_history(store, request.session_id))}
    earlier = [
        call
        for call in found
        if call.session_id not in in_context
        and call.programs & failure.programs
        and len(call.shared_keys) >= MIN_SHARED_LINES * len(failure.keys)
    ]
    return sorted(earlier, key=lambda call: -len(call.shared_keys))[:MAX_EARLIER]


def resolutions_of(store: Store, earlier: EarlierFailure) -> Iterator[tuple[list[StoredTurn], Resolution]]:
    """Yield how an earlier failure was fixed, with its turn and the following ones; nothing if it was not fixed."""
    turns = turns_from(store, earlier.turn_id, MAX_TURNS)
    if turns and earlier.seq < len(turns[0].turn.actions):
        failed = turns[0].turn.actions[earlier.seq]
        resolution = find_resolution([stored.turn for stored in turns], failed)
        if resolution is not None:
            yield turns, resolution


def _is_named(resolution: Resolution, failure: Failure) -> bool:
    """Return True if the error itself contains the command that fixes it, as errors of ``git push`` do."""
    words = _FAILURE_WORD.findall(without_redirections(resolution.passed_as or resolution.helper))
    if resolution.files or not words:
        return False
    return sum(word in failure.error_words for word in words) >= MIN_NAMED_WORDS * len(words)


def _bite(store: Store, fix: _Fix, relevance: float, request: InjectionRequest) -> Bite | None:
    """Return the line about a fix; None if it was shown before or must not be shown."""
    resolution, way, line_id = fix.resolution, fix.way, fix.line_id
    if line_id in request.shown or why_suspect(way, is_typed=False, is_assistant=True):
        return None
    memories = memories_between(store, resolution, fix.turns[: resolution.turn_index + 1])
    in_context = request.in_context() if memories else ()
    if any(memory.episode_id in request.shown or memory.episode_id in in_context for memory in memories):
        return None
    memory = next(
        (memory for memory in memories if why_barred(memory.episode_id, memory, request, in_context) is None), None
    )
    words = memory.summary if memory is not None else resolution.words
    if why_suspect(words, is_typed=False, is_assistant=True):
        words = ""
    if words and memory is None:
        words = f"The assistant said: {words}"
    return Bite(
        episode_id=memory.episode_id if memory is not None else line_id,
        text=f"{way} {words}".strip(),
        created_at_ms=fix.passed_at_ms,
        importance=memory.importance if memory is not None else Importance.NORMAL,
        voice=memory.voice if memory is not None else Voice.ASSISTANT,
        origin=memory.origin if memory is not None else "",
        relevance=relevance,
        evidence=tuple(sorted(resolution.between)),
    )


def way_of(resolution: Resolution, command: str) -> str:
    """Describe how a failing command was made to pass."""
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
    """Describe the command that passed: in full if it is short, otherwise by the words that differ."""
    before, after = _shown_command(failed, 1_000), _shown_command(passed, 1_000)
    removed = [word for word in before.split() if word not in after.split()]
    added = [word for word in after.split() if word not in before.split()]
    is_short = max(len(before), len(after)) <= MAX_WHOLE_CHARACTERS
    if is_short or not removed + added or len(removed + added) > MAX_OTHER_WORDS:
        return f"as `{_shown_command(passed)}`"
    parts = [("without", removed), ("with", added)]
    return " and ".join(f"{word} `{_shown_command(' '.join(words))}`" for word, words in parts if words)


def _shown_command(command: str, limit: int = MAX_COMMAND_CHARACTERS) -> str:
    lines = without_redirections(without_comments(command)).strip().splitlines()
    return one_line(lines[0] if lines else "", limit).replace("`", "'")


def memories_between(store: Store, resolution: Resolution, turns: Sequence[StoredTurn]) -> list[Memory]:
    """Return the memories of fixes and dead ends that have evidence between the failing and the passing call."""
    return [
        memory
        for memory, uuids in memories_resting_on_turns(store, [stored.id for stored in turns])
        if memory.kind in FIX_KINDS and uuids & resolution.between - {""}
    ]


# -- Find what fixed an error before, and what was tried without success, for ``engram fix``.

#: Minimum share of an error's words that a memory of a fix or dead end must contain.
MIN_SHARED_WORDS = 0.5


@dataclass(frozen=True, slots=True)
class PastFix:
    """Something that fixed an error, or failed to fix it."""

    #: The id of the memory or quotation; "" if a transcript shows the fix but no memory does.
    id: str
    #: Display name of its project; "" for none.
    project: str
    kind: Kind
    text: str
    #: What the assistant said about it; "" for a memory, or if the assistant said nothing informative.
    words: str
    at_ms: int
    session_id: str
    #: The command that resumes the session; "" if its transcript is gone.
    resume: str
    #: Share of the error that matches, from 0 to 1.
    match: float
    #: False if it is only what the assistant answered when somebody reported the error.
    is_proven: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id or None,
            "project": self.project or None,
            "kind": self.kind,
            "text": self.text,
            "words": self.words or None,
            "at": iso_or_none(self.at_ms),
            "session": self.session_id or None,
            "resume": self.resume or None,
            "match": round(self.match, 3),
            "is_proven": self.is_proven,
        }


def find_fixes(
    store: Store,
    error: str,
    project_ids: Collection[int],
    *,
    relevance_of: Mapping[str, float] | None = None,
    branches: Collection[str] = (),
) -> list[PastFix]:
    """Return what fixed an error before, and what failed to fix it, best match first.

    Args:
        relevance_of: id → relevance, from 0 to 1, of each memory that would be shown for a prompt with this error.
        branches: the current branch, which may be part of the error.
    """
    lines = lines_of_error(error)
    # People leave out pytest's "E" before an error line, but it is part of the recorded error.
    forms = (error_keys(lines, branches), error_keys((f"E {unmarked(line)}" for line in lines), branches))
    words = WordsOfError.of(error)
    fixes: list[PastFix] = []
    for project_id in project_ids:
        for keys in dict.fromkeys(forms):
            fixes += _fixes_of_failures(store, keys, project_id)
        known = {fix.id for fix in fixes}
        fixes += [fix for fix in _fixes_of_memories(store, words, project_id) if fix.id not in known]
    known = {fix.id for fix in fixes}
    for episode_id, relevance in (relevance_of or {}).items():
        memory = find_memory(store, episode_id)
        is_fix = memory is not None and memory.kind in FIX_KINDS and not words.is_only_place_in(memory)
        if episode_id not in known and memory is not None and is_fix:
            fixes.append(_fix_of_memory(store, memory, relevance))
    ranked = sorted(fixes, key=lambda fix: (-fix.match, fix.kind is Kind.DEAD_END, -fix.at_ms))
    return list({(fix.id, fix.text): fix for fix in reversed(ranked)}.values())[::-1]


def lines_of_error(error: str) -> tuple[str, ...]:
    """Return the lines by which an error is looked up; if none is informative, its beginning."""
    return telling_lines(error) or (error.strip()[:MAX_LINE_CHARACTERS],)


def _fixes_of_failures(store: Store, keys: Sequence[int], project_id: int) -> list[PastFix]:
    """Return what made earlier commands with the same error pass."""
    earlier = sorted(earlier_failures(store, project_id, keys), key=lambda call: -len(call.shared_keys)) if keys else []
    fixes: list[PastFix] = []
    successes: set[str] = set()
    for call in earlier[:MAX_EARLIER]:
        match = len(call.shared_keys) / len(keys)
        for turns, resolution in resolutions_of(store, call):
            # Two failures on the way to the same success have one fix.
            if resolution.passed in successes:
                continue
            successes.add(resolution.passed)
            fixes += _fixes_of(store, turns, resolution, turns[0].turn.actions[call.seq].command, match)
    return fixes


def _fixes_of(
    store: Store, turns: Sequence[StoredTurn], resolution: Resolution, command: str, match: float
) -> list[PastFix]:
    between = turns[: resolution.turn_index + 1]
    memories = [memory for memory in memories_between(store, resolution, between) if is_in_force(memory)]
    fixes = [_fix_of_memory(store, memory, match) for memory in memories]
    if any(_tells_resolution(memory, resolution) for memory in memories):
        return fixes
    last = between[-1].turn
    seen = PastFix(
        id="",
        project=name_of(store, between[-1].project_id),
        kind=Kind.FIX,
        text=way_of(resolution, command),
        words=resolution.words,
        at_ms=last.ended_at_ms or last.started_at_ms or 0,
        session_id=last.session_id,
        resume=resume_of_id(store, last.session_id),
        match=match,
    )
    return [*fixes, seen]


def _tells_resolution(memory: Memory, resolution: Resolution) -> bool:
    """Return True if a memory of a fix says what the transcript shows, so that both would be the same fix twice."""
    text = " ".join(f"{memory.summary} {memory.content}".split())
    names = (re.escape(PurePosixPath(file).name) for file in resolution.files)
    is_told = (
        resolution.words in text
        if resolution.words
        else any(re.search(rf"(?<![\w.+-]){name}(?![\w-]|\.\w)", text) for name in names)
    )
    return memory.kind is Kind.FIX and is_told


def _fixes_of_memories(store: Store, words: WordsOfError, project_id: int) -> list[PastFix]:
    """Return the memories of fixes and dead ends that quote a line of an error or contain enough of its words."""
    if len(words.stems) < MIN_WORDS and not words.lines:
        return []
    shares = (
        (memory, words.share_in(memory))
        for memory in current_memories(store, project_id)
        if memory.kind in FIX_KINDS and is_in_force(memory)
    )
    return [_fix_of_memory(store, memory, share) for memory, share in shares if share >= MIN_SHARED_WORDS]


def _fix_of_memory(store: Store, memory: Memory, match: float) -> PastFix:
    return PastFix(
        id=memory.episode_id,
        project=name_of(store, memory.project_id),
        kind=memory.kind,
        text=memory.summary,
        words="",
        at_ms=memory.created_at_ms,
        session_id=memory.session_id,
        resume=resume_of_id(store, memory.session_id),
        match=match,
    )


def name_of(store: Store, project_id: int | None) -> str:
    project = None if project_id is None else project_by_id(store, project_id)
    return "" if project is None else project.name
