"""Made-up wording: words as often as in real text, topics that share a part of them; or sentences of real transcripts."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.text.question_words import STOP_WORDS

#: Different words in all, and those that a topic has of its own; how often each comes falls with its rank (Zipf).
VOCABULARY = 40_000
TOPIC_WORDS = 300
TOPICS = 200
#: Share of the words of a text that are its topic's.
TOPIC_SHARE = 0.25
#: Words are drawn from a table of so many places, in which each stands as often as it comes.
_PLACES = 1 << 20
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sc sh sl sp st str t th tr v w z".split()
_VOWELS = "a e i o u ai ea io ou".split()
_CODAS = " l m n r s t x ck nd nt rd rk rm st".split(" ")


class Wording:
    """Draws texts; the same seed draws the same ones."""

    def __init__(
        self, seed: int = 7, *, topics: int = TOPICS, known: Sequence[str] = (), sentences: Sequence[str] = ()
    ) -> None:
        """``known``: words to begin with, the commonest first; the rest are made up.

        ``sentences``: texts are put together from these instead of from words.
        """
        self.topics = topics
        self._random = np.random.default_rng(seed)
        self._sentences = [words for one in sentences if (words := one.split())]
        telling = [word for word in dict.fromkeys(known) if word not in STOP_WORDS]
        self._words = sorted(STOP_WORDS) + telling + _made_up_words(VOCABULARY, self._random)
        self._common = _zipf_table(VOCABULARY)
        rare = np.arange(len(STOP_WORDS), VOCABULARY)
        self._own = [self._random.choice(rare, TOPIC_WORDS, replace=False) for _ in range(topics)]
        self._own_table = _zipf_table(TOPIC_WORDS)

    def text(self, words: int, topic: int = 0) -> str:
        """A text of so many words about a topic (sentences of real transcripts have none of ours)."""
        if self._sentences:
            return self._real_text(words, topic)
        drawn = self._common[self._random.integers(0, _PLACES, words)]
        is_own = self._random.random(words) < TOPIC_SHARE
        own = self._own[topic % self.topics][self._own_table[self._random.integers(0, _PLACES, words)]]
        return " ".join([self._words[place] for place in np.where(is_own, own, drawn).tolist()])

    def _real_text(self, words: int, topic: int) -> str:
        """Sentences that stand near one another in the transcripts, cut to so many words."""
        share = len(self._sentences) / self.topics
        found: list[str] = []
        while len(found) < words:
            place = int((topic % self.topics + self._random.random()) * share)
            found += self._sentences[place]
        return " ".join(found[:words])


def sentences_of(texts: Sequence[str], *, fewest: int = 4, most: int = 40) -> list[str]:
    """The sentences of real texts that have so many words."""
    found = [one.strip() for text in texts for one in _SENTENCE.split(text)]
    return [one for one in found if fewest <= len(one.split()) <= most]


def _zipf_table(size: int) -> NDArray[np.int64]:
    """Ranks, each as often as a word of that rank comes in text."""
    shares = 1.0 / (np.arange(size) + 2.7)
    edges = np.round(np.cumsum(shares) / shares.sum() * _PLACES).astype(np.int64)
    return np.searchsorted(edges, np.arange(_PLACES), side="right").clip(max=size - 1)


def _made_up_words(count: int, random: np.random.Generator) -> list[str]:
    """Different words that can be read aloud, the short ones first, as in real text."""
    found: dict[str, None] = {}
    while len(found) < count:
        for row in random.integers(0, 1 << 30, (count, 6)).tolist():
            syllables = 1 + (row[5] % 3 > 0)
            parts = [_ONSETS[row[n] % len(_ONSETS)] + _VOWELS[row[n + 2] % len(_VOWELS)] for n in range(syllables)]
            word = "".join(parts) + _CODAS[row[4] % len(_CODAS)]
            if len(word) > 2 and word not in STOP_WORDS:
                found.setdefault(word)
    return sorted(list(found)[:count], key=len)
