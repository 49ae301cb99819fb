"""Find secrets in set phrases: the code of a door, a safe or an alarm, or a password that somebody logs in with.

The model for sentences (``told_secrets``) judges words by their surroundings. A set phrase already says what follows
it, so a value only has to have a suitable form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.values import Gate, Span, has_digit, has_plain_shape, is_mixed, is_placeholder, is_technical
from engram.system.lazy_regex import lazy_regex

#: Units and things that are counted: a number before one of them isn't a code.
_COUNTED = (
    r"(?:%|ms|px|mb|gb|kb|eur|usd|€|ok|loc|bytes|lines?|tests?|files?|zeilen|lignes|líneas|lineas|righe|linhas|regels|"
    r"linii|linie|строк)"
)
#: The code of a door: three to eight digits, groups of digits, or a few digits with a letter among them.
_CODE = (
    r"[ \t]{0,3}[\"'„“*#]{0,2}(?P<code>\d{1,2}(?:[ -]\d{1,2}){2,4}|\d{3,8}|\d{1,4}[A-Za-z]\d{1,4})"
    rf"(?![^\W_]|[.,:/%°-]\d|[ ]{_COUNTED}(?![^\W_])|%)"
)
#: Words between the name of a code and the code.
_IS = (
    r"(?:[ \t]{0,2}[:=→]|[ ](?:is|was|ist|lautet|war|est|era|es|é|è|to|jest|это|now|->|→)(?![^\W_])"
    r"(?:[ ]now|[ ]jetzt)?:?)"
)
#: Things that have a code, in English and in German, as named before the word for the code.
_ENGLISH = r"(?:(?:front|back|side|garage|main) )?(?:door|gate|garage|keypad|lobby|lock ?box|safe|padlock|locker|vault)"
_GERMAN = (
    r"(?:haustür|tür|tor|tresor|safe|garagen(?:tor)?|alarm|schlüsselkasten|schließfach|spind|zahlenschloss|eingangs)"
)
#: Things that have a code, with "of the" before them, in other languages.
_OF = (
    r"(?:für|von|vom|der|des|zum|zur)[ ](?:(?:die|den|das|der|dem|des)[ ])?"
    r"(?:alarmanlage|haustür|tür|tor|tresor|safe|garage|schließfach|spind|zahlenschloss)s?",
    r"(?:de[ ]la[ ]|de[ ]l['’]|du[ ]|d['’])(?:porte|portail|alarme|coffre(?:-fort)?|garage|immeuble|entrée|cadenas)",
    r"(?:de[ ]la[ ]|del[ ]|de[ ])(?:puerta|alarma|caja fuerte|portal|garaje|verja|candado|taquilla)",
    r"(?:della[ ]|del[ ]|dell['’]|dello[ ])(?:porta|cancello|portone|allarme|cassaforte|garage|lucchetto|antifurto)",
    r"(?:da[ ]|do[ ])(?:porta|portão|cofre|alarme|garagem|cadeado|prédio)",
    r"van[ ](?:de|het)[ ](?:deur|poort|hek|alarm|kluis|garage|sleutelkluis|hangslot)",
    r"(?:do|od)[ ](?:bramy|drzwi|alarmu|sejfu|garażu|domofonu|furtki|kłódki|klatki)",
    r"(?:от|для|на)[ ](?:двери|сейфа|домофона|ворот|калитки|сигнализации|подъезда|гаража|замка)",
)
_NAMED = lazy_regex(
    r"(?<![\w-])(?:code|combinaison|código|codigo|clave|combinación|combinação|codice|combinazione|combinatie|kod|pin|szyfr|"
    r"код|шифр|пин-код)[ ](?:"
    + "|".join(_OF)
    + r")(?:[ ]d['’][\w]{3,12}|[ ][\w-]{2,16})?"
    # "porta" is a port, too: "il codice della porta 443".
    + _IS
    + _CODE
)
_COMPOUND = lazy_regex(
    r"(?<![\w-])(?:"
    + _ENGLISH
    + r"(?: door| gate| lock)? (?:code|pin)"
    + _IS
    + r"|(?:safe|vault|padlock|locker|lock ?box)(?: lock)? (?:combination|combo)(?:"
    + _IS
    + r")?|"
    + _GERMAN
    + r"-?(?:code|kombination|pin|zahl)"
    + _IS
    + r"|(?:deur|poort|kluis|sleutelkluis|garage)-?code"
    + _IS
    + r"|digicode"
    + _IS
    + r")"
    + _CODE
)
_COMPOUND_WORDS = Gate(
    *("door code", "gate code", "garage code", "keypad code", "lobby code", "lockbox code", "safe code", "door pin"),
    *("gate pin", "combo", "kombination", "türcode", "torcode", "tresorcode", "safecode", "tür-code", "tor-code"),
    *("deurcode", "poortcode", "kluiscode", "digicode", "alarmcode", "combination", "tür-pin", "eingangscode"),
)
#: Number of characters from the beginning of the name of such a code to the word that is searched for.
_BEFORE = 24
_NAMED_WORDS = Gate(
    *("code ", "código ", "codigo ", "combin", "codice ", "kod ", "szyfr ", "код ", "шифр ", "пин-код ")
)
#: Japanese and Chinese names of such codes.
_EASTERN = lazy_regex(
    r"(?:暗証番号(?:は|が|[:：])|(?:金庫|玄関|ドア|門|警報|ロッカー|倉庫)の(?:番号|コード)(?:は|[:：])|"
    r"(?:大门|门禁|单元门|保险柜|保险箱|警报|报警器)的?(?:密码|代码|暗码)(?:是|为|[:：]))"
    r"[ ]?[「“\"]?(?P<code>\d{3,8}|\d{1,2}(?:-\d{1,2}){2,4})(?![\w-]*[.:]\d|\d)"
)
_EASTERN_WORDS = Gate(
    *"暗証番号 金庫の 玄関の ドアの 門の 警報の ロッカーの 倉庫の 大门 门禁 单元门 保险柜 保险箱 警报 报警器".split()
)
#: Values in phrases about logging in with a user name and a password, changing a password, and opening an archive.
_VALUE = r"(?P<quote>[\"'`„“])?(?P<value>(?(quote)[^\"'`„“”\n]|[^\s\"'`<>(){}|,;„“”]){7,64})"
_LOGIN = lazy_regex(
    r"(?:log(?:ged)?[ -]?in|sign(?:ed)?[ -]?in|login)[ ](?:with|as|using)[ ][\w.+@-]{2,80}[ ](?:and|with|/)[ ]" + _VALUE
)
_LOGIN_WORDS = Gate("login", "log in", "logged in", "sign in", "signed in")
_SET_TO = lazy_regex(
    r"(?:passwort|kennwort|pw)(?![^\W_])[^\n]{0,60}?[ ]auf[ ](?P<value>[^\s\"'`<>(){}|,;]{7,64})[ ]"
    r"(?:gesetzt|geändert|umgestellt|gewechselt)"
)
_SET_WORDS = Gate("gesetzt", "geändert", "umgestellt", "gewechselt")
_SET_NAMES = Gate("passwort", "kennwort", "pw ")
_UNLOCK = lazy_regex(
    r"(?:unlock|open|decrypt|unzip|extract)s?[ ](?:the|this|that|your|my|our)[ ](?:\w{1,20}[ ])?"
    r"(?:archive|zip|backup|vault|keystore|volume|drive|disk|pdf|file)[ ]with[ ]" + _VALUE
)
_UNLOCK_WORDS = Gate("unlock", "decrypt", "unzip", "open the", "extract the")
#: A file, a program with its version, or an identifier: words in lower case joined by punctuation.
_NO_VALUE = lazy_regex(r"[A-Za-z]{1,32}[-_]?v?\d+(?:\.\d+){0,4}|[a-z0-9]+(?:[._-][a-z0-9]+){0,8}|[^@]{1,64}@[^@]{1,64}")
_END = ".:!?*)"


def spoken_spans(text: str, low: str, held: int) -> Iterator[Span]:
    """Yield the spans of codes and passwords in set phrases.

    Args:
        low: the same text in lower case, of the same length.
        held: the bits of the literals that the text may contain; see ``Gate``.
    """
    for at in _COMPOUND_WORDS.starts(low, held):
        for match in _COMPOUND.finditer(low, max(0, at - _BEFORE), min(len(low), at + 64)):
            yield Span(*match.span("code"), "password")
    for gate, pattern in ((_NAMED_WORDS, _NAMED), (_EASTERN_WORDS, _EASTERN)):
        for match in gate.matches(pattern, low, held):
            yield Span(*match.span("code"), "password")
    for gate, pattern in ((_LOGIN_WORDS, _LOGIN), (_UNLOCK_WORDS, _UNLOCK)):
        for match in gate.matches(pattern, low, held):
            yield from _chosen(text, match)
    if _SET_WORDS.is_open(low, held):
        for match in _SET_NAMES.matches(_SET_TO, low, held):
            yield from _chosen(text, match)


def _chosen(text: str, match: re.Match[str]) -> Iterator[Span]:
    """Yield the value of a match if it has the form of a password that a person chose."""
    first, last = match.span("value")
    value = text[first:last].rstrip(_END)
    if not has_digit(value) or not is_mixed(value, 7) or is_placeholder(value):
        return
    if not (has_plain_shape(value) or is_technical(value) or _NO_VALUE.fullmatch(value)):
        yield Span(first, first + len(value), "password")
