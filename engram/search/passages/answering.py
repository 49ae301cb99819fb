"""Choose the sentences of a turn that answer a question, rather than those that only repeat it.

The passages closest to a question are often the same question, as the user asked it earlier, and what the assistant
said before it investigated. The answer follows in the same message or in a later one of the turn: a reason if the
question asks why, a repair if it asks how something was solved, or a name if it asks for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engram.models.engine.transaction import Reader
from engram.models.sessions.passage_rows import find_quotation, passage_places, places_of
from engram.models.sessions.stored_turns import texts_of_turns
from engram.search.hit_lines import may_be_planted
from engram.search.hits import Hit, Part, are_barred, is_said, role_of_parts, text_of_parts
from engram.search.passages.followed import quotation_in
from engram.search.passages.passage_search import excerpt
from engram.search.passages.wanted import (
    GIVEN_WORTH,
    HEADING,
    MARKER,
    Wanted,
    is_introduction,
    without_introduction,
)
from engram.search.question import Coverage
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import ListEnd, end_of_list, is_lead_in, sentence_spans, sentence_texts
from engram.text.words import stems, topic_words
from engram.transcripts.turns import Role, TextBlock, Turn
from engram.trust.display import cut_at_word

# -- Choose which parts of a turn to show. Pure.

_WORD = lazy_regex(r"\S++")
_FENCE = lazy_regex(r"\s*+(?:```|~~~)")
#: Maximum number of words by which a list is continued to its end, and the mark for a longer rest.
MAX_REST_WORDS = 25
_MORE = " …"
_USERS = frozenset({Role.USER, Role.CONTEXT, Role.PROGRAM})
#: Maximum number of words to show from a turn, from one of its messages, and from the user's words that it answers.
MAX_WORDS, MAX_PART_WORDS, MAX_ASKED_WORDS = 110, 80, 24
#: Maximum number of characters to show from the user's words, because a pasted log has long words.
MAX_ASKED_CHARACTERS = 150
#: Maximum number of characters of a turn to examine.
MAX_TURN_CHARACTERS = 60_000
#: The worth of a sentence is the share of the question's words that it contains, plus ``TAKEN_UP`` times the share of
#: those in the sentence or heading before it, plus a bonus in an entry that the search found, and in the last entry.
TAKEN_UP, FOUND, LAST = 0.6, 0.25, 0.15
#: Minimum worth of such a sentence.
MIN_WORTH = 0.3
#: By how much the worth of such a sentence must exceed that of the parts that the search found.
MIN_GAIN = 0.3


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence or a line of a message."""

    start: int
    stop: int
    size: int
    #: True if it says nothing that could answer the question.
    is_idle: bool
    is_heading: bool
    is_code: bool

    def of(self, text: str) -> str:
        return text[self.start : self.stop]


def answering(said: Sequence[TextBlock], parts: Sequence[Part], wanted: Wanted) -> list[Part]:
    """Return the parts of a turn to show: those that the search found, extended, and the answer if they lack it."""
    blocks = _within(said)
    places = [_place_of(part, blocks) for part in parts]
    best = _best_run(blocks, parts, wanted)
    is_answered = best is not None or any(map(partial(_says_anything, wanted=wanted), parts))
    shares = [wanted.coverage.share(wanted.coverage.stems_in(part.text)) for part in parts]
    # The user's words come last, because they are the question.
    order = sorted(range(len(parts)), key=lambda number: (parts[number].role in _USERS, -shares[number]))
    shown: dict[tuple[int, int], Part] = {}
    left = MAX_WORDS
    if best is not None:
        block = blocks[best.block]
        text = _continued(block.text, best.start, best.stop, wanted, MAX_PART_WORDS)
        shown[best.block, best.start] = Part(block.uuid, block.role, text)
        left -= len(text.split())
    for number in order:
        part, place = parts[number], places[number]
        if place and any(place[0] == block for block, _ in shown):
            continue
        told = [other.text for other in shown.values() if other.role not in _USERS]
        if told and part.role not in _USERS and not _adds_answer(part, told, wanted):
            continue
        known = [stems(topic_words(other.text)) for other in shown.values()]
        if part.role in _USERS and is_answered:
            text = _asked_in(part.text, wanted.coverage)
        elif place is None:
            text = part.text
        else:
            start, block = place[1], blocks[place[0]]
            text = _continued(block.text, start, start + len(part.text), wanted, min(left, MAX_PART_WORDS))
        if text and not (known and is_said(text, known)) and (len(text.split()) <= left or not shown):
            shown[place or (len(blocks), number)] = replace(part, text=text)
            left -= len(text.split())
    if not any(part.role not in _USERS for part in shown.values()):
        # The search found only the question, or what the assistant said before it investigated.
        found = {part.uuid for part in parts}
        run = max(_runs_in(blocks, found, wanted), key=lambda run: run.worth, default=None)
        if run is not None:
            text = _continued(blocks[run.block].text, run.start, run.stop, wanted, MAX_PART_WORDS)
            shown[run.block, run.start] = Part(blocks[run.block].uuid, blocks[run.block].role, text)
    return [part for _, part in sorted(shown.items())] or list(parts)


