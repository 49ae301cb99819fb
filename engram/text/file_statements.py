"""What the user's own files (CLAUDE.md, rules, auto memory) say, to compare memories with. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engram.text.recollection_stems import stems
from engram.text.statements import plain, split
from engram.text.subject import gives_another_value, is_denied, says_opposite
from engram.text.topic_words import topic_words

#: A statement says the same as a text if it has this share of the text's telling words.
MIN_SAID_SHARE = 0.75
#: A text with fewer telling words is only said by a statement with the same ones.
MIN_WORDS = 3
#: Share of telling words, of the shorter one, from which on two statements are compared for a contradiction.
MIN_SHARED = 0.5
#: Longest statement that is quoted, in characters.
MAX_QUOTE_CHARACTERS = 90

_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")


@dataclass(frozen=True, slots=True)
class _Line:
    """A statement of a file."""

    name: str
    text: str
    stems: frozenset[str]
    #: The stems of the statement and of its heading.
    stems_with_topic: frozenset[str]
    numbers: frozenset[str]


class StandingText:
    """The statements of files, indexed by their words. Immutable."""

    def __init__(self, files: Iterable[tuple[str, str]]) -> None:
        """Index ``(name, text)`` of each file."""
        self._lines: list[_Line] = []
        self._by_stem: dict[str, list[int]] = {}
        for name, text in files:
            for statement in split(text):
                own = stems(topic_words(statement.text))
                if not own:
                    continue
                around = own | stems(topic_words(f"{statement.topic} {statement.lead}"))
                for word in around:
                    self._by_stem.setdefault(word, []).append(len(self._lines))
                numbers = frozenset(_NUMBER.findall(statement.text))
                self._lines.append(_Line(name, statement.text, own, around, numbers))

    def file_saying(self, text: str) -> str:
        """Return the name of a file that says what a text says; "" for none."""
        wanted, numbers = stems(topic_words(plain(text))), frozenset(_NUMBER.findall(text))
        for line in self._near(wanted, MIN_SAID_SHARE * len(wanted)):
            is_same = len(wanted) >= MIN_WORDS or line.stems == wanted
            if is_same and numbers <= line.numbers and not is_denied(text, line.text):
                return line.name
        return ""

    def contradicting(self, text: str) -> str:
        """Return what a file says instead of a text, such as ``CLAUDE.md: use pnpm``; "" if none contradicts it."""
        wanted = stems(topic_words(plain(text)))
        for line in self._near(wanted, 1):
            if len(wanted & line.stems) < MIN_SHARED * min(len(wanted), len(line.stems)):
                continue
            is_opposite = is_denied(text, line.text) and says_opposite(text, line.text)
            if is_opposite or gives_another_value(text, line.text):
                quote = line.text if len(line.text) <= MAX_QUOTE_CHARACTERS else f"{line.text[:MAX_QUOTE_CHARACTERS]}…"
                return f"{line.name}: {quote}"
        return ""

    def _near(self, wanted: frozenset[str], at_least: float) -> Sequence[_Line]:
        """Return the statements with so many of the wanted stems, those with the most first."""
        counts = Counter(number for stem in wanted for number in self._by_stem.get(stem, ()))
        return [self._lines[number] for number, count in counts.most_common() if count >= max(at_least, 1)]
