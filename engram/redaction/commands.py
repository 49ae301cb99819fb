"""Secrets on command lines and in the small files that tools keep them in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.marks import Span
from engram.redaction.values import has_plain_shape, is_expression, is_mixed, is_placeholder, total_bits

_VALUE = r"(?:\"([^\"\n]{3,512})\"|'([^'\n]{3,512})'|([^\s\"'`;|&<>]{3,512}))"
#: Long options whose value is a secret, whatever the command.
_LONG = re.compile(
    r"--?(?:[a-z][a-z-]{0,24}-)?(?:password|passwd|passphrase|pass|pwd|token|secret|api-?key|auth|credentials?|private-key|"
    r"access-key|secret-key|storepass|keypass|passin|passout|pin|otp|cookie|identity-token|client-secret|unseal-key|"
    r"from-literal|user-pass|http-password|key)(?:[= ]|\s)\s{0,3}" + _VALUE,
)
#: A command, and the short options of it that carry a secret.
_SHORT: tuple[tuple[str, str], ...] = (
    (r"mysql(?:dump|admin|import|show)?|mariadb(?:-dump)?|mycli", r"-p"),
    (r"sshpass|docker login|podman login|buildah login|helm registry login|az login|oc login|mongo(?:sh|dump|restore|import|export)?|"
     r"bcp|7za?|7z|rar|unrar|plink|pscp|winscp|nxc|crackmapexec|influx|cqlsh|clickhouse-client", r"-p ?"),
    (r"redis-cli|keydb-cli|valkey-cli", r"-a "),
    (r"zip|unzip|sqlcmd|ipmitool|mosquitto_(?:pub|sub)|bcp", r"-P ?"),
    (r"ssh-keygen", r"-[NP] "),
    (r"ldap(?:search|add|modify|passwd|whoami|delete)", r"-w "),
    (r"openssl", r"-(?:k|K|passin|passout|pass|macopt) (?:pass:|hexkey:|key:)?"),
    (r"security", r"-w "),
    (r"snmp(?:walk|get|set|bulkwalk)", r"-[AXc] "),
    (r"gh secret set|gh variable set", r"(?:-b|--body) "),
    (r"tailscale|netbird", r"--auth-?key[= ]"),
    (r"borg|restic|rclone|kopia", r"--pass(?:word)?[= ]"),
    (r"xfreerdp|rdesktop|wlfreerdp", r"(?:/p:|-p )"),
    (r"net use", r"\S+ /user:\S+ "),
    (r"wpa_passphrase|htpasswd -\w*b\w*|htpasswd", r"(?:-\w+ )?\S+ (?:\S+ )?"),
    (r"rabbitmqctl (?:add_user|change_password)|wpa_passphrase", r"\S+ "),
    (r"nmcli", r"password "),
    (r"vercel|netlify|surge|railway|expo|eas", r"(?:-t|--token|--auth) "),
    (r"wrangler|flyctl|fly", r"-t "),
    (r"linkerd|argocd", r"--auth-token "),
)  # fmt: skip
#: Options that carry `user:password`.
_PAIR = re.compile(
    r"(?:(?<=\s)|^)(?:-u|--user|-U|--proxy-user|--auth|-a|--basic-auth|--creds?|--userpass)[= ]?\s?[\"']?([^\s\"':/]{1,64})[:%]([^\s\"'\n]{3,256})"
)
_PIPED = re.compile(
    r"(?:echo|printf|<<<)(?: -n| -e| -ne)? {1,3}"
    + _VALUE
    + r"[^|\n]{0,8}\| {0,3}(?:[\w./=-]+ ){0,6}?(?=sudo|docker|gh |podman|helm|gpg|passwd|chpasswd|smbpasswd|cryptsetup|openssl|base64|su\b|kinit|wrangler|vault|npx)"
)
_SQL = re.compile(
    r"(?i)(?:identified\s+(?:by|with\s+\w+\s+(?:by|as))|\bpassword|with\s+(?:encrypted\s+)?password|requirepass|masterauth|sasl_password)\s+(?:=\s*)?['\"]([^'\"\n]{3,256})['\"]"
)
_PGPASS = re.compile(
    r"(?m)^[ \t]*(?:[\w.*-]{1,128}|\[[0-9a-f:]+\]):(?:\d{2,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:(\S{3,256})$"
)
_CRYPT = re.compile(
    r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id|i|d)|pbkdf2[a-z0-9-]*|scrypt)\$[A-Za-z0-9./$=,+_-]{16,400}"
)
_SUDO = re.compile(r"(?:sudo -S|SUDO_ASKPASS|expect|send) ")
_COOKIE = re.compile(r"(?i)(?:set-)?cookie[\"']?\s?[:=]\s?[\"']?|(?<=\s)(?:-b|--cookie) [\"']?")
_COOKIE_VALUE = re.compile(r"[\w.-]{1,64}=([^;\s\"'\\]{8,4096})")
_LINE = re.compile(r"[^\n]{0,4096}")


def command_spans(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    """Spans of secrets given to commands by option, pipe or SQL, and of lines of password files."""
    if " -" in text or "\n-" in text or text.startswith("-"):
        for found in _LONG.finditer(text, start, end):
            yield from _accept(text, found, "password", lenient="pass" in found.group()[:24])
        for found in _PAIR.finditer(text, start, end):
            if not is_placeholder(found.group(2)):
                yield Span(*found.span(2), "password")
        if _DASH_VALUE.search(text, start, end):
            yield from _short_options(text, start, end)
    if "|" in text:
        for found in _PIPED.finditer(text, start, end):
            yield from _accept(text, found, "password", lenient=True)
    for gate, pattern in (("identified", _SQL), ("passw", _SQL), ("requirepass", _SQL)):
        if gate in low:
            for found in pattern.finditer(text, start, end):
                yield from _accept(text, found, "password", lenient=True)
            break
    if ":" in text:
        for found in _PGPASS.finditer(text, start, end):
            if is_mixed(found.group(1)):
                yield Span(*found.span(1), "password")
    if "$" in text:
        for found in _CRYPT.finditer(text, start, end):
            yield Span(*found.span(), "password-hash")
    if "cookie" in low or " -b " in text:
        yield from _cookies(text, start, end)


#: Something like a short option stands somewhere: only then commands are looked for.
_DASH_VALUE = re.compile(r"\s(?:-[a-zA-Z]|/p:|/user:|--[a-z])|nmcli|rabbitmqctl|wpa_")
_COMMANDS = re.compile("|".join(rf"(?P<c{i}>(?:{command})(?![\w-]))" for i, (command, _) in enumerate(_SHORT)))
_OPTIONS = tuple(re.compile(r"(?<=\s)" + option + _VALUE) for _, option in _SHORT)


def _short_options(text: str, start: int, end: int) -> Iterator[Span]:
    for command in _COMMANDS.finditer(text, start, end):
        before = text[command.start() - 1] if command.start() else " "
        if before.isalnum() or before in "-_":
            continue
        line = _LINE.match(text, command.end())
        option = _OPTIONS[int((command.lastgroup or "c0")[1:])]
        found = option.search(text, command.end(), line.end() if line else command.end())
        if found:
            yield from _accept(text, found, "password", lenient=False)


def _accept(text: str, found: re.Match[str], kind: str, *, lenient: bool) -> Iterator[Span]:
    group = next(i for i in range(1, (found.lastindex or 1) + 1) if found.group(i) is not None)
    value = found.group(group)
    if is_placeholder(value) or (group == 3 and is_expression(value)) or (" " in value and not lenient):
        return
    if (lenient and not has_plain_shape(value) and not value.startswith("-")) or (
        is_mixed(value) and not has_plain_shape(value) and total_bits(value) < 6.0
    ):
        yield Span(*found.span(group), kind)


def _cookies(text: str, start: int, end: int) -> Iterator[Span]:
    for header in _COOKIE.finditer(text, start, end):
        line = _LINE.match(text, header.end())
        for value in _COOKIE_VALUE.finditer(text, header.end(), line.end() if line else header.end()):
            if is_mixed(value.group(1), 8) and total_bits(value.group(1)) < 1.0:
                yield Span(*value.span(1), "cookie")
