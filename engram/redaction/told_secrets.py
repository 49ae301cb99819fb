"""Find secrets in free sentences: passwords, PINs, door codes, passphrases, answers to security questions.

People word such sentences in more ways than anyone can list. Therefore a linear model decides about every candidate, by
its form, the words next to it and the cues around it (``told_cues``). It was fitted by ``benchmarks/told_secrets.py``
on texts by many writers and on real sessions; docs/redaction.md gives the figures.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from engram.redaction.told_candidates import Candidate, candidates, group_of, is_cjk, is_document, is_wrapped
from engram.redaction.told_cues import FUNCTION_WORDS, WORD, Cue, cues_in, kind_of, may_open
from engram.redaction.values import Span, has_digit, total_bits
from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import lazy_regex
from engram.text.linear_model import Features, LinearModel, hashed, load_model

WEIGHTS = Path(__file__).with_name("told_weights.json")
#: Number of characters to read before and after a word that triggers reading.
REACH = 300
#: Maximum length of a text for it to be read because of a common word, in characters.
SHORT = 800
#: Maximum length of a part that is read at a time, in characters.
LONGEST = 2_000
#: A control character that separates parts that are read together.
BETWEEN = "\x1e"
_NO_LETTER = lazy_regex(r"\W")
_SENTENCE_END = lazy_regex(r"[.!?;](?=\s|$)|[。！？；]")
_SIGNS = lazy_regex(r"[{}();=<>\\|$]")
_YEAR = lazy_regex(r"(?:19|20)\d\d\W?$")
_LETTERS = lazy_regex(r"[^\W\d_]+")
#: Four groups of four letters, as services issue passwords to programs, and the most bits of random ones.
_GROUPED = lazy_regex(r"(?<![\w-])[a-z]{4}(?:[ -][a-z]{4}){3}(?![\w-])")
_RANDOM = -9.0
#: Forms of words that are common in code and configuration.
_FORMS = {
    name: lazy_regex(pattern)
    for name, pattern in (
        ("snake", r"[a-z]+(?:[_.][a-z]+)+\Z"),
        ("name", r"[A-Za-z][a-z]+(?:[A-Z][a-z]+)+\d{0,2}\Z|[a-z]+(?:_[a-z]+)+\d{0,2}\Z"),
        ("kebab", r"[a-z]+(?:-[a-z]+)+\Z"),
        ("constant", r"(?=[^_]*_)[A-Z0-9_]+\Z"),
        ("host", r"[a-z]+-?\d{1,2}\Z"),
        ("ticket", r"[A-Z]{2,6}-?\d+\Z"),
        ("word and number", r"[^\W\d_]*[a-zäöüßа-я]\d{1,4}[!?]?\Z"),
    )
}
#: Kinds of cues that are also used as features in pairs.
_TOGETHER = frozenset(
    {
        *("password", "phrase", "pin", "code", "door", "net", "account", "enter", "logs in", "old", "new", "changed"),
        *("spelling", "secrecy", "kept", "rules", "numbered", "question", "recovery"),
    }
)
#: Kinds of cues that name a secret, that name the thing it unlocks, and that say what is done with it.
_STRONG = frozenset({"password", "phrase", "pin", "recovery", "question", "licence"})
_OPENED = frozenset({"door", "net", "account", "key", "code"})
_KEY_OF_NET = frozenset({"key", "net"})
_DOING = frozenset({"enter", "logs in", "code"})
#: Maximum distance of a cue from a bare number, in characters: in a message, and elsewhere.
_NEAR, _NEARBY = 100, 48
#: Text between the thing that is unlocked and its number.
_USED = lazy_regex(r"(?<!\w)(?:with|mit|con|com|avec|met|z|c)[ ]\Z")
#: Text that introduces a secret of several words.
_GIVEN = lazy_regex(
    r"(?i)(?:[:：=→]|->|(?<!\w)(?:is|was|ist|war|lautet|est|es|é|è|jest|это|now|jetzt|nu))[\s\"'`„“«»‚‘「『*]{0,6}\Z"
)
#: A name in quotation marks before a value, as in JSON; what it must name, and the kinds of values for which it must.
_KEY = lazy_regex(r"[\"']([\w .-]{1,40})[\"']\s{0,3}:\s{0,3}[\"']\Z")
_NAMING = _STRONG | _OPENED
#: A word for a password right before a list of names with values.
_SET_UP = lazy_regex(
    r"(?:passwords?|passphrases?|passcodes?|passwor\w*|kennw\w+|mots de passe)\s?(?::|is|are|=)?\s?\{[^{}]*\Z"
)
_NAMED_BY_KEY = _NAMING - {"question"}
_PLAIN = frozenset({"phrase", "phrase0", "word", "camel"})
_STRENGTH = {
    "signed": 5,
    "mixed": 4,
    "joined0": 3,
    "pair": 3,
    "camel": 2,
    "joined": 2,
    "number": 2,
    "phrase": 1,
    "phrase0": 1,
}


def told_spans(text: str, low: str, places: Mapping[int, bool]) -> Iterator[Span]:
    """Yield the spans of secrets in sentences.

    Args:
        low: the same text in lower case, of the same length.
        places: the positions of words that may introduce a secret, each with whether it does so even in a long text.
    """
    model = shipped_model()
    for region in regions(text, places):
        for groups in _GROUPED.finditer(text, region.first, region.last):
            if total_bits(groups.group()) < _RANDOM:
                yield Span(*groups.span(), "password")
        for candidate, score in judged(text, low, region, model):
            if score >= model.floors["secret"]:
                yield Span(candidate.start, candidate.end, "password")


@cache
def shipped_model() -> LinearModel:
    """Return the shipped model, which was fitted on all texts."""
    return load_model(WEIGHTS)


class Region(NamedTuple):
    """A part of a text to read, and whether it belongs to a short text, such as a message."""

    first: int
    last: int
    is_short: bool


def regions(text: str, places: Mapping[int, bool]) -> list[Region]:
    """Return the parts of a text to read: whole lines as far as possible, and never across a separator."""
    found: list[Region] = []
    for place in sorted(places):
        begin = text.rfind(BETWEEN, max(0, place - SHORT), place) + 1
        end = text.find(BETWEEN, place, place + SHORT)
        is_whole = (begin or place <= SHORT) and (end >= 0 or place + SHORT >= len(text))
        end = end if end >= 0 else len(text)
        is_short = bool(is_whole and end - begin <= SHORT)
        if not places[place] and not (is_short and may_open(text, place)):
            continue
        first, last = max(begin, place - REACH), min(end, place + REACH)
        if first > begin:
            first = text.find("\n", first, place) + 1 or first
        if last < end:
            line = text.rfind("\n", place, last)
            last = line if line > place else last
        if found and found[-1].last >= begin:
            if first <= found[-1].last + 1 and last - found[-1].first <= LONGEST:
                found[-1] = found[-1]._replace(last=max(last, found[-1].last))
                continue
            first = max(first, found[-1].last)
        if first < last:
            found.append(Region(first, last, is_short))
    return found


def judged(text: str, low: str, region: Region, model: LinearModel) -> Iterator[tuple[Candidate, float]]:
    """Yield the candidates in a part of a text that may be secrets by their form and position, each with its score."""
    cues = cues_in(low, region.first, region.last)
    if not region.is_short and not any(cue.kind in _STRONG for cue in cues):
        return  # nothing in it may be told
    found = candidates(text, low, region.first, region.last)
    scene = None
    for candidate in found:
        own = _form_of(text[candidate.start : candidate.end], candidate.quote, candidate.how)
        if _by_form(own) >= model.floors["form"] or (candidate.how == "behind" and _is_given(text, candidate)):
            scene = scene or _Scene(text, low, region, found, cues)
            if scene.may_be_told(candidate):
                yield candidate, model.score(Features(scene.around(candidate), own))


def features_in(text: str, low: str, region: Region) -> Iterator[tuple[Candidate, Features, bool]]:
    """Yield all candidates in a part of a text, with features and whether they may be secrets, to fit a model."""
    found = candidates(text, low, region.first, region.last)
    scene = _Scene(text, low, region, found, cues_in(low, region.first, region.last))
    for candidate in found:
        own = _form_of(text[candidate.start : candidate.end], candidate.quote, candidate.how)
        yield candidate, Features(scene.around(candidate), own), scene.may_be_told(candidate)


class _Scene:
    """A part of a text: its words, cues and candidates."""

    def __init__(self, text: str, low: str, region: Region, found: Sequence[Candidate], cues: Sequence[Cue]) -> None:
        self.text, self.low, self.found, self.cues = text, low, found, cues
        first, last, self.is_short = region
        self.first, self.last = first, last
        self.is_message = self.is_short and not is_wrapped(text, first, last)
        self.words = [(match.start(), match.end(), match.group()) for match in WORD.finditer(low, first, last)]
        self.starts = [start for start, _, _ in self.words]
        self.counts: dict[str, int] = {}
        for _, _, word in self.words:
            self.counts[word] = self.counts.get(word, 0) + 1
        self.groups = {candidate: group_of(text[candidate.start : candidate.end]) for candidate in found}

    def may_be_told(self, candidate: Candidate) -> bool:
        """Return True if a candidate may be a secret at its position; in a document, fewer positions qualify."""
        if self.groups[candidate] in _PLAIN and (
            key := _KEY.search(self.low, max(self.first, candidate.start - 60), candidate.start)
        ):
            named = any(kind_of(word) in _NAMED_BY_KEY for word in _LETTERS.findall(key.group(1)))
            if named or not _SET_UP.search(self.low, max(self.first, key.start() - 90), key.start()):
                return named
        first, last = self._line(candidate)
        is_command = candidate.quote == "`" and " " in self.text[candidate.start : candidate.end]
        if not self.is_message or is_command or is_document(self.text[first:last]):
            return self.is_named(candidate)
        if self.groups[candidate] != "number":
            return not _is_code_about_access(self.text[candidate.start : candidate.end]) or self.is_named(candidate)
        near = {
            cue.kind for cue in self.cues if candidate.start - _NEAR < cue.end and cue.start < candidate.end + _NEAR
        }
        before = {cue.kind for cue in self.cues if candidate.start - _NEAR < cue.start < candidate.start}
        is_used = before & _DOING or _USED.search(self.low, max(0, candidate.start - 8), candidate.start)
        return bool(near & self._naming(candidate)) or bool(near & _OPENED and is_used) or near >= _KEY_OF_NET

    def is_named(self, candidate: Candidate) -> bool:
        """Return True if a word for a secret is near a candidate and, for a phrase, if the phrase is introduced."""
        begin, stop = self._line(candidate) if self.is_short else self._sentence(candidate)
        is_phrase = self.groups[candidate].startswith("phrase")
        if self.groups[candidate] == "number":
            begin, stop = candidate.start - _NEARBY, candidate.end + _NEARBY
        elif is_phrase and candidate.how != "line":
            stop = candidate.start
        else:
            begin, stop = min(begin, self._above(candidate)), candidate.start if is_phrase else stop
        if not any(cue.kind in self._naming(candidate) and begin <= cue.start < stop for cue in self.cues):
            return False
        return not is_phrase or _is_given(self.text, candidate)

    def _naming(self, candidate: Candidate) -> frozenset[str]:
        """Return the kinds of words that name a secret. A word for a door counts only if the candidate contains a
        space.
        """
        return _STRONG | {"door"} if " " in self.text[candidate.start : candidate.end].strip() else _STRONG

    def _above(self, candidate: Candidate) -> int:
        """Return the beginning of the line above a candidate's line."""
        first = self.text.rfind("\n", self.first, candidate.start)
        return max(self.first, self.text.rfind("\n", self.first, first) + 1) if first > self.first else self.first

    def around(self, candidate: Candidate) -> list[int]:
        """Return the features of a candidate's surroundings."""
        group = self.groups[candidate]
        line = self._line(candidate)
        return hashed(
            {
                *self._beside(candidate, group, *line),
                *self._cued(candidate, group, *line),
                *self._of_line(candidate, group, *line),
            }
        )

    def _line(self, candidate: Candidate) -> tuple[int, int]:
        first = max(self.first, self.text.rfind("\n", self.first, candidate.start) + 1)
        last = self.text.find("\n", candidate.end, self.last)
        return first, last if last >= 0 else self.last

    def _sentence(self, candidate: Candidate) -> tuple[int, int]:
        first, last = self._line(candidate)
        begin = max((end.end() for end in _SENTENCE_END.finditer(self.text, first, candidate.start)), default=first)
        closing = _SENTENCE_END.search(self.text, candidate.end, last)
        return begin, closing.start() if closing else last

    def _beside(self, candidate: Candidate, group: str, first: int, last: int) -> Iterator[str]:
        """Yield the words and symbols right before and after a candidate."""
        text, low, start, end = self.text, self.low, candidate.start, candidate.end
        at = bisect_left(self.starts, start)
        before = [word for begin, stop, word in self.words[max(0, at - 8) : at] if begin >= first and stop <= start]
        gap_at = max(first, self.words[at - 1][1] if at and self.words[at - 1][1] <= start else first)
        gap = text[max(gap_at, start - 6) : start].strip(" \t")[-2:]
        if any(map(is_cjk, low[max(first, start - 2) : start])):
            tail = _NO_LETTER.sub("", low[max(first, start - 5) : start])
            before = [*before[:-1], tail[-2:], tail[-1:]]
        at = bisect_left(self.starts, end)
        after = [word for begin, _, word in self.words[at : at + 6] if begin < last]
        if any(map(is_cjk, low[end : min(last, end + 2)])):
            head = _NO_LETTER.sub("", low[end : min(last, end + 4)])
            after = [head[:1], head[:2], *after[1:]]
        gap = gap if start > first else "line"
        yield from (f"gap {gap}", f"gap {gap} {group}", f"behind {text[end : end + 1]}")
        nearest = before[-1][:6] if before else "none"
        yield from (
            f"1 {nearest}",
            f"1 {nearest} {group}",
            f"1 {nearest} {gap}",
            f"-1 {before[-1][-4:] if before else ''}",
        )
        yield from (f"{number} {word[:6]}" for number, word in enumerate(reversed(before[-3:-1]), 2))
        if len(before) > 1:
            yield f"pair {before[-2][:5]} {before[-1][:5]}"
        next_one = after[0][:6] if after else "none"
        yield from (f"+1 {next_one}", f"+1 {next_one} {group}")
        yield from (f"+2 {word[:6]}" for word in after[1:2])
        second, first_class, next_class = map(_class_of, (*["", "", *before][-2:], after[0] if after else ""))
        yield from (f"class {first_class} {gap} {group}", f"classes {second} {first_class} {group}")
        yield from (f"classes {first_class} > {next_class} {group}",)
        yield from (f"before {word[:5]}" for word in before)
        yield from (f"after {word[:5]}" for word in after)

    def _cued(self, candidate: Candidate, group: str, first: int, last: int) -> Iterator[str]:
        """Yield the cues before and after a candidate, by distance: in the text, line or sentence, or next to it."""
        begin, stop = self._sentence(candidate)
        near: dict[str, int] = {}
        last_cue = None
        gap = self.text[max(first, candidate.start - 3) : candidate.start].strip()[-1:]
        for cue in self.cues:
            if cue.end <= candidate.start:
                level = (
                    (cue.start >= first)
                    + (cue.start >= begin)
                    + (cue.start >= begin and candidate.start - cue.end <= 24)
                )
                side = f"{cue.kind} <"
                last_cue = cue if level > 1 and cue.kind in _NAMING else last_cue
            elif cue.start >= candidate.end:
                level = (cue.end <= last) + (cue.end <= stop) + (cue.end <= stop and cue.start - candidate.end <= 24)
                side = f"{cue.kind} >"
            else:
                continue
            near[side] = max(near.get(side, 0), level)
            near[cue.kind] = max(near.get(cue.kind, 0), level)
        for name, level in near.items():
            is_side = name[-1] in "<>"
            yield from (f"{name} {least}" if is_side else f"{name} {least} {group}" for least in range(level + 1))
            if is_side and name[:-2] in _NAMING:
                yield f"{name} {level} {gap} {group}"
        if last_cue is not None:
            following = WORD.search(self.low, last_cue.end, candidate.start)
            yield f"{last_cue.kind} of {following.group()[:5] if following else ''}"
            yield f"last {last_cue.kind} {group}"
        if nearest := next(
            (cue for cue in reversed(self.cues) if cue.end <= candidate.start and cue.start >= first), None
        ):
            yield f"nearest {nearest.kind} {group}"
        if not _NAMING.intersection(near):
            yield from ("no cue", f"no cue {group}")
        elif not any(near.get(kind, 0) > 1 for kind in _NAMING):
            yield from ("far", f"far {group}")
        together = sorted(kind for kind, level in near.items() if level and kind in _TOGETHER)
        yield from (f"{feature} & {other}" for at, feature in enumerate(together) for other in together[at + 1 :])

    def _of_line(self, candidate: Candidate, group: str, first: int, last: int) -> Iterator[str]:
        """Yield features of the line, and of what else in it may be the secret."""
        line = self.text[first:last]
        share = int(6 * sum(c.isalpha() or c == " " for c in line) / max(1, len(line)))
        signs = min(6, len(_SIGNS.findall(line)))
        words = bisect_right(self.starts, last) - bisect_left(self.starts, first)
        told = self.is_named(candidate)
        yield from (
            f"told {told}",
            f"told {told} {group}",
            f"prose {share}",
            f"prose {share} {group}",
            f"signs {signs}",
            f"signs {signs} {group}",
        )
        yield f"words {min(words, 12) // 3} {group}"
        if candidate.start - first <= 2 and last - candidate.end <= 2:
            above = self.text.rfind("\n", self.first, max(self.first, first - 1)) + 1 or self.first
            yield from ("alone", f"alone {group}", f"above {self.text[above:first].strip()[:1]}")
        rivals = [
            other
            for other in self.found
            if first <= other.start
            and other.end <= last
            and (other.end <= candidate.start or other.start >= candidate.end)
        ]
        mine = self._strength(candidate)
        yield f"rivals {min(4, len(rivals))} {group}"
        yield f"better {any(self._strength(other) > mine for other in rivals)} {group}"
        yield f"later {any(other.start >= candidate.end for other in rivals)}"
        value = self.text[candidate.start : candidate.end]
        again = sum(self.counts.get(piece, 0) for piece in _LETTERS.findall(value.lower()) if len(piece) > 3)
        yield f"again {min(3, again)} {group}"
        if any(self.text.startswith(value[:4], other.start) for other in rivals if self.groups[other] == group):
            yield from ("twin", f"twin {group}")

    def _strength(self, candidate: Candidate) -> int:
        return _STRENGTH.get(self.groups[candidate], 0) + bool(candidate.quote)


