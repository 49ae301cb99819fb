"""What a question asks for, and whether a sentence gives it or says nothing. Pure.

A question may ask for a reason, for a repair or for a name. A sentence that only announces what the assistant is about
to do answers none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from engram.search.hits import NAMED_SPEAKER, SPEAKERS, with_speaker
from engram.search.question import Coverage
from engram.system.lazy_regex import lazy_regex
from engram.text.splitting import is_lead_in, sentence_spans
from engram.text.words import stems, topic_words

_ASKS_WHY = lazy_regex(
    r"\b(?:why|how come|reasons?|causes?d?|what (?:was|is|were|went|goes) (?:the )?(?:wrong|problem|issue|bug|missing|"
    r"broken)|warum|wieso|weshalb|pourquoi|por qué|perché)\b"
)
_GIVES_REASON = lazy_regex(
    r"\b(?:because|since|due to|so that|(?:root )?causes?d?|reasons?|otherwise|(?:issue|problem|bug) (?:is|was) "
    r"(?:that|the|a|in)|missing|lacks?|instead of|rather than|means|only (?:when|if|passed|goes|reads?)|never|cannot|"
    r"no longer|nothing to|weil|denn|fehlt|wegen|"
    r"(?:is|was|are|were|do|does|did|has|have|had|can|could|would|will|wo)n['’]t|"
    r"(?:is|was|are|were|do|does|did) not)\b"
)
#: Those of them that also occur where no reason is given.
_MAY_GIVE_REASON = lazy_regex(
    r"\b(?:instead of|rather than|only (?:when|if|passed|goes|reads?)|never|cannot|no longer|"
    r"(?:is|was|are|were|do|does|did|has|have|had|can|could|would|will|wo)n['’]t|"
    r"(?:is|was|are|were|do|does|did) not)\b"
)
#: What names a cause in so many words.
_NAMES_CAUSE = lazy_regex(
    r"\b(?:because|due to|(?:root )?causes?d?|(?:the )?reason (?:is|was|why)|(?:issue|problem|bug) (?:is|was) "
    r"(?:that|the|a|in)|weil|denn)\b"
)
_ASKS_HOW = lazy_regex(
    r"\b(?:how (?:did|do|does|was|were|can|could|should)|what (?:did (?:we|i|you|claude) do|fixed|solved|helped)|"
    r"wie (?:wurden?|haben|hat|kann)|repariert|behoben|gelöst)\b"
)
_GIVES_REPAIR = lazy_regex(
    r"\b(?:fix(?:ed|es)?|solved|resolved|now|added|adds|removed|removes|replaced?[sd]?|changed|switch(?:ed|es)?|used?s?|"
    r"using|wrap(?:ped|s)?|instead|moved|passe?[sd]?|renamed|rewrote|via|run|succeeded|requires|behoben|ersetzt)\b"
)
_ASKS_NAME = lazy_regex(
    r"\b(?:which|called|named?|what(?:['’]s| is| was| are| were)? (?:the )?(?:\w++ ){0,2}(?:flag|function|command|file|"
    r"path|option|setting|field|port|version|url|branch|variable|method|class|key|table|column)|where|welche[rsnm]?|"
    r"heißt)\b"
)
_SPEAKS = r"(?:correct|clarify|mention|note|say|add that|point out|warn|admit)\b"
#: The beginning of an announcement of what the assistant is doing or about to do. "Let's Encrypt" is a name.
_IS_ANNOUNCED = lazy_regex(
    r"\W*+(?:(?:good|great|perfect|ok(?:ay)?|now|next|first|then|excellent|right|yes|done|and|so|also|wait|but)\b"
    r"[\s,.!—–:-]*+)*+(?:let me|let['’]s(?! (?-i:[A-Z]))|i['’]ll|i will(?! (?:not|never))|i['’]m going to|"
    rf"i need to(?! {_SPEAKS})|i should(?! (?:not|have|{_SPEAKS}))|(?P<doing>running|waiting))\b",
    re.IGNORECASE,
)
#: Another such beginning: "Now remove the call".
_IS_NEXT_STEP = lazy_regex(
    r"\W*+(?:(?:good|great|perfect|ok(?:ay)?|excellent|right|yes|done|and|so)\b[\s,.!—–:-]*+)*+(?:now|next)\b[\s,:]*+"
    r"(?:also |i )?(?:add|build|check|clean|commit|create|delete|extract|fix|implement|look|make|move|push|read|"
    r"refactor|remove|rename|replace|rewrite|simplify|update|verify|wire|write)(?!\w|['’])",
    re.IGNORECASE,
)
#: What makes an announcement informative: a reason, or words after a colon.
_TELLS = lazy_regex(r"\b(?:because|therefore|weil|denn)\b|:\s++\S++\s++\S++\s++\S", re.IGNORECASE)
#: "Running the tests" may also be the subject of a statement. It is an announcement if it ends like this or has at most
#: ``MAX_DOING_WORDS`` words.
_ENDS_ANNOUNCED = lazy_regex(
    r"(?:…|\.{3}|:)(?:(?!…|\.{3}|:)\W)*+$|\bto (?:check|confirm|ensure|make sure|see|verify)\b", re.IGNORECASE
)
MAX_DOING_WORDS = 6
#: How much a sentence counts that may give a reason, such as "It isn't read.", if one that surely does counts 1.
DOUBTFUL = 0.5
#: Minimum number of words in a sentence that are not in the question, for it to say something.
MIN_NEW_WORDS = 3
#: A sentence is about a question's subject if it contains this share of its words.
MIN_ABOUT_SHARE = 0.6
#: A sentence that says nothing about its subject, such as "All tests pass."
_IS_FILLER = lazy_regex(
    r"\W*+(?:done|fixed|committed|pushed|good|excellent|ok(?:ay)?|good (?:catch|point|question|idea)|great|perfect|"
    r"you['’]re (?:absolutely )?right|(?:the )?tests? pass(?:es|ed)?|"
    r"all (?:\d++ )?(?:tests?|checks|clean|green|good)\b.{0,30}|(?:that )?makes sense|"
    r"(?:here['’]s a )?(?:fix )?summary(?: of (?:the|what|my|all) .{0,20})?|sources?|(?:what )?changed|"
    r"changes made|implement the following plan|"
    r"(?:the )?(?:subagent|agent|implementer|reviewer|verifier|build)s?(?: has| have)? (?:finished|reported back)|"
    r"(?:now |and )?(?:the )?(?:lint(?:ing|er)?|type ?checks?|build|tests?)(?: is| are)?(?: now| all)?"
    r"(?: clean| green| ok| pass(?:es|ed)?| succeed(?:s|ed)?)?|another one passes|"
    r"(?:now )?(?:i (?:now )?(?:have|see|understand|found)|found|there['’]s)(?: it| (?:the |a )?(?:full |whole |root )?"
    r"(?:bug|cause|context|flow|issue|picture|problem|structure))?|"
    r"the (?:bug|cause|issue|problem) is (?:now )?(?:clear|obvious))\W*+"
)
#: A line that is only a link, as in a list of sources.
_IS_LINK = lazy_regex(r"[\s>*+•-]*+(?:\[[^\]\n]*+\]\([^)\s]*+\)|https?://\S++)\W*+")
#: A list marker, and a heading.
MARKER = lazy_regex(r"\s*+(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s*+")
HEADING = lazy_regex(r"\s*+(?:#{1,6}\s|\*\*[^*]{2,80}\*\*:?\s*+$)")
_CODE = lazy_regex(r"`[^`\n]*+`")
#: The beginning of a sentence that only says what the one before it is good for.
_REFERS_BACK = lazy_regex(
    r"\W*+(?:this|that|which)(?: way)?,?(?: now| also| then| will| should)? ?(?:allows?|causes?|eliminates?|"
    r"ensures?|fix(?:es)?|gives?|keeps?|lets?|makes?|means?|prevents?|removes?|resolves?|solves?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a question asks for."""

    coverage: Coverage
    #: A pattern for sentences that give a reason or a repair; None if the question asks for neither.
    form: re.Pattern[str] | None
    #: True if the question asks for a name, which may follow the sentence with the question's words.
    asks_name: bool
    stems: frozenset[str]
    #: The texts that were judged wrong, normalised (``are_barred``).
    barred: frozenset[str] = frozenset()
    #: Texts to find verbatim, for a search for exact words.
    phrases: tuple[str, ...] = ()

    @classmethod
    def by(cls, question: str, coverage: Coverage, barred: Collection[str] = ()) -> Wanted:
        low = question.lower()
        form = _GIVES_REASON if _ASKS_WHY.search(low) else _GIVES_REPAIR if _ASKS_HOW.search(low) else None
        asks_name = form is None and _ASKS_NAME.search(low) is not None
        return cls(coverage, form, asks_name, stems(topic_words(question)), frozenset(barred))

    @property
    def asks_why(self) -> bool:
        return self.form is _GIVES_REASON

    def is_given_in(self, text: str) -> bool:
        """Return True if a text outside of quoted code gives the reason or repair that the question asks for."""
        return self.given_in(text) > 0

    def given_in(self, text: str) -> float:
        """Return how surely a text outside of quoted code gives what the question asks for: 1, ``DOUBTFUL``, or 0."""
        said = "" if self.form is None else _CODE.sub("", text.lower())
        if self.form is None or not self.form.search(said):
            return 0.0
        is_sure = not self.asks_why or self.form.search(_MAY_GIVE_REASON.sub("", said))
        return 1.0 if is_sure else DOUBTFUL

    def is_cause(self, text: str) -> bool:
        """Return True if the question asks for a reason and a text outside of quoted code names one as such."""
        return self.asks_why and _NAMES_CAUSE.search(_CODE.sub("", text.lower())) is not None

    def adds_to(self, text: str, min_words: int = MIN_NEW_WORDS) -> bool:
        """Return True if a text contains at least ``min_words`` informative words that the question lacks."""
        return len(stems(topic_words(text)) - self.stems) >= min_words

    def is_idle(self, sentence: str) -> bool:
        """Return True if a sentence says nothing that could answer the question."""
        if _IS_FILLER.fullmatch(sentence.lower()):
            # "All tests pass." is an answer if the question is whether they do.
            said = stems(word for word in topic_words(sentence) if not word.isdigit())
            return self.form is not None or self.asks_name or not said or not said <= self.stems
        return is_announcement(sentence) or (not self.asks_name and _IS_LINK.fullmatch(sentence) is not None)

    def is_about(self, text: str) -> bool:
        """Return True if a text contains most of the question's words, weighted by rarity."""
        return self.coverage.share(self.coverage.stems_in(text)) >= MIN_ABOUT_SHARE


