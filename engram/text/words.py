"""Words and stems: Engram's tokenizers, stemmers and stop-word lists, each named after its use. Pure functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Sequence

from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import lazy_regex

# -- Scripts that don't show where a word ends: Chinese, Japanese, Korean, Thai and the like.
#
# A text index stores such letters as overlapping pairs, so that a word is found inside a run of letters: 唯一索引
# becomes 唯一 一索 索引 引, the last letter on its own. A query searches for the phrase of a word's pairs: 唯一 一索.

#: The letters and combining marks of these scripts, without punctuation, as the contents of a character class in ``re``
#: and in SQLite's GLOB: Thai, Lao, Myanmar, Khmer, Japanese kana, Chinese and Korean.
UNSPACED_LETTERS = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0eff\u1000-\u1049\u1050-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7"
    "\u17dc-\u17e9\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7fb\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
#: The same letters in fewer ranges, which also include some others.
UNSPACED_RANGES = "\u0e01-\u17ff\u3005-\ud7fb\uf900-\uff9f\U00020000-\U0003ffff"
_RUN = f"[{UNSPACED_LETTERS}]+"
_LETTER = f"([{UNSPACED_LETTERS}])(?=([{UNSPACED_LETTERS}])?)"
#: An unspaced letter after another one, at the end of the text.
_LAST_OF_RUN = f"(?<=[{UNSPACED_LETTERS}])[{UNSPACED_LETTERS}]\\Z"


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, cached: compiling this many letters takes as long as importing another module."""
    return lazy_regex(pattern)


#: A character that may be such a letter; not a letter with an accent, a typographic sign or an emoji. A process that
#: meets none compiles none of the expressions above.
_NEAR_UNSPACED = lazy_regex("[^\x00-\u0e00\u2000-\u3004\ufe0f\U0001f000-\U0001ffff]")


def _may_be_unspaced(text: str) -> bool:
    return not text.isascii() and _NEAR_UNSPACED.search(text) is not None


#: What a text must contain to have any meaning.
_LETTER_OR_DIGIT = lazy_regex(r"[^\W_]")


def has_words(text: str) -> bool:
    """Return True if a text contains a letter or a digit."""
    return bool(_LETTER_OR_DIGIT.search(text))


def is_unspaced(text: str) -> bool:
    """Return True if a text contains letters of a script that doesn't show where a word ends."""
    return _may_be_unspaced(text) and _compiled(_RUN).search(text) is not None


def in_pairs(text: str) -> str:
    """Return a text as a text index stores it, with each pair of adjacent unspaced letters surrounded by spaces.

    Other letters are left unchanged. The views of ``engram.models.tables`` do the same in SQL.
    """
    return _compiled(_LETTER).sub(r" \1\2 ", text) if _may_be_unspaced(text) else text


def asked_in_pairs(text: str) -> tuple[str, bool]:
    """Return the text to look up in a text index, and True if its last word is a letter that may begin longer words.

    More letters may follow the end of a question, so the last letter of a run there is not searched for on its own.
    """
    if _may_be_unspaced(text) and _compiled(_LAST_OF_RUN).search(text):
        return in_pairs(text).rstrip().rpartition(" ")[0], False
    return in_pairs(text), is_unspaced(text[-1:])


def split_unspaced(word: str) -> tuple[list[str], list[str]]:
    """Return the parts of a word that are in spaced scripts, and its runs of letters in unspaced scripts."""
    runs = _compiled(_RUN).findall(word) if _may_be_unspaced(word) else []
    return ([part for part in _compiled(_RUN).split(word) if part] if runs else [word]), runs


# -- Content words, for extraction: does a text repeat another, and is a summary grounded in its evidence?

#: Two forms of a word count as the same if they share a prefix of this length, in letters.
PREFIX_LETTERS = 6

_STOP_TEXT = """
a an the is are was were be been to of in on at for with by from and or not no as it its this that these
those when where which who how if so than then there they we our you your i my do does did has have had can
could should would will may about into over out up only also more now all each per via use used using new
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
_WORD = lazy_regex(r"\w+")


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text in lower case, excluding stop words; for scripts without spaces, pairs of letters."""
    words = map(str.lower, _WORD.findall(text if text.isascii() else in_pairs(text)))
    return frozenset(word for word in words if word not in _STOP_WORDS and len(word) > 1)


def prefixes(words: Iterable[str]) -> frozenset[str]:
    """Return the leading letters of each word, so that "validates" matches "validation"."""
    return frozenset(word[:PREFIX_LETTERS] for word in words)


# -- The stemmer for search coverage: a question's terms are matched in passages and memories by these stems.

_SUFFIXES = ("ingly", "edly", "ation", "ing", "ies", "ed", "es", "ly", "s", "e")
#: Minimum length of a stem, in characters.
MIN_STEM_CHARS = 3