def _adds_answer(part: Part, told: Sequence[str], wanted: Wanted) -> bool:
    """Return True if a part contains a word of the question, or a reason or repair, that what is shown lacks."""
    coverage = wanted.coverage
    is_new = not coverage.stems_in(part.text) <= coverage.stems_in("\n".join(told))
    is_surer = wanted.given_in(part.text) > max(map(wanted.given_in, told))
    return is_new or is_surer or (wanted.is_cause(part.text) and not any(map(wanted.is_cause, told)))


def _within(said: Sequence[TextBlock]) -> list[TextBlock]:
    blocks, room = [], MAX_TURN_CHARACTERS
    for block in said:
        blocks.append(block if len(block.text) <= room else replace(block, text=block.text[:room]))
        room = max(room - len(block.text), 0)
    return blocks


def _place_of(part: Part, blocks: Sequence[TextBlock]) -> tuple[int, int] | None:
    """Return the index of the text that contains a part, and the position of the part in it."""
    of_entry = ((number, block.text.find(part.text)) for number, block in enumerate(blocks) if block.uuid == part.uuid)
    return next(((number, at) for number, at in of_entry if at >= 0), None)


def _worth_of(part: Part, wanted: Wanted) -> float:
    """Return the worth of a part that the search found; 0 if it lacks what the question asks for."""
    units = [unit for unit in _units_of(part.text, wanted) if not unit.is_idle]
    given = [unit for unit in units if part.role not in _USERS and wanted.is_given_in(unit.of(part.text))]
    if not given:
        return 0.0
    # The search found the part as a whole, so the sentence with the reason needn't repeat the words of the others.
    whole = TAKEN_UP * wanted.coverage.share(wanted.coverage.stems_in(part.text))
    return FOUND + max(
        max(whole, sum(_shares(part.text, units, units.index(unit), wanted.coverage)))
        + GIVEN_WORTH * wanted.given_in(unit.of(part.text))
        for unit in given
    )


@dataclass(frozen=True, slots=True)
class _Run:
    block: int
    start: int
    stop: int
    worth: float


def _best_run(blocks: Sequence[TextBlock], parts: Sequence[Part], wanted: Wanted) -> _Run | None:
    """Return the assistant's sentences that answer better than the parts; None if there are none.

    They have the form that the question asks for, or most of its words, which no part has.
    """
    found = {part.uuid for part in parts}
    formed = () if wanted.form is None else _runs_in(blocks, found, wanted, wanted.is_given_in)
    best = max(formed, key=lambda run: run.worth, default=None)
    if best is not None and best.worth >= max((_worth_of(part, wanted) for part in parts), default=0.0) + MIN_GAIN:
        return best
    if any(part.role not in _USERS and wanted.is_about(part.text) for part in parts):
        return None
    return max(_runs_in(blocks, found, wanted, wanted.is_about), key=lambda run: run.worth, default=None)


def _says_anything(part: Part, wanted: Wanted) -> bool:
    """Return True if a part is the assistant's, and more than an announcement or a phrase such as "Good catch."."""
    return part.role not in _USERS and bool(_told_in(part.text, wanted))


def _asked_in(text: str, coverage: Coverage) -> str:
    """Return the user's words that cover most of the question: whole sentences, unless these cover less."""
    asked = excerpt(text, coverage, MAX_ASKED_WORDS)
    ends = [stop for _, stop in sentence_spans(asked) if stop <= MAX_ASKED_CHARACTERS]
    whole, cut = asked[: ends[-1] if ends else 0], cut_at_word(asked, MAX_ASKED_CHARACTERS)
    covered, coverable = (coverage.share(stems) for stems in coverage.stems_in_each([whole, cut]))
    return whole if whole and covered >= coverable else cut


