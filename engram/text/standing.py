"""Tell a sentence that says something on its own, and for longer, from a fragment and from a report of the moment."""

from __future__ import annotations

import re

from engram.text.statements import sentences

#: Minimum number of words of a sentence that stands alone.
MIN_WORDS = 6
#: Semicolons from which on a sentence is a list of fragments.
MIN_LIST_SEMICOLONS = 2

#: First words that refer to something said before, open a list item, or answer somebody.
_REFERS_BACK = re.compile(
    r"(?:this|that|these|those|it|its|it['’]s|that['’]s|they|their|he|she|which|whose|such|and|but|so|then|thus|therefore|"
    r"also|because|since|however|instead|otherwise|still|with(?:out)? (?:this|that|it)|"
    r"all (?:three|four|of (?:them|these|those))|the (?:rest|others?|former|latter|existing|remaining)|only the|needs?|"
    r"committed|pushed|two|three|both|\d+ (?:files|fixes|changes|issues|tests)|"
    r"the (?:first|second|third|last|former|latter|other|same|rest|bug|issue|problem|fix|solution|rule|reason|test|"
    r"error|changes?|following|above)(?: (?:is|was|are|were|here|needed|made)\b|\s*[:—-])|"
    r"here|there (?:is|are|was|were)|yes|yeah|yep|no,|nope|ok(?:ay)?|sure|right|great|good|perfect|"
    r"now|next|first|second|finally|done|part|step|task|thread|option|phase|item|point|old|new|before|after|"
    r"current state|summary|results?|note|files?|modified|updated|added|changes?|key|missing|#?\d+[.):]|"
    r"\d+ (?:is|was|sounds))\b",
    re.IGNORECASE,
)
#: "Heading — text", "Heading: text", "A. text" and "path: what was done there": an item of a list.
_LABEL = re.compile(r"`[^`]+`(?:\s*\([^)]*\))?\s*(?:[:—–]|-\s)|(?:[^\s.!?`,]+ ){0,5}[^\s.!?`,]+(?::\s| — )|\w\.\s")
#: A question with the answer to it, or who said what.
_DIALOG = re.compile(r"\?\s*→|^asked “|^\s*>|^(?:user|assistant):", re.IGNORECASE)
#: A talk between two, or thinking aloud: it means nothing to a third.
_TALK = re.compile(
    r"\b(?:i|i['’]m|i['’]ve|i['’]d|i['’]ll|we|we['’]re|we['’]ve|me|my|our|us|let['’]s)\b|"
    r"^(?:you|you['’]re|your|can|could|would|should|what|why|how|"
    r"do you|are you|is it|shall|looks? like|seems|the user approved the plan)\b",
    re.IGNORECASE,
)
#: A report of what was just done or is going on.
_OF_THE_MOMENT = re.compile(
    r"\ball (?:\d+|three|four|five|of the) ?(?:\w+ )?(?:findings|tests?|threads|comments|checks|issues|tasks|points)\b"
    r"|\b(?:tests?|checks|suite|build|lint(?:er)?|ci|pipeline)\b[^.;]{0,40}\b"
    r"(?:pass(?:es|ed|ing)?|green|clean|succeed\w*)\b"
    r"|\b\d+ (?:tests?|failures?|errors?|passed|failed)\b|\b(?:addressed|replied to|resolved), |\breplied to\b"
    r"|\b(?:is|are|was|were) (?:now )?(?:done|completed?|finished|addressed|updated and)\b"
    r"|\b(?:(?:is|are) now|was|were|(?:has|have) been) (?:committed|pushed|merged)\b"
    r"|\bready (?:to|for) (?:commit|review|merge|push|test)\w*\b|\bin progress\b"
    r"|\bbackground (?:task|process|agent|command)\b|\b(?:previous|this|last|current) session\b"
    r"|\bright now\b|\bcurrently\b|\bjust (?:now|finished|added|pushed)\b|\bremaining tasks?\b|\bnext steps?\b"
    r"|\b(?:is|are|was|were|keeps?) (?:still )?failing\b"
    r"|\b(?:not|no|never|un)[ -]?(?:been )?commit(?:s|ted)?\b|\bnot pushed\b"
    r"|\bi['’]ll\b|\blet me\b|\bwant me to\b|\bas requested\b|\bper your\b"
    r"|\b(?:up to date|working tree clean|no longer relevant|not relevant anymore)\b|✅|☑|✔",
    re.IGNORECASE,
)


def stands_alone(sentence: str) -> bool:
    """Return True for a whole sentence that a reader understands without what was said before it."""
    text = sentence.strip()
    # Languages without spaces are not counted in words.
    if (text.isascii() and len(text.split()) < MIN_WORDS) or text.endswith(("…", ":", ",", ";", "—", "-", "?")):
        return False
    if (
        "…" in text
        or text.count("`") % 2
        or text.count("(") != text.count(")")
        or text.count(";") >= MIN_LIST_SEMICOLONS
    ):
        return False
    if text[0].islower() or text[0] in "→-•*|>#.,;:)…":
        return False
    return not (_REFERS_BACK.match(text) or _LABEL.match(text) or _DIALOG.search(text) or _TALK.search(text))


def is_of_the_moment(sentence: str) -> bool:
    """Return True for a report of what was just done, which says nothing to a later session."""
    return bool(_OF_THE_MOMENT.search(sentence))


def whole_sentences(summary: str, limit: int) -> str:
    """Return as many sentences from the beginning of a summary as fit into ``limit`` characters; "" if none does."""
    kept = ""
    for sentence in sentences(summary):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > limit or sentence.endswith("…"):
            break
        kept = longer
    return kept


def standing_part(summary: str, limit: int) -> str:
    """Return the sentences from the beginning of a summary that stand alone and fit; "" if the first doesn't.

    Args:
        summary: one line.
        limit: maximum length, in characters. Nothing is cut off within a sentence.
    """
    kept = ""
    for sentence in sentences(summary):
        longer = f"{kept} {sentence}".strip()
        if len(longer) > limit or is_of_the_moment(sentence) or not stands_alone(sentence):
            break
        kept = longer
    return kept
