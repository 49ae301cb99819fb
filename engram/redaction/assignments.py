"""Find values introduced by the name of a secret: `KEY=…`, `"key": "…"`, `<key>…</key>`, "the password is …"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from engram.redaction.composed import is_composed
from engram.redaction.literals import WORD_LIMIT, Run, block, element, literal
from engram.redaction.public_labels import is_encrypted, is_key_id
from engram.redaction.told_cues import FUNCTION_WORDS, kind_of
from engram.redaction.values import (
    Span,
    has_digit,
    has_plain_shape,
    has_sign,
    is_chosen_pair,
    is_dummy,
    is_expression,
    is_mixed,
    is_pattern,
    is_placeholder,
    is_public_form,
    is_state,
    is_technical,
    total_bits,
)
from engram.system.lazy_regex import any_case, lazy_regex

#: Stems of names, and whether a person chooses the values. They are found by plain search and then checked in context.
_CHOSEN_STEMS = (
    *"pass pwd pw pin puk otp psk cred kennwort contrase senha wachtwoord haslo hasło parola".split(),
    *("login with", "community string", "snmp"),
)
_ISSUED_STEMS = (
    *"secret token key auth bearer sess connection x-amz- x- webhook dsn pat sig salt pepper seed mnemonic".split(),
    *("invite code", "verifier", "csrf", "xsrf", "refresh", "assertion"),
)
_STEMS = (*((stem, True) for stem in _CHOSEN_STEMS), *((stem, False) for stem in _ISSUED_STEMS))
#: The complete name that begins with the stem.
_NAME = lazy_regex(
    r"pass(?:word|wd|phrase|code|wort|wrd|e\b)?|pw[dh]?|pin(?:code)?|puk(?:code)?|otp|psk|cred(?:ential|entials|s)?|kennwort|"
    r"contrase(?:ñ|n)a|senha|wachtwoord|has[lł]o|parola|login with|community string|"
    r"snmp[-_ ]?community(?:[-_ ]?string)?|secret|token|keys?(?:pass)?|auth(?:orization|token)?|bearer|sess(?:ion[-_ "
    r"]?key|id)|connection[-_ ]?string|x-amz-(?:signature|credential|security-token)|x-[a-z-]{0,20}(?:key|auth|"
    r"signature)|webhook(?:[-_ ]?ur[li])?|dsn|pat|sig|salt|pepper|seed|mnemonic|invite code|verifier|csrf|xsrf|"
    r"refresh|assertion"
)
#: Names that are too short to count inside a longer word.
_SHORT_VALUE = frozenset(
    {
        *("pass", "pw", "pin", "puk", "otp", "psk", "cred", "creds", "seed", "salt", "refresh", "pepper", "pat", "sig"),
        "dsn",
    }
)
#: What a password is for, at the beginning of a name that ends with "pass": `dbpass`, `remotepass`.
_PASS_OF = lazy_regex(
    r"(?<![a-z])(?:account|admin|api|app|auth|backup|bind|conn|db|ftp|host|http|imap|ldap|local|login|mail|mongo|my|mysql|"
    r"net|pg|pop3?|proxy|redis|remote|root|rsync|server|service|sftp|smtp|sql|store|sudo|sys|trust|user|vpn|web|"
    r"wifi|wlan)$"
)
#: Names that configuration files put before a password without a separator such as ``=``.
_CONFIGURED = frozenset({"password", "passwd", "passphrase", "secret", "pwd"})
#: Text before "key" if it is not the name of a secret.
_NOT_KEY_OF = lazy_regex(
    r"(?:public|primary|foreign|sort|partition|cache|idempotency|json|dict|map|query|translation|i18n|object|row|"
    r"hash ?map|config|settings?|range|clustering|dist|"
    r"lookup|join|merge|dedup|composite|site|s3|arrow|shift|return|escape|tab|any|each|which|every|same|no|press|unique|index|"
    r"column|group|routing|message|dns)[ _-]?$"
)
#: Text that must precede "key" for it to be the name of a secret.
_KEY_OF = lazy_regex(r"(?:[a-z0-9]{2,20}[_ -]?|[_-])$")
#: Text that may follow the name in the same identifier without changing its meaning.
_TAIL = lazy_regex(
    r"(?:s(?![a-z]))?(?:[-_ ]?(?:key|value|base64|b64|hex|string|enc|prod(?:uction)?|dev|test|stag(?:e|ing)|live|"
    r"main|old|new|root|admin|user|primary|secondary|default|plain(?:text)?|raw|header|phrase|words?|[0-9]{1,3})"
    r"(?![a-z])){0,3}"
)
_SEPARATOR = lazy_regex(
    r"(?P<close>\\?[\"'`]|[\])*]{1,2}|\*\*){0,2}[ \t]{0,8}"
    r"(?P<sep>:[ \t]{0,2}[\w.]{1,20}(?:[ \t]?\|[ \t]?\w{1,12})?[ \t]{0,2}=(?!=)|=>|:=|\?=|\+=|={1,2}|->|→|:{1,2}|>|\|"
    r")[ \t]{0,8}(?:(?:(?P<block>[|>][+-]?)[ \t]{0,4})?\r?\n[ \t]{1,24})?|"
    # The end of a tag with attributes, the next cell of a table, or the next element of a list of properties.
    r"(?P<tag>(?:[ ](?!digest)[\w:.-]{1,24}=\"[^\"<>\n]{0,120}\"){1,3}>)\s{0,24}|"
    r"(?:</(?:th|td|dt|key|name|b|strong|span|label|code|p|em)>\s{0,24}){1,3}"
    r"(?:<(?:td|dd|string|value|code|span|pre|kbd|b|p|em)(?: [^<>\n]{0,60})?>\s{0,8}){1,3}"
)
_NAME_VALUE = lazy_regex(
    r"\\?[\"']?,?\s{1,24}\\?[\"']?value\\?[\"']?\s{0,4}[:=]\s{0,4}|"
    r"\\?[\"']?,\s{0,24}\\?[\"']?value\\?[\"']?\s{0,4}[:=]\s{0,4}"
)
#: Text before the second of two quoted arguments, and text before a value on the line below its name.
_ARGUMENT = lazy_regex(r"[\"']\s{0,2},\s{0,8}(?=[\"'])")
_BELOW = lazy_regex(r"[*_\"']{0,2}[ \t]{0,2}:?[*_]{0,2}[ \t]{0,4}\n[ \t]{0,12}")
_PROSE = lazy_regex(
    r"(?:[ \t]{1,2}(?:for|of|to|on|at|in|from|here|there|i|we|you|that|which|should|must|there)\b[^\n:=;.]{0,50}?)?(?:"
    r"[ \t]{0,2}(?:['’]s|:|=|->|→|—|–)[ \t]{1,3}|"
    r"[ \t]{1,2}(?:is|was|are|ist|lautet|es|est|will be|be|to|as|reads?|becomes|=|:|→|->|-)(?:[ \t](?:now|set to|"
    r"just|still|simply|currently|called|:))?[:]?[ \t]{1,3})"
)
#: The purpose of a password, in brackets after its name.
_QUALIFIED = lazy_regex(
    r"[ \t]{1,2}(?:\([^()\[\]\n]{1,40}\)|\[[^()\[\]\n]{1,40}\])[ \t]{0,2}(?:(?::|=|→|—|–)[ \t]{0,3}|(?:is|was|ist|"
    r"lautet|es|est)[ \t]{1,3})"
)
#: Text before the name of a password that somebody uses or is given, in a log or a message.
_WITH = lazy_regex(r"(?<!\w)(?:with|using|mit|avec|con|com|met|z|с)(?: (?:the|a|new|initial|temporary|default|dem))? $")
#: Space before a password in configuration files, where a digit may also precede it to specify its encoding.
_BARE = lazy_regex(r"(?:[ \t]{1,3}(?:[0-9]{1,2}[ \t](?=\S{6}))?|\n[ \t]{0,4})")
#: Text before the name on a line that consists of a name and its value, as in configuration files.
_DIRECTIVE = lazy_regex(
    r"(?:(?:^|\s)(?:login|user|username|account)\s{1,8}\S{1,64}\s{1,8}(?:account\s\S{1,64}\s{1,8})?|"
    r"(?:^|\n)[ \t]{0,16}(?:(?:enable|set(?:x|env)?|"
    r"launchctl setenv|set -\w{1,4}|env|arg|export|neighbor \S{1,40}|ppp \w{1,8} sent-username \S{1,40})[ \t])?"
    r"[\w.-]{0,40})$"
)
#: Number of characters before the name in which to look for that text, and for the name's tag.
_TAG_CHARACTERS = 80
_DIRECTIVE_CHARACTERS = 120
_LINE_END = lazy_regex(r"[ \t]*+(?:[\n\r;]|$|(?:machine|account|port|login|macdef)\b)")
#: Text before a secret's name in the name of a label or message: `forgot_password`, `confirmPassword`.
_LABEL = lazy_regex(
    r"(?:forg[eo]t(?:ten)?|reset|change|confirm|repeat|retype|verify|show|hide|reveal|enter|choose|update|invalid|wrong|"
    r"incorrect|missing|create|require|label|title|button|hint|field|remove|delete|edit|copy|generate|no|via|with)"
    r"[ _.:-]?(?:your[ _.-]?|new[ _.-]?)?$"
)
#: The name under which a secret is stored, as used in a reference to the secret.
_KEPT_AS = lazy_regex(
    r"[a-z0-9]{1,20}(?:-[a-z0-9]{1,20}){0,5}-(?:cred|credential|secret|token|tls|cert|key|auth|password|pull|pass|pw)s?\d{0,2}"
    r"(?:-[a-z0-9]{5})?"
)
_SCHEME = any_case(
    r"(?:basic|bearer|token|digest|apikey|api-key|bot|key|negotiate|ntlm|hmac|oauth|genie ?key|splunk|jwt|"
    r"pass|env|plain|raw|base64|\{noop\}|\{plain\})(?::|[ \t]+|(?<=\}))"
)
_ENV_NAME = lazy_regex(
    r"[ \t]{0,20}(?:[-+>$#*]{1,2}[ \t]{0,4})?(?:export |set |setx |ENV |ARG |env |-e |--env )?[ "
    r"\t]{0,4}[\"']?[\w.-]{0,60}"
)
_SENTENCE_WORDS = lazy_regex(
    r"(?i)\b(?:your|the|a|an|is|must|enter|please|to|for|of|and|or|not|with|in|are|be|new|this|no)\b"
)
#: A password in groups of equal length, such as an app password or the seed of an authenticator.
_VALUE_GROUPS = lazy_regex(r"(?:[A-Za-z0-9]{4} ){3,15}[A-Za-z0-9]{4}\b|(?:[A-Za-z0-9]{5} ){3,12}[A-Za-z0-9]{5}\b")
#: A pointer to a type in code: `TokenUsage *TokenUsage`.
_POINTER = lazy_regex(r"[*&][A-Za-z_][\w.]{0,128}")
#: The part of a path before a name at the end of the path.
_PATH = lazy_regex(r"/[\w.-]{0,60}$")
#: The name of a test before a name inside it.
_TEST = lazy_regex(r"::test_\w{0,100}$")
#: The part of a label's key before its last name: `"login.`.
_DOTTED_KEY = lazy_regex(r"[\"'](?:[\w-]{1,40}[.:/]){1,6}[\w-]{0,40}$")
#: Characters that follow a value at the end of a clause or line.
_SENTENCE_ENDS = frozenset(("", "\n", "\r", ")", "]", ".", ",", ";"))
#: The name of an HTTP header, which a variable such as `TOKEN_HEADER` holds.
_HEADER = lazy_regex(
    r"(?=X-|(?i:[a-z-]{0,64}(?:auth|key|token|secret|sign|session|csrf|cookie)))"
    r"(?:[A-Z]|[A-Z][A-Za-z]{1,24})(?:-[A-Z][A-Za-z]{0,24}){1,4}|Authorization"
)
_TITLE_WORD = lazy_regex(r"[A-Z][a-z]{3,64}")
_WORDS = lazy_regex(r"[^\W\d_]{2,64}+")
#: Words joined together, in the text of an element.
_JOINED_ELEMENT = lazy_regex(r"[^\W_](?:[_.&!@#-]|&amp;)[^\W_]|[a-z][A-Z]")
#: Capitalised words joined by underscores, and words that occur in such names of fields, messages and states.
_JOINED_WORDS = lazy_regex(r"[A-Z][a-z]{2,20}(?:_[A-Za-z][a-z]{0,20}){2,6}")
_LABELLING = lazy_regex(
    r"(?i)pass|pwd|wort|login|user|your|not?_|set_|field|label|form|text|key|auth|admin|error|invalid"
)
#: Parts that turn the name of a secret into that of a reference: `existingSecret`, `from_secret`, `tlsSecretName`.
_REFERRING = lazy_regex(
    r"(?i)(?:existing|pull|(?<![a-z])from|tls|cert(?:ificate)?s?|credentials?)[-_]?(?:secret[a-z]{0,20})?$"
)
#: The name of an object that contains secrets, as used in manifests, stores and paths.
_RESOURCE_NAME = lazy_regex(r"[a-z0-9][a-z0-9._-]{0,64}")
_STORE_PATH = lazy_regex(r"[a-z][a-z0-9_-]{0,40}(?:/[a-z0-9][\w.-]{0,40}){1,6}")
#: Text after the name of a key in a manifest that fetches the key from a store.
_FETCHED = lazy_regex(r"[\"']?\s{1,24}remoteRef\b")
#: Names of columns that together form a key: `created_at#event_id`.
_JOINED_NAMES = lazy_regex(r"[A-Za-z_]{2,40}(?:[#|:+&][A-Za-z_]{2,40}){1,4}")
#: Keys that are passwords.
_CHOSEN_KEY = lazy_regex(r"(?:wpa\d?|wi-?fi|wlan)[ _-]?$")
#: The purpose of keys that people make up, the form of such a key, and the version or year at the end of a name.
_COINED_KEY = lazy_regex(r"(?:hmac|sign(?:ing)?|jwt|encrypt(?:ion)?|cipher|aes|crypto|master)[ _-]?$")
_COINED = lazy_regex(r"(?=(?:[^\d\s]{0,48}\d){3})(?=(?:[^A-Za-z\s]{0,24}[A-Za-z]){6})[\w!#$%&*+,:;=?@^~-]{12,64}")
_VERSIONED = lazy_regex(r"[-_]?(?:19|20)\d\d$")
#: Elements and attributes with text that is shown to people.
_SHOWN = lazy_regex(r"(?i)<(?:string|label|option|span|text|p|a|h\d|li|th|td|dd|button|legend|title|hint|message)\b")
_UUID = lazy_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
#: An assignment on the line below a name, which is not the name's value.
_ASSIGNMENT = lazy_regex(r"[A-Za-z_][\w.-]{1,64}=\S")
#: The beginning of a variable in braces before a name, and the mark of the message that is shown if it is not set.
_IN_VARIABLE, _REQUIRED = lazy_regex(r"\$\{\w{0,60}$"), lazy_regex(r"\w{0,60}:?[?+]")
#: The option of a container that passes a variable on, without a value.
_PASSED_ON = lazy_regex(r"(?<!\S)(?:-e|--env) \w{0,60}$")
#: What is before and after a setting that stands apart: `export PGPASSWORD=…`, ` … user=anna pass=… ok=true`.
_BEGINS_SETTING = lazy_regex(r"(?:^|[\n;\"']|(?<![,(\[{=:])[ \t])[\w.-]{0,60}$")
_ENDS_SETTING = lazy_regex(r"(?:[\"']?[ \t]{0,4}(?:[\r\n]|$)|[ \t]{1,4}[\w/.-]|;[\w ]{1,40}=|;?[\"'])")
#: A variable inside a value.
_VARIABLE = lazy_regex(r"\$\{[\w.:?-]{1,80}\}")
#: Number of characters at the beginning of a value by which it is judged, so that a long line takes no longer.
_JUDGED = 256

#: Forms in which a name is joined to its value, and how readily the value counts as a secret in each form.
_FORMS = (
    (_SEPARATOR, "set"),
    (_NAME_VALUE, "set"),
    (_ARGUMENT, "argument"),
    (_PROSE, "said"),
    (_QUALIFIED, "said"),
    (_BELOW, "below"),
    (_BARE, "bare"),
)


class _Name(NamedTuple):
    """The name of a secret in a text: its end, whether a person chooses its values, the name, and its case."""

    end: int
    chosen: bool
    word: str
    is_capital: bool


def named_spans(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of the values that follow a secret's name in `text[start:end]`.

    Args:
        low: the same text in lower case, of the same length.
        start: where to begin.
        end: where to stop looking for names; a value may extend beyond this position.
    """
    run = Run()
    words = low[start:end]
    for stem, chosen in _STEMS:
        if stem not in words:
            continue
        at = low.find(stem, start, end)
        while at >= 0:
            match = _NAME.match(low, at)
            word = match.group() if match else ""
            after = at + len(stem)
            if match and _is_name(text, low, at, match.end(), word):
                is_chosen = chosen or word == "keypass" or (word == "key" and bool(_CHOSEN_KEY.search(low, at - 6, at)))
                name = _Name(match.end(), is_chosen, word, text[at : match.end()].isupper())
                span = _value_after(text, low, at, name, run)
                if span:
                    yield span
                    after = max(after, span.end)
            at = low.find(stem, after, end)


