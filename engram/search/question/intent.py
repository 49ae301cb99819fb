"""What a question asks for, and the traits of a text that may answer it, by regular expressions. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TIME = re.compile(
    r"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|week|weekend|month|year|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday|january|february|march|april|june|july|august|september|october|november|december|summer"
    r"|winter|spring|fall|morning|recently|soon|since|20\d\d)\b",
    re.I,
)
_NUMBER = re.compile(r"\d")
_CODE = re.compile(r"/\w+\.|\w\(\)|\w_\w")
_DIRECTIVE = re.compile(
    r"\b(?:always|never|don'?t|do not|prefer|instead|should|must|want|need to|make sure|please|only|avoid|rather"
    r"|no need|stop|keep|use|let'?s|can you|i'd like|remove|not)\b",
    re.I,
)
_SPEAKER = re.compile(r"([A-Z][\w .'-]{0,30}): ")
#: Words that say that something has changed.
_CHANGE = re.compile(
    r"\b(?:instead|no longer|switch(?:ed|ing)?|replac\w+|renam\w+|remov\w+|dropp?\w*|moved?|moving|actually|rather than"
    r"|from now on|chang\w+|revert\w*|roll(?:ed)? back|go(?:ing)? back|went back|simplif\w+|previously|used to"
    r"|any ?more|obsolete|deprecat\w+|invert\w*|merged?|was changed|old"
    r"|now (?:uses?|is|only|has|shows?|goes|counts?|lives?|resolves?))\b"
)

_WHEN = re.compile(r"\b(?:when|what (?:time|date|day|month|year)|how long|since)\b", re.I)
_HOW_MANY = re.compile(
    r"\b(?:how (?:many|much|often|long|big|old)|number|which (?:port|version|percentage)|count|limit|threshold)\b", re.I
)
_NOW = re.compile(
    r"\b(?:now|nowadays|these days|current(?:ly)?|today|still|any ?more|no longer|final(?:ly)?|ultimately|end(?:ed)? up"
    r"|latest|going forward|in the end|out of the box|by default|after all|settle|eventually)\b",
    re.I,
)
_RULE = re.compile(
    r"\b(?:should (?:we|i|it)|can i|may i|am i|want|prefer|like|ask(?:s|ed)?|allowed|insist\w*|rule|convention|policy"
    r"|style|belong|supposed|expect\w*|wish|demand\w*|tell|told|said|say|which .* did i|do i|did i|who)\b",
    re.I,
)
_AFTER = re.compile(r"\b(?:after(?:wards?)?|next|then|follow(?:ed|ing|s)?|once|since|subsequently|later)\b", re.I)
_BEFORE = re.compile(r"\b(?:before|prior to|until|leading up|preced\w+|ahead of)\b", re.I)
_LAST = re.compile(
    r"\b(?:last|final(?:ly)?|end|clos(?:e|ing)|ended|left|remain\w*|outcome|stand|evening|night|finish\w*|wrap\w*)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class TextTraits:
    """Traits of a passage; each is 0 or 1, so that it can be weighed."""

    is_question: float
    has_time: float
    has_number: float
    has_code: float
    #: The user gives an instruction.
    is_directive: float
    #: Says that something has changed.
    is_change: float
    #: The speaker that a line of a chat names, in lower case; "" for none.
    speaker: str


@dataclass(frozen=True, slots=True)
class QueryIntent:
    """What a question asks for, by its wording; each is 0 or 1."""

    wants_time: float
    wants_number: float
    #: Asks for what is current.
    wants_latest: float
    #: Asks for a rule, a wish or an instruction.
    wants_rule: float
    #: Asks for what came after, before, or last at the time that it names.
    wants_after: float
    wants_before: float
    wants_last: float


def parse_speaker(text: str) -> str:
    """Return the speaker that a line of a chat names, in lower case; "" for none."""
    match = _SPEAKER.match(text)
    return match[1].lower() if match else ""


def text_traits(text: str, *, is_user: bool, intent: QueryIntent) -> TextTraits:
    """Return the traits of a passage. Those that matter only to some questions are 0 for the others."""
    return TextTraits(
        is_question=float(text.endswith("?")),
        has_time=float(intent.wants_time > 0 and bool(_TIME.search(text))),
        has_number=float(intent.wants_number > 0 and bool(_NUMBER.search(text))),
        has_code=float("`" in text or bool(_CODE.search(text))),
        is_directive=float(is_user and bool(_DIRECTIVE.search(text))),
        is_change=float(bool(_CHANGE.search(text.lower()))),
        speaker=parse_speaker(text),
    )


def parse_intent(text: str) -> QueryIntent:
    """Return what a question asks for."""
    wants_after = bool(_AFTER.search(text))
    return QueryIntent(
        wants_time=float(bool(_WHEN.search(text))),
        wants_number=float(bool(_HOW_MANY.search(text))),
        wants_latest=float(bool(_NOW.search(text))),
        wants_rule=float(bool(_RULE.search(text))),
        wants_after=float(wants_after),
        wants_before=float(bool(_BEFORE.search(text)) and not wants_after),
        wants_last=float(bool(_LAST.search(text))),
    )
