"""Find secrets that are passed to programs or printed by them.

These are in lists of arguments, stores of secrets, output of commands, dialogues with servers, and calls that take a
key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from engram.redaction.command_lines import VALUE, accept
from engram.redaction.literals import CONVERTED
from engram.redaction.values import (
    Gate,
    Span,
    has_digit,
    has_plain_shape,
    is_expression,
    is_mixed,
    is_placeholder,
    is_technical,
    matches,
    starts_of,
    total_bits,
)
from engram.system.lazy_regex import lazy_regex

#: Options that take a secret as their value, in the form used in lists of arguments.
_OPTION = (
    r"--?(?!no-)(?:[a-zA-Z][a-zA-Z-]{0,24}?)?(?<!by)(?<!com)(?<!multi)(?<!single)"
    r"(?P<option>[pP]ass(?:w(?:or)?d|phrase)?|[tT]oken|[sS]ecret|[aA]pi-?[kK]ey|master-?auth|auth|pwd|"
    r"(?:access|private|secret|license)-?[kK]ey|[cC]redentials?)"
)
_QUOTED = r"(?:\"([^\"\n]{3,512})\"|'([^'\n]{3,512})')"
#: The option and the value in quotation marks, one after the other, or as items of a YAML list.
_LISTED = lazy_regex(r"[\"']" + _OPTION + r"[\"'](?:\)\s{0,20}\.arg\(|,)\s{0,40}" + _QUOTED)
_ITEMS = lazy_regex(
    r"- [\"']?" + _OPTION + r"[\"']?[ \t]{0,4}\r?\n[ \t]{0,24}- (?:" + _QUOTED + r"|([^\s\"'`;|&<>]{3,512}))"
)
#: A name in code.
_VARIABLE = lazy_regex(r"[a-z]{1,20}(?:_[a-z]{1,20}){1,4}\d?")
_QUOTED_DASHES = ('"-', "'-")
_DASHES = ("- -", '- "-')
#: Short options in lists, with the commands for which they take a password.
_SHORT = lazy_regex(
    r"[\"'](?:mysql(?:dump|admin)?|mariadb|sshpass|redis-cli|valkey-cli|mongosh|mongodump|7z|plink)[\"'],"
    r"[^\n\])]{0,200}?[\"'](?:-pw|-[pa])(?:[\"'],\s{0,8}[\"']|(?=\w))([^\"'\n]{4,128})[\"']"
)
#: Code that declares an option instead of passing it.
_DECLARES = lazy_regex(
    r"(?i)(?:option|argument|flag|\bopt\w{0,6}|param\w{0,6}|(?<!\.)\barg)\w{0,4}\(\s{0,20}"
    r"(?:[\"'][^\"'\n]{0,40}[\"'],\s{0,8}){0,3}$"
)
#: Long options that end in "pass" or "password", such as `-srcstorepass`, `--requirepass` and `-RecoveryPassword`, and
#: Java properties.
_PASS_OPTION = lazy_regex(
    r"-(?:(?<=[\s(`]-)-?(?!no-|[a-zA-Z-]{0,12}(?:by|com|multi|single|two|first|second|last)-?pass)"
    r"[a-zA-Z-]{0,24}?"
    r"(?P<tool>store|key|ks|require|admin|root|user|db|bind|trust)?-?(?:[pP]ass(?:word|wd|phrase)?|masterauth)[= ]|"
    r"(?<=[\s\"']-)D[\w.-]{1,60}?[pP]assw(?:or)?d=)" + VALUE
)
_ARGUMENTS = r"(?:[^\n\\|;]|\\\n?){0,160}?"
#: Commands and lines that put a secret into a store, each with a word that must occur in the text.
_STORES: tuple[tuple[Gate, tuple[tuple[str, re.Pattern[str]], ...]], ...] = tuple(
    (gate, tuple((literal, lazy_regex(pattern + VALUE)) for literal, pattern in rules))
    for gate, rules in (
        (
            Gate("secret"),
            (
                ("secret-string", r"--secret-string[= ]"),
                ("keyvault secret", rf"keyvault secret set {_ARGUMENTS}--value[= ]"),
                ("secret set ", rf"secret set {_ARGUMENTS}(?:--body|-b)[= ]"),
                ("user-secrets", r"user-secrets set [\"']?[\w:.-]{2,80}[\"']? "),
                ("config set", r"config set --secret \S{1,60} "),
            ),
        ),
        (
            Gate("config"),
            (
                ("http-basic.", r"http-basic\.\S{1,80} \S{1,80} "),
                ("bundle config", r"bundle config (?:set )?(?:--\w{1,12} ){0,2}\S{3,80} [^\s:]{1,60}:"),
                ("rclone config", rf"rclone config (?:create|update|password) {_ARGUMENTS}\bpass "),
            ),
        ),
        (
            Gate("passwd"),
            (
                ("mosquitto_passwd", r"mosquitto_passwd (?:-\w{1,3} ){1,3}\S{1,80} \S{1,80} "),
                ("passwd ", rf"-(?:store|key)passwd {_ARGUMENTS}-new "),
            ),
        ),
        (
            Gate("put-parameter", "setuser", "schlüsselinhalt"),
            (
                ("put-param", rf"put-parameter (?={_ARGUMENTS}SecureString){_ARGUMENTS}--value[= ]"),
                ("setuser", r"(?i:acl setuser) \S{1,60} [^\n]{0,80}?>"),
                ("inhalt", r"Schlüsselinhalt[ \t]{1,20}:[ \t]"),
            ),
        ),
        (Gate("login"), (("login ", r"(?:^|\n)(?:[CS>]:? {0,2})?[A-Za-z]{0,3}\d{1,5} (?i:login) \"?\S{1,80} "),)),
    )
)
#: A command that sets values in a store of secrets or of a service's environment: ``fly secrets set A=… B=…``.
_SETS = lazy_regex(
    r"(?<![\w.-])(?:(?P<environment>env[ :]set|(?:functions:)?config:set|(?:railway|gh|glab) variables? (?:set|--set))|"
    r"(?:functions:)?secrets?[ :](?:set|add|put|create)|chamber write \S{1,60})(?=[ \"'])"
    r"(?P<arguments>(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'|\\\n|[^\n;|&<]){2,2000})"
)
_SET = Gate("secret", "env set", "env:set", "config:set", "variable set", "variables ", "chamber write")
#: One of these values: with its name, after the name, or of an option.
_SET_VALUE = lazy_regex(
    rf"(?:(?<=[ \"'])[A-Za-z_][\w.]{{0,80}}=|(?<= )--(?:value|body)[= ]|"
    rf"^(?: --?[\w-]{{1,40}}(?:=\S{{1,80}})?){{0,3}} (?!(?:in|by|on|at|as|to|for|from|of|via|with|up|the|an?|and|or|is|"
    rf"was)\s)[A-Za-z_][\w.-]{{0,80}} (?!-|[A-Za-z_][\w.]{{0,80}}=[^\s=])){VALUE}"
)
#: Names of secrets in commands that print only a secret, and the line below such a command, in lower case.
_PRINTS = lazy_regex(
    r"(?:pass show|keyring get|(?P<named>(?:passw|passphrase|secret|token)(?![\w./-]{0,40}(?:pub|\.(?!txt|key)[a-z]))))"
    r"[^\n]{0,160}\n(?P<value>[^\s\"'`<>|]{6,256})[ \t]*+(?=[\r\n]|$)"
)
_PRINTING = Gate("keyring get")
#: Verbs of such commands.
_PRINTING_VERB = lazy_regex(
    r"(?:[$#%❯➜]|^)[ \t]{0,4}(?:cat |(?:\S{1,24} ){1,4}(?:config:get|output -raw|get-|get |show |access |lookup |read "
    r"|find-generic-|find-internet-|initial-)|secret-tool lookup )"
)
#: A shell prompt, which is followed by a command.
_PROMPT = lazy_regex(r"[$#%❯➜] ")
#: A field of a multipart form.
_FORM_FIELD = lazy_regex(
    r"(?i)form-data; ?name=\\?\"[\w\[\].-]{0,40}?(?:passw?\w{0,6}|pwd|secret|token|pin|otp)\w{0,12}\\?\""
    r"(?:(?:\r?\n){2}|(?:(?:\\r)?\\n){2})([^\s\\\"]{4,256})"
)
#: A dialogue with an FTP or mail server.
_DIALOGUE = lazy_regex(
    r"(?:^|\n)[^\n]{0,12}?\bUSER \S{1,80}\r?\n(?:[^\n]{0,160}\n){0,2}[^\n]{0,12}?\bPASS ([^\s]{3,128})"
    r"[ \t]*+(?=[\r\n]|$)"
)
#: Rows of two columns, as printed by stores of secrets.
_ROW = lazy_regex(
    r"(?:(?P<chosen>password|passwd|passphrase)|secret|token)[ \t]{2,24}(?P<value>[^\s\"'`|<>]{8,256})[ \t]{0,8}"
    r"(?=[\r\n]|$)"
)
#: Text before a name at the beginning of a row.
_ROW_BEGIN = lazy_regex(r"(?:^|\n)[ \t]{0,8}[\w.-]{0,30}$")
#: Statements of SQL and similar languages other than `IDENTIFIED BY '…'`.
_STATEMENT = lazy_regex(
    r"(?i:password\s{1,4}(?:=\s{0,4})?N(?=')|"
    r"(?<=set )password\s{1,4}from\s{1,4}(?:'([^'\n]{3,128})'\s{1,4}to\s{1,4})?)'([^'\n]{3,256})'|"
    r"(?:(?<== )PASSWORD\(|SECRET\s{1,4})'([^'\n]{8,256})'|"
    r"(?i:identified\s{1,4}by\s{1,4}(?!values\b))([^\s\"'`;<>${(:&?%@]{5,128})(?=\s{0,4};)"
)
_STATEMENTS = Gate("password", "secret", "identified")
#: The entries of a Secret of Kubernetes: any name, and a value as it is or in base64.
_MANIFEST = lazy_regex(
    r"(?:^|\n)(?P<indent>[ ]{0,12})(?P<kind>stringData|data):[ ]{0,4}"
    r"(?P<entries>(?:\n(?P=indent)[ ]{1,8}[\w.-]{1,64}:[^\n]{1,300}){1,60})"
)
_ENTRY = lazy_regex(
    r"\n[ ]{1,20}[\w.-]{1,64}:[ ]{1,4}([\"']?)(?P<value>[^\s\"'|>{&*][^\s\"']{3,255})\1[ ]{0,4}(?=\n|$)"
)
#: A line of YAML: its indentation, the beginning of an item of a list, its key and the value.
_YAML_LINE = lazy_regex(
    r"(?m)^(?P<indent> *+)(?P<item>- )?+(?P<key>[^\s:][^\n:]*+)(?:: *+[\"']?+(?P<value>[^\n\"']*+))?+"
)
_KIND_SECRET = lazy_regex(r"kind: Secret(?!\w)")
#: In JSON, or YAML with braces: a kind, or the entries and the kind that directly follows, as in kubectl's output.
_BRACED = lazy_regex(
    r"\bkind[\"']?\s{0,4}:\s{0,4}[\"']?(?P<kind>\w{1,64}+)|"
    r"\b(?P<data>stringData|data)[\"']?\s{0,4}:\s{0,4}\{(?P<entries>[^{}]{1,8000}+)\}"
    r"(?:\s{0,40},\s{0,40}[\"']?kind[\"']?\s{0,4}:\s{0,4}[\"']?(?P<next>\w{1,64}+))?"
)
_BRACED_ENTRY = lazy_regex(
    r"[\"']?[\w.-]{1,64}[\"']?\s{0,4}:\s{0,4}([\"']?)(?P<value>[^\s\"'|>,&*][^\s\"',]{3,255})\1\s{0,40}(?=,|$)"
)
_SECRETS_OF_MANIFESTS = Gate("kind: secret", '"kind": "secret', '"kind":"secret', "stringdata")
#: Calls that take a key, and the arguments before it.
_KEYED_CALL = lazy_regex(
    r"(?i:(?:createhmac|create(?:de)?cipheriv|hash_hmac|pgp_sym_(?:en|de)crypt|aes_(?:en|de)crypt|openssl_(?:en|de)crypt|"
    r"jwt\.(?:sign|verify|encode|decode))\(\s{0,40}(?:[^(),\n]{1,80}(?:\([^()\n]{0,80}\))?,\s{0,40}){1,2}|"
    r"(?:hmac\.(?:new|digest)|keyspec|securitykey|\bcrypt(?=\([^()\n]{0,128}gen_salt))\(\s{0,40}|"
    r"(?-i:hmac\.New)\(\s{0,4}[\w.]{1,40},\s{0,4})" + rf"(?:{CONVERTED})?[bB]?" + _QUOTED
)
_KEYED = Gate("hmac", "jwt.", "crypt")
#: The form in which a service stores the verifier of an account's password (SCRAM).
_SCRAM = lazy_regex(
    r"SCRAM-SHA-(?:1|256|512)\$\d{4,7}:[A-Za-z0-9+/=]{16,64}\$[A-Za-z0-9+/=]{20,90}:[A-Za-z0-9+/=]{20,90}"
)
#: Minimum length of a secret among the settings of a program, in characters.
_LEAST_CHOSEN = 10
#: Number of characters to read before an option, and before a command.
_BEFORE, _COMMAND = 120, 320
#: The literals that the other rules need.
_NAMES = Gate("pass", "secret", "token")
_OTHER_NAMES = Gate("masterauth", "api-key", "apikey", "access-key", "private-key", "sql")
_LISTS = Gate("args:")
_PASS = Gate("pass", "masterauth")


def program_spans(text: str, low: str, held: int) -> Iterator[Span]:
    """Yield the spans of secrets that are passed to programs or printed by them.

    Args:
        low: the same text in lower case, of the same length.
        held: the bits of the literals that the text may contain; see ``Gate``.
    """
    starts = _NAMES.starts(low, held)
    if starts or _OTHER_NAMES.is_open(low, held):
        yield from _argument_lists(text, is_listed=_LISTS.is_open(low, held))
    if starts and "  " in text:
        yield from _rows(text, low, starts)
    if "\n" in text:
        yield from _printed(text, low, sorted(starts + _PRINTING.starts(low, held)))
    if _PASS.is_open(low, held):
        if "form-data" in low:
            yield from _grouped(_FORM_FIELD.finditer(text), least=4)
        if "USER " in text:
            yield from _grouped(_DIALOGUE.finditer(text), least=3)
        if "SCRAM-" in text:
            for match in _SCRAM.finditer(text):
                yield Span(*match.span(), "password-hash")
        for match in _PASS_OPTION.finditer(text):
            is_tool = match.group("tool") is not None or match.group().startswith("-D")
            yield from accept(text, match, "password", lenient=is_tool, first=2)
    for gate, rules in _STORES:
        if gate.is_open(low, held):
            for pattern in (pattern for literal, pattern in rules if literal in low):
                for match in pattern.finditer(text):
                    yield from accept(text, match, "password", lenient=False)
    if _SET.is_open(low, held):
        for command in _SETS.finditer(text):
            for match in _SET_VALUE.finditer(command["arguments"]):
                at = command.start("arguments")
                for span in accept(command["arguments"], match, "password", lenient=False):
                    if command["environment"] is None or _is_chosen(command["arguments"][span.start : span.end]):
                        yield Span(span.start + at, span.end + at, span.kind)
    if "'" in text or ";" in text:
        yield from _grouped(matches(_STATEMENTS.starts(low, held), _STATEMENT, text), least=3)
    if _SECRETS_OF_MANIFESTS.is_open(low, held):
        yield from _manifests(text)
    if _KEYED.is_open(low, held):
        for match in _KEYED_CALL.finditer(text):
            value = match.group(1) or match.group(2)
            if has_digit(value) and is_mixed(value, 8) and not _is_plain(value):
                yield from _grouped([match], least=8)


def _manifests(text: str) -> Iterator[Span]:
    """Yield the values in Kubernetes' manifests of secrets, whose names may say nothing about them."""
    kinds = _kinds_of_data(text)
    for document in re.finditer(r"(?s)(?:^|\n---).*?(?=\n---|$)", text):
        is_secret = _KIND_SECRET.search(document.group()) is not None
        for found in _MANIFEST.finditer(text, *document.span()):
            kind = kinds.get(found.start("kind"), "")
            # If its own object has no kind, it may still be a part of a secret.
            if found.group("kind") == "data" and not (kind == "Secret" or (is_secret and not kind)):
                continue
            yield from _entries(_ENTRY.finditer(text, *found.span("entries")))
    kind = ""
    for found in _BRACED.finditer(text):
        kind = found["kind"] or kind
        if found["data"] == "stringData" or (found["data"] and (found["next"] or kind) == "Secret"):
            yield from _entries(_BRACED_ENTRY.finditer(text, *found.span("entries")))