def name_places(text: str, low: str) -> Iterator[int]:
    """Yield the position of each possible name of a secret in a list of words, one per line, regardless of context."""
    for stem, _ in _STEMS:
        at = low.find(stem)
        while at >= 0:
            match = _NAME.match(low, at)
            if match:
                word, stop = match.group(), match.end()
                is_context = (
                    (at == 0 or low[at - 1] == "\n") if word in ("key", "keys") else low[stop : stop + 1] in ("", "\n")
                )
                if (is_context and word not in _SHORT_VALUE) or _is_name(text, low, at, stop, word):
                    yield at
            at = low.find(stem, at + len(stem))


def _is_name(text: str, low: str, start: int, end: int, word: str) -> bool:
    if word == "pass" and not low[end : end + 1].isalpha() and _PASS_OF.search(low, max(0, start - 8), start):
        return True
    if word in _SHORT_VALUE:
        return _stands_alone(text, start, end)
    if word in ("key", "keys"):
        before = low[max(0, start - 22) : start]
        return bool(_KEY_OF.search(before)) and not _NOT_KEY_OF.search(before)
    if word == "secret" and text[end : end + 1] == ":" == text[start - 1 : start]:
        return "arn:" not in low[max(0, start - 80) : start]
    if word == "auth" and text[end : end + 1] == " ":
        return True
    if word == "auth":
        return (start > 0 and text[start - 1] in "_-\"'") or text[end : end + 1] in "\"'=:"
    return True