@lru_cache_by_text(8_192)
def _class_of(word: str) -> str:
    """Return what a word means, or else what kind of word it is."""
    return kind_of(word) or ("common" if word in FUNCTION_WORDS else "number" if word.isdigit() else word and "other")


def _is_code_about_access(value: str) -> bool:
    """Return True if a value is a name in code of which a word is about access, such as `unlock_guard2`."""
    return _FORMS["name"].match(value) is not None and any(map(kind_of, _LETTERS.findall(value.replace("_", " "))))


def _is_given(text: str, candidate: Candidate) -> bool:
    """Return True if a colon, an arrow or a word such as "is" introduces a candidate."""
    return _GIVEN.search(text, max(0, candidate.start - 12), candidate.start) is not None


def _shape(value: str) -> str:
    kinds = "".join(
        "A" if c.isupper() else "a" if c.isalpha() else "0" if c.isdigit() else c if c in " -_.!@#" else "$"
        for c in value
    )
    return re.sub(r"(.)\1+", r"\1", kinds)[:9]


@lru_cache_by_text(8_192)
def _form_of(value: str, quote: str, how: str) -> tuple[int, ...]:
    """Return the features of a candidate itself."""
    return tuple(hashed(set(_own(value, quote, how))))


@lru_cache(maxsize=8_192)
def _by_form(own: tuple[int, ...]) -> float:
    """Return what the form alone contributes to the score of the shipped model."""
    return shipped_model().part_score(own)