def is_announcement(sentence: str) -> bool:
    """Return True if a sentence only says what the assistant is doing or about to do: "Let me now write the plan"."""
    announced = _IS_ANNOUNCED.match(sentence)
    begun = announced or _IS_NEXT_STEP.match(sentence)
    if begun is None or _TELLS.search(sentence, begun.end()):
        return False
    is_short = len(sentence.split()) <= MAX_DOING_WORDS
    return not (announced and announced["doing"]) or is_short or _ENDS_ANNOUNCED.search(sentence) is not None


def is_introduction(sentence: str) -> bool:
    """Return True if a sentence or line only introduces what follows: it ends with a colon, or is a heading."""
    return is_lead_in(sentence) or HEADING.match(sentence) is not None


def without_bare_marker(text: str) -> str:
    """Return a text without the marker of a list's point that was cut off: "3." at its end."""
    last = text.rstrip().rpartition("\n")
    return last[0] if last[0] and MARKER.fullmatch(last[2]) else text


def without_introduction(text: str) -> str:
    """Return a text without the introductions at its end; "" if it contains nothing else.

    The number of a list's point goes with it.
    """
    spans = sentence_spans(text)
    while spans and (is_introduction(last := text[slice(*spans[-1])]) or MARKER.fullmatch(last)):
        spans.pop()
    return text[: spans[-1][1]] if spans else ""