def _stands_alone(text: str, start: int, end: int) -> bool:
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if text[start:end].lower() == "pw" and not after.isalnum():
        return True
    begins = not before.isalpha() or (before.islower() and text[start].isupper())
    return begins and before != "-" and not (after.islower() and after != "s")


def _value_after(text: str, low: str, start: int, name: _Name, run: Run) -> Span | None:
    if _REQUIRED.match(text, name.end) and _IN_VARIABLE.search(text, max(0, start - 64), start):
        return None  # the message of `${PASSWORD:?…}`
    tail = _TAIL.match(low, name.end)
    at = tail.end() if tail else name.end
    for pattern, form in _FORMS:
        for position in (at, name.end) if at != name.end else (at,):
            match = pattern.match(low, position)
            if match:
                joined = _form(text, start, match) if pattern is _SEPARATOR else form
                span = _take(text, low, start, match.end(), name, joined, run)
                if span:
                    return span
    return None


def _form(text: str, name_start: int, match: re.Match[str]) -> str:
    """Return how a value is joined to its name: as a YAML block, as the text of an element, or otherwise."""
    if match.group("block") is not None:
        return "block"
    if match.group("tag") or match.group("sep") == ">":
        tag = text[max(0, name_start - _TAG_CHARACTERS) : name_start].rpartition(">")[2].rpartition("<")
        return (
            "shown" if _SHOWN.match("<" + tag[2]) else "element" if tag[1] else "tag" if match.group("tag") else "set"
        )
    return "set"


