"""Find secrets in lists and tables: series of recovery codes, and columns of passwords and keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from engram.redaction.told_cues import FUNCTION_WORDS, cues_in, kind_of
from engram.redaction.values import (
    Gate,
    Span,
    has_digit,
    has_plain_shape,
    has_sign,
    is_expression,
    is_placeholder,
    is_scrambled,
    is_state,
    is_technical,
    matches,
    starts_of,
    total_bits,
)
from engram.system.lazy_regex import lazy_regex

_RECOVERY = lazy_regex(
    r"(?:(?:recovery|back-?up|scratch|emergency|rescue|2fa|one-time|single-use)[ -]codes|"
    r"(?:wiederherstellungs|notfall|einmal|ersatz|herstel)-?codes|"
    r"codes de (?:récupération|secours)|c[óo]digos de (?:recuperaci[óo]n|respaldo|recupera[çc][ãa]o|backup|emergencia)|"
    r"codici di (?:recupero|backup|emergenza|riserva)|kody (?:zapasowe|odzyskiwania|jednorazowe)|"
    r"(?:резервные|запасные|аварийные) коды|коды (?:восстановления|доступа)|"
    r"(?:リカバリー|バックアップ|復旧|回復)コード|(?:恢复|恢復|备用|備用|备份|救援)代?[码碼])"
)
_CODES = Gate("codes", "códigos", "codigos", "codici", "kody", "коды", "コード", "码", "碼")
#: The beginnings of all names for lists of recovery codes.
_RECOVERY_BEGINNINGS = (
    *("recovery", "back", "scratch", "emergency", "rescue", "2fa", "one-time", "single-use", "wiederherstellung"),
    *("notfall", "einmal", "ersatz", "herstel", "codes de", "código", "codigo", "codici", "kody", "резерв", "запас"),
    *("аварий", "коды", "リカバリー", "バックアップ", "復旧", "回復", "恢复", "恢復", "备用", "備用", "备份", "救援"),
)
_RECOVERY_HEAD = lazy_regex(
    r"[^\n:：]{0,60}?(?:[:：]|[ \t](?:are|sind|lauten|sont|son|sono|são|zijn|to|są)[ \t]|[は是]|\n)"
)
_RECOVERY_GAP = lazy_regex(
    r"(?:[\s,;|*•·\-–\"'`()\[\]、，]|\d{1,2}[.):](?=\s)|(?:and|und|et|y|e|en|i|и|和|と)(?=\s)){0,24}+"
)
_RECOVERY_CODE = lazy_regex(
    r"(?=[a-z-]{0,24}\d)[a-z0-9]{3,12}(?:-[a-z0-9]{3,12}){0,5}(?![\w/])|[a-z]{4,6}(?:-[a-z]{4,6}){1,5}(?![\w/-])"
)
#: The line below the headings of a table, as drawn by Markdown and database shells.
_TABLE_RULE = lazy_regex(
    r"\n[ \t]{0,8}[|+]?[ \t]{0,8}:?-{2,60}+:?[ \t]{0,60}+"
    r"(?:[|+][ \t]{0,8}:?-{2,60}+:?[ \t]{0,60}+){1,40}+[|+]?[ \t]{0,8}(?=\n)"
)
#: Meanings of words in column headings: secrets that people choose, and secrets that are issued to them.
_CHOSEN, _ISSUED = frozenset({"password", "phrase", "pin"}), frozenset({"key"})
#: Text after such a word; words that there mean no secret ("") or an issued one; and text before a word that makes it
#: mean a secret after all.
_HEADING_END = lazy_regex(
    r"(?: (?:(?:d['’]|de |di |da |do )?(?:api|acc[èe]s|acesso|acceso|accesso|dostępu)|code|nummer|kod))?"
    r"(?: ?\([^)]{0,20}\))?[*_`\" ]{0,8}"
)
_LESS = {"key": "", "keys": "", "キー": "", "identifiant": "", "identifiants": "", "clave": "key", "claves": "key"}
_KEY_OF = lazy_regex(r"(?:api|access|secret)[ _-]$")
#: The form of other headings, and cells separated by several spaces.
_HEADING_CELLS = {
    "\t": lazy_regex(r"[\w .#/()-]{0,32}"),
    "  ": lazy_regex(r"[\w.#/()-]{1,24}(?: [\w.#/()-]{1,24})?"),
    ",": lazy_regex(r"\"?[\w.#/-]{1,24}(?:[ _][\w()]{1,16})?\"?"),
    ";": lazy_regex(r"\"?[\w.#/-]{1,24}(?:[ _][\w()]{1,16})?\"?"),
}
#: Words that say in a cell what became of a password.
_SAYS = lazy_regex(
    r"(?i)(?:inherit|disable|enable|unchange|change|unknown|rotat|deprecat|expir|revok|reset|remove|delete|manage|stored|share|"
    r"geerbt|vererb|deaktiv|aktiv|unverändert|geändert|unbekannt|gesperrt|gelöscht|entfernt|gleich|"
    r"hérit|désactiv|inchang|inconn|supprim|heredad|desactiv|sin cambi|desconoc|ereditat|disattiv|disabilit|invariat|"
    r"sconosciut|herdad|desativ|inalterad|desconhec|overgeërfd|uitgeschakeld|ongewijzigd|onbekend|dziedzicz|wyłącz|"
    r"nieznan|bez zmian|отключ|неизвест|унаслед)"
)
#: Text that looks like code or contains no letter.
_LIKE_CODE = lazy_regex(r"\W+|#?\d{1,3}\.?|.*(?:[()\[\]\\]|::|->|//|@\w{1,64}+\.).*")
#: Names in code, which are often followed by words such as "key" and "token".
_IDENTIFIER = lazy_regex(r"[a-zäöü]{1,64}+\d{0,3}[._/][a-z_]{1,64}+\d{0,2}")
_JOINED_CELL = lazy_regex(r"[^\W_]{2,24}(?:[._-][^\W_]{2,24}){1,4}")
_ALIGNED = lazy_regex(r"\S++(?: \S++)*+")
#: The line of dashes below such headings.
_DASHES = lazy_regex(r"[ \t]{0,8}[-=]{2,60}+(?:[ \t]{1,8}[-=]{2,60}+){1,40}+[ \t]{0,8}\n")
#: Text before and after a code on a line of its own.
_BEFORE_ITEM = lazy_regex(r"[ \t]{0,16}(?:(?:[-*+•·]|\d{1,2}[.):])[ \t]{0,4})?[\"'`]?")
_POINT = lazy_regex(r"[ \t]{0,16}(?:[-*+•·]|\d{1,2}[.):])[ \t]")
_AFTER_ITEM = lazy_regex(r"[\"'`]?[ \t]{0,4}[.,;]?[ \t]{0,4}(?:[(（#][^\n]{0,60})?(?=\n|\Z)")
#: Lengths of such a code; maximum length of a line, and maximum number of lines to read before and after it.
_ITEM_SIZES, _ITEM_LINE, _ITEM_LINES = range(6, 33), 120, 32
#: Maximum length of a line with such headings, in characters.
_HEADINGS_LINE = 240
#: Maximum length of a line in a table, in characters, and maximum number of rows to read.
_TABLE_LINE = 2_000
_TABLE_ROWS = 400


def listed_spans(text: str, low: str, held: int, named: Iterable[int]) -> Iterator[Span]:
    """Yield the spans of secrets in lists and tables.

    Args:
        text: the text.
        low: the same text in lower case, of the same length.
        held: the literals that the text may contain, in the form that ``Gate`` expects.
        named: the positions of words that may name or introduce a secret.
    """
    if _CODES.is_open(low, held):
        for head in matches(starts_of(_RECOVERY_BEGINNINGS, low), _RECOVERY, low):
            yield from _recovery_codes(low, head.end())
    if "\n" not in text:
        return
    if "|" in text and "--" in text:
        for rule in _TABLE_RULE.finditer(text):
            begin = low.rfind("\n", max(0, rule.start() - _TABLE_LINE), rule.start()) + 1
            yield from _rows(text, _columns(low, begin, rule.start(), "|"), rule.end() + 1, "|")[0]
    yield from _plain_tables(text, low, sorted(named))


def _recovery_codes(low: str, at: int) -> Iterator[Span]:
    """Yield the codes in a list that begins after its name: at least two, each with a digit or in groups."""
    head = _RECOVERY_HEAD.match(low, at)
    if not head:
        return
    at = head.end()
    found: list[Span] = []
    while len(found) < 64:
        gap = _RECOVERY_GAP.match(low, at)
        code = _RECOVERY_CODE.match(low, gap.end() if gap else at)
        if not code:
            break
        found.append(Span(code.start(), code.end(), "code"))
        at = code.end()
    if len(found) >= 2 and all(len(low[s.start : s.end]) >= 4 for s in found[:2]):
        yield from found


def _plain_tables(text: str, low: str, names: list[int]) -> Iterator[Span]:
    """Yield the passwords in tables with cells that are separated by tabs, commas, semicolons or several spaces."""
    done = 0
    for name in names:
        if name < done:
            continue
        line = low.rfind("\n", max(0, name - _HEADINGS_LINE), name) + 1
        stop = low.find("\n", name, name + _HEADINGS_LINE)
        if line < done or stop < 0 or (not line and name > _HEADINGS_LINE):
            continue
        done = stop
        sign = next((sign for sign in ("\t", ";", ",", "  ") if sign in low[line:stop].strip()), "")
        columns = _columns(low, line, stop, sign) if sign else {}
        if columns and all(_HEADING_CELLS[sign].fullmatch(low[a:b]) for a, b in _cells(low, line, stop, sign)):
            dashes = _DASHES.match(text, stop + 1)
            first = dashes.end() if dashes else stop + 1
            found, done = _rows(text, columns, first, sign, len(_cells(low, line, stop, sign)))
            yield from found


def _columns(low: str, first: int, last: int, sign: str) -> dict[int, bool]:
    """Return which columns of a table contain secrets, judging by their headings, and whether people choose them."""
    return {
        number: kind in _CHOSEN
        for number, (begin, end) in enumerate(_cells(low, first, last, sign))
        if end - begin <= 60 and (kind := _kind_of_heading(low, begin, end))
    }


def _kind_of_heading(low: str, first: int, last: int) -> str:
    """Return what the last meaningful word of a heading means, if it names a secret; otherwise ""."""
    for cue in reversed(cues_in(low, first, last)):
        if cue.kind in _CHOSEN or cue.kind in _ISSUED:
            kind = cue.kind if _KEY_OF.search(low, first, cue.start) else _LESS.get(low[cue.start : cue.end], cue.kind)
            return kind if _HEADING_END.fullmatch(low, cue.end, last) else ""
    return ""


def _rows(text: str, columns: dict[int, bool], at: int, sign: str, size: int = 0) -> tuple[list[Span], int]:
    """Return the secrets in a table's rows from ``at`` on, and where the rows end.

    Each row must have ``size`` cells, unless that is 0. If most cells below a password's name are secrets, single words
    there are, too; for words in lower case, which may be remarks, far more of the cells must be.
    """
    found: list[Span] = []
    others: list[Span] = []
    for _ in range(_TABLE_ROWS if columns else 0):
        stop = text.find("\n", at, at + _TABLE_LINE)
        stop = stop if stop >= 0 else min(len(text), at + _TABLE_LINE)
        cells = _cells(text, at, stop, sign)
        if len(cells) < 2 or (size and len(cells) != size) or (sign == "|" and _begins_table(text, stop)):
            break
        for number, is_chosen in columns.items():
            if number < len(cells):
                first, last = cells[number]
                is_marked = first < last and text[first] in '`"'
                first, last = (first + 1, last - 1) if is_marked and last - first > 2 else (first, last)
                value = text[first:last]
                if _is_secret(value, is_chosen=is_chosen, is_quoted=is_marked) or (is_chosen and _is_cell(value)):
                    found.append(Span(first, last, "password" if is_chosen else "token"))
                elif first < last and is_chosen:
                    others.append(Span(first, last, "password"))
        at = stop + 1
    size, least = len(found), len(others)
    for cell in others:
        value = text[cell.start : cell.end]
        if (size > 2 * least if value.islower() else size >= least) and _is_word(value):
            found.append(cell)
    return found, at


def _is_word(value: str) -> bool:
    """Return True if a cell between passwords is one word that says nothing about a password."""
    low = value.lower()
    return (
        len(value) >= 5
        and all(piece.isalnum() for piece in low.split("-"))
        and not (is_placeholder(value) or has_plain_shape(value) or is_state(value) or _SAYS.match(value))
        and not (low in FUNCTION_WORDS or kind_of(low))
    )


def alike_spans(text: str, spans: Sequence[Span], kinds: Collection[str]) -> Iterator[Span]:
    """Yield the codes on lines of their own next to a line with a secret of the same form, as in recovery codes.

    Each must have a digit, like the secret, or be random next to one that has; a single one must resemble the secret.

    Args:
        spans: the secrets that were found.
        kinds: the kinds of those that may be in such a list.
    """
    for span in spans:
        value = text[span.start : span.end]
        if span.kind not in kinds or len(value) not in _ITEM_SIZES or not has_digit(value):
            continue
        first = text.rfind("\n", 0, span.start) + 1
        if not _BEFORE_ITEM.fullmatch(text, first, span.start) or not _AFTER_ITEM.match(text, span.end):
            continue
        sign = r"[^\W_]" if any(map(str.isalpha, value)) else r"\d"
        form = re.compile("".join(sign if c.isalnum() else re.escape(c) for c in value))
        found: list[tuple[int, int]] = []
        for step in (-1, 1):
            for begin in _lines_from(text, first, step):
                before = _BEFORE_ITEM.match(text, begin)
                code = form.match(text, before.end()) if before else None
                if not code or not _AFTER_ITEM.match(text, code.end()):
                    break
                found.append(code.span())
        numbered = sum(has_digit(text[begin:end]) for begin, end in found)
        for begin, end in found:
            other = text[begin:end]
            is_like = has_digit(other) and (numbered > 1 or _is_alike(value, other))
            if is_like or (numbered and total_bits(other) < 0):
                yield Span(begin, end, span.kind)


def _is_alike(value: str, other: str) -> bool:
    """Return True if most characters of two codes of the same length are of the same class."""
    return 2 * sum(_class_of(a) == _class_of(b) for a, b in zip(value, other, strict=True)) > len(value)


def _class_of(char: str) -> str:
    return "0" if char.isdigit() else "A" if char.isupper() else "a" if char.isalpha() else char


def _lines_from(text: str, first: int, step: int) -> Iterator[int]:
    """Yield the beginnings of the lines before or after the line that begins at ``first``.

    They end at an empty line, unless the line beyond it is an item of a list.
    """
    is_apart = False
    for _ in range(_ITEM_LINES):
        if step > 0:
            at = text.find("\n", first, first + _ITEM_LINE) + 1
            is_line = at > first
        else:
            at = text.rfind("\n", max(0, first - _ITEM_LINE), max(0, first - 1)) + 1
            is_line = at < first and (at > 0 or first <= _ITEM_LINE)
        if not is_line or (is_apart and not _POINT.match(text, at) and text[at : at + 1] != "\n"):
            return
        first = at
        is_apart = text[at : at + 1] == "\n"
        if not is_apart:
            yield at


def _is_secret(value: str, *, is_chosen: bool, is_quoted: bool) -> bool:
    """Return True if a cell below the name of a secret is one, and not a word or a sentence about it."""
    low = value.lower()
    if len(value) < 4 or is_placeholder(value) or "[secret:" in value:
        return False
    if " " in value:
        return is_quoted and is_chosen and has_digit(value) and not FUNCTION_WORDS.intersection(low.split())
    if value.isdigit():
        return is_chosen and len(value) <= 12
    if (
        has_plain_shape(value)
        or is_technical(value)
        or _LIKE_CODE.fullmatch(value)
        or (not is_chosen and _IDENTIFIER.fullmatch(low))
    ):
        return False
    body = value.rstrip("!?")
    has_letter = any(c.isalpha() for c in body)
    if has_digit(body) and has_letter:
        return len(value) >= (6 if is_chosen else 8)
    if is_chosen and is_scrambled(body):
        return True
    if has_sign(body) and has_letter:
        return is_chosen and len(value) >= 6
    pieces = low.split("-")
    if len(pieces) >= 4 and all(len(p) >= 3 and p.isalpha() and p not in FUNCTION_WORDS for p in pieces):
        return True
    return is_quoted and is_chosen and len(value) >= 5 and value.isalpha() and not is_state(value)


def _is_cell(value: str) -> bool:
    """Return True if a cell below a password's name may contain one of plain words: joined words, or two or three."""
    if (
        not 6 <= len(value) <= 40
        or is_placeholder(value)
        or has_plain_shape(value)
        or (value.islower() and is_expression(value))
    ):
        return False
    words = value.lower().split()
    if len(words) == 1:
        return bool(_JOINED_CELL.fullmatch(value))
    is_plain = value.islower() and all(word.isalpha() and len(word) > 2 for word in words)
    return is_plain and len(words) <= 3 and not any(word in FUNCTION_WORDS or kind_of(word) for word in words)


def _begins_table(text: str, stop: int) -> bool:
    """Return True if a line that ends at ``stop`` contains a table's headings; it may end with the `+` of a frame."""
    rule = _TABLE_RULE.match(text, stop)
    return rule is not None and "+" not in rule.group()


def _cells(text: str, first: int, last: int, sign: str) -> list[tuple[int, int]]:
    """Return where each cell in a row of a table begins and ends, without the spaces around it."""
    line = text[first:last]
    if sign == "  ":
        return [(first + m.start(), first + m.end()) for m in _ALIGNED.finditer(line)]
    cells: list[tuple[int, int]] = []
    at = 0
    for part in line.split(sign):
        inner = part.strip()
        begin = at + (len(part) - len(part.lstrip()) if inner else 0)
        cells.append((first + begin, first + begin + len(inner)))
        at += len(part) + 1
    return cells if len(cells) > 1 else []
