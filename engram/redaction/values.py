"""Judge values for all rules: whether a value is a secret, a placeholder, or code that fetches a secret."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, reduce
from operator import add
from typing import NamedTuple

from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import any_case, lazy_regex

# -- Estimate whether a run of characters is random or was written by a person.
#
# Every pair of adjacent characters gives evidence in bits: a pair of letters, by its frequency in English and in
# identifiers compared with chance; a change between upper case, lower case and digits, by a fixed value. The sum is
# negative for random strings; the longer the string, the more certain the result.

#: One row for each first letter, with one digit for each second letter: 4.5 corresponds to chance, and 1.2 steps to one
#: bit.
_LETTER_PAIRS = [
    "05650140402656050767332230",
    "63436111650722630553601040",
    "60316106406521810536510020",
    "62248220700412620453510020",
    "52563430200546142776032520",
    "50336610800521710645501030",
    "51228145600535420663510000",
    "70128100601332700535400020",
    "43554440000558640466040204",
    "60328200504100720261700020",
    "52338241700504330373305020",
    "61248300700611630155410050",
    "74138000601341660043400010",
    "60666470503313520167430010",
    "24551330303557450755534200",
    "70327203501601650746401040",
    "10221001100402114451901000",
    "61448240603344620465321040",
    "40527225603322551167502030",
    "61327206700321530654402040",
    "45435330400657350666000000",
    "81209110700121410221011000",
    "71346206700305620652002100",
    "53636413600431370348121440",
    "34435321500556470476134022",
    "60229200700332530122100021",
]

#: Bits for a change of character class; camelCase and digits at the end of a word are common, alternation is not.
_CLASS_CHANGE = {"lu": -1.0, "ld": -2.2, "ud": -2.4, "dl": -2.6, "du": -2.6, "dd": 1.0}


class _PairBits(dict[str, float]):
    """The bits of pairs of letters and digits; none for any other pair."""

    def __missing__(self, pair: str) -> float:
        return 0.0


def _pair_bits() -> _PairBits:
    bits = _PairBits()
    letters = "abcdefghijklmnopqrstuvwxyz"
    every = letters + letters.upper() + "0123456789"
    for first in every:
        for second in every:
            kinds = _kind(first) + _kind(second)
            if kinds in _CLASS_CHANGE:
                bits[first + second] = _CLASS_CHANGE[kinds]
            else:
                row = _LETTER_PAIRS[ord(first.lower()) - 97]
                bits[first + second] = (int(row[ord(second.lower()) - 97]) - 4.5) / 1.2
    return bits


def _kind(char: str) -> str:
    if char.isdigit():
        return "d"
    return "u" if char.isupper() else "l"


_PAIR_BITS = _pair_bits()


@lru_cache_by_text(8192)
def evidence_bits(piece: str) -> float:
    """Return the bits of evidence that `piece` (ASCII letters and digits) was written by a person; negative if random.

    Pairs with any other character are ignored.
    """
    return reduce(add, map(_PAIR_BITS.__getitem__, map(add, piece, piece[1:])), 0.0)


# -- The literals that rules need. A word is searched for all of them at once; a rule then looks up which literals a
# text's words contain.

#: One bit for the longest word of each literal, grouped by a part of that word that is searched for first; several
#: words may share a part.
_WORD_BITS: dict[str, dict[str, int]] = {
    part: {}
    for part in (
        *("ssw", "pass", "code", "auth", "rase", "otp", "gang", "dig", "cred", "lav", "ave", "nect", "odi", "wach"),
        *("key", "wort", "sql", "sl", "ogin", "sec", "sign", "onfig"),
    )
}


#: The first bit used for literals; the bits below are for other properties of a word (``told_cues``).
RESERVED = 4


class Gate:
    """Literals in lower case. A rule that needs one of them can skip a text that contains none.

    Rules declare their literals when they are imported, before any text is read. ``held`` contains the bits of the
    literals in a text's words, and possibly others, as found by ``held_places``.
    """

    __slots__ = ("_bits", "_literals")

    def __init__(self, *literals: str) -> None:
        self._literals = tuple((_bit_of(literal), literal) for literal in literals)
        self._bits = 0
        for bit, _ in self._literals:
            self._bits |= bit

    def is_open(self, low: str, held: int) -> bool:
        """Return True if any of the literals is in the text."""
        if held & self._bits:
            for bit, literal in self._literals:
                if held & bit and literal in low:
                    return True
        return False

    def starts(self, low: str, held: int) -> list[int]:
        """Return where any of the literals occurs, in order."""
        return starts_of((literal for bit, literal in self._literals if held & bit), low) if held & self._bits else []

    def matches(self, pattern: re.Pattern[str], low: str, held: int) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern that begins with one of the literals, without matches inside another one."""
        return matches(self.starts(low, held), pattern, low)