def _take(text: str, low: str, name_start: int, at: int, name: _Name, form: str, run: Run) -> Span | None:
    if form == "tag":
        return None
    inside = element(text, at) if form == "element" else None
    first, last, quoted = (*inside, False) if inside else block(text, at) if form == "block" else literal(text, at, run)
    form = "set" if form in ("block", "element", "shown") else form
    value = text[first : min(last, first + _JUDGED)]
    if is_placeholder(value) or is_pattern(value) or is_public_form(text[first:last]):
        return None
    if _HEADER.fullmatch(value) and "header" in low[name.end : first]:
        return None
    if not name.chosen and (rest := _VARIABLE.sub("", value)) != value and not _is_issued(rest, 6):
        return None
    is_said = name.word == "pass" and not quoted and value.isalpha() and ":" in text[name.end : at]
    if is_said and not _stands_alone(text, name_start, name.end):
        return None  # a state, as in `userpass: enabled`
    if inside and name.chosen and " " not in value and _JOINED_ELEMENT.search(value) and not _names(value):
        return Span(first, last, "password")
    if not quoted and text[last : last + 2] in (": ", ":\n") and "\n" in text[name.end : first]:
        return None
    if inside and " " in value and not value.islower():
        return None
    scheme = _SCHEME.match(text, first, last)
    if scheme and scheme.end() < last:
        first = scheme.end()
    elif scheme and not quoted:
        first, last, quoted = literal(text, scheme.end(), run)
    groups = _VALUE_GROUPS.match(text, first)
    if groups and not quoted and not inside:
        last = groups.end()
    value = text[first : min(last, first + _JUDGED)]
    if (
        form == "bare"
        and name.word == "pw"
        and text[last : last + 1] not in _SENTENCE_ENDS
        and not _is_issued(value, 8)
    ):
        return None
    if form in ("bare", "below") and _is_apart(text, name_start, value, form):
        return None
    is_action = name.word == "refresh" and text[max(0, name_start - 1) : name_start] == "="
    if form == "bare" and (is_action or _PASSED_ON.search(text, max(0, name_start - 64), name_start)):
        return None
    if form == "set" and not quoted and name.chosen and _is_set_apart(text, name_start, name.end, first, last):
        is_line = _begins_line(text, name_start) and (name.is_capital or bool(_LINE_END.match(text, last)))
        if is_chosen_pair(value, is_setting=is_line):
            return Span(first, last, "password")
    if form == "bare" and len(name.word) >= 6 and _WITH.search(low, max(0, name_start - 24), name_start):
        form = "below"  # as sure as on a line of its own
    env = form == "set" and (_begins_line(text, name_start) or "ansible_" in text[max(0, name_start - 16) : name_start])
    if env and _is_short_password(text, name_start, value, name):
        return Span(first, last, "password")
    if len(value) < 4 or is_placeholder(value) or (len(value) >= 16 and is_dummy(value)):
        return None
    if groups and not quoted:
        return Span(first, last, "password") if total_bits(value.replace(" ", "")) < -2.0 else None
    if form == "bare" and _is_directive(text, name_start, name, first, last):
        return Span(first, last, "password")
    if value.isalpha() and _is_label(text[max(0, name_start - 80) : name_start].lower(), name):
        return None
    if not _judge(value, name, form, quoted=quoted, env=env) and not (
        quoted and form == "set" and _is_coined(text, name_start, name, value)
    ):
        return None
    if _is_reference(text, name_start, name, first, last) or is_key_id(text, first, last):
        return None
    if is_encrypted(text, first, last):
        return None
    if last - first >= WORD_LIMIT and not quoted:
        last = run.end_from(text, first)
    return Span(first, last, "password" if name.chosen else "token")


