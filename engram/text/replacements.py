"""Recognise what the user says has taken the place of something, or no longer applies: "we moved from npm to pnpm".

A rule in favour of what was left is over, in whatever words the new one is given. Pure functions. Every pattern sees
one sentence of a certain length at most.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engram.system.lazy_regex import lazy_regex
from engram.text.withdrawals import EMPTY_WORDS
from engram.text.words import content_words, prefixes

_ANY = re.IGNORECASE


class Replacement(NamedTuple):
    """What a sentence says was left, and what has taken its place, by the first letters of their words."""

    old: frozenset[str]
    new: frozenset[str]


#: The name of a tool or a habit: a word, or a few of them up to the next preposition.
_NAME = r"[\w.+#@/-]{2,40}(?: (?!(?:to|auf|zu|à|vers|a|para|pra|naar|na)\b)[\w.+#@/-]{1,40}){0,2}"
_LATIN = r"[A-Za-z0-9][A-Za-z0-9.+#@/_-]{1,39}"
_THE = r"(?:the |our |der |den |dem |la |le |el |il |o |a |de )?"
_OLD, _NEW = rf"{_THE}(?P<old>{_NAME})", rf"{_THE}(?P<new>[\w.+#@/-]{{2,40}})"
_A_FEW = r"(?:\w+ ){0,3}?"
#: The user's team left one thing for another. What it moved ("we moved the docs from …") is not all that it has.
_MOVED = tuple(
    lazy_regex(one, _ANY)
    for one in (
        rf"\b(?:we|i)(?:['’]ve| have)? {_A_FEW}(?:moved|switched|migrated|changed)(?: over| away)? from {_OLD} "
        rf"(?:over )?to {_NEW}",
        rf"\b(?:we|i)(?:['’]ve| have)? {_A_FEW}(?:(?:replaced|swapped) {_OLD} (?:with|by|for)|"
        rf"(?:dropped|ditched|abandoned) (?P<left>{_NAME}) (?:for|in favou?r of)) {_NEW}",
        rf"\b(?:wir|ich) (?:sind|haben) {_A_FEW}von {_OLD} (?:auf|zu) {_NEW} "
        r"(?:umgestiegen|umgestellt|gewechselt|migriert|umgezogen)",
        rf"\b(?:on est|nous sommes|on a|nous avons) {_A_FEW}(?:(?:pass|migr|chang)és? de {_OLD} (?:à|vers)|"
        rf"remplacé (?P<left>{_NAME}) par) {_NEW}",
        rf"\b(?:pasamos|pasado|migramos|migrado|cambiamos|cambiado) de {_OLD} a {_NEW}",
        rf"\b(?:siamo passati|siamo migrati|abbiamo migrato) da {_OLD} a {_NEW}",
        rf"\b(?:mudamos|migramos|trocamos|passamos) d[eoa] {_OLD} (?:para|pra|por) {_NEW}",
        rf"\b(?:we|wij) zijn {_A_FEW}(?:over)?van {_OLD} naar {_NEW} (?:over)?ge(?:stapt|gaan)",
        rf"\bprzeszliśmy {_A_FEW}z {_OLD} na {_NEW}",
        rf"\b(?:перешли|переехали|мигрировали) {_A_FEW}с {_OLD} на {_NEW}",
        rf"(?P<old>{_LATIN})\s?から\s?(?P<new>{_LATIN})\s?に(?:移行|切り替え|変更|乗り換え)(?:し(?:た|まし)|まし|た)",
        rf"从\s?(?P<old>{_LATIN})\s?(?:切换|换|迁移|迁|改)(?:成|到|为)了?\s?(?P<new>{_LATIN})",
    )
)
#: Says that things are so from some time on.
_CHANGED = lazy_regex(
    r"\b(?:from now on|going forward|now|nowadays|these days|since (?:last|this|yesterday|today|\w+day)|as of|"
    r"(?:ab|von) (?:jetzt|sofort|heute)|jetzt|künftig|désormais|dorénavant|maintenant|"
    r"a partir de ahora|de ahora en adelante|ahora|d['’]ora in poi|ora|adesso|a partir de agora|agora|vanaf nu|nu|"
    r"od teraz|teraz|теперь|с этого момента|отныне)\b",
    _ANY,
)
_HERE = r"(?:here|everywhere|now|hier|jetzt|ici|maintenant|aquí|ahora|qui|ora|aqui|agora|nu|тут|теперь)\b"
#: The team uses one thing, or shall use it, and not another.
_INSTEAD = lazy_regex(
    rf"(?<![\w.+#@/-])(?!{_HERE})(?P<new>[\w.+#@/-]{{2,40}})(?: {_HERE}){{0,2}}"
    r"(?:,? (?:instead of|in place of|rather than|statt|anstatt|anstelle von|au lieu de|à la place de|en vez de|"
    r"en lugar de|invece di|al posto di|em vez de|ao invés de|in plaats van|zamiast|вместо)|"
    r", (?:and )?(?:not|no longer|nicht mehr|plus|ya no|non più|niet meer)) "
    rf"{_OLD}",
    _ANY,
)
#: Words of the team, or of an order: what is only noticed ("the build now takes 3 minutes instead of 5") ends nothing.
_OURS = lazy_regex(
    r"\b(?:we(?:['’]re)?|use|wir|nimm|on|nous|utilise\w*|usa\w*|utiliza\w*|usiamo|we|wij|gebruik\w*|używa\w*|"
    r"используе\w+|используй\w*)\b",
    _ANY,
)
#: Makes it a question, a plan, a supposition, somebody else's words, or so only for a while.
_UNSETTLED = lazy_regex(
    r"[?？]|\b(?:if|when|once|until|before|unless|whether|maybe|perhaps|should|would|could|might|suppose|imagine|"
    r"says?|said|thinks?|told|wrote|claims?|heard|for (?:now|the (?:time|demo|moment)|this)|temporar\w+|"
    r"(?:in|on) this (?:branch|pr|test|file|session)|just for|sagt|meint|dit|dice|diz|zegt|mówi|говорит|"
    r"almost|nearly|never|not yet|wenn|falls|ob|sobald|vielleicht|könnte\w*|sollte\w*|si|"
    r"quand|peut-être|cuando|quizás?|quando|"
    r"forse|se|talvez|als|misschien|jeśli|gdy|może|если|когда|может)\b|もし|なら|如果|要是|也许",
    _ANY,
)
_ABOUT = r"(?P<about>[^,.;:!?]{2,60}?)"
#: Says in another language than English that a rule, which it names, no longer applies.
_ENDED = tuple(
    lazy_regex(one, _ANY)
    for one in (
        rf"\b(?:das|die (?:\w*regel|sache|vorgabe)) (?:mit|über|zu[mr]?|für|von|bei) {_ABOUT} "
        r"(?:gilt|zählt) nicht mehr",
        rf"\b(?:la règle|le truc|l['’]histoire|ça) (?:sur|de|des|du|pour|avec|d['’]) ?{_ABOUT} "
        r"(?:ne s['’]applique plus|n['’]est plus (?:valable|d['’]actualité)|ne (?:vaut|tient) plus)",
        rf"\b(?:la (?:regla|norma)|lo) (?:del?|sobre|con) {_ABOUT} ya no (?:vale|aplica|se aplica|rige)",
        rf"\b(?:la regola|quella|il discorso) (?:d[ie]l*\w?|su\w*|con) {_ABOUT} non (?:vale|si applica) più",
        rf"\b(?:a regra|isso|aquilo) (?:d[eoa]s?|sobre) {_ABOUT} (?:já )?não (?:vale|se aplica)",
        rf"\b(?:de regel|dat) (?:over|met|van|voor) {_ABOUT} geldt niet (?:meer|langer)",
        rf"\b(?:zasada|reguła) (?:o|dotycząca|z) {_ABOUT} (?:już nie obowiązuje|nie obowiązuje już)",
        rf"\bправило (?:про|об?|насчёт|с) {_ABOUT} (?:больше не действует|отменяется|отменено)",
        rf"{_ABOUT}(?:のルール|の件)は(?:もう|今後)?(?:なし|無効|不要|廃止)",
        rf"(?:关于)?{_ABOUT}的(?:规则|规定|约定)(?:不再适用|作废|取消了)",
    )
)
#: What specifies nothing: "the old one", "the new API".
_VAGUE = content_words("old new first second other last previous current one ones same thing alte neue this that them")


def replacement_in(sentence: str) -> Replacement | None:
    """Return what a sentence says was left, and for what; None if it says nothing of the kind, or not for certain."""
    if _UNSETTLED.search(sentence):
        return None
    match = next((match for pattern in _MOVED if (match := pattern.search(sentence))), None)
    if match is None and _CHANGED.search(sentence) and _OURS.search(sentence):
        match = _INSTEAD.search(sentence)
    if match is None:
        return None
    named = match.groupdict()
    old, new = _words(named.get("old") or named.get("left") or ""), _words(named["new"])
    return Replacement(old - new, new - old) if old - new else None


def ended_in(sentence: str) -> frozenset[str]:
    """Return what a rule is about that a sentence in another language than English says is over; empty for none."""
    if _UNSETTLED.search(sentence):
        return frozenset()
    match = next((match for pattern in _ENDED if (match := pattern.search(sentence))), None)
    return _words(match["about"]) if match else frozenset()


def _words(text: str) -> frozenset[str]:
    return prefixes(content_words(text) - EMPTY_WORDS - _VAGUE)
