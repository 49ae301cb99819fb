"""How a failing command was made to pass later in its session: what was said, run and changed in between. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engram.extraction.local.mended import normal_command
from engram.text.statements import split
from engram.text.topic_words import topic_words
from engram.transcripts.record import Action, Role, TextBlock, Turn

#: Tool calls after the failure among which one that passes is looked for.
MAX_CALLS = 80
#: Share of words that two commands must have in common, unless one has all words of the other.
MIN_COMMON_WORDS = 0.67
#: Words that a command must have to be compared with another by its words.
MIN_COMMAND_WORDS = 2
#: Topic words of a statement that explains something.
MIN_TOPIC_WORDS = 4
#: Maximum length of the words that are quoted, in characters.
MAX_QUOTE_CHARACTERS = 200

_WORD = re.compile(r"[^\s;&|()]+")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
#: After one of these the status of a command says nothing about its first part.
_PIPE = re.compile(r"(?<!\|)\|(?!\|)|;\s*(?:true|echo)\b|\|\|\s*(?:true|echo)\b")
#: Words of commands that put something right.
_HELPING = re.compile(
    r"(?:^|[\s:-])(?:fix|format|fmt|install|sync|init|create|update|upgrade|migrate|generate|tidy|clean|reset|stash|"
    r"login"
    r"|checkout|switch|pull|fetch|rebase|restore|start|up|chmod|mkdir|export|write|compile|build|setup)\b"
)
_LOOK_ELSEWHERE = re.compile(
    r"^(?:let me|now|i'll|let's|good|great|perfect|ok|okay|done)\b[^.:;]*[.:;!]?$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What made a failing command pass."""

    #: Index of the turn in which it passed, among the given turns.
    turn_index: int
    #: What the assistant said between the failure and the pass, in one line; "" if it said nothing telling.
    words: str
    #: The command that passed, if it is another than the one that failed; else "".
    passed_as: str
    #: The last command in between that puts something right, such as a formatter; "" if there was none.
    helper: str
    #: Files that were edited in between, each once.
    files: tuple[str, ...]
    #: Number of tool calls in between.
    calls: int
    #: Uuids of the entries from the failing to the passing call.
    between: frozenset[str]


def find_resolution(turns: Sequence[Turn], failed: Action) -> Resolution | None:
    """Return how a failing command was made to pass; None if it was not, or if it was only run again.

    Args:
        turns: the turn of the failure and those that follow it in its session.
        failed: a tool call of the first turn.
    """
    edits: list[str] = []
    helper = ""
    for calls, (index, action) in enumerate(_calls_after(turns, failed)):
        if action.is_edit and not action.is_error:
            edits += action.files
        if not action.command or action.is_error is not False:
            continue
        if not is_same_command(action.command, failed.command) or _hides_status(action.command, failed.command):
            helper = action.command if _HELPING.search(_QUOTED.sub("", action.command)) else helper
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
        )
    return None


def is_same_command(first: str, second: str) -> bool:
    """Return True for two forms of one command: equal but for folders and filters, or with nearly the same words."""
    if normal_command(first) == normal_command(second):
        return True
    words, others = _command_words(first), _command_words(second)
    if min(len(words), len(others)) < MIN_COMMAND_WORDS:
        return False
    common = len(words & others)
    return common == min(len(words), len(others)) or common >= MIN_COMMON_WORDS * len(words | others)


def _hides_status(command: str, failed: str) -> bool:
    """Return True if a command would seem to pass anyway, because its output goes through a pipe."""
    return bool(_PIPE.search(_QUOTED.sub("", command))) and not _PIPE.search(_QUOTED.sub("", failed))


def _calls_after(turns: Sequence[Turn], failed: Action) -> Iterator[tuple[int, Action]]:
    """Yield the tool calls after the failing one, each with the index of its turn."""
    calls = [(index, action) for index, turn in enumerate(turns) for action in turn.actions]
    start = next((place for place, (_, action) in enumerate(calls) if action.uuid == failed.uuid), len(calls))
    yield from calls[start + 1 : start + 1 + MAX_CALLS]


def _command_words(command: str) -> set[str]:
    return set(_WORD.findall(_QUOTED.sub(" ", normal_command(command.splitlines()[0] if command else ""))))


def _plain(command: str) -> str:
    """Return a command as it is compared: without what only filters its output."""
    return " ".join(re.sub(r"2>&1|\|\s*(?:head|tail|grep)\b[^|]*", "", command).split())


def _entries_between(turns: Sequence[Turn], failed: Action, passed: Action) -> list[str]:
    """Return the uuids of the entries from the failing to the passing call, both with their results."""
    order = [entry.uuid for turn in turns for entry in sorted(turn.entries, key=lambda entry: entry.offset)]
    start = order.index(failed.uuid) if failed.uuid in order else 0
    stop = order.index(passed.uuid) + 1 if passed.uuid in order else len(order)
    return [*order[start:stop], passed.result_uuid]


def _words_between(turns: Sequence[Turn], failed: Action, passed: Action) -> str:
    """Return the first telling statements that the assistant made between the two calls."""
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
    """Return the statements of a text from the first telling one on, in one line and within the limit."""
    words = ""
    for statement in split(block.text):
        text = statement.text.strip()
        if not words and (_LOOK_ELSEWHERE.match(text) or len(topic_words(text)) < MIN_TOPIC_WORDS):
            continue
        if words and len(words) + len(text) > MAX_QUOTE_CHARACTERS:
            break
        words = f"{words} {text}".strip()
    return words
