"""Titles of memories and sessions, the questions that a memory answers, and the labels in its text. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import dropwhile, islice, takewhile

from engram.system.lazy_regex import any_case, lazy_regex
from engram.text.markdown import begins_block
from engram.text.words import QUESTION_STOP_WORDS, is_unspaced

#: Maximum length of a title, in words and in characters.
MAX_TITLE_WORDS, MAX_TITLE_CHARACTERS = 10, 90
#: Maximum number of questions kept for a memory, and maximum length of each, in characters.
MAX_QUESTIONS, MAX_QUESTION_CHARACTERS = 2, 160
#: Minimum length of a clause that can be a title on its own, in words; and if a comma or colon ends it, since what
#: follows is then often what it is about ("Looks like here, …").
_MIN_CLAUSE_WORDS, _MIN_OPEN_CLAUSE_WORDS = 3, 5
#: Maximum length of a title in a script that doesn't separate words, in characters.
_MAX_UNSPACED_CHARACTERS = 30

#: Where a clause ends: before or after a punctuation mark, or before a word that begins a reason or a contrast.
_CLAUSE_END = any_case(
    r"[.!?](?=\s|$)|[;:](?=\s|$)|,(?=\s)|\s(?=[(\[—–]|- )|[。！？；：，、]|"
    r"\s(?=(?:because|since|so that|instead of|rather than|which|while|although|unless|weil|damit|statt|parce que|car|"
    r"porque|perché)\b)"
)
#: The beginning of a memory that states its kind or who decided it.
_LABEL = any_case(
    r"(?:dead end|decision|fix|fact|state|preference|(?:the )?user(?:['’]s)? (?:choice|decision|rule|wish))\s*+:\s*+"
)
#: The forms of sentence in which the local extractor states what someone decided, left open or fixed, and the part that
#: makes a good title: for "Asked “…” the user chose: Redis", the choice rather than the first clause.
_FRAMES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Chosen", lazy_regex(r"Asked “.+?” the user (?:chose|answered): (?P<named>.+)")),
    ("Plan rejected", lazy_regex(r"The user rejected the plan(?: “(?P<quoted>[^”]+)”)?(?: and said: (?P<named>.+))?")),
    (
        "Plan approved",
        lazy_regex(r"The user (?:approved|changed) the plan(?: “(?P<quoted>[^”]+)”)?[^:“]*(?:: (?P<named>.+))?"),
    ),
    ("Refused", lazy_regex(r"When the user refused .+?, they said: (?P<named>.+)")),
    ("Left open", lazy_regex(r"Left open: (?:the user asked “(?P<quoted>[^”]+)”|(?P<named>.+))")),
    ("Fixed", lazy_regex(r"`[^`]+` failed: (?P<named>.+)")),
)
#: A question and its answer. Minimum length of the part of a question that is shown: its first words or, in a script
#: without spaces, characters. Minimum length of the part of an answer, in characters. A shorter part of a question than
#: the last number is not shown at all.
_ANSWERED = lazy_regex(r"Asked “(?P<asked>.+?)” the user (?P<how>chose|answered): ", re.DOTALL)
_MIN_ASKED = lazy_regex(r"(?:\S++\s++){4}\S++")
_MIN_UNSPACED_CHARACTERS, _MIN_ANSWER_CHARACTERS, _MIN_QUESTION_CHARACTERS = 12, 12, 8
#: A sentence of at least 12 characters, which shouldn't end at an abbreviation.
_SENTENCE = lazy_regex(r".{12,}?(?<!e\.g)(?<!i\.e)[.!?](?=\s)|.{12,}?[。！？]", re.DOTALL)
#: Maximum length of a sentence that begins a line, and minimum length of the part of a longer one that ends at a pause.
_MAX_SENTENCE_CHARACTERS, _MIN_HEAD_CHARACTERS = 160, 30
#: What ends a sentence, or a part of one that can stand alone.
SENTENCE_ENDS = ".!?:;。！？"
_PAUSE = lazy_regex(r"[:;](?=\s)")
#: The informative part of the words before a summary's title: a quotation, a command, or all up to the last comma.
_CONTEXT = lazy_regex(r".*”|`.+|.+(?=,)", re.DOTALL)
#: A greeting, the marker of a pasted image, and polite phrases before a request.
_COURTESY = any_case(
    r"^(?:\[Image #\d+\] |(?:hey|hi|hello)(?: claude)?[,!] |(?:can|could|would|will) you |please |let['’]?s |"
    r"i['’]d like (?:you to|your help with) )++(?=\w)"
)
#: A greeting at the beginning of a prompt, with the name of who is greeted.
_GREETING = any_case(
    r"^\s*+(?:hey|hi|hello|hallo|good (?:morning|afternoon|evening))\b(?:,? (?:there|again|claude|all)\b)*+[,.!]*+"
)
_ADDRESS = lazy_regex(r"<?https?://\S+")
_MARKUP = lazy_regex(r"^(?:[#>*•\-+]++\s++|\d++[.)]\s++)++")
_FENCES = ("```", "~~~")
_EDGES = " \t.,;:—–-…。、，；："
_QUOTES = '"“”'
_PAIRS = (("(", ")"), ("[", "]"), ("“", "”"))


def with_short_question(text: str, limit: int) -> str:
    """Return a decision with a shorter question, so that ``limit`` characters show its answer, or how that begins.

    The question keeps its first words, and takes half of the limit if the whole answer does not fit after it. If the
    answer could not even begin, the question is cut further, or left out.
    """
    parts = _ANSWERED.match(text)
    if parts is None or len(text) <= limit:
        return text
    asked, answer = parts["asked"], text[parts.end() :]
    words = _MIN_ASKED.match(asked)
    least = 1 + (words.end() if words else _MIN_UNSPACED_CHARACTERS if is_unspaced(asked) else len(asked))
    room = limit - len(text) + len(asked)
    if room < least:
        room = min(max(limit // 2, least), room + max(len(answer) - _MIN_ANSWER_CHARACTERS, 0))
    if room >= len(asked):
        return text
    if room < _MIN_QUESTION_CHARACTERS:
        return f"The user {text[parts.start('how') :]}"
    word_end = max(asked.rfind(blank, 0, room) for blank in " \n")
    kept = asked[: word_end if word_end > room // 2 else room - 1].rstrip(_EDGES)
    return f"{text[: parts.start('asked')]}{kept}…{text[parts.end('asked') :]}"


def clean_title(given: str) -> str:
    """Return a given title on one line; "" if it is too long."""
    title = " ".join(given.split()).rstrip(".。;；,:： ")
    return title if title and len(title) <= MAX_TITLE_CHARACTERS and len(title.split()) <= MAX_TITLE_WORDS else ""


def title_from(text: str) -> str:
    """Return a title for a text: its first clause, or its first words and "…"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = list(dropwhile(lambda line: line.startswith(_FENCES), lines)) or lines
    # "Implement the following plan:" is less informative than the plan's heading.
    is_lead_in = len(lines) > 1 and lines[0].endswith(":") and lines[1].startswith("#")
    lines = lines[is_lead_in:]
    # URLs are left out, because they make poor titles; so is a line with few other words.
    named = (text for line in lines if _is_long_enough(text := _ADDRESS.sub("", line)))
    line = next(named, lines[0] if lines else "")
    line = _LABEL.sub("", " ".join(_MARKUP.sub("", line).split()), count=1)
    for label, frame in _FRAMES:
        parts = framed.groupdict() if (framed := frame.match(line)) else {}
        if told := parts.get("quoted") or parts.get("named"):
            return _first_clause(told, label)
    return _first_clause(line)