def _runs_in(
    blocks: Sequence[TextBlock], found: set[str], wanted: Wanted, may_be: Callable[[str], bool] = bool
) -> Iterator[_Run]:
    """Yield the assistant's sentences that say something about the question's subject, with their worth.

    Args:
        may_be: returns True for a sentence that may be yielded.
    """
    coverage = wanted.coverage
    last = max((number for number, block in enumerate(blocks) if block.role is Role.ASSISTANT), default=-1)
    for number, block in enumerate(blocks):
        # A sentence covers no more of the question than its message.
        if block.role is not Role.ASSISTANT or coverage.share(coverage.stems_in(block.text)) < MIN_WORTH:
            continue
        units = [unit for unit in _units_of(block.text, wanted) if not unit.is_idle and not unit.is_code]
        gain = (FOUND if block.uuid in found else 0.0) + (LAST if number == last else 0.0)
        for place, unit in enumerate(units):
            text = unit.of(block.text)
            if unit.is_heading or not may_be(text):
                continue
            if not wanted.adds_to(text):
                continue
            own, before = _shares(block.text, units, place, coverage)
            if own + before >= MIN_WORTH:
                first = units[place - 1] if before > own and place else unit
                yield _Run(number, first.start, unit.stop, own + before + gain + GIVEN_WORTH * wanted.given_in(text))


def _shares(text: str, units: Sequence[_Unit], place: int, coverage: Coverage) -> tuple[float, float]:
    """Return a sentence's share of the question's words, and the weighted share of those in the sentence or heading
    before it.
    """
    own = coverage.stems_in(units[place].of(text))
    before: frozenset[str] = frozenset()
    if place and "\n\n" not in text[units[place - 1].stop : units[place].start]:
        before = coverage.stems_in(units[place - 1].of(text))
    heading = next((unit for unit in reversed(units[:place]) if unit.is_heading), None)
    if heading is not None:
        before |= coverage.stems_in(heading.of(text))
    return coverage.share(own), TAKEN_UP * coverage.share(before - own)


def _units_of(text: str, wanted: Wanted) -> list[_Unit]:
    """Return the sentences and lines of a message, without fences; a list marker belongs to the text after it."""
    spans: list[tuple[int, int]] = []
    for start, stop in sentence_spans(text):
        if spans and MARKER.fullmatch(text[slice(*spans[-1])]) and "\n" not in text[spans[-1][1] : start]:
            spans[-1] = (spans[-1][0], stop)
        else:
            spans.append((start, stop))
    units: list[_Unit] = []
    is_code = False
    pieces = [text[start:stop] for start, stop in spans]
    for (start, stop), piece, is_wrong in zip(spans, pieces, are_barred(pieces, wanted.barred), strict=True):
        if _FENCE.match(piece):
            is_code = not is_code
            continue
        is_idle = is_wrong or (not is_code and wanted.is_idle(piece))
        is_heading = not is_code and HEADING.match(piece) is not None
        units.append(_Unit(start, stop, len(piece.split()), is_idle, is_heading, is_code))
    return units


def _continued(text: str, start: int, stop: int, wanted: Wanted, max_words: int) -> str:
    """Return a part of a message without uninformative sentences, extended by the sentences that follow it.

    Adjacent sentences keep the white space between them; others are on separate lines. A list is shown to its end if
    that fits; otherwise "…" says that it has, or may have, more items.
    """
    kept: list[_Unit] = []
    size = 0
    is_given = wanted.form is None and not wanted.asks_name
    units = _units_of(text, wanted)
    for unit in units:
        if unit.stop <= start:
            continue
        is_part = unit.start < stop
        is_led_in = bool(kept) and is_lead_in(kept[-1].of(text))
        is_enough = is_given and not is_led_in and not wanted.is_cause(unit.of(text))
        if not is_part and (size + unit.size > max_words or unit.is_idle or is_enough):
            break
        if not unit.is_idle:
            kept.append(unit)
            size += unit.size
            # What only repeats the question in its form, such as "It stops instead of going on.", gives nothing yet.
            is_given = is_given or (wanted.is_given_in(unit.of(text)) and wanted.adds_to(unit.of(text)))
    while kept and kept[-1].start >= stop and (kept[-1].is_heading or is_lead_in(kept[-1].of(text))):
        kept.pop()
    end, is_open = end_of_list(text, kept[-1].stop) if kept else ListEnd(0, may_go_on=False)
    items = [unit for unit in units if kept and kept[-1].stop <= unit.start < end and not unit.is_idle]
    is_whole = not items or sum(unit.size for unit in items) <= min(max_words - size, MAX_REST_WORDS)
    kept += items if is_whole else []
    return _joined(text, kept) + (_MORE if is_open or not is_whole else "")