def _entries(found: Iterable[re.Match[str]]) -> Iterator[Span]:
    for entry in found:
        value = entry.group("value")
        if is_mixed(value, 4) and not (_is_plain(value) or is_expression(value)):
            yield Span(*entry.span("value"), "password")


def _kinds_of_data(text: str) -> dict[int, str]:
    """Return the kinds of the objects to which the ``data:`` in YAML belong, by the position of the word."""
    # Each object: its indentation, its kind, and the positions of its "data:". Those that may continue come last.
    going_on: list[tuple[int, list[str], list[int]]] = []
    objects = []
    for line in _YAML_LINE.finditer(text):
        key = line["key"]
        indent = -1 if key == "---" else len(line["indent"]) + 2 * bool(line["item"])
        while going_on and going_on[-1][0] >= indent + (not line["item"]):
            going_on.pop()
        if not going_on or going_on[-1][0] != indent:
            going_on.append((indent, [], []))
            objects.append(going_on[-1])
        if key == "kind":
            going_on[-1][1].append((line["value"] or "").strip())
        elif key == "data":
            going_on[-1][2].append(line.start("key"))
    return {at: kind for _, kinds, places in objects for kind in kinds[:1] for at in places}


def _is_plain(value: str) -> bool:
    return has_plain_shape(value) or is_technical(value) or is_placeholder(value)