def says_something(prompt: str) -> bool:
    """Return True if a prompt reveals its subject; False for a greeting or a word or two, such as "continue"."""
    return any(_is_long_enough(line) for line in _ADDRESS.sub("", _GREETING.sub("", prompt)).splitlines())


def _first_clause(line: str, label: str = "") -> str:
    """Return the first clause of a line, or its first words and "…", after the label if there is one."""
    head = f"{label}: " if label else ""
    line = _trim(line) if label else line
    asked = _COURTESY.sub("", line)
    is_request = asked != line and _is_long_enough(asked)
    # A clause that ends with a question mark keeps it, unless it is a request in the form of a question.
    line = asked.rstrip("?？") if is_request else line
    found = (end.start() + (end[0] in "?？" and not is_request) for end in _CLAUSE_END.finditer(line))
    ends = [end for end in takewhile(lambda end: end <= MAX_TITLE_CHARACTERS, found) if not is_inside(line, end)]
    clauses = [line[:end] for end in (*ends, len(line)) if _fits(head + line[:end])]
    said = [clause for clause in clauses if _is_whole(clause, line)]
    title = said[0] if said else _first_words(line, head)
    title = title if title.endswith("…") else _trim(title) or line[:MAX_TITLE_CHARACTERS]
    return head + title if title else ""