def _joined(text: str, units: Sequence[_Unit]) -> str:
    """Return sentences of a message; adjacent ones keep the white space between them, others are on separate lines."""
    pieces: list[tuple[int, int]] = []
    for unit in units:
        is_next = pieces and not text[pieces[-1][1] : unit.start].strip()
        pieces = [*pieces[:-1], (pieces[-1][0], unit.stop)] if is_next else [*pieces, (unit.start, unit.stop)]
    return "\n".join(text[begin:stop] for begin, stop in pieces)


def worth_of(parts: Sequence[Part], wanted: Wanted) -> float:
    """Return the worth of parts as an answer: their share of the question's words; 0 if they lack what it asks for."""
    if not any(part.role not in _USERS and wanted.is_given_in(part.text) for part in parts):
        return 0.0
    given = max(wanted.given_in(part.text) for part in parts if part.role not in _USERS)
    return given * wanted.coverage.share(wanted.coverage.stems_in("\n".join(part.text for part in parts)))


# -- Let no hit end at an introduction, such as "because:", whose list or sentence was cut off.

#: Maximum number of words that are shown of one sentence of what an introduction introduces.
MAX_INTRODUCED_WORDS = 40


def with_introduced(store: Reader, found: Sequence[Hit], wanted: Wanted) -> list[Hit]:
    """Return passages in whose parts no introduction is last.

    A part is extended by the beginning of what it introduces. If nothing follows in its message, as before a tool call,
    it ends before the introduction, unless the hit says nothing else.
    """
    cut = [hit.turn_id for hit in found if hit.turn_id and any(map(_ends_open, hit.parts_of_turn))]
    turns = texts_of_turns(store, cut)
    return [_completed(hit, turns[hit.turn_id], wanted) if hit.turn_id in turns else hit for hit in found]


def _ends_open(part: Part) -> bool:
    return any(is_introduction(part.text[slice(*span)]) for span in sentence_spans(part.text)[-1:])


def _completed(hit: Hit, turn: Turn, wanted: Wanted) -> Hit:
    parts = [complete_part(part, turn.said, wanted) if _ends_open(part) else part for part in hit.parts_of_turn]
    kept = [part for part in parts if part.text] or list(hit.parts_of_turn)
    text = text_of_parts(kept)
    if may_be_planted(text) and not may_be_planted(hit.text):
        return hit
    return replace(hit, text=text, role=role_of_parts(kept), parts_of_turn=tuple(kept))


def complete_part(part: Part, said: Sequence[TextBlock], wanted: Wanted) -> Part:
    """Return a part of a turn with the beginning of what its last sentence introduces, or without that sentence.

    Where nothing follows, a sentence that states something by itself remains. The text is "" if nothing informative is
    left. ``said`` is what was said in the turn.
    """
    spans = sentence_spans(part.text)
    last = part.text[slice(*spans[-1])]
    for block in said:
        at = block.text.rfind(last) if block.uuid == part.uuid else -1
        if at >= 0 and (told := _introduced(block.text[:MAX_TURN_CHARACTERS], at + len(last), wanted)):
            return replace(part, text=f"{part.text.rstrip()}\n{told}")
    if _says_something(last, wanted):
        return part
    rest = without_introduction(part.text)
    return replace(part, text=rest if any(not unit.is_idle for unit in _units_of(rest, wanted)) else "")


def _says_something(introduction: str, wanted: Wanted) -> bool:
    """Return True for an introduction that is a statement, such as "The line must be removed:" before an edit."""
    is_blank = HEADING.match(introduction) or wanted.is_idle(introduction)
    return not is_blank and wanted.adds_to(introduction)


def _introduced(text: str, start: int, wanted: Wanted) -> str:
    """Return the first sentences and lines after a place in a message; "" if only uninformative ones follow."""
    following = [unit for unit in _units_of(text, wanted) if unit.start >= start]
    taken: list[_Unit] = []
    for unit in following:
        is_full = sum(earlier.size for earlier in taken) + unit.size > MAX_REST_WORDS
        if unit.is_idle or (taken and is_full and not is_introduction(taken[-1].of(text))):
            break
        taken.append(unit)
    while taken and is_introduction(taken[-1].of(text)):
        taken.pop()
    words = list(_WORD.finditer(taken[-1].of(text))) if taken else []
    is_cut = len(words) > MAX_INTRODUCED_WORDS
    if is_cut:
        taken[-1] = replace(taken[-1], stop=taken[-1].start + words[MAX_INTRODUCED_WORDS - 1].end())
    return _joined(text, taken) + (_MORE if taken and (is_cut or len(taken) < len(following)) else "")


# -- Extend the best passages of an answer by what their turns say in answer to the question.

#: Number of passages to extend, best first, because a turn may be long.
MAX_TURNS = 5
#: Factor by which the worth of an answer adds to its hit's closeness, and the step in rank: a passage moves ahead of
#: the one before it if its answer is worth ``STEP / WORTH`` more.
WORTH, STEP = 0.3, 0.2