# -- Cut a text around the sentence that answers.

#: Mark of a text that goes on.
MORE = " …"
#: What a sentence is worth as an answer: the share of the question's words in it, this part of the share of those in
#: the sentence and the heading before it, and this much if it gives the reason or repair that is asked for.
BEFORE_SHARE, GIVEN_WORTH = 0.6, 0.3
#: A sentence with fewer informative words that the question lacks, or that only introduces another one, counts less.
MIN_TOLD_WORDS, EMPTY_SHARE = 2, 0.3
#: Another message of the turn is shown, too, if its best sentence is worth this share of the best of all.
MIN_OTHER_SHARE = 0.5


def telling_part(text: str, wanted: Wanted, fits: Callable[[str], bool]) -> str:
    """Return the sentences around the one that best answers the question, as many as fit; the whole text if it does.

    Args:
        text: a hit's; if it names its speakers, so does the part, and what the user asked is not the answer.
    """
    if fits(text):
        return text
    spans = _points_of(text)
    speakers = _speakers_in([text[start:stop] for start, stop in spans])
    worths = _worths_of(text, spans, speakers, wanted)
    # The best sentence of each message, best first; what follows it says more than what precedes it.
    messages = [list(message) for _, message in groupby(range(len(spans)), key=lambda place: speakers[place])]
    best = sorted(
        (max(message, key=lambda place: worths[place].all) for message in messages), key=lambda p: -worths[p].all
    )
    kept: set[int] = set()

    def keep(place: int) -> bool:
        is_kept = place in kept or not kept or fits(_joined(text, spans, {*kept, place}))
        kept.update([place] if is_kept else [])
        return is_kept

    for place in best:
        if worths[place].all >= MIN_OTHER_SHARE * worths[best[0]].all and keep(place) and worths[place].is_led:
            is_kept = keep(place - 1)
            if not is_kept and len(kept) == 1 and _REFERS_BACK.match(text[slice(*spans[place])]):
                # What it speaks of says more than its own end.
                kept.add(place - 1)
    for place in [place for place in best if place in kept]:
        message = next(message for message in messages if place in message)
        all(map(keep, range(place + 1, message[-1] + 1)))
        all(map(keep, range(place - 1, message[0] - 1, -1)))
    after = max(kept) + 1
    is_next = after < len(spans) and speakers[after] == speakers[best[0]] and best[0] < after
    if is_next and all(is_introduction(text[slice(*span)]) for span in spans[best[0] : after]):
        # The best sentence introduces one that is too long, whose beginning says more than nothing.
        return _joined(text, spans, {*kept, after})
    while len(kept) > 1 and is_introduction(text[slice(*spans[max(kept)])]):
        kept.discard(max(kept))
    return _joined(text, spans, kept)