def coverage_stem(word: str) -> str:
    """Return a word without its first matching suffix; never shorter than ``MIN_STEM_CHARS``."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_STEM_CHARS:
            return word[: -len(suffix)]
    return word


# -- Stems for recollection: compare the words of prompts and memories, and find memories that say the same thing.

#: Minimum overlap for two texts to count as saying the same thing.
MIN_SAME_SHARE = 0.7
#: Minimum number of words for an overlap to mean anything.
MIN_WORDS = 4
#: Maximum length of a word whose parts are stored, in characters.
LONGEST_KNOWN = 40

_PART = lazy_regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z]+")
_ENDING = lazy_regex(r"(?:ations?|ments?|ings?|ers?|ies|ied|ions?|ed|es|s|e|y)$")


def stem_forms(words: Iterable[str]) -> dict[str, str]:
    """Return stem → first form, in lower case, for each part of the words (``readFile`` → read, file)."""
    forms: dict[str, str] = {}
    for word in words:
        for stem, form in _known_parts(word) if len(word) <= LONGEST_KNOWN else _parts(word):
            forms.setdefault(stem, form)
    return forms


def _parts(word: str) -> tuple[tuple[str, str], ...]:
    """Return the stem and form of each part of a word."""
    found = []
    for part in _PART.findall(word):
        form = part.lower()
        stem = _ENDING.sub("", form)
        stem = stem if len(stem) >= 3 else form
        if len(stem) > 1 or stem.isdigit():
            found.append((stem, form))
    return tuple(found)


# Cached, because a question is compared with dozens of memories, which share most of their words in a project.
_known_parts = lru_cache_by_text(8192)(_parts)


def stems(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of the parts of words, in lower case."""
    return frozenset(stem_forms(words))


def same_words(first: Collection[str], second: Collection[str]) -> bool:
    """Return True if two texts say the same thing, judging by their stems. Very short texts must have equal stems."""
    if min(len(first), len(second)) < MIN_WORDS:
        return set(first) == set(second)
    return overlap(first, second) >= MIN_SAME_SHARE


def overlap(first: Collection[str], second: Collection[str]) -> float:
    """Return the shared stems as a fraction of the smaller set; 0 if either is empty."""
    smaller = min(len(first), len(second))
    return len(set(first) & set(second)) / smaller if smaller else 0.0


# -- Stemmed words of a summary, for consolidation: are two memories about the same subject?

_SUMMARY_WORD = lazy_regex(r"[A-Za-z_][\w+#/-]*(?:\.[A-Za-z]\w*)*|\d[\w.]*")
_SUMMARY_STOP_TEXT = """
    a an the is are was were be been to of in on at for with by from and or as it its this that we i you they use
    uses used using should must will would can now so then than instead of no not never always do does don't prefer
    all every any our my your decided decision preference longer more anymore switch move replace drop remove change
    just only because since which when where how go went there here user said wants want rather new old one ones up
    have has had keep get make made into after going forward each mind
"""
#: Words that don't indicate a memory's subject.
STOP_WORDS = frozenset(_SUMMARY_STOP_TEXT.split())


# Cached, because consolidation compares a summary with many others.
@lru_cache_by_text(4096)
def words_of(text: str) -> frozenset[str]:
    """Return the stemmed words of a summary without stop words; numbers count."""
    words = (word.lower() for word in _SUMMARY_WORD.findall(text))
    return frozenset(stem(word) for word in words if (word not in STOP_WORDS and len(word) > 1) or word.isdigit())


def stem(word: str) -> str:
    """Return a word with a common ending removed."""
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


# -- Words that indicate what a prompt or a memory is about, for recollection.

_TOPIC_WORD = lazy_regex(r"\w[\w./:@#-]*")
#: Words that don't indicate a topic: agreement, thanks, urging, and function words.
_EMPTY_TEXT = """
    a about actually again ahead all alright also am an and any anything are as at awesome back be because been
    being bit but by bye can carry commit continue cool correct could course did do does doing don don't done dont
    else everything exactly fine first for from fully get give go going gonna good got great had has have hello help
    her here hey hi his how i i'd i'll i'm if in into is it it's its just keep know let let's lets like ll looks lot
    make many may maybe me merge might more much must my need next nice no nope not nothing now of off ok okay on
    one only or our out over perfect please pls proceed push re really right run same say see shall she should show
    so some something sorry sounds start step still stop such sure take tell test thank thanks that that's thats the
    their them then there these they thing things this those through to too try two up us use very wait want was we
    well were what whats when where which while who why will with would yeah yep yes yet you you're your yup
"""
_EMPTY = frozenset(_EMPTY_TEXT.split())


def topic_words(text: str) -> list[str]:
    """Return the distinct words of a text that say something about its topic, in order."""
    words = (word.rstrip(".:-/") for word in _TOPIC_WORD.findall(text))
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word.lower() not in _EMPTY))


@lru_cache_by_text(4096)
def topic_stems(sentence: str) -> frozenset[str]:
    """Return the stems of the words of a sentence that say something about its topic."""
    return stems(topic_words(sentence))


# -- Terms, names and stop words of a question, for search.