def answered(store: Reader, found: Sequence[Hit], wanted: Wanted) -> tuple[list[Hit], dict[str, float]]:
    """Return passages, best first, each with the sentences of its turn that answer; and id → the worth of its answer.

    Only the first ``MAX_TURNS`` passages are extended or change their order.
    """
    best = [hit for hit in found[:MAX_TURNS] if hit.parts_of_turn]
    turns = texts_of_turns(store, [hit.turn_id for hit in best if hit.turn_id])
    worth: dict[str, float] = {}
    changed: list[Hit] = []
    taken: set[int | None] = set()
    for hit in found[:MAX_TURNS]:
        turn = turns.get(hit.turn_id or 0)
        if turn is None or hit.turn_id in taken:
            if hit.id not in worth and (told := _without_idle(hit, wanted)) is not None:
                changed.append(told)
            continue
        taken.add(hit.turn_id)
        parts = answering(turn.said, hit.parts_of_turn, wanted)
        if may_be_planted(text_of_parts(parts)) and not may_be_planted(hit.text):
            parts = list(hit.parts_of_turn)
        more = {part.uuid for part in parts} - {place.uuid for place in hit.evidence}
        shown = replace(
            hit,
            text=text_of_parts(parts),
            role=role_of_parts(parts),
            parts_of_turn=tuple(parts),
            evidence=(*hit.evidence, *places_of(store, more)),
        )
        if not _is_passage_shown(hit, parts):
            shown = _named_by(store, shown, turn, wanted)
        worth[shown.id] = worth_of([*hit.parts_of_turn, *parts], wanted)
        changed.append(shown)
    # What only repeats the question, such as "Posted: comment on #12.", comes after what says more.
    order = sorted(
        range(len(changed)),
        key=lambda n: (_says_nothing(changed[n], wanted), STEP * n - WORTH * worth.get(changed[n].id, 0.0)),
    )
    return [*(changed[n] for n in order), *found[MAX_TURNS:]], worth


def _says_nothing(hit: Hit, wanted: Wanted) -> bool:
    """Return True if a hit consists of introductions and of words that the question has."""
    return bool(hit.parts_of_turn) and not wanted.adds_to(without_introduction(hit.text), 1)


def _without_idle(hit: Hit, wanted: Wanted) -> Hit | None:
    """Return another hit of a turn without idle sentences and long words of the user; None if nothing is left."""
    if not hit.parts_of_turn:
        return hit
    parts = [
        replace(part, text=text)
        for part in hit.parts_of_turn
        if (text := _asked_in(part.text, wanted.coverage) if part.role in _USERS else _told_in(part.text, wanted))
    ]
    if not parts:
        return None
    return replace(hit, text=text_of_parts(parts), role=role_of_parts(parts), parts_of_turn=tuple(parts))


def _told_in(text: str, wanted: Wanted) -> str:
    return _joined(text, [unit for unit in _units_of(text, wanted) if not unit.is_idle])


def _is_passage_shown(hit: Hit, parts: Sequence[Part]) -> bool:
    """Return True if the parts contain anything from the passage with the hit's id."""
    if not hit.evidence:
        return True
    own = [part for part in hit.parts_of_turn if part.uuid == hit.evidence[0].uuid]
    said = [sentence for part in own for sentence in sentence_texts(part.text)]
    return any(
        part.uuid == hit.evidence[0].uuid and (part.role in _USERS or any(sentence in part.text for sentence in said))
        for part in parts
    )


def _named_by(store: Reader, hit: Hit, turn: Turn, wanted: Wanted) -> Hit:
    """Return a hit with the id of the passage that it actually shows, so that a judgement on the hit applies to that
    text.
    """
    best = max(hit.parts_of_turn, key=lambda part: (worth_of([part], wanted), part.role not in _USERS))
    first = best.text[slice(*sentence_spans(best.text)[0])]
    places = (n for n, block in enumerate(turn.said) if block.uuid == best.uuid and first in block.text)
    number = next(places, None)
    quotation = None if number is None else find_quotation(store, quotation_in(turn, number, first))
    place = None if quotation is None else passage_places(store, [quotation.row_id]).get(quotation.row_id)
    if quotation is None or place is None:
        return hit
    others = (other for other in hit.evidence if other.uuid != place.place.uuid)
    return replace(
        hit,
        id=place.quotation_id,
        row_id=quotation.row_id,
        created_at_ms=quotation.at_ms or hit.created_at_ms,
        evidence=(place.place, *others),
    )