def _joined(text: str, spans: Sequence[tuple[int, int]], kept: Collection[int]) -> str:
    """Return some sentences of a text, with a mark if it goes on; those that are not adjacent are on separate lines."""
    runs: list[tuple[int, int]] = []
    for place in sorted(kept):
        start, stop = spans[place]
        runs = [*runs[:-1], (runs[-1][0], stop)] if place - 1 in kept else [*runs, (start, stop)]
    shown = "\n".join(with_speaker(text[start:stop], text) for start, stop in runs)
    return shown if not spans or len(spans) - 1 in kept else shown.rstrip() + MORE


def _points_of(text: str) -> list[tuple[int, int]]:
    """Return the start and stop of each sentence and line, with the list marker, label or speaker's name before it."""
    spans: list[tuple[int, int]] = []
    for start, stop in sentence_spans(text):
        before = text[slice(*spans[-1])] if spans else ""
        is_begun = bool(MARKER.fullmatch(before)) or NAMED_SPEAKER.fullmatch(f"{before.strip()} ") is not None
        is_begun = (is_begun or is_lead_in(before)) and "\n" not in text[spans[-1][1] : start]
        spans = [*spans[:-1], (spans[-1][0], stop)] if is_begun else [*spans, (start, stop)]
    return spans


def _speakers_in(pieces: Sequence[str]) -> list[tuple[int, str]]:
    """Return, for each sentence of a text, the number of its message and its speaker, "" if the text names none."""
    number, speaker, speakers = 0, "", []
    for piece in pieces:
        if named := NAMED_SPEAKER.match(piece):
            number, speaker = number + 1, named[1]
        speakers.append((number, speaker))
    return speakers


@dataclass(frozen=True, slots=True)
class _Worth:
    all: float
    #: True if it says what the one before it is good for, or that one has more of the question's words.
    is_led: bool


def _worths_of(
    text: str, spans: Sequence[tuple[int, int]], speakers: Sequence[tuple[int, str]], wanted: Wanted
) -> list[_Worth]:
    """Return what each sentence of a text is worth as an answer; what the user asked before an answer, nothing."""
    pieces = [text[start:stop] for start, stop in spans]
    covered = wanted.coverage.stems_in_each(pieces)
    last_told = max((place for place, (_, name) in enumerate(speakers) if name != SPEAKERS["user"]), default=-1)
    heading = frozenset[str]()
    worths: list[_Worth] = []
    for place, (piece, own) in enumerate(zip(pieces, covered, strict=True)):
        is_first = not place or speakers[place] != speakers[place - 1]
        led = frozenset[str]() if is_first else covered[place - 1]
        heading = own if HEADING.match(piece) else heading
        share = wanted.coverage.share(own)
        worth = share + BEFORE_SHARE * wanted.coverage.share((led | heading) - own)
        worth += GIVEN_WORTH * wanted.given_in(piece)
        worth += any(phrase.lower() in piece.lower() for phrase in wanted.phrases)
        is_empty = is_introduction(piece) or wanted.is_idle(piece) or not wanted.adds_to(piece, MIN_TOLD_WORDS)
        is_asked = place < last_told and speakers[place][1] == SPEAKERS["user"]
        worth = 0.0 if is_asked else worth * EMPTY_SHARE if is_empty else worth
        refers_back = not is_first and _REFERS_BACK.match(piece) is not None
        worths.append(_Worth(worth, refers_back or wanted.coverage.share(led) > share))
    return worths