#: Maximum length of a question, in characters; the rest is cut off.
MAX_QUERY_CHARS = 4_000
_QUESTION_STOP_TEXT = """
    a about after again all also am an and any are aren as at be because been before being between both but by can
    cannot could couldn d did didn do does doesn doing don down during each ever few for from further had has hasn have
    haven having he her here hers him his how i if in into is isn it its itself just let ll m may me might more most
    must my myself no nor not now of off on once only or other our ours out over own re s same shall she should
    shouldn so some such t than that the their theirs them then there these they this those through to too under until
    up us ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn yes
    you your yours yourself please tell thing things something anything someone anyone get got gets
"""
#: Words that are not searched for.
QUESTION_STOP_WORDS = frozenset(_QUESTION_STOP_TEXT.split())

#: Maximum number of letter pairs to look up for a question in a script that doesn't separate words.
MAX_PAIRS = 120

_QUESTION_WORD = rf"(?:[^\W_]|[{UNSPACED_LETTERS}])[\w{UNSPACED_LETTERS}]*(?:['’][a-z]+)?|_\w+"
#: The same for a text without such letters.
_SPACED_QUESTION_WORD = lazy_regex(r"[^\W_]\w*(?:['’][a-z]+)?|_\w+")
#: A name: a path, a flag, a dotted, under_scored or camelCase word, capitals, an issue number, or quoted code. A path
#: begins where its first part does, or after an issue number: looking for one at each letter would take a square.
_NAME = lazy_regex(
    r"(?:(?<![\w./\\-])[\w.-]*|(?<=\d)[\w.-]{0,64})[/\\](?:[\w.-]*[/\\])*[\w.-]+|--?[a-z][\w-]+|\b\w+(?:\.\w+)+\b|\b\w*_\w+\b|\b[a-z]+[A-Z]\w*\b"
    r"|\b[A-Z][a-z0-9]+[A-Z]\w*\b|\b[A-Z]{2,}[A-Z0-9-]*\b|#\d+|`[^`\n]{2,60}`"
)
_CAMEL = lazy_regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _question_word_in(text: str) -> re.Pattern[str]:
    return _compiled(_QUESTION_WORD) if _may_be_unspaced(text) else _SPACED_QUESTION_WORD


def question_words_of(text: str) -> list[str]:
    """Return the words of a text in order, in lower case and without what follows an apostrophe."""
    return [_without_apostrophe(word) for word in _question_word_in(text).findall(text)]


def terms_of(text: str) -> list[str]:
    """Return the distinct words of a text except stop words, in order, including the parts of compound names.

    A run of letters in a script without spaces yields pairs of letters, at most ``MAX_PAIRS`` for the text. Single
    letters are returned only if the text has nothing else.
    """
    terms: dict[str, None] = {}
    pairs: dict[str, None] = {}
    letters: dict[str, None] = {}
    for found in _question_word_in(text).findall(text):
        words, runs = split_unspaced(found)
        for run in runs:
            letters.setdefault(run[-1])
            pairs |= dict.fromkeys(run[place : place + 2] for place in range(len(run) - 1))
        _add_terms(terms, words)
    terms |= dict.fromkeys([pair for pair in pairs if any(map(str.isalnum, pair))][:MAX_PAIRS])
    return list(terms or dict.fromkeys(filter(str.isalnum, letters)))


def _add_terms(terms: dict[str, None], words: Sequence[str]) -> None:
    for word in words:
        plain = _without_apostrophe(word)
        if plain not in QUESTION_STOP_WORDS and (len(plain) > 1 or plain.isdigit()):
            terms.setdefault(plain)
        parts = [part for part in _CAMEL.sub("_", word).lower().split("_") if part]
        if len(parts) > 1:
            for part in parts:
                if len(part) > 2 and part not in QUESTION_STOP_WORDS:
                    terms.setdefault(part)


def names_of(text: str) -> list[str]:
    """Return the distinct file paths, symbols, flags, issue numbers and quoted code in a text, in lower case."""
    return list(dict.fromkeys(name.strip("`").lower() for name in _NAME.findall(text)))


_DAYS = frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday"
    " thursday friday saturday sunday".split()
)
#: Minimum share of stop words in English text; in other languages, a capital letter does not indicate a name.
_MIN_ENGLISH_SHARE = 0.25


def proper_names_of(text: str) -> list[str]:
    """Return the words of an English text that are capitalised like names (Kubernetes), in lower case."""
    names: dict[str, None] = {}
    words = list(_question_word_in(text).finditer(text))
    plain = [_without_apostrophe(match[0]) for match in words]
    if sum(word in QUESTION_STOP_WORDS for word in plain) < _MIN_ENGLISH_SHARE * len(words):
        return []
    end = 0
    for match, word in zip(words, plain, strict=True):
        before = text[end : match.start()].rstrip()
        is_inside = before[-1] not in ".?!:\n" if before else end > 0
        end = match.end()
        is_capital = match[0][0].isupper() and is_inside
        is_name = is_capital or any(letter.isupper() for letter in match[0][1:])
        if is_name and len(word) > 1 and word not in QUESTION_STOP_WORDS and word not in _DAYS:
            names.setdefault(word)
    return list(names)


def _without_apostrophe(word: str) -> str:
    return word.lower().split("'")[0].split("’")[0]