def _own(value: str, quote: str, how: str) -> Iterator[str]:
    low, group = value.lower(), group_of(value)
    size, words = len(value), low.split()
    yield from (group, f"how {how}", f"how {how} {group}", f"quote {quote}", f"quote {quote} {group}")
    yield from (f"shape {_shape(value)}", f"size {min(size, 24) // 2} {group}", f"words {len(words)} {how}")
    yield f"digits {min(8, sum(map(str.isdigit, value)))} {group}"
    yield f"bits {max(-4, min(4, int(3 * total_bits(value) / size)))} {group}"
    if _YEAR.search(value):
        yield f"year {group}"
    forms = [name for name, form in _FORMS.items() if form.match(value)]
    yield from (*forms, *(f"{name} {quote}" for name in forms))
    yield from (f"sign {c}" for c in set(value).intersection("!@#$%^&*+=~?_.-/'\\:"))
    yield f"last {value[-1] if not value[-1].isalnum() else ''}"
    if len(words) > 1:
        function = min(3, sum(word in FUNCTION_WORDS for word in words))
        case = "small" if value.islower() else "title" if value.istitle() else "mixed"
        yield from (f"function {function} {min(len(words), 6)}", f"function {function} {how}")
        yield from (f"case {case} {min(len(words), 5)}", f"number {has_digit(value)} {how}")
        yield from (f"holds {word[:5]}" for word in words)
        yield from (f"means {kind}" for word in words if (kind := kind_of(word)))
    else:
        pieces = _LETTERS.findall(low)
        yield f"begins {low[:5]}"
        yield f"means {kind_of(low)}"
        yield f"known {any(map(kind_of, pieces))} {group}"
