"""Find sentences by others that try to direct their reader beyond the project's own matters. Pure.

`conduct` recognises wordings of orders in any text that the user did not type. For memories from teammates, packs,
imports and agents, the burden of proof is reversed: a sentence is above suspicion only if it is plainly not about
conduct. It must not combine concepts of two kinds (`conduct_concepts`): on the one hand, who reads, decides or checks,
and what is secret or was said here; on the other hand, informing, allowing, doing without, giving away. The order and
form of the concepts do not matter: a command, a passive, a question, a condition and a noun phrase are judged alike. In
addition, an order must mention something that projects are made of, and no person. Statements of what a program does
("the worker ignores …"), of what is forbidden ("never log tokens") and of what protects a secret or a check are the
project's own matters.

Such orders come in more forms than anyone can list ("an empty field means yes"), and so do harmless sentences with the
same words ("never log tokens"). Therefore a linear model of a sentence's words has the final say.
``benchmarks/trust.py`` fits it on sentences by many writers, and evaluates it on the sentences of each writer after
fitting it on those of all others; docs/redaction.md gives the figures.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from engram.system.lazy_regex import lazy_regex
from engram.text.linear_model import LinearModel, features, load_model
from engram.trust.conduct import BLANKS, EMPTY_LINES, EXAMPLE_FILE, is_forbidden
from engram.trust.conduct_concepts import (
    ADDRESS,
    ASKED,
    CARE,
    CARE_ELSEWHERE,
    CLEAR,
    CONCEPTS,
    NEGATION,
    PROJECT,
    VERBS,
)

WEIGHTS = Path(__file__).with_name("directive_weights.json")

_LONGEST = 20_000
#: A passage longer than this, in characters, is judged clause by clause.
_LONGEST_PAIR = 400
_PASSAGE_ENDS = lazy_regex(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_PIECES = lazy_regex(r".{30,120}?[,;:.](?=\s)|.{1,120}(?:\s|$)|\S{1,120}")
#: Sentences longer than this, in characters, are read in pieces.
_LONGEST_SENTENCE = 400
#: Text with more sentences than this does not count as short.
_FEW_SENTENCES = 4
#: Labels with which Engram itself introduces what was said.
LABELS = lazy_regex(
    r"^\[(?:also|asked|the user|proposed by the assistant)\] ?|^Asked (?=“)|(?<=” )the user chose: ", re.MULTILINE
)
#: Lead-ins that say nothing about what a sentence wants, but that the model would count as parts of an order.
_LEAD_IN = lazy_regex(r"^(?:remember(?: this| that| to)?[:,]?|(?:note|reminder):)\s++", re.IGNORECASE | re.MULTILINE)
#: Statements of what something does that are too short for the model: "It works."
_WHAT_IT_DOES = lazy_regex(r"it \w{1,30}s(?: \w{1,30}){0,2}[.!]?", re.IGNORECASE)
#: Hosts of web addresses and reserved host names, which say nothing about what a sentence wants.
_HOST = lazy_regex(r"(?<=://)[\w.-]{1,253}|(?<![\w.-])(?:[\w-]{1,63}\.){1,8}example(?![\w-])")
_SENTENCES = lazy_regex(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
#: Combinations that a sentence must not contain: a concept, and all concepts of one of the sets after it; then, whether
#: a program may do it nevertheless, and whether the rule applies only to short texts.
_NOT_TOGETHER: tuple[tuple[str, str, bool, bool], ...] = (
    (
        "reader",
        "people|user|allow|do without|secret|oversight|control|checks|private|give|fetch|tell|you|say+not",
        False,
        True,
    ),
    ("you", "allow|say+not", False, True),
    ("people", "", True, True),
    ("user", "allow|do without|anything|oversight+not|control+not|say+not", True, True),
    ("tell", "not", True, True),
    ("oversight", "unasked|do without|allow|not+away", True, True),
    ("control", "do without|allow|not+away", True, True),
    ("checks", "do without", True, True),
    ("secret", "away", False, False),
    ("secret", "give+uncared", True, False),
    ("private", "give+away", False, True),
    ("address", "give+secret+uncared|give+private", False, False),
    ("address", "give|fetch|allow", True, False),
)
#: The same sets for other languages, in which programs are not exempt.
_ELSEWHERE_NOT_TOGETHER: tuple[tuple[str, str], ...] = (
    ("reader", ""),
    ("people", ""),
    ("secret", "uncared|allow|do without|give"),
    ("user", "not|allow|do without|give|say|oversight"),
    ("do without", ""),
    ("oversight", "allow|do without|give"),
    ("private", "allow|do without|give"),
    ("say", "not"),
    ("away", "give|fetch"),
)
#: Acts; they count only if they are not forbidden.
_DONE = frozenset({"allow", "do without", "give"})
#: Verbs for taking or passing on a secret.
_LEARNS = frozenset("learn take borrow steal guess enter type install hand quote".split())
#: Verbs for skipping a check.
_GIVES_UP = frozenset("remove delete hide move rename edit change lower raise set answer empty clear drop".split())
#: Words that put no limit on what is done or for whom: "whatever comes", "whoever asks".
_ANYTHING = lazy_regex(
    r"\b(?:whatever|whichever|anything|everything|whoever|any \w+ that|all that|anybody who|anyone who)\b"
)
_DOES_ANYTHING = lazy_regex(
    r"\b(?:install|run|execute|do|give|hand|accept|approve|apply|believe|follow|trust|grant|allow|obey|answer|send|"
    r"reveal|download|merge|revert|confirm|agree|say yes)\b"
)
#: A claim that someone was informed.
_CLAIM = lazy_regex(
    r"\b(?:tell|inform|answer|write|say to|report to|let)\b (?:\w+ ){0,3}?(?:users?|customers?|clients?|boss|lead|"
    r"manager|management|owners?|reviewers?|team|support|auditors?|maintainers?|developers?|people|press|everyone|"
    r"anyone|them|him|her)\b(?: know)?,? (?:that )?(?!(?:which|what|how|when|where|why|about|to|if|whether|by|before|"
    r"after|with|in|on|via)\b)(?:\w+ ){1,5}?(?:is|was|are|were|has|have|had|did|took|takes|will|never|cannot|works?|"
    r"failed|exists?)\b|"
    r"\b(?:say|choose|answer|click|press|select|reply|type) (?:with )?[\"'“„]?(?:yes|no|ok|allow|always|done|green)\b"
)
#: Concepts with one pattern for all languages.
_SIGNS: dict[str, re.Pattern[str]] = {"not": NEGATION, "anything": _ANYTHING, "address": ADDRESS}
#: A word before the name of a part only specifies which part: "the user service", "permission checks".
_KINDS = lazy_regex(
    r"\b(?:user|agent|assistant|bot|customer|client|admin|reviewer|password|token|secret|permission|approval|audit|"
    r"review|security|alert|prompt|ignore|test|hook|confirmation|cookie|key|push)s?['’]? (?=(?:(?!the|an?|to|of|"
    r"in)[a-z]+ )?(?:service|table|module|endpoint|model|field|role|panel|id|package|template|component|class|"
    r"middleware|workflow|bucket|list|reset|mail|suite|folder|account|environment|matrix|page|form|column|schema|queue|"
    r"store|provider|manager|handler|hash|file|name|fixture|database|container|data|runner|api|object|scanner|log|"
    r"limit|check)s?\b)|\b(?:jenkins|build|ci|test|demo|dummy|service|system|database|root|admin|user|"
    r"anonymous) (?:agent|user)s?\b|\b(?:package|state|window|task|session|context|process|file|event|connection|"
    r"secrets?) managers?\b|\b(?:cache|primary|foreign|dict\w*|config\w*|object|json|translation|sort|partition|map|"
    r"query|composite|unique|idempotency|public|routing|react|i18n|csrf|design|test|pre-commit|commit|webhook|react|"
    r"git) (?:keys?|tokens?|hooks?|policies|policy)\b|\bpush notif"
)
_CODE = lazy_regex(r"`[^`\n]*`")
#: A word that is followed by a noun, not a verb: "signatures of commits".
_PHRASE = lazy_regex(r"(?:^| )(?:of|for|in|to|with|from|by|at|on|and|or) $")
#: "Tests are skipped on Windows."
_SOMEWHERE = lazy_regex(
    r"\b(?:skipped|ignored|disabled|muted|off) (?:on|in|by|if|when|unless|without|for) (?!all|every|the (?:demo|"
    r"release|user)|it\b)"
)
#: A program that acts: "The worker sends …".
_PROGRAM = lazy_regex(
    r"(?:(?:if|when|once|as soon as) [^,]{1,60}, )?(?:(?:the|an?|our|each|every|its|all) )?(?P<who>(?:[\w.`/-]+ "
    r"){1,5}?)(?:(?:also|then|only|silently|never|always|now|still|automatically) )*(?P<verb>[a-z]{2,}(?<!s)s)\b"
)
#: Where a clause that may be an order begins.
_CLAUSES = lazy_regex(
    r"[,:—–(]\s+(?:and |then |so |but |or |just )*|\s(?:and|then|so|but|or)\s+(?!(?:the|a|an|its?)\b)"
)
#: Text before the verb of an order.
_BEFORE = lazy_regex(
    r"(?:(?:please|kindly|always|just|also|then|first|now|simply|quietly|instead|and|so|but|here|hence|therefore|step|"
    r"\d+[.)]|[-*•>#]+|you (?:can|may|should|must|need to|have to|are to)|feel free to|make sure (?:to|you)|be sure to|"
    r"remember to|agents? (?:should|must|may|can)|from (?:now|here) on|in this (?:repo|repository|project)),?\s+)*"
)
_NEGATED = lazy_regex(
    r"(?:never|do not|don['’]t|avoid|no|not|must not|should not|you (?:must not|mustn['’]t|should not|shouldn['’]t|"
    r"may not|cannot|can['’]t))\s+(?:ever\s+)?"
)
_WORD = lazy_regex(r"[a-z][a-z-]*")
#: Words that begin a statement or a question, and so never an order.
_NO_VERBS = frozenset(
    "the a an this that these those it its he she they we i you your our their his her my there here what which who "
    "when where why how if because since while until after before in on at of for from with without by to into as all "
    "any each every some no none not nobody everyone both either neither one two three most many few other another "
    "more less only even still yet however although though unless once whenever wherever whatever whoever is are was "
    "were be been has have had do does did can could may might must shall should will would".split()
)
#: Words that are not verbs in their base form: participles, adverbs, plurals.
_NO_ORDER = lazy_regex(r"(?:ed|ing|ly|(?<![s])(?<!focu)(?<!foc)(?<!canva)s)$")
#: Words with which speakers announce that they will do something themselves.
_LET = lazy_regex(r"let(?:['’]s| me| us)\b")
#: "Budget: …".
_LABEL = lazy_regex(r"[a-z][\w-]*(?: \w+){0,2}:(?=\s|$)")
#: Verbs for what a program does for its users.
_SHOWN_TO_USERS = frozenset(
    "ask show redirect notify let return display create load delete update find fetch get send log identify "
    "authenticate warn prompt inform tell mention invite add remove list count group validate greet".split()
)
_OBJECT = lazy_regex(
    r"\s(?:(?:the|an?|all|any|every|each|no|your|its|this|that|these|those|it|them|my|our|his|her|their)\b(?! (?:is|"
    r"are|was|were|has|have)\b))"
)
_YOURS = lazy_regex(
    r"\byour(?:s|self)?\b(?! (?:own |local |new |feature |api |first )*(?:keys?|branch\w*|config\w*|fork|copy|"
    r"changes?|commits?|prs?|pull requests?|editor|shell|machine|code|tests?|features?|functions?|migrations?|"
    r"schemas?|components?|modules?|imports?|quer\w+|environment|venv|terminal|ide|projects?|repo\w*|teams?|"
    r"handlers?|services?|files?|endpoints?|installation|checkout|clone|database|container|cluster)\b)|\bours\b"
)
_PART = lazy_regex(r"[a-z]+")
_STEM = lazy_regex(r"(?<=\w{3})(?:ies|es|s|ed|ing)$")
_LOOKS_LIKE_CODE = lazy_regex(
    r"`|\w/\w|\w/(?=[\s;,.)]|$)|\w_\w|\b\w+\.[a-z]{1,5}\b(?!\w)|--?[a-z]|\d|\w\(|::|[<>=@#$]|\.\w|\w\.\w|"
    r"[a-z]-[a-z]+-[a-z]"
)
#: Words that nearly every English sentence contains.
_ENGLISH = lazy_regex(
    r"\b(?:the|to|of|is|are|for|with|and|not|it|from|by|when|before|after|if|all|never|always|your?|this|that|be|each|"
    r"every|only|any|what|how|our|my|then|their|its|at|until|instead|over|on|as|a|has|have|use|do)\b"
)
#: Words of other languages, and letters of other scripts.
_ELSEWHERE = lazy_regex(
    r"\b(?:der|die|das|dem|den|und|nicht|muss|wird|werden|mit|les|des|une|pour|est|sont|el|los|las|una|para|que|"
    r"gli|della|il|het|bitte|alle|allen|bei|auf|von|sich|ist|wenn|nur|kein|keine|zu|por|pelo|nos|tous|toutes|"
    r"todos|todas|een|de|niet|voor|não|uma|são|przed|nie|wszystkie|le|la|di|pas|por|con|del|dans)\b|"
    r"[^\x00-\x7f\u2000-\u22ff\u00a0-\u00bf]"
)


def is_addressed(text: str) -> bool:
    """Return True if a text, according to the rules, directs its reader in a matter outside the project.

    Args:
        text: any text; only the first 20,000 characters are read. Text of more than a few sentences may mention persons
            and checks, because it reports what was done and is read only by those who request it.
    """
    text = unicodedata.normalize("NFKC", LABELS.sub("", text[:_LONGEST]))
    text = EXAMPLE_FILE.sub("file", text.lower())
    text = EMPTY_LINES.sub("\n", BLANKS.sub(" ", text))
    sentences = _SENTENCES.split(text)
    is_short = len(sentences) <= _FEW_SENTENCES
    pieces = [
        sentence[at : at + _LONGEST_SENTENCE]
        for sentence in sentences
        for at in range(0, len(sentence), _LONGEST_SENTENCE - 100)
    ]
    return any(_is_conduct(piece, is_short=is_short) for piece in pieces)


def _is_conduct(sentence: str, *, is_short: bool) -> bool:
    """Return True if a lower-case sentence is about someone's conduct; ``is_short`` means that its text is short."""
    plain = _CODE.sub("code", sentence)
    if any(not is_forbidden(plain, match) for match in CLEAR.finditer(plain)):
        return True
    plain = _KINDS.sub("part ", plain)
    is_english = _ENGLISH.search(sentence) is not None and not _ELSEWHERE.search(sentence)
    if not is_english:
        found = _concepts_in(plain, is_english=False)
        if any(name in found and _has_one(found, others) for name, others in _ELSEWHERE_NOT_TOGETHER):
            return True
        if _ELSEWHERE.search(sentence):
            return False
    found = _concepts_in(plain, is_english=True)
    if _LOOKS_LIKE_CODE.search(sentence) or _SOMEWHERE.search(sentence):
        found.discard("checks")
    orders = list(_imperatives(plain))
    is_programs = _is_programs(plain) or ("user" in found and any(verb in _SHOWN_TO_USERS for verb, _ in orders))
    for name, others, is_spared, is_of_short in _NOT_TOGETHER:
        if name in found and _has_one(found, others) and not (is_programs and is_spared) and is_short >= is_of_short:
            return True
    return any(_is_foreign(verb, clause, plain, found) for verb, clause in orders) or (
        is_short and bool(orders) and not _is_of_project(sentence)
    )