def _is_set_apart(text: str, name_start: int, name_end: int, first: int, last: int) -> bool:
    """Return True if white space surrounds `NAME=value`, as in shells, properties and logs but not among arguments."""
    if text[first - 1] != "=" or "\n" in text[name_end:first] or not _ENDS_SETTING.match(text, last):
        return False
    return bool(_BEGINS_SETTING.search(text, max(0, name_start - 64), name_start))


def _names(value: str) -> bool:
    """Return True if one of the joined words names a secret, as in the keys of messages."""
    return any(map(kind_of, _WORDS.findall(value.lower())))


def _is_apart(text: str, name_start: int, value: str, form: str) -> bool:
    """Return True if the text after a name without a separator has nothing to do with the name.

    This is the case if the name ends a path, or if the text is a pointer to a type or an assignment.
    """
    if _PATH.search(text[max(0, name_start - 64) : name_start]):
        return True
    if _TEST.search(text[max(0, name_start - 120) : name_start]):
        return True
    if form == "below":
        return bool(_ASSIGNMENT.match(value))
    return "/" in value or bool(_POINTER.fullmatch(value))


def _is_reference(text: str, name_start: int, name: _Name, first: int, last: int) -> bool:
    """Return True if a value is the name under which a secret is stored, such as an object in Kubernetes or a path."""
    value = text[first : min(last, first + _JUDGED)]
    if not name.chosen and _STORE_PATH.fullmatch(value) and total_bits(value) > 2.0:
        return True
    before = text[max(0, name_start - 40) : name_start]
    if _RESOURCE_NAME.fullmatch(value) and total_bits(value) > -4.0:
        is_named = name.word == "secret" or "ecret" in before[-24:]
        return bool((is_named and _REFERRING.search(before)) or _FETCHED.match(text, last))
    return False