def _trim(title: str) -> str:
    """Return a title without punctuation and quotes around it, and without an unpaired quote."""
    title = title.strip(_EDGES)
    inner = title.strip(_QUOTES + _EDGES)
    if inner != title and not any(quote in inner for quote in _QUOTES):
        return inner
    is_paired = title.count('"') % 2 == 0 and title.count("“") == title.count("”")
    return title if is_paired else title.translate(dict.fromkeys(map(ord, _QUOTES))).strip(_EDGES)


def _fits(clause: str) -> bool:
    longest = _MAX_UNSPACED_CHARACTERS if is_unspaced(clause) else MAX_TITLE_CHARACTERS
    return len(clause) <= longest and len(clause.split()) <= MAX_TITLE_WORDS


def _is_long_enough(clause: str) -> bool:
    return is_unspaced(clause) or len(clause.split()) >= _MIN_CLAUSE_WORDS


def _is_whole(clause: str, line: str) -> bool:
    """Return True if the first words of a line say enough without the rest of it."""
    if clause == line or is_unspaced(clause):
        return True
    words = clause.split()
    is_open = line[len(clause)] in ",:"
    least = _MIN_OPEN_CLAUSE_WORDS if is_open else _MIN_CLAUSE_WORDS
    return len(words) >= least and not (is_open and words[-1].lower() in QUESTION_STOP_WORDS)


def is_inside(line: str, end: int) -> bool:
    """Return True if ``line[:end]`` ends within quoted code, a quotation or parentheses."""
    return _is_in_code(line, end) or any(
        line.count(opening, 0, end) > line.count(closing, 0, end) and line.find(closing, end) >= 0
        for opening, closing in _PAIRS
    )


def _is_in_code(line: str, end: int) -> bool:
    """Return True if quoted code is cut in two where the first ``end`` characters of a line end."""
    return line.count("`", 0, end) % 2 == 1 and line.find("`", end) >= 0


def _before_code(line: str, end: int) -> str:
    """Return the first ``end`` characters of a line, without quoted code that is cut, if enough words are left."""
    if not _is_in_code(line, end):
        return line[:end]
    start = line.rindex("`", 0, end)
    before = line[:start]
    return before if len(before.split()) >= _MIN_CLAUSE_WORDS else before + line[start + 1 : end]


def _first_words(line: str, head: str) -> str:
    if is_unspaced(line):
        return f"{_before_code(line, _MAX_UNSPACED_CHARACTERS - 1)}…"
    words = line.split()[: MAX_TITLE_WORDS - len(head.split())]
    length = len(" ".join(words)[: MAX_TITLE_CHARACTERS - 1 - len(head)])
    words = _before_code(line, length).split()
    while len(words) > _MIN_CLAUSE_WORDS and words[-1].lower() in QUESTION_STOP_WORDS:
        words.pop()
    text = _trim(" ".join(words))
    return f"{text}…" if text else ""


def clean_questions(given: Iterable[str], redact: Callable[[str], str]) -> tuple[str, ...]:
    """Redact the questions written for a memory and return those to keep, each on one line.

    Only the first ``MAX_QUESTIONS`` are considered; those longer than ``MAX_QUESTION_CHARACTERS`` are dropped.
    """
    asked = (" ".join(redact(question).split()) for question in islice(given, MAX_QUESTIONS))
    return tuple(dict.fromkeys(text for text in asked if 0 < len(text) <= MAX_QUESTION_CHARACTERS))