def _is_chosen(value: str) -> bool:
    """Return True if a setting of a program looks like a secret rather than a name, a version or an address."""
    kinds = (str.isupper, str.islower, str.isdecimal)
    return len(value) >= _LEAST_CHOSEN and "://" not in value and all(any(map(kind, value)) for kind in kinds)


def _grouped(found: Iterable[re.Match[str]], least: int) -> Iterator[Span]:
    """Yield the groups of the matches that are not placeholders."""
    for match in found:
        for group in range(1, (match.lastindex or 0) + 1):
            value = match.group(group) or ""
            if len(value) >= least and not is_placeholder(value) and not is_technical(value):
                yield Span(*match.span(group), "password")


def _argument_lists(text: str, *, is_listed: bool) -> Iterator[Span]:
    """Yield the values after options in lists of arguments, unless the list declares the options of a program."""
    quoted = starts_of(_QUOTED_DASHES, text)
    items = starts_of(_DASHES, text) if is_listed else []
    for starts, pattern in ((quoted, _LISTED), (items, _ITEMS)):
        for match in matches(starts, pattern, text):
            group = match.lastindex or 2
            value = match.group(group)
            if (
                value.startswith("-")
                or is_placeholder(value)
                or _VARIABLE.fullmatch(value)
                or (group == 4 and is_expression(value))
                or _DECLARES.search(text[max(0, match.start() - _BEFORE) : match.start()])
            ):
                continue
            is_chosen = match.group("option").lower().startswith(("pass", "pwd", "master"))
            if (is_mixed(value) or (is_chosen and " " not in value)) and not has_plain_shape(value):
                yield Span(*match.span(group), "password" if is_chosen else "token")
    for match in _SHORT.finditer(text) if quoted else ():
        if is_mixed(match.group(1)) and not is_placeholder(match.group(1)):
            yield Span(*match.span(1), "password")


def _rows(text: str, low: str, starts: list[int]) -> Iterator[Span]:
    for row in matches(starts, _ROW, low):
        first, last = row.span("value")
        value, is_chosen = text[first:last], row.group("chosen") is not None
        if _is_plain(value) or is_expression(value) or not has_digit(value) or not is_mixed(value, 8):
            continue
        if (is_chosen or total_bits(value) < 1.0) and _ROW_BEGIN.search(text[max(0, row.start() - 40) : row.start()]):
            yield Span(first, last, "password" if is_chosen else "token")


def _printed(text: str, low: str, starts: list[int]) -> Iterator[Span]:
    """Yield the line below a command that prints a secret, if a prompt precedes the command."""
    for match in matches(starts, _PRINTS, low):
        first, last = match.span("value")
        begin = max(low.rfind("\n", max(0, match.start() - _COMMAND), match.start()) + 1, match.start() - _COMMAND)
        before, command = low[begin : match.start()], low[begin:first]
        if not _PROMPT.search(before) or (match.group("named") and not _PRINTING_VERB.search(command)):
            continue
        value = text[first:last]
        if is_mixed(value.rstrip("%"), 6) and has_digit(value) and not _is_plain(value) and "://" not in value:
            yield Span(first, last, "password")