def _is_coined(text: str, name_start: int, name: _Name, value: str) -> bool:
    """Return True if a value is a key made up from words and digits: `hmacKey = "hill-over-town-4471"`."""
    if name.word != "key" or not _COINED_KEY.search(text[max(0, name_start - 16) : name_start].lower()):
        return False
    return bool(_COINED.fullmatch(value)) and not _VERSIONED.search(value) and not _KEPT_AS.fullmatch(value)


def _is_label(before: str, name: _Name) -> bool:
    """Return True if the text before a name makes it the name of a label, which has a text to display as its value."""
    return bool(_LABEL.search(before[-24:])) or (not name.chosen and bool(_DOTTED_KEY.search(before)))


def _is_directive(text: str, name_start: int, name: _Name, first: int, last: int) -> bool:
    """Return True if a line of a configuration file consists of a name and its password, without a separator."""
    value = text[first:last]
    if name.word not in _CONFIGURED or not is_mixed(value) or value[0] in "([{<" or "\n" in text[name.end : first]:
        return False
    before = text[max(0, name_start - _DIRECTIVE_CHARACTERS) : name_start].lower()
    if (
        (is_expression(value) and ("(" in value or "login" not in before))
        or has_plain_shape(value)
        or is_technical(value.rpartition("-")[2])
        or not _LINE_END.match(text, last)
    ):
        return False
    return bool(_DIRECTIVE.search(before))


