"""Secrets on command lines and in the small files that tools keep them in."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.placeholders import Span
from engram.redaction.values import has_plain_shape, is_expression, is_mixed, is_placeholder, total_bits

_VALUE = r"(?:\"([^\"\n]{3,512})\"|'([^'\n]{3,512})'|([^\s\"'`;|&<>]{3,512}))"
#: Long options whose value is a secret, whatever the command.
_LONG = re.compile(
    r"--?(?:[a-z][a-z-]{0,24}-)?(?:password|passwd|passphrase|pass|pwd|token|secret|api-?key|auth|credentials?|private-key|"
    r"access-key|secret-key|storepass|keypass|passin|passout|pin|otp|cookie|identity-token|client-secret|unseal-key|"
    r"from-literal|user-pass|http-password|key)(?:[= ]|\s)\s{0,3}" + _VALUE,
)
#: Short options that carry a secret, and the commands of which they do.
_SHORT = re.compile(
    r"[-/](?<=\s[-/])(p|P|a|w|k|K|N|A|X|c|b|t|s|p:|pw|passin|passout|pass|macopt|D)[ =]?(?:pass:|hexkey:|key:)?"
    + _VALUE
)
_USERS: dict[str, re.Pattern[str]] = {
    option: re.compile(rf"(?<![\w-])(?:{commands})(?![\w-])")
    for option, commands in {
        "-p": r"mysql(?:dump|admin|import|show)?|mariadb(?:-dump)?|mycli|sshpass|docker|podman|buildah|helm|az|oc|mongo(?:sh|dump|restore|"
        r"import|export)?|bcp|7za?|7z|rar|unrar|plink|pscp|winscp|nxc|crackmapexec|influx|cqlsh|clickhouse-client|xfreerdp|rdesktop|"
        r"login|su|usermod|useradd|mosquitto_\w+|snowsql|twine|impacket-\w+|evil-winrm|vncviewer|ncftp\w*|john|expect|sqlplus|kcadm\S*",
        "-a": r"redis-cli|keydb-cli|valkey-cli|http|https|xh",
        "-P": r"zip|unzip|sqlcmd|ipmitool|mosquitto_\w+|bcp|isql|tsql|nmap|hydra",
        "-N": "ssh-keygen",
        "-w": r"ldap\w+|security|iwconfig|sshpass",
        "-k": r"openssl|curl|nessuscli|airdecap-ng|keybase",
        "-K": "openssl",
        "-pass": "openssl",
        "-passin": "openssl",
        "-passout": "openssl",
        "-macopt": "openssl",
        "-A": r"snmp\w+",
        "-X": r"snmp\w+",
        "-c": r"snmp\w+",
        "-b": r"gh|htpasswd",
        "-t": r"vercel|netlify|surge|railway|wrangler|fly|flyctl|expo|eas|gh|glab|ngrok",
        "-s": r"vncviewer|vault|zmprov|sfdx",
        "/p:": r"x?wl?freerdp3?",
        "-pw": r"plink|pscp|psftp|putty|wpscan",
        "-D": r"keytool|java|mvn|gradle",
    }.items()
}
#: Commands of which the option never carries anything but a password, so that any word is taken for one.
_PASSWORD_ONLY: dict[str, re.Pattern[str]] = {
    option: re.compile(rf"(?<![\w-])(?:{commands})(?![\w-])")
    for option, commands in {
        "-P": r"ssh-keygen|sqlcmd|bcp|osql|isql|tsql|freebcp|defncopy|zip|unzip|zipcloak|ipmitool|ipmiutil|mosquitto_\w+",
        "-N": "ssh-keygen",
        "-p": r"sshpass|mongo(?:sh|dump|restore|import|export|stat|top)?|cqlsh|psexec(?:64)?|certutil|"
        r"(?:docker|podman|buildah|helm|az|oc|nerdctl|crane|skopeo)(?: registry)? login",
        "-pw": r"plink|pscp|psftp|putty",
        "-w": r"security|ldap\w+",
        "/p": "signtool",
    }.items()
}
_OTHER_OPTION = re.compile(r"\s[-/][A-Za-z]")
#: Commands that take a secret by its place, each gated by a word of it.
_PLACED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (gate, re.compile(pattern + _VALUE))
    for gate, pattern in (
        ("net use", r"net use \S+ (?:\S+ )?/user:\S+ "),
        ("net user", r"net user \S+ "),
        ("wpa_passphrase", r"wpa_passphrase \S+ "),
        ("htpasswd", r"htpasswd (?:-\w+ ){0,3}\S+ \S+ "),
        ("rabbitmqctl", r"rabbitmqctl (?:add_user|change_password|authenticate_user) \S+ "),
        ("nmcli", r"nmcli [^\n]{0,120}?(?:password|wifi-sec\.psk) "),
        ("config set", r"config set \S{0,80}(?:[tT]oken|[pP]ass(?:word)?|[kK]ey|[sS]ecret|auth)\S{0,20}[ =]"),
        ("configure set", r"configure set \S{0,80}(?:token|key|secret)\S{0,20} "),
        ("importprivkey", r"importprivkey "),
        ("auth ", r"(?:^|\n|> )(?:AUTH|auth) (?:default )?"),
        ("add-authtoken", r"add-authtoken "),
        ("keyring set", r"keyring set \S+ \S+ ?<<< ?"),
        ("auth login", r"auth login (?:--\w+[ =])?"),
    )
)
#: User and password before an `@`, as Oracle's drivers and tools take them.
_ORACLE = re.compile(
    r"(?:jdbc:[a-z0-9]{2,20}:(?:[a-z0-9]{2,12}:)?|\b(?:sqlplus|expdp|impdp|sqlldr|rman|connect|conn|dgmgrl|tnsping|sqlcl|sql|exp|imp)\s"
    r"(?:[^\n@/]{0,80}[\s=])?[\"']?)[\w.$#\[\]-]{1,64}/(?:\"([^\"\n]{3,128})\"|([^\s\"'/@]{3,128}))@"
)
_ORACLE_TOOL = re.compile(
    r"\b(?:sqlplus|expdp|impdp|sqlldr|rman target|dgmgrl)\s(?:-\w+\s){0,3}(?:userid=)?[\w$#]{1,64}/([^\s\"'/@]{3,128})(?=\s|$)"
)
#: Calls that put a password into a store of passwords, or set it: the last argument is the password.
_STORED = re.compile(
    r"(?i:set_?(?:generic_?|internet_?)?password|(?:add|save|store|write)_?(?:generic_?|internet_?)?(?:password|credentials?)|set_?passphrase)\s{0,2}"
    r"\(\s{0,80}(?:[^(),\n]{1,120},\s{1,80}|[^(),\n]{1,120},){0,3}(?:[bf]?\"([^\"\n]{3,256})\"|[bf]?'([^'\n]{3,256})')\s{0,40},?\s{0,40}\)"
)
#: Options that carry `user:password`.
_PAIR = re.compile(
    r"-(?<=\s-)(?:u|-user|U|-proxy-user|-auth|a|-basic-auth|-creds?|-userpass)[= ]?\s?[\"']?([^\s\"':/]{1,64})[:%,]([^\s\"'\n]{3,256})"
)
_PIPED = re.compile(
    r"(?:echo|printf|<<<)(?: -n| -e| -ne)? {1,3}"
    + _VALUE
    + r"[^|\n]{0,8}\| {0,3}(?:[\w./=-]+ ){0,6}?(?=sudo|docker|gh |podman|helm|keyring|secret-tool|pass insert|gpg|passwd|chpasswd|smbpasswd|cryptsetup|openssl|base64|su\b|kinit|wrangler|vault|npx)"
)
_SQL = re.compile(
    r"(?i)(?:identified\s+(?:by|with\s+\w+\s+(?:by|as))|\bpassword|with\s+(?:encrypted\s+)?password|requirepass|masterauth|sasl_password)\s+(?:=\s*)?['\"]([^'\"\n]{3,256})['\"]"
)
_PGPASS_PORT = re.compile(r":(?:\d{3,5}|\*):[\w.*-]+:")
_PGPASS = re.compile(
    r"(?:[\w.*-]{1,128}|\[[0-9a-f:]{2,40}\]):(?:\d{3,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:([^\s\"'`]{3,256})"
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
    if " -" in text or " /p" in text or "\n-" in text or text.startswith("-"):
        for found in _LONG.finditer(text, start, end):
            if found.start() == 0 or not text[found.start() - 1].isalnum():
                yield from _accept(text, found, "password", lenient="pass" in found.group()[:24])
        for found in _PAIR.finditer(text, start, end):
            if not is_placeholder(found.group(2)):
                yield Span(*found.span(2), "password")
        yield from _short_options(text, start, end)
    yield from _placed(text, low, start, end)
    if "|" in text:
        for found in _PIPED.finditer(text, start, end):
            yield from _accept(text, found, "password", lenient=True)
    for gate, pattern in (("identified", _SQL), ("passw", _SQL), ("requirepass", _SQL)):
        if gate in low:
            for found in pattern.finditer(text, start, end):
                yield from _accept(text, found, "password", lenient=True)
            break
    if _PGPASS_PORT.search(text, start, end):
        for found in _PGPASS.finditer(text, start, end):
            if is_mixed(found.group(1)):
                yield Span(*found.span(1), "password")
    if "$" in text:
        for found in _CRYPT.finditer(text, start, end):
            yield Span(*found.span(), "password-hash")
    if "@" in text and "/" in text:
        for found in _ORACLE.finditer(text, start, end):
            yield from _named_user(found)
    if "sql" in low or "dp " in low or "rman" in low or "dgmgrl" in low:
        for found in _ORACLE_TOOL.finditer(text, start, end):
            yield from _named_user(found)
    if "passw" in low or "credential" in low or "passphrase" in low:
        for found in _STORED.finditer(text, start, end):
            yield from _named_user(found)
    if "cookie" in low or " -b " in text:
        yield from _cookies(text, start, end)


def _named_user(found: re.Match[str]) -> Iterator[Span]:
    """The password of a match that leaves no doubt that it is one, unless it is a placeholder."""
    group = next(number for number in range(1, (found.lastindex or 1) + 1) if found.group(number) is not None)
    if not is_placeholder(found.group(group)):
        yield Span(*found.span(group), "password")


def _short_options(text: str, start: int, end: int) -> Iterator[Span]:
    for option in _SHORT.finditer(text, start, end):
        line = text.rfind("\n", max(start, option.start() - 400), option.start()) + 1
        name = text[option.start()] + option.group(1)
        before = max(line, option.start() - 400, 0)
        only = _PASSWORD_ONLY.get(name)
        command = only.search(text, before, option.start()) if only else None
        if command and _is_command_line(text, command.end(), option):
            yield from _accept(text, option, "password", lenient=True, first=2)
            continue
        users = _USERS.get(name)
        if users and users.search(text, max(line, option.start() - 400, 0), option.start()):
            yield from _accept(text, option, "password", lenient=False, first=2)


def _is_command_line(text: str, at: int, option: re.Match[str]) -> bool:
    """Whether the words between a command and its option, or behind it, hold another option: talk about it does not."""
    end = text.find("\n", option.end(), option.end() + 400)
    rest = text[option.end() : end if end >= 0 else option.end() + 400]
    is_quoted = option.group(4) is None
    return is_quoted or bool(_OTHER_OPTION.search(text, at, option.start()) or _OTHER_OPTION.search(rest))


def _placed(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    for gate, pattern in _PLACED:
        if gate in low:
            for found in pattern.finditer(text, start, end):
                yield from _accept(text, found, "password", lenient=False)


def _accept(text: str, found: re.Match[str], kind: str, *, lenient: bool, first: int = 1) -> Iterator[Span]:
    group = next(i for i in range(first, (found.lastindex or first) + 1) if found.group(i) is not None)
    value = found.group(group)
    if is_placeholder(value) or (group - first == 2 and is_expression(value)) or (" " in value and not lenient):
        return
    if (lenient and not has_plain_shape(value) and not value.startswith("-")) or (
        is_mixed(value) and not has_plain_shape(value)
    ):
        yield Span(*found.span(group), kind)


def _cookies(text: str, start: int, end: int) -> Iterator[Span]:
    done = start
    for header in _COOKIE.finditer(text, start, end):
        if header.end() < done:
            continue
        line = _LINE.match(text, header.end())
        done = line.end() if line else header.end()
        for value in _COOKIE_VALUE.finditer(text, header.end(), done):
            if is_mixed(value.group(1), 8) and total_bits(value.group(1)) < 1.0:
                yield Span(*value.span(1), "cookie")