def _bit_of(literal: str) -> int:
    word = max(literal.split(), key=len)
    bits = _WORD_BITS.setdefault(next((part for part in _WORD_BITS if part in word), word), {})
    return bits.setdefault(word, RESERVED << sum(map(len, _WORD_BITS.values())))


def starts_of(literals: Iterable[str], low: str) -> list[int]:
    """Return where any of the literals occurs, in order."""
    starts: set[int] = set()
    for literal in literals:
        at = low.find(literal)
        while at >= 0:
            starts.add(at)
            at = low.find(literal, at + 1)
    return sorted(starts)


def matches(starts: Iterable[int], pattern: re.Pattern[str], low: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern at the given positions, without matches inside another one."""
    done = 0
    for at in starts:
        match = pattern.match(low, at) if at >= done else None
        if match:
            yield match
            done = match.end()


@lru_cache(maxsize=1)
def _ascii_parts(count: int) -> list[tuple[str, dict[str, int]]]:
    """Return those of the ``count`` declared parts that an ASCII text may contain."""
    return [(part, bits) for part, bits in _WORD_BITS.items() if part.isascii()]


def held_places(lines: str) -> Iterator[tuple[int, int]]:
    """Yield the position and bits of each word that contains parts of literals; words are lower-case, one per line."""
    parts = _ascii_parts(len(_WORD_BITS)) if lines.isascii() else _WORD_BITS.items()
    for part, bits in parts:
        at = lines.find(part)
        while at >= 0:
            stop = lines.find("\n", at)
            line = lines[lines.rfind("\n", 0, at) + 1 : stop if stop >= 0 else None]
            held = 0
            for word, bit in bits.items():
                if word in line:
                    held |= bit
            if held:
                yield at, held
            at = lines.find(part, stop) if stop >= 0 else -1


# -- The placeholders that replace secrets, and the spans of text to be replaced.

#: A placeholder in redacted text, which is never masked again and never split.
MARK = lazy_regex(r"\[(?:secret:[a-z][a-z-]{1,30}|opaque:\d{1,9})\]")


class Span(NamedTuple):
    """A part of a text to mask, from `start` up to `end`, and the kind of secret ("" = opaque)."""

    start: int
    end: int
    kind: str


def placeholder_for(span: Span) -> str:
    """Return the placeholder for a span: `[secret:KIND]`, or `[opaque:LENGTH]` if its kind is unknown."""
    return f"[secret:{span.kind}]" if span.kind else f"[opaque:{span.end - span.start}]"


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, with overlapping ones joined; a named kind takes precedence over an opaque one."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if span.end <= span.start:
            continue
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.kind or span.kind)
        else:
            merged.append(span)
    return merged


def outside_placeholders(text: str, spans: list[Span]) -> list[Span]:
    """Return the parts of the merged spans that are not already placeholders."""
    if "[secret:" not in text and "[opaque:" not in text:
        return spans
    kept: list[Span] = []
    marks = [m.span() for m in MARK.finditer(text)]
    at = 0
    for span in spans:
        start = span.start
        while at < len(marks) and marks[at][1] <= start:
            at += 1
        ahead = at
        while ahead < len(marks) and marks[ahead][0] < span.end:
            kept.append(Span(start, marks[ahead][0], span.kind))
            start = marks[ahead][1]
            ahead += 1
        kept.append(Span(start, span.end, span.kind))
    return [s for s in kept if any(c.isalnum() for c in text[s.start : s.end])]


def hide_marks(text: str) -> str:
    """Return the text, of the same length, with spaces for placeholders, since those secrets are already masked."""
    if "[secret:" not in text and "[opaque:" not in text:
        return text
    return MARK.sub(lambda mark: "[" + " " * (len(mark.group()) - 2) + "]", text)


def replace(text: str, spans: list[Span]) -> str:
    """Return the text with each of the ordered, disjoint spans replaced by its placeholder."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], placeholder_for(span))
        at = span.end
    parts.append(text[at:])
    return "".join(parts)


#: The end of a password that begins with a word of placeholders: `changeme.Walrus5`.
_CHOSEN_END = r"(?!.{0,40}(?<=[a-z0-9])[^\w\s](?-i:[A-Z][a-z]{3,24})\d{1,4}[!?]?$)"
_PLACEHOLDER = lazy_regex(
    r"(?i)(?:"
    r"<.*>?|\([a-z]{2,}(?:[ _-][a-z]+)*\)?|#[0-9a-f]{3,8}\W*|\$[\w({].*|\{.*|%\w*%?|\*+|x{3,}|\.{2,}.*|…+|-+|_+|#+|\?+|"
    r"your\b.*|your[-_].*|my[-_]?(?:api|token|secret|password|key).*|tbd|insert[-_ ].*|"
    rf"(?:change[-_ ]?(?:me|this|it)|replace|example|placeholder|todo|dummy|sample|redacted|masked){_CHOSEN_END}.*|"
    r"none|null|nil|undefined|true|false|yes|no|on|off|str(?:ing)?|int(?:eger)?|number|bool(?:ean)?|any|object|bytes|"
    r"text|hidden|required|optional|empty|invalid|missing|unset|unknown|default|value|values|user|username|admin|"
    r"here|below|above|from|this|that|it|not|the|is|are|was|secrets?|tokens?|keys?|pass(?:word|wd)?s?|pwd|api[-_]?key|"
    r"credentials?|inherit|auto|self|env|environment|file|path|url|name|id|type|basic|bearer|digest|public|private|"
    r"password123\.{3}|(?:access|refresh|auth|bearer|api)[-_]?(?:token|key)s?|n/?a|generated|"
    r"auto[-_ ]generated|see[-_ ].*|"
    # Names of the secret itself, as in the labels of forms.
    r"passw[oö]rt(?:er)?|kennwort|geheimnis|passphrase|schlüssel|mot de passe|secr[eè]te?|jeton|contraseñ?n?a|secreto|"
    r"clave|senha|segredo|palavra-passe|chave|parola|segreto|chiave|wachtwoord|geheim|sleutel|has[łl]o|sekret|klucz|token|"
    r"пароль|секрет|ключ|токен|パスワード|シークレット|トークン|密码|密碼|密钥|令牌|비밀번호|lösenord|passord|adgangskode|"
    r"heslo|şifre"
    r")[\"'`.,;:!?)]*"
)
#: Markdown marks and brackets around a placeholder: `*(none)*`, `**required**`.
_DECORATION = "*_~`()[] "
#: A reference in place of a value: a variable, a file, a store of secrets, a template variable, a YAML anchor.
_REFERENCE = lazy_regex(
    r"(?i)stdin|prompt|(?:env|file|fd|vault|ssm|secretref|keyring|sops|awssm|gcpsm|credstore|ref|"
    r"secretsmanager):[\w/.${-]\S*|op://\S+|arn:aws[\w-]{0,10}:\S+|![a-z][\w:.-]{0,64}+(?:\s.*)?|"
    r"@[a-z][\w.]{0,64}\(.*|#\{.*|__[a-z]\w{0,64}__|@{1,2}[a-z]\w{0,64}@{1,2}|%{1,2}[a-z]\w{0,64}%{1,2}|%\([a-z]\w{0,64}\)s?|"
    r"(?:id|src|type|source|env)=[\w./~-]{1,80}(?:,[a-z]{2,8}=[\w./~-]{1,80}){0,4}|"
    r"[*&](?=[a-z_]{0,40}_)[a-z][\w-]{0,64}+(?:\s.*)?"
)
_PLACEHOLDER_INSIDE = lazy_regex(
    r"(?i)example|placeholder|your[-_ ]|[-_]here$|xxxx|\*{4}|\.\.\.|…|<[a-z_ -]++>|redacted|not[-_ ]?set|"
    rf"changeme{_CHOSEN_END}|"
    r"\[secret:|\[opaque:"
)
#: Words of places to fill in, in other languages: possessives, names of secrets, words that may also describe something
#: else, and "here".
_YOUR = frozenset("dein deine ihr ihre votre tu twój twoj twoja twoje jouw seu sua tuo tua".split())
_SECRET_NAMES = frozenset(
    (
        "api key token password passwort kennwort schlüssel passe clé cle jeton contraseña contrasena clave senha "
        "chave chiave hasło haslo klucz wachtwoord sleutel"
    ).split()
)
_SECRET_WORDS = frozenset("secret geheimnis secreto segredo segreto".split())
_HERE = frozenset("hier ici aquí aqui qui tutaj".split())
_DUMMY = lazy_regex(
    r"(?i)[\w/+-]*EXAMPLE(?:KEY|TOKEN)?\d?|(?:0123456789(?:abcdef)?|1234567890(?:abcdef)?|deadbeef){1,8}"
)
#: An expression, not a literal: a call, an index, an attribute, an operator with spaces.
_EXPRESSION = lazy_regex(
    r"(?:[A-Za-z_][A-Za-z0-9_]*(?:\.|->|::|\?\.))*[A-Za-z_][A-Za-z0-9_]*(?:\(|\[|\.[A-Za-z_]|->|::|\?\.)"
)
#: The beginning of a call of a method: `jwt.sign(`.
_METHOD = lazy_regex(r"[a-z_]{1,40}(?:\.[A-Za-z_]{1,40}){1,4}\(")
#: Words joined only by dots: an attribute, or a password of several words.
_DOTTED = lazy_regex(r"[A-Za-z_]\w{0,64}+(?:\.\w{1,64}+){1,16}+(?:[!?]{0,2}|&\w{1,64}=.*)")
_CAPITALISED = lazy_regex(r"[A-Z][a-z]{1,64}[0-9]{0,6}|[0-9]{1,20}")
#: One or two digits in place of letters, and words in which a digit stands for itself.
_LEET = lazy_regex(r"[A-Za-z][013457]{1,2}[a-z]")
_NO_LEET = lazy_regex(
    r"(?i)base\d|b64|sha\d|md\d|utf\d|s3|k8s|i18n|x509|p12|pkcs|p2p|e2e|oauth|http|log4|slf4|neo4j|db4|d3|h5|bs4|web\d|"
    r"mp[34]|v\d|ipv\d|int\d|str\d|to\d|py\d|ec2|pg\d|auth\d|pass(?:w(?:or)?d)?\d|key\d|arg\d|db\d"
)
#: A capitalised word, a word with a number at its end, and two words with a point between them.
_CAPITAL = lazy_regex(r"[A-Z][a-z]{2,24}")
_NUMBERED = lazy_regex(r"[A-Z]?[a-z]{2,24}[0-9]{1,4}")
_JOINED_BY_POINT = lazy_regex(r"[A-Za-z][A-Za-z0-9]{2,32}(?:\.[A-Za-z][A-Za-z0-9]{2,32}){1,4}[!?]{0,2}")
_PLAIN_WORDS = lazy_regex(r"(?:[a-z]{3,24}(?:\.[a-z]{3,24}){2,4}|[A-Za-z]{3,24}\.[A-Z][a-z]{2,24}\d{1,4})[!?]{0,2}")
#: Words that attributes in code begin or end with.
_OF_CODE = frozenset(
    (
        "args argument auth base body cfg client conf config configuration context cookies creds credentials "
        "ctx current data database default defaults details element elements entity entry env environ event "
        "field fields flags form forms global globals headers host input inputs item keys local locals login "
        "main match message model module node object opt option options opts output params parser payload "
        "process profile prop properties props provider query record req request res response result row "
        "schema secrets self server service session setting settings state store sys target test this token "
        "tokens type types user users util utils val value values vars window with"
    ).split()
)
#: The end of the last word of an attribute that contains a secret or a value.
_ATTRIBUTE = lazy_regex(
    r"(?i)(?:pass(?:w(?:or)?d|phrase|code)?|pwd?|pin|secret|token|key|cred(?:ential)?s?|auth|value|text|data|id|name|raw|env|"
    r"str|client|session|hash)s?\d{0,3}$"
)
_FUNCTION_WORDS = lazy_regex(
    r"(?:await|new|function|lambda|async|return|getattr|os|process|self|this|if|for|in|and|or|not|const|let|var)"
    r"(?=[\s.(\[?:]|->|$)"
)
_UNSECRET_SHAPE = any_case(
    r"(?:\d{1,2}[:/.-]\d.*|v?\d+(?:\.\d+)+\S*|\d+(?:ms|s|m|h|d|kb|mb|gb|%|px|k)?|(?:\.{0,2}|~)/\S*|"
    r"[\w.+-]+@[\w-]+\.[\w.]+|[\w-]+\.(?:output|jsonl|py|js|ts|tsx|go|rs|md|json|ya?ml|toml|txt|sh|html|css|log|pem|"
    r"key|crt|env|cfg|ini|sql|db|c|h|rb|java))"
)
#: Names of methods and formats, which may contain digits; sizes such as "8-stellig".
_TECHNICAL = lazy_regex(
    r"(?i)(?:base\d\d|sha-?\d{1,3}|md5|utf-?\d{1,2}|oauth\d?|ed25519|[a-z]{1,2}s\d{3}|aes-?\d{0,3}|argon2\w{0,2}|"
    r"bcrypt\d?|pbkdf2|x509|pkcs\d{1,2}|rfc-?\d{1,5}|ipv[46]|id_rsa|jwt|hmac|rsa-?\d{0,4}|totp|2fa|http2?|k8s|s3|"
    r"v\d|(?:var)?char\d{1,5}|u?int\d{1,2}|float\d{2})(?:[-_/.]\S*)?|"
    r"\d{1,4}(?:[-_.][a-zäöüßéèа-яё]+|(?-i:[a-zäöüßéèа-яё]+|[A-Z]{2,3}|[ABDGHKMPSTVWX]|(?<!\d{4})[A-Z]))"
)
#: Words that a sentence or a form may use about a password.
_STATE = lazy_regex(
    r"(?i)(?:abgelaufen|falsch|geheim|leer|ungültig|pflicht|mindestens|\w{2,8}stellig|erforderlich|required|expired|"
    r"invalid|wrong|empty|optional|missing|minimum|requis|obligatoire|vide|obb?ligatori|[uú]nic[ao]s?\b|univoc|vac[ií]a|requerid|vuota|errata|vazia|"
    r"obrigat|m[ií]nimo|verlopen|verplicht|leeg|wymagane|puste|обязат|пуст|неверн|минимум)\w*"
)
#: Constructs that only regular expressions contain: classes, ranges, non-capturing groups, and quantifiers of these.
_PATTERN = lazy_regex(
    r"\\[sSdDwW](?![A-Za-z])|\[\^|\[[^\[\]\n]{0,8}(?:a-[fz]|A-[FZ]|0-9)[^\[\]\n]{0,40}\]|\(\?[:=!<P]|\(\.[*+]|"
    r"[\]).]\{\d{1,4}(?:,\d{0,4})?\}"
)
#: Public keys and certificates, including PEM that is base64-encoded again; age recipients, publishable keys,
#: and public identifiers of coins, peers and files.
_PUBLIC_FORM = lazy_regex(
    r"AAAA(?:[BCE][23][NV]|Gn|In)[A-Za-z0-9+/]|age1[a-z0-9]{50,60}$|pk_(?:live|test)_|"
    r"npub1[a-z0-9]{58}$|(?:bc|tb)1[qp][a-z0-9]{38,58}$|baf[ky][a-z2-7]{50,60}$|12D3KooW[A-Za-z0-9]{44}$|"
    r"Qm[1-9A-HJ-NP-Za-km-z]{44}$|"
    r"MII[A-Za-z0-9]{2}jANBgkqhkiG9w0BAQEFAAO|MIGfMA0GCSqGSIb3DQEBAQUAA4G|"
    r"MFkwEwYHKoZIzj0C|MHYwEAYHKoZIzj0C|MCowBQYDK2V[wu]AyEA|MII[A-Za-z0-9+/]{2}[DTjz]CC|"
    r"LS0tLS1CRUdJTiB(?:DRVJUSUZJQ0FU|QVUJMSUMg)"
)
#: The beginning of a PEM block in base64.
_ENCODED_BLOCK = "LS0tLS1"
#: A word of a text that was encoded: only letters or only digits, with punctuation around them.
_PLAIN_WORD = lazy_regex(r"[(\"']*+(?:[A-Za-z]{1,24}(?:['’-][A-Za-z]{1,24}){0,3}|\d{1,4})[)\"'.,;:!?]*+")
_SENTENCE = lazy_regex(r"(?i)\b(?:the|and|is|are|to|of|a|in|it|for|this)\b")
#: A text of fewer plain words than this is not a wallet phrase, whatever the words.
_WALLET_WORDS = 10
_URL_SAFE = str.maketrans("-_", "+/")
PIECE = lazy_regex(r"[A-Za-z0-9]+")
HEX_RUN = lazy_regex(r"(?:[0-9a-f]+|[0-9A-F]+)")
_DIGIT = lazy_regex(r"\d")
_SIGN = lazy_regex(r"[!@#$%^&*]")
#: Maximum number of judgements to remember, because a text repeats its values.
_REMEMBERED = 2_048


@lru_cache_by_text(_REMEMBERED)
def is_placeholder(value: str) -> bool:
    """Return True if a value is only a placeholder for a secret: `<your token>`, `$VAR`, `xxx`, `None`, an example."""
    if _PLACEHOLDER.fullmatch(value) or _PLACEHOLDER_INSIDE.search(value) or _REFERENCE.fullmatch(value):
        return True
    if _is_template(value):
        return True
    bare = value.strip(_DECORATION)
    return bare != value and len(bare) >= 2 and bool(_PLACEHOLDER.fullmatch(bare) or _STATE.fullmatch(bare))


def _is_template(value: str) -> bool:
    """Return True if all of a value is words such as `dein-api-key` and `token_ici`, which say what to put there."""
    words = value.lower().replace("_", "-").split("-")
    others = [word for word in words if word not in _YOUR and word not in _HERE]
    if not (words[0] in _YOUR or words[-1] in _HERE) or not all(map(str.isalpha, words)):
        return False
    return not _SECRET_NAMES.isdisjoint(others) or (bool(others) and _SECRET_WORDS.issuperset(others))


@lru_cache_by_text(_REMEMBERED)
def is_dummy(value: str) -> bool:
    """Return True if a token is a dummy: mostly a single character, only the digits in order, or "…EXAMPLE"."""
    return max(map(value.count, set(value)), default=0) * 2 >= len(value) or bool(_DUMMY.fullmatch(value))


def is_pattern(value: str) -> bool:
    """Return True if the value is part or all of a regular expression."""
    return bool(_PATTERN.search(value))


def is_public_form(value: str) -> bool:
    if not value.startswith(_ENCODED_BLOCK):
        return bool(_PUBLIC_FORM.match(value))
    block = decoded(value)
    return bool(_PUBLIC_FORM.match(value) and block) and "PRIVATE" not in block


def decoded(value: str) -> str:
    """Return the text that the value contains in base64; "" if it contains none."""
    whole = value.rstrip("=").translate(_URL_SAFE)
    try:
        return base64.b64decode(whole + "=" * (-len(whole) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def is_encoded_prose(value: str) -> bool:
    """Return True if the value is the base64 form of a few plain words or of sentences."""
    text = decoded(value)
    words = text.split()
    if len(words) < 2 or not all(_PLAIN_WORD.fullmatch(word) for word in words) or total_bits(text) < 0:
        return False
    return len(words) < _WALLET_WORDS or bool(_SENTENCE.search(text))


def is_expression(value: str) -> bool:
    """Return True if an unquoted value is code that fetches a secret: a call, an attribute, an index."""
    if _FUNCTION_WORDS.match(value):
        return True
    if len(_SIGN.findall(value)) >= 2 and has_digit(value):
        return False
    if _DOTTED.fullmatch(value):
        return _is_attribute(value.partition("&")[0].rstrip("!?").split("."))
    match = _EXPRESSION.match(value)
    return match is not None and (_METHOD.fullmatch(match.group()) is not None or total_bits(match.group()) > -4.0)


def _is_attribute(words: list[str]) -> bool:
    """Return True if words between dots are code: the last names a secret, or they don't look like a person's words."""
    if _ATTRIBUTE.search(words[-1]):
        return True
    if any(word[0].isdigit() for word in words):
        return False
    has_number = any(has_digit(word) for word in words)
    return (
        not (has_number and all(_CAPITALISED.fullmatch(word) for word in words)) and total_bits(".".join(words)) > -8.0
    )


def is_chosen_pair(value: str, *, is_setting: bool = False) -> bool:
    """Return True if words with points between them are a password, such as `Heron.nest7`, and not an attribute.

    Attributes have no digits in place of letters, and rarely begin with a capital and end with a number.

    Args:
        is_setting: True for the value of a setting outside of code, where plain words also count as a password.
    """
    if not _JOINED_BY_POINT.fullmatch(value):
        return False
    words = value.rstrip("!?").split(".")
    if not _OF_CODE.isdisjoint(word.lower().rstrip("0123456789") for word in words) or _ATTRIBUTE.search(words[-1]):
        return False
    if is_setting and _PLAIN_WORDS.fullmatch(value):
        return True
    if len(words) > 2 or any(map(_NO_LEET.search, words)):
        return False
    return any(map(_LEET.search, words)) or bool(_CAPITAL.fullmatch(words[0]) and _NUMBERED.fullmatch(words[1]))


def has_plain_shape(value: str) -> bool:
    """Return True if the value is a number, version, date, path, file name or e-mail address."""
    return bool(_UNSECRET_SHAPE.fullmatch(value))


def has_digit(value: str) -> bool:
    return bool(_DIGIT.search(value))


def has_sign(value: str) -> bool:
    """Return True if the value contains one of the symbols that people put into passwords."""
    return bool(_SIGN.search(value))


@lru_cache_by_text(_REMEMBERED)
def total_bits(value: str) -> float:
    """Return the evidence from all alphanumeric pieces of the value, in bits; negative means random."""
    return sum(
        -len(piece) / 2 if len(piece) >= 12 and is_hex(piece) else evidence_bits(piece)
        for piece in PIECE.findall(value)
    )


def is_technical(value: str) -> bool:
    """Return True if the value names a method, a format or a size (`sha256`, `12-stellig`)."""
    return bool(_TECHNICAL.fullmatch(value))


def is_state(value: str) -> bool:
    """Return True if the value is a word about a secret, such as that it is required, expired or wrong."""
    return bool(_STATE.fullmatch(value))


def is_scrambled(value: str) -> bool:
    """Return True if the value has at least ten letters of both cases, in an order that no words have."""
    return (
        len(value) >= 10
        and value.isalpha()
        and value.isascii()
        and not value[1:].islower()
        and total_bits(value) < -4.0
    )


def is_hex(value: str) -> bool:
    """Return True if the value is hexadecimal in one case, with both digits and letters."""
    return bool(HEX_RUN.fullmatch(value)) and not value.isdigit() and not value.isalpha()


@lru_cache_by_text(_REMEMBERED)
def is_mixed(value: str, least: int = 6) -> bool:
    """Return True if the value looks like a password: long enough, and with several character classes."""
    if len(value) < least:
        return False
    lower = any(c.islower() for c in value)
    upper = any(c.isupper() for c in value)
    digit = has_digit(value)
    symbol = any(c in "!@#$%^&*?+=~|" for c in value.rstrip("!?"))
    return (
        (digit and (lower or upper)) or (symbol and (lower or upper)) or (len(value) >= 12 and total_bits(value) < -3)
    )