def _is_short_password(text: str, name_start: int, value: str, name: _Name) -> bool:
    """Return True if a line sets a variable such as ``DB_PWD`` to a word of three to forty characters."""
    is_variable = name.is_capital and text[max(0, name_start - 1) : name_start] == "_"
    if not (is_variable and name.word.startswith(("pass", "pw"))) or not 3 <= len(value) <= 40 or " " in value:
        return False
    return not (is_placeholder(value) or (has_plain_shape(value) and not value.isdigit()) or is_expression(value))


def _begins_line(text: str, name_start: int) -> bool:
    """Return True if nothing but parts of an assignment precedes the name on its line."""
    floor = max(0, name_start - 80)
    newline = text.rfind("\n", floor, name_start)
    if newline < 0 and floor:
        return False
    return bool(_ENV_NAME.fullmatch(text, newline + 1 if newline >= 0 else 0, name_start))


def _judge(value: str, name: _Name, form: str, *, quoted: bool, env: bool) -> bool:
    if not name.chosen and _KEPT_AS.fullmatch(value) and total_bits(value) > -6.0:
        return False
    if form == "bare" and name.word == "pw" and is_mixed(value, 8) and has_digit(value):
        return not (is_expression(value) or has_plain_shape(value) or is_technical(value))
    if form in ("bare", "below") and name.chosen and len(name.word) >= 6 and not quoted and "\\" not in value:
        chosen = is_composed(value) if form == "bare" else is_mixed(value, 8) and any(c.isdigit() for c in value)
        return not is_expression(value) and not has_plain_shape(value) and (chosen or _is_issued(value, 8))
    if form == "argument":
        return " " not in value and (is_mixed(value, 8) if name.chosen else _is_issued(value, 10))
    if form in ("bare", "below"):
        if is_expression(value) or has_plain_shape(value):
            return False
        return _is_issued(value, 8) or (quoted and name.chosen and is_mixed(value, 8) and " " not in value)
    if " " in value:
        return _is_phrase(value, name)
    if not quoted and is_expression(value):
        return False
    if value.isdigit():
        return name.chosen and (
            quoted or env or form == "said" or name.word in ("pin", "puk", "otp", "passcode", "pincode", "pukcode")
        )
    if has_plain_shape(value):
        return False
    if form == "said":
        if is_technical(value):
            return False
        if name.chosen:
            return is_mixed(value) or (value.count("-") >= 3 and len(value) >= 14)
        return _is_issued(value, 10)
    if name.chosen:
        if is_mixed(value, 5):
            return True
        if (quoted or env) and len(value) >= 6 and value.isalpha() and value[1:].islower() and not is_state(value):
            return True
        is_joined = value.count("-") >= 2 or (_JOINED_WORDS.fullmatch(value) and not _LABELLING.search(value))
        return bool(is_joined) and len(value) >= 10 and (quoted or env)
    if env and name.word in ("secret", "token"):
        return len(value) >= 6 and (quoted or name.is_capital or not value.replace("_", "").isalpha())
    if quoted and name.word == "secret" and form == "set" and len(value) >= 10:
        return True
    return _is_issued(value, 8)


def _is_phrase(value: str, name: _Name) -> bool:
    if not name.chosen and name.word not in ("mnemonic", "seed", "secret"):
        return value.isascii() and has_digit(value) and total_bits(value) < -8.0
    words = [word.rstrip(";,") for word in value.split()]
    if not all(w.isalnum() for w in words) or len(words) < (2 if has_digit(value) else 3):
        return False
    if name.word == "passphrase" and len(words) >= 5 and value.islower() and "pass" not in value:
        return sum(word in FUNCTION_WORDS for word in words) <= 1
    is_sentence = any(word in FUNCTION_WORDS or kind_of(word) for word in value.lower().split())
    return not is_sentence and not _SENTENCE_WORDS.search(value)


def _is_issued(value: str, least: int) -> bool:
    is_word = not has_digit(value) and (not value.isascii() or _TITLE_WORD.fullmatch(value))
    if len(value) < least or is_word:
        return False
    if _UUID.search(value):
        return True
    if has_digit(value):
        return total_bits(value) < 1.0 or has_sign(value)
    is_signed = has_sign(value) and is_mixed(value, least) and not _JOINED_NAMES.fullmatch(value)
    return total_bits(value) < -6.0 or is_signed
