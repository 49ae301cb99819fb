"""What a question asks for, and whether a sentence gives it or says nothing. Pure.

A question may ask for a reason, for a repair or for a name. A sentence that only announces what the assistant is about
to do answers none.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

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
    r"(?:is|was|are|were|do|does|did) not)\b|→"
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
    r"changes made)\W*+"
)
#: A line that is only a link, as in a list of sources.
_IS_LINK = lazy_regex(r"[\s>*+•-]*+(?:\[[^\]\n]*+\]\([^)\s]*+\)|https?://\S++)\W*+")
#: A list marker, and a heading.
MARKER = lazy_regex(r"\s*+(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s*+")
HEADING = lazy_regex(r"\s*+(?:#{1,6}\s|\*\*[^*]{2,80}\*\*:?\s*+$)")
_CODE = lazy_regex(r"`[^`\n]*+`")


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

    @classmethod
    def by(cls, question: str, coverage: Coverage, barred: Collection[str] = ()) -> Wanted:
        low = question.lower()
        form = _GIVES_REASON if _ASKS_WHY.search(low) else _GIVES_REPAIR if _ASKS_HOW.search(low) else None
        asks_name = form is None and _ASKS_NAME.search(low) is not None
        return cls(coverage, form, asks_name, stems(topic_words(question)), frozenset(barred))

    def is_given_in(self, text: str) -> bool:
        """Return True if a text outside of quoted code gives the reason or repair that the question asks for."""
        return self.form is not None and self.form.search(_CODE.sub("", text.lower())) is not None

    def is_cause(self, text: str) -> bool:
        """Return True if the question asks for a reason and a text outside of quoted code names one as such."""
        return self.form is _GIVES_REASON and _NAMES_CAUSE.search(_CODE.sub("", text.lower())) is not None

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


def without_introduction(text: str) -> str:
    """Return a text without the introductions at its end; "" if it contains nothing else.

    The number of a list's point goes with it.
    """
    spans = sentence_spans(text)
    while spans and (is_introduction(last := text[slice(*spans[-1])]) or MARKER.fullmatch(last)):
        spans.pop()
    return text[: spans[-1][1]] if spans else ""
