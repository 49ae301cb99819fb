"""Compare an error with a memory: is the memory about the error, or only about where it happened? Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from engram.models.memories.memory_records import Memory
from engram.system.lazy_regex import lazy_regex
from engram.text.words import stems, topic_words

#: Minimum number of words of an error that is looked up by its words, and number of them that a memory must contain to
#: be about it; all, if there are fewer.
MIN_WORDS, ENOUGH_WORDS = 2, 3
#: Minimum length of an error line to look for verbatim, in characters.
MIN_QUOTED_CHARACTERS = 10
#: Stems that say nothing about an error, because nearly every error contains them.
_ANY_ERROR = stems(["fail", "failed", "failure", "failing", "error", "errors", "file", "line"])
#: A line number after a file name, and the punctuation around words in an error.
_AT_LINE = lazy_regex(r":\d+:?$")
_AROUND = "()[]<>,;"
#: The characters around a file name in a sentence.
_QUOTES = "\"'`“”‘’*:!?"
#: Words before a location: an error "in src/mast" is not necessarily about that file.
_BEFORE_PLACE = frozenset(("in", "at", "inside", "within", "under", "from", "by", "bei", "aus", "unter"))
#: Words that precede the file that an error is about, at the end of its line; and words that follow the file in which a
#: compiler found an error.
_BEFORE_THING = frozenset(
    "open find stat access read write run execute load import create remove module file directory".split()
)
_OF_COMPILER = frozenset(("error", "error:", "fatal", "warning", "warning:", "note:"))
#: The failed command at the beginning of a memory, before the words about what went wrong.
_FAILED_COMMAND = lazy_regex(r"`[^`]*` failed\b")
_SENTENCE_END = lazy_regex(r"(?<=[.!?;])\s")
#: Placeholder for the name of the error's file in the sentences of a memory.
_FILE = "\0"
_MOVED = "(?:renamed|moved|deleted|removed|restored|created|generated|copied)"
#: What can be wrong with a file, and words by which a text says how to fix that: a command, or what became of the file.
_REMEDIES = (
    (
        lazy_regex(r"permission denied|not permitted|eacces|eperm"),
        lazy_regex(r"\b(?:chmod|chown|icacls|xattr|sudo|executable|update-index)\b"),
    ),
    (
        lazy_regex(
            r"no such file|not found|(?:cannot|can't|could not|unable to) (?:find|open)|not exist|enoent|missing"
        ),
        lazy_regex(
            r"\b(?:npm|pnpm|yarn|pip|uv|bundle|composer) (?:ci|install|add|sync)\b"
            r"|\bgit (?:lfs|submodule|checkout|restore|pull)\b"
            rf"|\b{_MOVED} {_FILE}|{_FILE} (?:(?:was|is|has|had|been|got) )*(?:{_MOVED}|missing)\b"
        ),
    ),
    (
        lazy_regex(
            r"bad interpreter|exec format|cannot execute|invalid (?:data|file|format|header|magic)|corrupt|damaged"
        ),
        lazy_regex(r"\b(?:dos2unix|git lfs|crlf|line endings?|shebang)\b"),
    ),
)


@dataclass(frozen=True, slots=True)
class WordsOfError:
    """The words and lines of an error that a memory about it contains."""

    stems: frozenset[str]
    #: The stems that say what the error is, not only where it happened.
    telling: frozenset[str]
    #: The lines that are long enough to look for verbatim.
    lines: tuple[str, ...]
    #: The names of the files that the error is about, and patterns for sentences that say how such an error was fixed.
    things: frozenset[str]
    remedies: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, error: str) -> WordsOfError:
        """Return the words and lines of an error's text."""
        said = stems(topic_words(" ".join(word for word in error.split() if not _is_place(word))))
        lines = tuple(line for line in map(unmarked, error.splitlines()) if len(line) >= MIN_QUOTED_CHARACTERS)
        things = frozenset(thing for line in error.splitlines() for thing in _things_of(line))
        remedies = tuple(remedy for wrong, remedy in _REMEDIES if things and wrong.search(error.lower()))
        return cls(stems(topic_words(error)), said - _ANY_ERROR, lines, things, remedies)

    def share_in(self, memory: Memory) -> float:
        """Return the share of the words that a memory contains: 1 if it quotes a line, 0 if it says too little."""
        quoted = unmarked(" ".join((memory.summary, memory.content, *memory.facts)))
        if any(line in quoted for line in self.lines):
            return 1.0
        shared = len(self.stems & _stated(memory))
        is_enough = shared >= min(ENOUGH_WORDS, max(len(self.stems), MIN_WORDS))
        return shared / len(self.stems) if is_enough and not self.is_only_place_in(memory) else 0.0

    def is_only_place_in(self, memory: Memory) -> bool:
        """Return True if the memory has only words for the error's location in common with the error.

        A file name counts as a location even if the error is about that file, unless the memory says in the same
        sentence how such an error was fixed for that file.
        """
        stated = _stated(memory)
        if not (self.telling or self.things) or self.telling & stated or not self.stems & stated:
            return False
        return not any(remedy.search(sentence) for sentence in self._of_file(memory) for remedy in self.remedies)

    def _of_file(self, memory: Memory) -> Iterator[str]:
        """Yield the sentences of a memory that name a file of the error, in lower case, with ``_FILE`` for the name."""
        for text in (memory.summary, memory.content):
            words = _FAILED_COMMAND.sub("", text).lower().split()
            marked = (_FILE + word[-1] * (word[-1] in ".!?;") if _name(word) in self.things else word for word in words)
            yield from (sentence for sentence in _SENTENCE_END.split(" ".join(marked)) if _FILE in sentence)


def unmarked(text: str) -> str:
    """Return text with single spaces, without the ``E`` that pytest writes before an error line."""
    return " ".join(text.split()).removeprefix("E ")


def _stated(memory: Memory) -> frozenset[str]:
    return stems(topic_words(f"{memory.summary} {memory.content} {' '.join(memory.entities)}"))


def _is_place(word: str) -> bool:
    """Return True for a path or a file with a line number, which says where an error happened, not what it is."""
    word = word.strip(_AROUND)
    return bool(_AT_LINE.search(word)) or ("/" in word and word[0] not in "@'\"/" and "://" not in word)


def _things_of(line: str) -> Iterator[str]:
    """Yield the names of the files that a line is about, as in "./mast: Permission denied", "cannot open src/mast"."""
    words = ["", *line.lower().split(), ""]
    for before, word, after in zip(words, words[1:], words[2:], strict=False):
        if not _is_place(word) or _AT_LINE.search(word.strip(_AROUND)) or before in _BEFORE_PLACE:
            continue
        is_last = not after and (before.endswith(":") or before in _BEFORE_THING)
        if is_last or (word.endswith(":") and after and after not in _OF_COMPILER):
            yield from filter(None, [_name(word)])


def _name(word: str) -> str:
    """Return the file name in a word, in lower case, without folders and punctuation."""
    return PurePosixPath(word.strip(_AROUND + _QUOTES)).name.strip(".").lower()
