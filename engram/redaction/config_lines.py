"""Find secrets in configuration lines by their position in the line.

Examples are `requirepass …`, `.pgpass`, `PWD={…}` of ODBC, `ipsec.secrets`, and communities and users of SNMP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.command_lines import VALUE, accept
from engram.redaction.values import (
    Gate,
    Span,
    has_digit,
    has_plain_shape,
    is_expression,
    is_mixed,
    is_placeholder,
    matches,
)
from engram.system.lazy_regex import lazy_regex

#: Lines of configuration files that end with a password, also within a sentence: `requirepass …`, and `NAME * … *` of
#: dial-up connections.
_LINE_BEGIN, _LINE_END = r"(?:^|[\n`]|[:>$#] )[ \t]{0,16}", r"[ \t]{0,8}(?:\*[ \t]{0,8})?(?=[\r\n`]|$)"
_LINES: tuple[tuple[Gate, re.Pattern[str]], ...] = tuple(
    (Gate(literal), lazy_regex(_LINE_BEGIN + pattern + VALUE + _LINE_END))
    for literal, pattern in (
        ("pass", r"(?!compass|bypass)[a-zA-Z_]{2,20}[pP]ass(?:wd|word|phrase)?[ \t]{1,8}"),
        ("pw", r"(?:root|rootbind|bind|ldap|smtp|db|sasl)_?pw[ \t]{1,8}(?:--\w{1,16}[ \t]{1,8}){0,2}"),
        ("masterauth", r"masterauth[ \t]{1,8}"),
    )
)
_DIALLED = lazy_regex(
    r"(?:^|\n)[ \t]{0,8}[\"']?[\w.@\\-]{1,64}[\"']?[ \t]{1,8}(?:\*|\w{1,32})[ \t]{1,8}(?=\S{3,128}[ \t]{1,8}\*)"
    + VALUE
    + _LINE_END
)
_PGPASS_PORT = lazy_regex(r":(?:\d{3,5}|\*):[\w.*-]++:")
#: The part from the end of the host name, or of its address in brackets, to the password.
_PGPASS = lazy_regex(
    r"(?::(?<=[\w.*-]:)|\[[0-9a-f:]{2,40}\]:)(?:\d{3,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:((?!\d{10}:)[^\s\"'`]{3,256})"
)
#: A password in braces, in which `}}` represents a brace, after another part of a connection string.
_BRACED = lazy_regex(
    r"(?i);[ \t]{0,4}(?:pwd|password)[ \t]{0,2}=[ \t]{0,2}\{(?!\{)((?:[^{}\n]|\}\}|\{){3,128}?)\}(?!\})"
)
#: A password in single quotation marks after another setting of a connection to PostgreSQL.
_IN_CONNECTION = lazy_regex(r"password='([^'\n]{3,128})'")
_CONNECTION_BEFORE = lazy_regex(
    r"(?<![\w.])(?:host|hostaddr|user|dbname|port|sslmode|service)=[^\s,()]{1,80} (?:\w{1,20}=[^\s,()]{1,80} ){0,4}$"
)
_CONNECTION_WORDS = Gate("password='")
#: The name of a driver in braces that are not those of a template.
_DRIVER = lazy_regex(r"(?i)\bdriver[ \t]{0,2}=[ \t]{0,2}\{[^{}\n]{1,80}\}(?!\})")
#: Number of characters before a password in braces in which to look for the driver.
_CONNECTION = 400
#: The parts after the owner in `ipsec.secrets`: the kind of secret, the file of a key, and the secret.
_IPSEC = lazy_regex(
    r":[ \t]{1,4}(?:(?:PSK|XAUTH|EAP|NTLM|PIN)[ \t]{1,4}(?:\"([^\"\n]{3,256})\"|"
    r"([^\s\"'#]{8,256}))|(?:RSA|ECDSA|ED25519|BLISS|PKCS8|PKCS12|P12)[ \t]{1,4}[^\s\"]{0,120}[./][^\s\"]{1,40}"
    r"[ \t]{1,4}(?:\"([^\"\n]{3,256})\"|([^\s\"'#]{8,256})))[ \t]{0,8}(?=[\r\n#]|$)"
)
#: Characters that the name of an owner cannot contain, and the maximum length of such a name, in characters.
_NO_OWNER = lazy_regex(r"[\"#={}()]")
_OWNER = 160
#: Keys that devices share with each other; a digit before them may specify their encoding.
_DEVICE_KEY = lazy_regex(
    r"\b(?:key-string|(?:message-digest|authentication)-key \d{1,5} md5|isakmp key|"
    r"(?:radius|tacacs)[\w-]{0,12} (?:\S{1,40} ){0,6}?(?:key|secret))[ \t]{1,3}(?:\d{1,2}[ \t]{1,2})?" + VALUE
)
_DEVICE_BEGINNINGS = Gate("key-string", "message-digest-key", "authentication-key", "isakmp", "radius", "tacacs")
#: Lines in which any word is a password, each by its beginning: `.netrc`, users and keys of devices, connection
#: strings, listings with dots between names and values.
_ANY_WORD: tuple[tuple[Gate, re.Pattern[str]], ...] = tuple(
    (Gate(*literals), lazy_regex(r"(?i)" + pattern))
    for literals, pattern in (
        (
            ("machine",),
            r"machine[ \t]{1,8}\S{1,128}\s{1,24}login\s{1,8}\S{1,64}\s{1,24}(?:account\s{1,8}\S{1,64}\s{1,8})?"
            r"password[ \t]{1,8}(\S{3,128})",
        ),
        (
            ("username", "local-user"),
            r"(?:username[ \t]\S{1,64}[ \t](?:privilege[ \t]\d{1,2}[ \t])?(?:password|secret)[ \t]\d|"
            r"local-user[ \t]\S{1,64}[ \t]password[ \t](?:irreversible-)?(?:cipher|simple))[ \t](\S{4,128})",
        ),
        # A passphrase of wpa_supplicant; other programs put no quotation marks around a key of this length.
        (("psk",), r"(?<![\w.-])psk=\"([^\"\n]{8,63})\"[ \t]{0,8}(?=[\r\n]|$)"),
        (("psksecret",), r"psksecret[ \t](?!enc[ \t])(\S{4,128})"),
        (("pre-shared-key",), r"pre-shared-key(?:=|[ \t](?:\d{1,4}[ \t])?text[ \t])([^\s\"',;]{4,128})"),
        (("auth myname",), r"auth myname[ \t]\S{1,64}[ \t](\S{4,128})"),
        (
            ("user id", "uid", "user="),
            r"(?:user ?id|uid|user)=[^;\"\n]{1,64};[ ]?(?:password|pwd)="
            r"((?:&\w{2,6};|[^;\"'{}$<>%\n]){4,128})(?=[;\"'])",
        ),
        (("password....",), r"password\.{4,40}(\S{4,128})"),
    )
)
#: Words that devices and net-snmp put before a community, and text that may follow a community.
_COMMUNITY = lazy_regex(
    r"(?i)(?:\bsnmp(?:-server|-agent)?[ \t]{1,3}community[ \t]{1,3}"
    r"(?:(?:read|write|cipher|simple|ro|rw)[ \t]{1,3}){0,3}|"
    rf"{_LINE_BEGIN}(?:(?:r[ow]|trap|def)community6?|"
    r"com2sec6?[ \t]{1,8}\S{1,64}[ \t]{1,8}\S{1,64}|"
    r"(?:trap2?|inform)sink[ \t]{1,8}\S{1,128})[ \t]{1,8})[\"']?([^\s\"'{};]{4,64})[\"']?[ \t]{0,8}"
    r"(?=[\r\n{;#`]|$|(?:ro|rw|view|authorization|clients|acl|ipv6|default|\d)(?![a-z]))"
)
_SECRET = r"(?:\"([^\"\n]{3,128})\"|'([^'\n]{3,128})'|([^\s\"'`;|&<>-][^\s\"'`;|&<>]{7,128}))"
#: A user of SNMP 3: the method and secret for authentication, and the method and secret for encryption.
_USER = lazy_regex(
    r"(?i)(?:\bcreateuser[ \t]{1,4}(?:-e[ \t]\S{1,64}[ \t]{1,4})?\S{1,64}|"
    r"\bsnmp[^\n]{0,120}?\bauth\w{0,12}(?:-mode|-protocol)?)[ \t]{1,4}(?:md5|sha(?:-?\d{1,3})?)[ \t]{1,4}"
    + _SECRET
    + r"(?:[ \t]{1,4}(?:priv\w{0,4}(?:-mode|-protocol)?[ \t]{1,4})?(?:3?des|aes(?:[ -]?\d{3})?)[ \t]{1,4}"
    + _SECRET
    + r")?"
)
#: A command of net-snmp with its version, and the options that take a secret.
_COMMAND = lazy_regex(r"\bsnmp[a-z]{2,12}[ \t](?=[^\n]{0,200}?-v ?[123])[^\n]{0,400}")
_OPTION = lazy_regex(r"[ \t]-(?:([AXc])[ \t]{0,2}|3[mMkK][ \t]{0,2})" + _SECRET.replace("{7,128}", "{3,128}"))
_COMMUNITY_WORDS = Gate("community", "com2sec", "sink")
_USER_WORDS = Gate("snmp", "createuser")
#: The default communities of devices that have not been configured, and words used as placeholders for a community.
_NO_COMMUNITY = frozenset({"public", "private", "string", "community", "name", "with", "traps"})


def config_spans(text: str, low: str, held: int) -> Iterator[Span]:
    """Yield the spans of secrets in configuration lines with a fixed order, and in SNMP commands.

    Args:
        low: the same text in lower case, of the same length.
        held: the bits of the literals that the text may contain; see ``Gate``.
    """
    for gate, pattern in _LINES:
        for line, stop in _lines(low, gate.starts(low, held)):
            for match in pattern.finditer(text, line, stop):
                yield from accept(text, match, "password", lenient=False)
    if " * " in low:
        for match in _DIALLED.finditer(text):
            yield from accept(text, match, "password", lenient=False)
    if _PGPASS_PORT.search(text):
        for match in _PGPASS.finditer(text):
            if is_mixed(match.group(1)) or ("pgpass" in low and not is_placeholder(match.group(1))):
                yield Span(*match.span(1), "password")
    for gate, pattern in _ANY_WORD:
        for match in matches(gate.starts(low, held), pattern, text):
            yield from _named(match, range(1, 2))
    for match in matches(_DEVICE_BEGINNINGS.starts(low, held), _DEVICE_KEY, text):
        yield from accept(text, match, "password", lenient=False)
    for match in matches(_CONNECTION_WORDS.starts(low, held), _IN_CONNECTION, text):
        if _CONNECTION_BEFORE.search(text, max(0, match.start() - _CONNECTION), match.start()):
            yield from _named(match, range(1, 2))
    if "={" in text:
        for match in _BRACED.finditer(text):
            yield from _braced(text, match)
    if ": " in text:
        for match in _IPSEC.finditer(text):
            yield from _ipsec(text, match)
    for line, stop in _lines(low, _COMMUNITY_WORDS.starts(low, held)):
        for match in _COMMUNITY.finditer(text, line, stop):
            yield from _community(match, 1)
    if _USER_WORDS.is_open(low, held):
        for match in _USER.finditer(text):
            yield from _named(match, range(1, 7))
        for command in _COMMAND.finditer(text):
            for option in _OPTION.finditer(text, command.start(), command.end()):
                yield from _community(option, 4) if option.group(1) == "c" else _named(option, range(2, 5))


def _lines(low: str, starts: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each line that contains one of the places."""
    stop = 0
    for at in starts:
        if at >= stop:
            line = max(0, low.rfind("\n", stop, at))
            stop = low.find("\n", at)
            stop = stop if stop >= 0 else len(low)
            yield line, stop