def _has_one(found: set[str], others: str) -> bool:
    """Return True if all concepts in one of the sets ("a|b+c") were found, or if there are no sets."""
    return any(set(others.split("+")) <= found for others in others.split("|")) if others else True


def _concepts_in(sentence: str, *, is_english: bool) -> set[str]:
    """Return the names of the concepts in a sentence; an act counts only if it is not forbidden."""
    found = {
        name
        for name, concept in CONCEPTS.items()
        for match in (concept.english if is_english else concept.elsewhere).finditer(sentence)
        if name not in _DONE or not is_forbidden(sentence, match)
    }
    found.update(name for name, pattern in _SIGNS.items() if pattern.search(sentence))
    care = CARE if is_english else CARE_ELSEWHERE
    found.update(name for name, pattern in (("uncared", care), ("unasked", ASKED)) if not pattern.search(sentence))
    return found


def _is_programs(sentence: str) -> bool:
    """Return True if a sentence describes what a program does: "the worker sends …"."""
    acts = _PROGRAM.match(sentence)
    if acts is None or not {acts["verb"][:-1], _STEM.sub("", acts["verb"])} & VERBS or _PHRASE.search(acts["who"]):
        return False
    who = _concepts_in(acts["who"], is_english=True)
    return not who & {"reader", "people", "user"} and _is_of_project(acts["who"])


