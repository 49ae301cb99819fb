"""What a model writes along with a memory: a title for lists, and the questions that the memory answers.

Sessions have titles, too. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice

from engram.system.lazy_regex import lazy_regex
from engram.text.words import QUESTION_STOP_WORDS, is_unspaced

#: Maximum length of a title, in words and in characters.
MAX_TITLE_WORDS, MAX_TITLE_CHARACTERS = 10, 90
#: Maximum number of a memory's questions that are kept, and maximum length of each, in characters.
MAX_QUESTIONS, MAX_QUESTION_CHARACTERS = 2, 160
#: Minimum length of a clause that can be a title by itself, in words.
_MIN_CLAUSE_WORDS = 3
#: Maximum number of characters in a title in a script that does not separate words.
_MAX_UNSPACED_CHARACTERS = 30

#: Where a clause ends: before or after a punctuation mark, or before a word that begins a reason or a contrast.
_CLAUSE_END = lazy_regex(
    r"[.!?](?=\s|$)|[;:](?=\s|$)|,(?=\s)|\s(?=[(\[—–]|- )|[。！？；：，、]|"
    r"\s(?=(?:because|since|so that|instead of|rather than|which|while|although|unless|weil|damit|statt|parce que|car|"
    r"porque|perché)\b)",
    re.IGNORECASE,
)
#: Beginnings of a memory that state its kind or who decided it.
_LABEL = lazy_regex(
    r"(?:dead end|decision|fix|fact|state|preference|(?:the )?user(?:['’]s)? (?:choice|decision|rule|wish))\s*:\s*",
    re.IGNORECASE,
)
#: Sentences in which the local writer states what someone decided, left open or fixed, each with the part that
#: identifies it: "Asked “…” the user chose: Redis" gets its title from the choice, not from its first clause.
_FRAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Chosen", lazy_regex(r"Asked “.+?” the user (?:chose|answered): (?P<named>.+)")),
    ("Plan rejected", lazy_regex(r"The user rejected the plan(?: “(?P<quoted>[^”]+)”)?(?: and said: (?P<named>.+))?")),
    (
        "Plan approved",
        lazy_regex(r"The user (?:approved|changed) the plan(?: “(?P<quoted>[^”]+)”)?[^:“]*(?:: (?P<named>.+))?"),
    ),
    ("Refused", lazy_regex(r"When the user refused .+?, they said: (?P<named>.+)")),
    ("Open", lazy_regex(r"Left open: (?:the user asked “(?P<quoted>[^”]+)”|(?P<named>.+))")),
    ("Mended", lazy_regex(r"`[^`]+` failed: (?P<named>.+)")),
)
#: Courtesies that precede a prompt's request.
_COURTESY = lazy_regex(r"^(?:(?:can|could|would|will) you |please |let['’]?s )+(?=\w)", re.IGNORECASE)
_ADDRESS = lazy_regex(r"<?https?://\S+")
_MARKUP = lazy_regex(r"^(?:[#>*\-+]+\s+|\d+[.)]\s+)+")
_EDGES = ' \t.,;:—–-…。、，；："“”'


def clean_title(given: str) -> str:
    """Return a title that someone wrote, on one line; "" if it is too long to be a title."""
    title = " ".join(given.split()).rstrip(".。 ")
    return title if title and len(title) <= MAX_TITLE_CHARACTERS and len(title.split()) <= MAX_TITLE_WORDS else ""


def title_from(text: str) -> str:
    """Return a title for text that has none: its first clause, or its first words and "…"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # "Implement the following plan:" is less informative than the plan's heading.
    is_lead_in = len(lines) > 1 and lines[0].endswith(":") and lines[1].startswith("#")
    lines = lines[is_lead_in:]
    # An address contains nothing that a person recognises, so it is left out, as is a line that is little else.
    named = (text for line in lines if _is_long_enough(text := _ADDRESS.sub("", line)))
    line = next(named, lines[0] if lines else "")
    line = _LABEL.sub("", " ".join(_MARKUP.sub("", line).split()), count=1)
    for label, frame in _FRAMES:
        parts = framed.groupdict() if (framed := frame.match(line)) else {}
        if told := parts.get("quoted") or parts.get("named"):
            return _first_clause(told, label)
    return _first_clause(line)


def _first_clause(line: str, label: str = "") -> str:
    """Return the first clause of a line, or its first words and "…", preceded by the label if there is one."""
    head = f"{label}: " if label else ""
    line = line.strip(_EDGES) if label else line
    if (asked := _COURTESY.sub("", line)) != line and _is_long_enough(asked):
        line = asked.rstrip("?？")  # A request in the form of a question.
    # A question is kept as a question.
    ends = [end.start() + (end[0] in "?？") for end in _CLAUSE_END.finditer(line)] + [len(line)]
    clauses = [line[:end] for end in ends if _fits(head + line[:end])]
    said = [clause for clause in clauses if _is_long_enough(clause)] or ([line] if _fits(head + line) else [])
    title = said[0] if said else _first_words(line, head)
    title = title if title.endswith("…") else title.strip(_EDGES) or line[:MAX_TITLE_CHARACTERS]
    return head + title if title else ""


def _fits(clause: str) -> bool:
    longest = _MAX_UNSPACED_CHARACTERS if is_unspaced(clause) else MAX_TITLE_CHARACTERS
    return len(clause) <= longest and len(clause.split()) <= MAX_TITLE_WORDS


def _is_long_enough(clause: str) -> bool:
    return is_unspaced(clause) or len(clause.split()) >= _MIN_CLAUSE_WORDS


def _first_words(line: str, head: str) -> str:
    if is_unspaced(line):
        return f"{line[: _MAX_UNSPACED_CHARACTERS - 1]}…"
    words = line.split()[: MAX_TITLE_WORDS - len(head.split())]
    while len(words) > _MIN_CLAUSE_WORDS and words[-1].lower() in QUESTION_STOP_WORDS:
        words.pop()
    text = " ".join(words)[: MAX_TITLE_CHARACTERS - 1 - len(head)].rstrip(_EDGES)
    return f"{text}…" if text else ""


def clean_questions(given: Iterable[str], redact: Callable[[str], str]) -> tuple[str, ...]:
    """Return the questions to keep of those written for a memory, redacted and each on one line.

    Only the first ``MAX_QUESTIONS`` count; anything longer than ``MAX_QUESTION_CHARACTERS`` is not a question.
    """
    asked = (" ".join(redact(question).split()) for question in islice(given, MAX_QUESTIONS))
    return tuple(dict.fromkeys(text for text in asked if 0 < len(text) <= MAX_QUESTION_CHARACTERS))