def _named(match: re.Match[str], groups: range) -> Iterator[Span]:
    """Yield the content of each of the groups, unless it is a placeholder."""
    for group in groups:
        if match.group(group) and not is_placeholder(match.group(group)):
            yield Span(*match.span(group), "password")


def _community(match: re.Match[str], group: int) -> Iterator[Span]:
    if match.group(group) and match.group(group).lower() not in _NO_COMMUNITY:
        yield from _named(match, range(group, group + 1))


def _braced(text: str, match: re.Match[str]) -> Iterator[Span]:
    """Yield a password in braces, unless it is the name of a template variable."""
    value = match.group(1)
    is_name = value.isidentifier() or is_expression(value) or is_placeholder(value)
    is_literal = bool(_DRIVER.search(text, max(0, match.start() - _CONNECTION), match.start()))
    if not is_name or (is_literal and has_digit(value) and not is_placeholder(value)):
        yield Span(*match.span(1), "password")


def _ipsec(text: str, match: re.Match[str]) -> Iterator[Span]:
    """Yield a secret in `ipsec.secrets`; without quotation marks, it must look like a secret."""
    line = text.rfind("\n", max(0, match.start() - _OWNER), match.start()) + 1
    if _NO_OWNER.search(text, max(line, match.start() - _OWNER, 0), match.start()):
        return
    for group in (1, 3):
        yield from _named(match, range(group, group + 1))
    for group in (2, 4):
        value = match.group(group) or ""
        if is_mixed(value) and not has_plain_shape(value):
            yield from _named(match, range(group, group + 1))
