"""Generate texts from words with realistic frequencies, some of them specific to a topic, or from real sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.text.words import QUESTION_STOP_WORDS

#: Number of words in total and per topic; their frequency decreases with their rank (Zipf).
VOCABULARY = 40_000
TOPIC_WORDS = 300
TOPICS = 200
#: Share of the words in a text that belong to its topic.
TOPIC_SHARE = 0.25
#: Size of the table from which words are drawn; each word fills a number of places proportional to its frequency.
_PLACES = 1 << 20
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sc sh sl sp st str t th tr v w z".split()
_VOWELS = "a e i o u ai ea io ou".split()
_CODAS = " l m n r s t x ck nd nt rd rk rm st".split(" ")


class TextGenerator:
    """Generates texts; the same seed gives the same ones."""

    def __init__(
        self, seed: int = 7, *, topics: int = TOPICS, known: Sequence[str] = (), sentences: Sequence[str] = ()
    ) -> None:
        """Create a generator.

        Args:
            seed: the same seed gives the same texts.
            topics: number of topics.
            known: words to use first, most common first; the rest are invented.
            sentences: compose texts from these instead of words.
        """
        self.topics = topics
        self._random = np.random.default_rng(seed)
        self._sentences = [words for sentence in sentences if (words := sentence.split())]
        known_terms = [word for word in dict.fromkeys(known) if word not in QUESTION_STOP_WORDS]
        self._words = sorted(QUESTION_STOP_WORDS) + known_terms + _invented_words(VOCABULARY, self._random)
        self._common = _zipf_table(VOCABULARY)
        rare = np.arange(len(QUESTION_STOP_WORDS), VOCABULARY)
        self._own = [self._random.choice(rare, TOPIC_WORDS, replace=False) for _ in range(topics)]
        self._own_table = _zipf_table(TOPIC_WORDS)

    def text(self, words: int, topic: int = 0) -> str:
        """Return a text about a topic. Sentences of transcripts have no topic; a stretch of them is used as one."""
        if self._sentences:
            return self._real_text(words, topic)
        drawn = self._common[self._random.integers(0, _PLACES, words)]
        is_own = self._random.random(words) < TOPIC_SHARE
        own = self._own[topic % self.topics][self._own_table[self._random.integers(0, _PLACES, words)]]
        return " ".join([self._words[place] for place in np.where(is_own, own, drawn).tolist()])

    def _real_text(self, words: int, topic: int) -> str:
        """Return consecutive sentences of the transcripts, cut to ``words`` words."""
        share = len(self._sentences) / self.topics
        text: list[str] = []
        while len(text) < words:
            place = int((topic % self.topics + self._random.random()) * share)
            text += self._sentences[place]
        return " ".join(text[:words])


def sentences_of(texts: Sequence[str], *, min_words: int = 4, max_words: int = 40) -> list[str]:
    """Return the sentences in texts whose number of words is within the limits."""
    sentences = [sentence.strip() for text in texts for sentence in _SENTENCE.split(text)]
    return [sentence for sentence in sentences if min_words <= len(sentence.split()) <= max_words]


def _zipf_table(size: int) -> NDArray[np.int64]:
    """Return ranks, each as often as a word of that rank occurs in real text."""
    shares = 1.0 / (np.arange(size) + 2.7)
    edges = np.round(np.cumsum(shares) / shares.sum() * _PLACES).astype(np.int64)
    return np.searchsorted(edges, np.arange(_PLACES), side="right").clip(max=size - 1)


def _invented_words(count: int, random: np.random.Generator) -> list[str]:
    """Return distinct pronounceable words; as in real text, the most frequent ones, which come first, are short."""
    invented: dict[str, None] = {}
    while len(invented) < count:
        for *drawn, coda, length in random.integers(0, 1 << 30, (count, 6)).tolist():
            syllables = 1 + (length % 3 > 0)
            parts = [_ONSETS[drawn[n] % len(_ONSETS)] + _VOWELS[drawn[n + 2] % len(_VOWELS)] for n in range(syllables)]
            word = "".join(parts) + _CODAS[coda % len(_CODAS)]
            if len(word) > 2 and word not in QUESTION_STOP_WORDS:
                invented.setdefault(word)
    return sorted(list(invented)[:count], key=len)
