"""Where a memory comes from: the turns that it rests on, with the sentences marked that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.models.episodes import Episode, evidence_of
from engram.models.evidence_places import EvidencePlace, places_of
from engram.models.transaction import Reader
from engram.models.turns import StoredTurn, load_turn_row
from engram.text.excerpt_sentences import sentence_spans
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words
from engram.transcripts.record import Action, Role

#: Turns of a memory that are shown, the first ones.
MAX_TURNS = 3
#: A sentence is marked if it says at least about this share of the memory.
MIN_SAID_SHARE = 0.25
#: Characters that are shown before and after the marked sentence.
MAX_AROUND_CHARACTERS = 300
#: Longest text of a turn that is shown without a mark, in characters.
MAX_PLAIN_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Quote:
    """One text of a turn."""

    role: Role
    spans: tuple[Span, ...]
    #: The memory rests on it.
    is_cited: bool


@dataclass(frozen=True, slots=True)
class SourceTurn:
    """A turn that a memory rests on."""

    turn_id: int
    session_id: str
    at_ms: int
    #: Where the cited entries stand.
    places: tuple[EvidencePlace, ...]
    quotes: tuple[Quote, ...]
    #: Its tool calls that failed or changed something.
    actions: tuple[Action, ...]


def source_turns(store: Reader, episode: Episode) -> list[SourceTurn]:
    """Return the first turns that a memory rests on, as far as they are still stored."""
    evidence = [entry for entry in evidence_of(store, episode.id) if entry.uuid]
    turn_ids = list(dict.fromkeys(entry.turn_id for entry in evidence if entry.turn_id is not None))
    found = []
    for turn_id in turn_ids[:MAX_TURNS]:
        stored = load_turn_row(store, turn_id)
        if stored is not None:
            cited = [entry.uuid for entry in evidence if entry.turn_id == turn_id]
            found.append(_source_turn(store, stored, cited, episode))
    return found


def mark_sentences(text: str, wanted: str) -> list[Span]:
    """Return a text as spans, with the sentence marked that says the most of ``wanted``; nothing, if none does.

    A statement that stands in the text word for word is marked whole.
    """
    start = text.find(wanted) if wanted.strip() else -1
    if start >= 0:
        return _cut(text, start, start + len(wanted))
    goal = stems(topic_words(wanted))
    best, best_share = None, MIN_SAID_SHARE
    for begin, end in sentence_spans(text):
        said = stems(topic_words(text[begin:end]))
        # Of two that say as much, the shorter one; a long one says everything.
        share = len(said & goal) / (len(goal) + 0.2 * len(said)) if goal else 0.0
        if share > best_share:
            best, best_share = (begin, end), share
    return [Span(text)] if best is None else _cut(text, *best)


def _cut(text: str, start: int, stop: int) -> list[Span]:
    return [span for span in (Span(text[:start]), Span(text[start:stop], True), Span(text[stop:])) if span.text]


def _source_turn(store: Reader, stored: StoredTurn, cited: Sequence[str], episode: Episode) -> SourceTurn:
    turn = stored.turn
    quotes = []
    for index, block in enumerate(turn.said):
        is_cited = block.uuid in cited
        if is_cited or index == 0:
            spans = mark_sentences(block.text, episode.summary) if is_cited else [Span(block.text)]
            quotes.append(Quote(block.role, tuple(_shorten(spans)), is_cited))
    telling = [action for action in turn.actions if action.is_error or action.commit or action.is_edit]
    return SourceTurn(
        turn_id=stored.id,
        session_id=turn.session_id,
        at_ms=turn.started_at_ms or 0,
        places=tuple(places_of(store, cited)),
        quotes=tuple(quotes),
        actions=tuple(telling[:5]),
    )


def _shorten(spans: Sequence[Span]) -> list[Span]:
    """Keep what stands around the mark; without one, the beginning."""
    if not any(span.is_marked for span in spans):
        text = "".join(span.text for span in spans)
        return [Span(text if len(text) <= MAX_PLAIN_CHARACTERS else text[:MAX_PLAIN_CHARACTERS].rstrip() + " …")]
    kept, is_before = [], True
    for span in spans:
        text = span.text
        if span.is_marked:
            is_before = False
            text = text if len(text) <= 2 * MAX_PLAIN_CHARACTERS else text[: 2 * MAX_PLAIN_CHARACTERS] + " …"
        elif len(text) > MAX_AROUND_CHARACTERS:
            text = "… " + text[-MAX_AROUND_CHARACTERS:] if is_before else text[:MAX_AROUND_CHARACTERS] + " …"
        kept.append(Span(text, span.is_marked))
    return kept