# -- The labels before the parts of a memory's text.

#: Label before a part of a memory's text, set by the local extractor → its meaning, in words.
LABELS: Mapping[str, str] = {
    "also": "Also said",
    "asked": "Asked",
    "before it": "Before that",
    "proposed by the assistant": "Claude proposed",
    "the user": "The user",
    "todo list": "To do",
}
#: Such a label at the beginning of a line, with the space or the line break after it.
LABEL = lazy_regex(rf"^\[({'|'.join(LABELS)})\][ \n]?", re.MULTILINE)


def first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence of a text and the rest.

    A sentence that is too long is cut at a colon or semicolon; without one, both texts are empty.
    """
    found = _SENTENCE.match(text)
    end = found.end() if found else len(text)
    if end > _MAX_SENTENCE_CHARACTERS:
        # Cut at a pause, so that code stays intact.
        pauses = [pause.end() for pause in _PAUSE.finditer(text, 0, _MAX_SENTENCE_CHARACTERS)]
        end = pauses[-1] if pauses and pauses[-1] >= _MIN_HEAD_CHARACTERS else 0
    return text[:end].strip().rstrip(".:;"), text[end:].strip() if end else ""


def headline(summary: str, given: str = "") -> tuple[str, str]:
    """Return a memory's line in a list: its title, given or taken from its summary, and the text that follows."""
    title = given or title_from(summary)
    named = title.rstrip("…")
    if not named:
        return summary, ""  # nothing but a label, such as "Fix:"
    is_cut = named != title or (named in summary and summary.partition(named)[2][:1] not in SENTENCE_ENDS)
    if is_cut and not given:
        # Divide the line at the end of its first sentence instead, if that is short enough.
        head, _ = first_sentence(summary)
        is_better = summary.startswith(head) and len(head) > len(named) and not is_inside(summary, len(head))
        named = head if is_better else named
    at = -1 if given else summary.find(named)
    _, _, told = named.partition(": ")
    if at < 0 and not given and told and told in summary:
        # The title is a label and a part of the summary, which needn't be repeated. The words before that part are
        # shown only if they say more than the label: the question, the command, or what was refused.
        before, _, after = summary.partition(told)
        context = _CONTEXT.match(before.rstrip('“": '))
        rest = [context[0] if context else "", _with_quotes_closed(after)]
        return title, f" – {'. '.join(filter(None, rest))}" if any(rest) else ""
    # A title taken from the summary may omit the summary's first word, the name of a kind.
    return (title, f" – {summary}") if at < 0 else (summary[: at + len(named)], summary[at + len(named) :])


def _with_quotes_closed(rest: str) -> str:
    """Return what follows a title that may be cut from a quotation: its first words are then quoted, too."""
    is_within = rest.find("”") >= 0 and not 0 <= rest.find("“") < rest.find("”")
    within, _, after = rest.partition("”")
    if is_within and within.strip(_QUOTES + _EDGES):
        return f"“{within.strip(_EDGES)}”{after}".rstrip(_EDGES)
    return rest.strip(_QUOTES + _EDGES)


def labelled_parts(content: str) -> list[tuple[str, str]]:
    """Return the parts of the text of a memory, each with its label; the first part has none and may be empty."""
    parts = LABEL.split(content)
    return [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]


def in_words(content: str, kept_of: Callable[[str], str] = str) -> str:
    """Return the text of a memory with its labels in words.

    Args:
        kept_of: returns what to keep of a part; a part with nothing left loses its label, too.
    """
    told = []
    for label, part in labelled_parts(content):
        kept = kept_of(part).strip("\n")
        if label and kept.strip():
            kept = f"{LABELS[label]}:{chr(10) if begins_block(kept) else ' '}{kept}"
        told.append(kept)
    return "\n".join(text for text in told if text.strip())