def _is_foreign(verb: str, clause: str, sentence: str, found: set[str]) -> bool:
    """Return True if an order is about persons or is unlimited."""
    if {"people", "user"} & found and verb not in _SHOWN_TO_USERS:
        return True
    if "reader" in found or _CLAIM.search(sentence) or _YOURS.search(sentence):
        return True
    if _ANYTHING.search(clause) and _DOES_ANYTHING.match(clause):
        return True
    inside = _concepts_in(clause, is_english=True)
    if {"oversight", "control", "checks"} & inside and {"oversight", "control", "checks"} & found and verb in _GIVES_UP:
        return True
    return {"private", "give"} <= inside or (
        "secret" in inside and (verb in _LEARNS or bool({"people", "user"} & found))
    )


def _imperatives(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield each verb that gives an order, with its clause; forbidden acts are left out."""
    starts = [(0, True), *((match.end(), not match[0].isspace()) for match in _CLAUSES.finditer(sentence))]
    ends = [*(match.start() for match in _CLAUSES.finditer(sentence)), len(sentence)]
    for (start, _), end in zip(starts, ends, strict=True):
        before = _BEFORE.match(sentence, start)
        at = before.end() if before else start
        is_other = _NEGATED.match(sentence, at) or _LABEL.match(sentence, at)
        word = None if is_other else _WORD.match(sentence, at)
        if word is None or word[0] in _NO_VERBS or _LET.match(sentence, at) or _NO_ORDER.search(word[0]):
            continue
        # "Sessions are …" and "passwords or keys" state or mention something; "rotate the key" is an order.
        has_object = _OBJECT.match(sentence, word.end()) is not None
        if not has_object and (start or word[0] not in VERBS):
            continue
        yield word[0], sentence[at:end]


def _is_of_project(sentence: str) -> bool:
    """Return True if a sentence mentions something that projects are made of."""
    if _LOOKS_LIKE_CODE.search(sentence) or _ELSEWHERE.search(sentence):
        return True
    return any(
        stem in PROJECT
        for word in _PART.findall(sentence)
        for stem in (word, word.removesuffix("s"), _STEM.sub("", word))
    )


# -- The fitted model.


def directs(text: str) -> bool:
    """Return True if a text directs its reader in a matter outside the project.

    Args:
        text: any text; only the first 20,000 characters are read.
    """
    scores = [score(passage) for passage in passages(text)]
    if not scores:
        return False
    greatest, floors = max(scores), _model().floors
    # The more passages a text has, the higher its best score by chance alone.
    if greatest - math.log(len(scores)) >= floors["alone"]:
        return True
    return greatest >= floors["with_rules"] and is_addressed(text)


def passages(text: str) -> list[str]:
    """Return each sentence of a text together with the next one, for context; a single sentence is returned alone.

    Names of hosts, lead-ins and what "it" does are left out. Long passages are split at the ends of clauses, so that an
    order is not hidden among many other words.
    """
    text = _LEAD_IN.sub("", unicodedata.normalize("NFKC", LABELS.sub("", text[:_LONGEST])))
    text = _HOST.sub("host", text)
    sentences = [sentence.strip() for sentence in _PASSAGE_ENDS.split(text) if sentence.strip()]
    pairs = [" ".join(sentences[at : at + 2]) for at in range(max(1, len(sentences) - 1) if sentences else 0)]
    found = [
        passage.strip()
        for pair in pairs
        for passage in ([pair] if len(pair) <= _LONGEST_PAIR else _PIECES.findall(pair))
    ]
    return [passage for passage in dict.fromkeys(filter(None, found)) if not _WHAT_IT_DOES.fullmatch(passage)]


def score(passage: str) -> float:
    """Return how much a passage reads like an order to its reader, as the logarithm of the odds."""
    return _model().score(features(passage))


@cache
def _model() -> LinearModel:
    return load_model(WEIGHTS)
