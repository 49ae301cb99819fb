"""Find the parts of sentences that may be secrets.

These are words that look like a value, short numbers, quoted words, words after a symbol or a verb, and lines on their
own.
"""

from __future__ import annotations

from typing import NamedTuple

from engram.redaction.values import has_digit, has_plain_shape, is_placeholder, is_state, is_technical, total_bits
from engram.system.lazy_regex import lazy_regex

#: Characters of Japanese and Chinese, which are not separated by spaces.
CJK = "\u3040-\u30ff\u3400-\u9fff\uff01-\uffef"
#: The closing marks for each opening quotation mark.
_QUOTES = {"„": "“”", "“": "”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "「": "」", "『": "』"}
_QUOTES |= {sign: sign for sign in "\"'`"}
_QUOTE = lazy_regex("[" + "".join(_QUOTES) + "]")
_TOKEN_SIGN = rf"[^\s\"`<>„“”«»()\[\]{{}}|…‘’\u3001\u3002{CJK}]"
_TOKEN = lazy_regex(rf"(?<!{_TOKEN_SIGN}){_TOKEN_SIGN}{{3,64}}+(?!{_TOKEN_SIGN})")
_NUMBER = lazy_regex(
    rf"(?:(?<=[{CJK}])|(?<![\w.,:/#+$€£%@=~-])(?<!\d[ ]))"
    r"(?:\d(?:[ -]\d){2,7}|\d{2}(?:[ -]\d\d){1,3}|\d{3,5}(?:[ -]\d{3,5}){1,2}|\d{3,8})"
    rf"(?:(?=[{CJK}])|(?![\w%€$°]|[.,:/-]\d|[ -]\d|[ ]{{1,4}}[.~]?/\w|"
    r"[ ]?(?:ms|kb|mb|gb|px|kg|eur|usd|chars|tokens|lines)\b))"
)
#: Text before a passphrase, or before a password that is a plain word.
_INTRODUCTION = lazy_regex(
    r"(?:：|[→—–]|->|[:=,](?=[ \t]))[ \t]{0,3}|"
    r"(?<!\w)(?:is|was|it['’]s|its|that['’]s|are|ist|war|wars|wär|lautet|heißt|heißts|heisst|est|c['’]est|sera|es|era|"
    r"será|é|è|jest|to|это|был|стоит|be|say|says|put|type|use|enter|get|need|needs|serve|metti|mets|pon|poner|digita|zeg|"
    r"gilt|gelte|galt|with|mit|con|com|avec|met|z|auf|als|as|like|phrase|frase|phrases|zin|fraza|фраз[ау]|слову|словом)"
    r"[ \t]{1,2}:?[ \t]?"
)
_CLAUSE_END = lazy_regex(r"[.,:](?!\d)|[;!?()\n\"“”„«»…。、，]|[ ](?:-|–|—)[ ]")
#: A digit, or a symbol or upper-case letter inside a word.
_SHAPED = lazy_regex(r"\d|[!@#$%^&*+=~?][^!?]|[^\W_][A-ZÄÖÜ_.-][^\W_]|_$")
#: Links, paths, addresses, options, variables, calls, file names, positions in files, hashes, and counts.
_ELSE = lazy_regex(
    r"(?i).*?(?:://|\\\\|/[^/]*/|\\[nrt\"]|(?-i:\^[\[A-Z])(?!\w)|\[\d)|[~.]{0,2}/|[A-Z]:\\|www\.|--?[a-z]|[$<&\\]|(?-i:[A-Z_]{2,})=|#\d|"
    r"@[\w/-]+$|[\w.+-]{1,40}@[\w-]+\.[\w.]+$|(?-i:.*\.(?:[a-z]\w{1,4}|[A-Z]{2,5}))(?::\d.*)?$|[\w./-]+:\d+(?:-\d+)?$|"
    r"[0-9a-f]{8}-[0-9a-f]{4}-|(?=[a-f]*\d)[0-9a-f]{7,10}$|(?=\d*[a-f])[0-9a-f]{7,10}$|[0-9a-f]{12}$|[0-9a-f]{16,}$|sha\d+:|"
    r"(?-i:[A-Z]{2,6})-\d+(?:-\d+)*$|\d+;\w{0,3}$|\d+(?:;\d+)+m.*|(?:[0-9a-f]{2}:){3,}[0-9a-f]{2}$|(?-i:[A-Z]{2,4})\d{5,}(?:-\d+)*$|(?:19|20)\d\d-\d+$|\d{8}[_-]\d+$|\w+=\S*$|"
    r"(?-i:[A-Za-z][\w.-]*/[A-Za-z][\w.-]*|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]{1,9}[-_][0-9a-f]{8,17})$|"
    r"(?-i:[a-z]{1,4}_\d{1,6}|[a-z]{2,20}(?:_[a-z]{2,20}){1,4}\?|#[A-Za-z]+|0x[0-9A-Fa-f]+)$|.*[-_]$|"
    r"(?-i:[a-z][a-z\d_./-]{0,60}:v?\d{1,4}\.\d[\w.-]{0,40})$|"
    r"1password$|(?:ctrl|strg|alt|shift|cmd|meta|win)[+-]|[a-z_.]\w*\(|[\w.-]+=\S*$|[a-z]+-[a-z]+\.\d{1,2}$|"
    r"[\^~]?v?\d+(?:\.\d+)+$|[a-z]+-\d\.\d$|.*/\d+$|.*\d(?:;\d+)+$|\d+µ?s$|~[a-z]+$|.*\.\.|"
    r"[MLl]\d+ |(?-i:[A-Z]+)[!?]+$|"
    r"(?:.*[._])?(?:pass(?:word|wd)?|pwd?|token|secret|key)(?:_\w{2,8})?s?\d?$|"
    r"[0-9a-f]{7,12}\.{2,3}[0-9a-f]{7,12}$|"
    r"\d{1,4}[-./:]\d{1,2}(?:[-./:]\d{1,4})?(?:T.*)?$|v?\d+(?:\.\d+)+|[\d.,]+(?:st|nd|rd|th|ms|s|m|h|d|k|kb|mb|gb|x|px|%|°|km|kg|cm"
    r"|mm|min|x\d+|e|er|o|a)?$|[~+-]\d|\d+[/-]\d+$|\d+(?:->|→|-\w)"
)
#: A name in code: `snake_case2`, `a.b.c`, `camelCase`, `CONSTANT_2`.
_CODE_SIGNS = lazy_regex(r"[{}()=<>\\|$\[\]]|;(?=\s|$)|^\s{0,16}(?:[+-]\s|//|#!|\$ )")
#: A command, with its output below.
_PROMPT = lazy_regex(r"[^\n]{0,40}[$#%❯➜] [a-z]")
#: The number of a line, as tools print it.
_LINE_NUMBER = lazy_regex(r"[ \t]{0,8}\d{1,6}(?:[→\t|]|[:-](?![\d-]))[ \t]{0,40}")
#: A line that sets a value: indented, with a name in quotation marks, or with a name as in programs.
_SETTING = lazy_regex(
    r"[ \t]{1,40}(?:- )?[\w.-]{2,40}[ \t]?[:=](?:[ \t]|$)|[ \t]{0,40}[\"'][\w.-]{1,60}[\"'][ \t]?:|"
    r"[ \t]{0,40}[\w.-]{1,40}=|[ \t]{0,40}[A-Za-z_][\w.]{0,40}[ \t]=[ \t]|"
    r"[ \t]{0,40}(?=[a-z]\w{0,40}[A-Z_.])[A-Za-z][\w.]{0,60}[ \t]?[:=](?:[ \t]|$)"
)
#: A line of a log, of a table, or of values separated by commas or tabs.
_RECORD = lazy_regex(
    r"[^\n]{0,40}(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d)|"
    r"[^\n]{0,60}(?:\b[a-z][\w.-]{1,30}\[\d{1,7}\]:|\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b)|"
    rf"[^\s,;{CJK}]+(?:[,;][^\s,;{CJK}]*){{2,40}}\s*$|"
    r"[ \t]{0,16}[|│+├└]|[^\t\n]{1,80}\t[^\t\n]{1,80}\t|"
    r"[^\n|]{0,200}[ ]\|[ ]|[^\n]{0,200}[A-Za-z_]\([^\n]{0,200}[),;:{]\s*$|"
    r"[^\n]{0,80}\S[ ]{2,40}\S[^\n]{0,80}\S[ ]{2,40}\S"
)
#: The beginning of a list item or heading, which as a whole is not a secret.
_POINT = lazy_regex(r"[ \t]{0,16}(?:\d{1,3}[.):]|[-*+•#○●·✓✔✗☐☒]{1,6})[ \t]")
#: Markdown marks, and calls and literals in code.
_MARKED = lazy_regex(r"\]\(|\*\*|[A-Za-z_]\(|\([\"']|[\"'][)\]]|[;{]\s*\Z|[ ]-{1,2}>")
#: A line that is wrapped within a sentence, as in files but not in messages.
_WRAPPED = lazy_regex(r"(?m)^[^\n]{45,160}?[\w,]\n[ \t]{0,16}(?:[#*/>]{1,3} )?[a-z(]")
#: A line is code if it contains more than the first number of code symbols, and at least one in the second number of
#: characters.
_FEW, _OFTEN = 2, 25
#: Maximum length of a line, of a phrase (in characters and in words) and of a random word; other rules judge longer
#: ones.
_LONGEST_LINE, _LONGEST_PHRASE, _MOST_WORDS, _LONGEST_WORD = 2_000, 80, 9, 32
_TRIMMED = " \t*.,;:’'"
#: A number that belongs to the preceding word: "blue-Tiger 88".
_PAIRED = lazy_regex(r" (\d{1,4})(?![\w%:/-]|[.,]\d| (?:%|ms|px|mb|gb|kb))")


#: Text that no phrase contains.
_NO_PHRASE = lazy_regex(r"[/(=\\{}<>\[\]]|:\s")


def is_cjk(char: str) -> bool:
    """Return True for one of the characters in ``CJK``. It is asked about few, so no expression is compiled for it."""
    return char >= CJK[0] and any(first <= char <= last for first, last in zip(CJK[::3], CJK[2::3], strict=True))


class Candidate(NamedTuple):
    """A part of a text that may be a secret."""

    start: int
    end: int
    #: The quotation mark before it; "" for none.
    quote: str
    #: How it was found: quoted, word, pair, number, behind, line.
    how: str


def is_code(line: str) -> bool:
    """Return True if a line reads like code, configuration, a log or a table, which other rules judge."""
    signs = len(_CODE_SIGNS.findall(line))
    return (signs > _FEW and signs * _OFTEN > len(line)) or any(form.match(line) for form in (_SETTING, _RECORD))


def is_wrapped(text: str, first: int, last: int) -> bool:
    """Return True if some lines are wrapped within a sentence."""
    return _WRAPPED.search(text, first, last) is not None


def is_document(line: str) -> bool:
    """Return True if a line is from a document or a program: a list item, a call, or a line with Markdown marks."""
    return _POINT.match(line) is not None or _MARKED.search(line) is not None or line.count("`") > 2


def candidates(text: str, low: str, first: int, last: int) -> list[Candidate]:
    """Return the parts of ``text[first:last]`` that may be secrets, in order.

    Args:
        low: the same text in lower case, of the same length.
    """
    found: dict[tuple[int, int], Candidate] = {}
    at = first
    while at < last:
        stop = text.find("\n", at, last)
        stop = stop if stop >= 0 else last
        is_printed = bool(_PROMPT.match(text, text.rfind("\n", first, max(first, at - 1)) + 1 or first))
        numbered = _LINE_NUMBER.match(text, at, stop)
        at = numbered.end() if numbered else at
        is_other = is_code(text[at:stop]) or (is_printed and " " not in text[at:stop].strip())
        if stop - at <= _LONGEST_LINE and not is_other:
            for candidate in (*_quoted(text, at, stop), *_words(text, at, stop), *_phrases(text, low, at, stop)):
                start, end = candidate.start, candidate.end
                while start < end and text[start] in _TRIMMED:
                    start += 1
                while end > start and text[end - 1] in _TRIMMED:
                    end -= 1
                if end - start >= 3 and "[secret:" not in text[start:end] and "[opaque:" not in text[start:end]:
                    found.setdefault((start, end), candidate._replace(start=start, end=end))
        at = stop + 1
    return [found[place] for place in sorted(found)]


def _quoted(text: str, at: int, stop: int) -> list[Candidate]:
    found = []
    place = at
    while opening := _QUOTE.search(text, place, stop):
        sign, place = opening.group(), opening.end()
        if sign == "'" and opening.start() > at and text[opening.start() - 1].isalnum():
            continue
        ends = [end for closing in _QUOTES[sign] if (end := _closing(text, closing, place, stop)) >= 0]
        if ends:
            if _is_phrase(text[place : min(ends)]):
                found.append(Candidate(place, min(ends), sign, "quoted"))
            if sign in "\"'`":
                place = min(ends) + 1
    return found


def _closing(text: str, sign: str, at: int, stop: int) -> int:
    """Return the end of a quotation; an apostrophe inside a word does not end it."""
    end = text.find(sign, at, stop)
    while sign == "'" and end >= 0 and text[end + 1 : end + 2].isalnum():
        end = text.find(sign, end + 1, stop)
    return end


def _words(text: str, at: int, stop: int) -> list[Candidate]:
    found = []
    for match in _TOKEN.finditer(text, at, stop):
        start, end = match.span()
        while start < end and text[start] in ".,;:*'!-?→":
            start += 1
        while end > start and text[end - 1] in ".,;:*'":
            end -= 1
        value = text[start:end]
        bare = value[:-1] if value[-1:] in "!?" else value
        if len(value) < 4 or bare.isdigit() or not _SHAPED.search(value) or is_harmless(value):
            continue
        quote = text[start - 1] if start > at and text[start - 1] in _QUOTES else ""
        found.append(Candidate(start, end, quote, "word"))
        if paired := _PAIRED.match(text, end, stop):
            found.append(Candidate(start, paired.end(1), quote, "pair"))
        if value[-1] in "!?":
            found.append(Candidate(start, end - 1, quote, "word"))
    for match in _NUMBER.finditer(text, at, stop):
        quote = text[match.start() - 1] if match.start() > at and text[match.start() - 1] in _QUOTES else ""
        found.append(Candidate(*match.span(), quote, "number"))
    return found


def _phrases(text: str, low: str, at: int, stop: int) -> list[Candidate]:
    found = []
    for match in _INTRODUCTION.finditer(low, at, stop):
        end = _CLAUSE_END.search(text, match.end(), stop)
        last = end.start() if end else stop
        if text[match.end() : match.end() + 1] not in _QUOTES and _is_phrase(text[match.end() : last]):
            found.append(Candidate(match.end(), last, "", "behind"))
    is_alone = not _POINT.match(text, at) and (" " in text[at:stop].strip() or _SHAPED.search(text, at, stop))
    if is_alone and _is_phrase(text[at:stop]):
        found.append(Candidate(at, stop, "", "line"))
    return found


def _is_phrase(value: str) -> bool:
    """Return True if a few words may be a secret."""
    if not 4 <= len(value) <= _LONGEST_PHRASE:
        return False
    words = value.split()
    if len(words) == 1:
        return not is_harmless(words[0])
    if not 1 < len(words) <= _MOST_WORDS or is_placeholder(value):
        return False
    return all(word[0].isalnum() for word in words) and not _NO_PHRASE.search(value)


def is_harmless(value: str) -> bool:
    """Return True if a word is never a secret, regardless of its context."""
    return bool(
        (len(value) > _LONGEST_WORD and total_bits(value) < 0)
        or is_placeholder(value)
        or has_plain_shape(value)
        or is_technical(value)
        or _ELSE.match(value)
        or is_state(value)
    )


def group_of(value: str) -> str:
    """Return the kind of value: number, pair, phrase, signed, mixed, joined, camel or word."""
    if not any(c.isalpha() for c in value) and not any(c in "!@#$%^&*+=~?_." for c in value):
        return "number"
    number = "0" if has_digit(value) else ""
    if " " in value:
        return "pair" if value.count(" ") == 1 and value.rpartition(" ")[2].isdigit() else "phrase" + number
    if any(c in "!@#$%^&*+=~?" for c in value):
        return "signed"
    if any(c in "-_." for c in value):
        return "joined" + number
    if number:
        return "mixed"
    return "word" if value.islower() or value.istitle() or value.isupper() else "camel"
