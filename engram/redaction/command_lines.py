"""Find secrets on command lines, in calls of programs and in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.redaction.public_labels import is_key_id
from engram.redaction.values import (
    Gate,
    Span,
    has_digit,
    has_plain_shape,
    is_chosen_pair,
    is_encoded_prose,
    is_expression,
    is_mixed,
    is_placeholder,
    matches,
    starts_of,
    total_bits,
)
from engram.system.lazy_regex import lazy_regex

#: A value with or without quotation marks, as the last three groups of a pattern.
VALUE = r"(?:\"([^\"\n]{3,512})\"|'([^'\n]{3,512})'|([^\s\"'`;|&<>]{3,512}))"
#: A name and the place to fill in its value: `--token NAME=<value>`.
_NAME, _FILLED_IN = lazy_regex(r"[A-Za-z][A-Za-z_.-]{0,40}="), lazy_regex(r"<(?!/|(?:br|code|p|li|td|tr|div|span)\b)")
#: Long options that take a secret as their value, for any command.
_LONG = lazy_regex(
    r"--?(?:[a-z][a-z-]{0,24}-)?(?:password|passwd|passphrase|pass|pwd|token|secret|api-?key|auth|credentials?|"
    r"private-key|access-key|secret-key|storepass|keypass|passin|passout|pin|otp|cookie|identity-token|client-secret|"
    r"unseal-key|from-literal|user-pass|http-password|key)(?:[= ]|\s)\s{0,3}" + VALUE,
)
#: Short options that take a secret, and the commands to which they belong.
_SHORT = lazy_regex(
    r"[-/](?<=\s[-/])(RP|rp|p:|hp|p|P|a|w|k|K|N|b|t|s|pw|passin|passout|pass|macopt|D)[ =]?(?:pass:|hexkey:|key:)?"
    + VALUE
)
_USERS: dict[str, re.Pattern[str]] = {
    option: lazy_regex(rf"(?<![\w-])(?:{commands})(?![\w-])")
    for option, commands in {
        "-p": r"mysql(?:dump|admin|import|show)?|mariadb(?:-dump)?|mycli|sshpass|docker|podman|buildah|helm|az|oc|"
        r"mongo(?:sh|dump|restore|import|export)?|bcp|7za?|7z|rar|unrar|plink|pscp|winscp|nxc|crackmapexec|influx|"
        r"cqlsh|clickhouse-client|xfreerdp|rdesktop|login|su|usermod|useradd|mosquitto_\w++|hdbsql|snowsql|twine|"
        r"impacket-\w++|evil-winrm|vncviewer|ncftp\w*+|john|expect|sqlplus|kcadm\S{0,64}|security|veracrypt",
        "-hp": r"rar|7za?|7z",
        "-a": r"redis-cli|keydb-cli|valkey-cli|http|https|xh",
        "-P": r"zip|unzip|sqlcmd|ipmitool|mosquitto_\w++|bcp|isql|tsql|nmap|hydra",
        "-N": "ssh-keygen",
        "-w": r"ldap\w++|security|iwconfig|sshpass",
        "-k": r"openssl|curl|nessuscli|airdecap-ng|keybase",
        "-K": "openssl",
        "-pass": "openssl",
        "-passin": "openssl",
        "-passout": "openssl",
        "-macopt": "openssl",
        "-b": r"gh|htpasswd",
        "-t": r"vercel|netlify|surge|railway|wrangler|fly|flyctl|expo|eas|gh|glab|ngrok",
        "-s": r"vncviewer|vault|zmprov|sfdx",
        "/RP": "schtasks",
        "/rp": "schtasks",
        "/P": r"1cv8\w{0,2}(?:\.exe\"?)?",
        "/p:": r"(?:x|wl|sdl-)?freerdp3?",
        "-pw": r"plink|pscp|psftp|putty|wpscan",
        "-D": r"keytool|java|mvn|gradle",
    }.items()
}
#: Commands with an option that takes only a password, so that any word counts as a password.
_PASSWORD_ONLY: dict[str, re.Pattern[str]] = {
    option: lazy_regex(rf"(?<![\w-])(?:{commands})(?![\w-])")
    for option, commands in {
        "-P": r"ssh-keygen|sqlcmd|bcp|osql|isql|tsql|freebcp|defncopy|zip|unzip|zipcloak|ipmitool|ipmiutil|"
        r"mosquitto_\w++",
        "-N": "ssh-keygen",
        "-p": r"sshpass|mongo(?:sh|dump|restore|import|export|stat|top)?|cqlsh|psexec(?:64)?|certutil|"
        r"(?:docker|podman|buildah|helm|az|oc|nerdctl|crane|skopeo)(?: registry)? login",
        "-pw": r"plink|pscp|psftp|putty",
        "-w": r"security|ldap\w++",
        "/p": "signtool",
    }.items()
}
_OTHER_OPTION = lazy_regex(r"\s[-/][A-Za-z]")
#: Commands that take a secret as a positional argument, each with a word that must occur in the text.
_PLACED: tuple[tuple[Gate, re.Pattern[str]], ...] = tuple(
    (Gate(literal), lazy_regex(pattern + VALUE))
    for literal, pattern in (
        ("net use", r"net use \S++ (?:\S++ )?/user:\S++ "),
        ("net use", r"net use (?:[a-zA-Z*]: )?\\\\\S++ (?=[^\s/]++ /user:)"),
        ("net user", r"net user \S++ "),
        ("wpa_passphrase", r"wpa_passphrase \S++ "),
        ("htpasswd", r"htpasswd (?:-\w++ ){0,3}\S++ \S++ "),
        ("rabbitmqctl", r"rabbitmqctl (?:add_user|change_password|authenticate_user) \S++ "),
        ("nmcli", r"nmcli [^\n]{0,120}?(?:password|wifi-sec(?:urity)?\.psk) "),
        ("config set", r"(?i:config set) \S{0,80}(?:[tT]oken|[pP]ass(?:word)?|[kK]ey|[sS]ecret|auth)\S{0,20}[ =]"),
        ("configure set", r"configure set \S{0,80}(?:token|key|secret)\S{0,20} "),
        ("importprivkey", r"importprivkey "),
        ("auth ", r"(?:^|\n|> |\"(?=AUTH\b[^\"\n\\]{0,200}+\\r\\n\"))(?:AUTH|auth) (?:default )?"),
        ("add-authtoken", r"add-authtoken "),
        ("auth login", r"auth login (?:--\w++[ =])?"),
        ("samba-tool user", r"samba-tool user (?:add|create) \S++ "),
        ("bw login", r"\bbw login [^\s@]++@\S++ "),
        # qpdf: the user's password, the owner's, and the length of the key.
        ("--encrypt ", r"--encrypt (?=[^\n]{1,160}? (?:40|128|256) )"),
        ("--encrypt ", r"--encrypt (?=[^\n]{1,160}? (?:40|128|256) )\S++ "),
        ("openssl passwd", r"openssl passwd (?:-(?:\d|apr1|crypt|noverify|salt \S++) ){0,4}"),
        ("encrypt_string", r"encrypt_string (?:--[\w-]{1,30}+[= ](?![\"'-])\S{1,80}+ ){0,3}"),
        ("connect to ", r"connect to \S++ user \S++ using "),
        ("keymaterial", r"(?i:keymaterial)(?:>|\s?=\s?)"),
        ("<(", r"--[a-z-]{0,24}(?:pass\w{0,6}|token|secret|key|auth)[a-z-]{0,12}[= ]<\((?:echo|printf)(?: -\w{1,2})? "),
        (
            "open ",
            r"(?:^|\n)[ \t]{0,8}open \S{1,128}(?: \d{2,5})?[ \t]{0,8}\r?\n[ \t]{0,8}user[ \t]{1,4}\S{1,64}[ \t]{1,8}",
        ),
    )
)
#: A password that `htpasswd` takes from its arguments, and characters, any of which shows that a person chose it.
_HTPASSWD = Gate("htpasswd")
_GIVEN_TO_HTPASSWD = lazy_regex(
    r"htpasswd (?:-[a-zA-Z]{1,8} ){0,3}(?:-[a-zA-Z]{0,8}b[a-zA-Z]{0,8} )(?:-[a-zA-Z]{1,8} ){0,3}"
    r"[^\s;|&]{1,128} [^\s;|&]{1,64} [\"']?([^\s\"'`;|&<>$]{6,128})"
)
_CHOSEN = lazy_regex(r"[0-9A-Z!#%*+?-]")
#: User and password before an `@`, in the form that Oracle's drivers and tools use.
_ORACLE = lazy_regex(
    r"(?:jdbc:[a-z0-9]{2,20}:(?:[a-z0-9]{2,12}:)?|\b(?:sqlplus|expdp|impdp|sqlldr|rman|connect|conn|dgmgrl|tnsping|"
    r"sqlcl|sql|exp|imp)\s(?:[^\n@/]{0,80}[\s=])?[\"']?)[\w.$#\[\]-]{1,64}/(?:\"([^\"\n]{3,128})\"|"
    r"([^\s\"'/@]{3,128}))@"
)
#: The end of each such pair.
_ORACLE_END = lazy_regex(r"/(?:\"[^\"\n]{3,128}\"|[^\s\"'/@]{3,128})@")
_ORACLE_TOOL = lazy_regex(
    r"\b(?:sqlplus|expdp|impdp|sqlldr|rman target|dgmgrl)\s(?:-\w++\s){0,3}(?:userid=)?[\w$#]{1,64}/([^\s\"'/@]{3,"
    r"128})(?=\s|$)"
)
#: Calls that set a password or add it to a password store, with the password as the last argument.
_STORED = lazy_regex(
    r"(?i:set_?(?:generic_?|internet_?)?password|(?:add|save|store|write)_?(?:generic_?|internet_?)?(?:password|"
    r"credentials?)|set_?passphrase)\s{0,2}\(\s{0,80}+(?:[^(),\n]{1,120}+,\s{0,80}+){0,3}"
    r"(?:[bf]?\"([^\"\n]{3,256})\"|[bf]?'([^'\n]{3,256})')\s{0,40},?\s{0,40}\)"
)
#: Calls that take a user and a password, with the password as the last or the third argument.
_LOGIN_CALL = lazy_regex(
    r"(?i:(?:(?:basic|digest|ntlm)_?auth(?:entication)?|usernamepassword\w{0,20}|passwordauthentication|networkcredential|"
    r"plain_?(?:credentials|text_?auth\w{0,12})|\bauth ?= ?)\s{0,2}\(\s{0,80}+[^(),\n]{1,120}+,\s{0,80}+|"
    r"(?:getconnection|mysqli_connect|mysqli|pdo|\.login|createconnection)\s{0,2}\(\s{0,80}+"
    r"(?:[^(),\n]{1,120}+,\s{0,80}+){1,2})"
    r"(?:[bf]?\"([^\"\n]{4,256})\"|[bf]?'([^'\n]{4,256})')\s{0,40},?\s{0,40}[,)]"
)
#: The beginnings of these calls.
_LOGIN_BEGINNINGS = Gate(
    *("basic", "digest", "ntlm", "usernamepassword", "passwordauthentication", "networkcredential", "plain", "auth"),
    *("getconnection", "mysqli", "pdo", ".login", "createconnection"),
)
#: Columns and values of an SQL statement, and a single value with its comma.
_INSERT = lazy_regex(
    r"(?i)insert\s{1,4}into\s{1,4}[\w.\"`\[\]]{1,80}\s{0,4}\(([^()]{1,400})\)\s{0,8}values\s{0,8}\(([^()\n]{1,800})\)"
)
_SQL_VALUE = lazy_regex(r"\s*+(?:N?'([^'\n]{0,256})'|[^,'\n]{0,256}+)\s*+(?:,|$)")
_SQL_COLUMN = lazy_regex(r"(?i)[\s\"`\[]*+\w{0,20}?(?:password|passwd|pwd|pass|passphrase|pin)[\s\"`\]]*+")
#: Beginnings of password prompts at which a script types an answer.
_TYPED_BEGINNINGS = ("assword", "assphrase", "asswort")
_TYPED = lazy_regex(
    r"(?i)(?:assword|assphrase|asswort)[^\n]{0,40}\n?\s{0,12}send(?:_user|line)?[ (]{1,2}(?:-- )?"
    r"[\"'{]([^\"'{}\n\\$]{3,128})"
)
#: Options that take `user:password`.
_PAIR = lazy_regex(
    r"-(?<=\s-)(?:u|-user|U|-proxy-user|-auth|a|-basic-auth|-creds?|-userpass)[= "
    r"]?\s?[\"']?([^\s\"':/]{1,64})[:%,]([^\s\"'\n]{3,256})"
)
#: The beginnings of a pipe into a command.
_PIPE_BEGINNINGS = ("echo ", "printf ", "<<< ")
#: Arguments of a command that reads a secret from a pipe.
_READS_SECRET = (
    r"--(?:password-stdin|passphrase-fd|with-token|key-file)\b|"
    r"--[a-z-]{0,24}(?:passw\w{2,4}|passphrase|token|secret|key)[a-z-]{0,12}[= ](?:(?:file:(?://)?)?/dev/stdin|-(?![^\s;&]))|"
    r"secrets?[ :](?:versions )?(?:add|create|import|put|set)\b|create secret |(?:put|create|store)-secret|"
    r"encrypt_string\b|auth login\b[^|\n]{0,80}?-stdin|env add |config set [^|\n]{0,80}?--secret\b|"
    r"-(?:stdinpass|-passwd-on-stdin)\b"
)
#: A file that holds nothing but a secret.
_SECRET_FILE = (
    r"(?:passw(?:or)?d|secret|token|passphrase|api[-_]?key|private[-_.]?key|credential|\.key)s?"
    r"(?:\.(?:txt|key|conf|env))?(?![^\s;&\"'>])"
)
#: Options before the one by which sudo reads the password from the pipe: `-u root -S`.
_SUDO_OPTIONS = r"(?:-(?:\w{0,4}[CDRTUghprtu] [\w./'\"-]{1,64}|[\w-]{1,32}(?:=[\w./'\"-]{0,64})?) ){0,6}?"
#: Commands that read a secret from a pipe.
_READERS = (
    r"(?:docker|podman) secret\b|gh (?:auth|secret) |keyring|secret-tool|(?:go)?pass insert|[a-z_]{0,12}passwd|"
    r"cryptsetup|openssl (?:enc|passwd|[a-z]\w{1,7} [^|\n]{0,160}?stdin\b)|ssh-add [^|\n]{0,40}?-(?![^\s;&])|"
    r"sshpass (?!-[pef])|htpasswd [^|\n]{0,40}?-\w{0,4}i|systemd-creds encrypt|rclone obscure|"
    r"su\b|kinit|wrangler|vault\b"
)
_PIPED = lazy_regex(
    r"(?:echo|printf|<<<)(?: -n| -e| -ne)? {1,3}(?:[\"']?%s(?:\\n)?[\"']? {1,3})?"
    + VALUE
    + r"[^|\n]{0,8}\| {0,3}+(?:[\w./=-]{1,128}+ ){0,6}?(?="
    + rf"sudo {_SUDO_OPTIONS}(?:-\w{{0,4}}S|--stdin\b)|[\w./@-]{{1,40}} [^|\n]{{0,160}}?(?:{_READS_SECRET})|"
    + rf"tee [^|\n]{{0,120}}?{_SECRET_FILE}|(?P<encoding>base64)|{_READERS})"
)
#: A here-string, and a command before it that reads a secret from it: `kinit anna <<< …`.
_HERE = lazy_regex(r"<<< ?(?:\$(?=[\"']))?" + VALUE)
_READS_HERE = lazy_regex(rf"(?<![\w-])(?:{_READERS})|[\s:](?:{_READS_SECRET})")
#: Commands that read any text, so other names in their arguments are not commands.
_READS_TEXT = lazy_regex(
    r"\s*+(?:(?:while|if|until) )?(?:read|mapfile|readarray|cat|grep|sed|awk|tr|cut|wc|jq|sort|head|tail)\b"
)
#: Number of characters before a here-string in which to look for the command.
_HERE_CHARACTERS = 240
_SQL = lazy_regex(
    r"(?i)(?:identified\s++(?:by|with\s++\w++\s++(?:by|as))|\bpassword|with\s++(?:encrypted\s++)?password|requirepass|"
    r"masterauth|sasl_password)\s++(?:=\s*+)?['\"]([^'\"\n]{3,256})['\"]"
)
#: Words of a sentence about a password.
_SAYS = lazy_regex(
    r"\b(?:is|are|was|must|should|has|have|not|to be|cannot|can't|ist|muss|darf|wird|est|doit|es|debe|è|deve|é)\b"
)
#: Words of a statement that sets a password.
_STATEMENT = lazy_regex(r"\b(?:create|alter|user|role|identified|with|set|grant)\b")
_CRYPT = lazy_regex(
    r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id|i|d)|pbkdf2[a-z0-9-]*+|scrypt)\$[A-Za-z0-9./$=,+_-]{16,400}"
)
#: Strings that PowerShell converts to secure strings, before or after the command.
_SECURE = lazy_regex(
    r"(?i)convertto-securestring\b(?:[ \t]{1,4}-(?:string|asplaintext|force)\b){0,3}[ \t]{1,4}"
    r"(?:\"([^\"\n]{3,256})\"|'([^'\n]{3,256})'|([^\s\"'`;|&<>$(-][^\s\"'`;|&<>]{3,256}))"
)
_SECURED = lazy_regex(r"(?i)(?:\"([^\"\n]{3,256})\"|'([^'\n]{3,256})')[ \t]{0,4}\|[ \t]{0,4}convertto-securestring\b")
#: Text before cookies, in lower case.
_COOKIE = lazy_regex(r"cookie(?:[\"']?\s?[:=]\s?|(?<=\s--cookie) )[\"']?|-b(?<=\s-b) [\"']?")
_COOKIE_VALUE = lazy_regex(r"[\w.-]{1,64}=([^;\s\"'\\]{8,4096})")
_LINE = lazy_regex(r"[^\n]{0,4096}")
#: The literals that the other rules need.
_SQL_WORDS = Gate("identified", "passw", "requirepass")
_ORACLE_TOOLS = Gate("sqlplus", "expdp", "impdp", "sqlldr", "rman target", "dgmgrl")
_STORED_WORDS = Gate("passw", "credential", "passphrase")
_INSERT_WORDS = Gate("insert into")
_SEND = Gate("send")
_SECURE_STRING = Gate("securestring")
_COOKIE_WORD = Gate("cookie")


def command_spans(text: str, low: str, held: int) -> Iterator[Span]:
    """Yield the spans of secrets passed to commands by option or pipe, in SQL, calls and cookies.

    Args:
        low: the same text in lower case, of the same length.
        held: the bits of the literals that the text may contain; see ``Gate``.
    """
    if (
        " -" in text
        or " /p" in text
        or " /RP " in text
        or " /rp " in text
        or " /P " in text
        or "\n-" in text
        or text.startswith("-")
    ):
        for match in _LONG.finditer(text):
            if match.start() == 0 or not text[match.start() - 1].isalnum():
                yield from accept(text, match, "password", lenient="pass" in match.group()[:24])
        for match in _PAIR.finditer(text):
            if not is_placeholder(match.group(2)):
                yield Span(*match.span(2), "password")
        yield from _short_options(text)
    yield from _placed(text, low, held)
    for match in matches(_HTPASSWD.starts(low, held), _GIVEN_TO_HTPASSWD, text):
        if _CHOSEN.search(match.group(1)) and not is_placeholder(match.group(1)):
            yield Span(*match.span(1), "password")
    if "|" in text:
        for match in matches(starts_of(_PIPE_BEGINNINGS, text), _PIPED, text):
            is_encoding = match.group("encoding") is not None
            if not (is_encoding and is_encoded_prose(next(filter(None, match.groups())))):
                yield from accept(text, match, "password", lenient=not is_encoding)
    for match in _HERE.finditer(text) if "<<<" in text else ():
        before = text[max(0, match.start() - _HERE_CHARACTERS) : match.start()].rpartition("\n")[2]
        command = re.split(r"[;&|(]", before)[-1]
        if _READS_HERE.search(command) and not _READS_TEXT.match(command):
            yield from accept(text, match, "password", lenient=True)
    if _SQL_WORDS.is_open(low, held):
        for match in _SQL.finditer(text):
            if not _is_sentence(low, match):
                yield from accept(text, match, "password", lenient=True)
    if "$" in text:
        for match in _CRYPT.finditer(text):
            yield Span(*match.span(), "password-hash")
    if "@" in text and _ORACLE_END.search(text):
        for match in _ORACLE.finditer(text):
            yield from _named_user(match)
    for match in matches(_ORACLE_TOOLS.starts(low, held), _ORACLE_TOOL, text):
        yield from _named_user(match)
    if _STORED_WORDS.is_open(low, held):
        for match in _STORED.finditer(text):
            yield from _named_user(match)
    for match in matches(_LOGIN_BEGINNINGS.starts(low, held), _LOGIN_CALL, text):
        value = match.group(1) or match.group(2)
        if not is_placeholder(value) and is_mixed(value, 4) and not has_plain_shape(value):
            yield from _named_user(match)
    if _INSERT_WORDS.is_open(low, held):
        for match in _INSERT.finditer(text):
            yield from _inserted(text, match)
    if _SEND.is_open(low, held):
        for match in matches(starts_of(_TYPED_BEGINNINGS, low), _TYPED, text):
            yield from _named_user(match)
    if _SECURE_STRING.is_open(low, held):
        for pattern in (_SECURE, _SECURED):
            for match in pattern.finditer(text):
                yield from _named_user(match)
    if _COOKIE_WORD.is_open(low, held) or " -b " in text:
        yield from _cookies(text, low)


def _named_user(match: re.Match[str]) -> Iterator[Span]:
    """Yield the password of an unambiguous match, unless it is a placeholder."""
    group = next(number for number in range(1, (match.lastindex or 1) + 1) if match.group(number) is not None)
    if not is_placeholder(match.group(group)):
        yield Span(*match.span(group), "password")


def _inserted(text: str, match: re.Match[str]) -> Iterator[Span]:
    """Yield the values that an SQL statement inserts into password columns."""
    at = match.start(2)
    for column in match.group(1).split(","):
        value = _SQL_VALUE.match(text, at, match.end(2))
        if not value:
            return
        if value.group(1) and _SQL_COLUMN.fullmatch(column) and not is_placeholder(value.group(1)):
            yield Span(*value.span(1), "password")
        at = value.end()


def _is_sentence(low: str, match: re.Match[str]) -> bool:
    """Return True if only the word "password" precedes a sentence in quotation marks, and no statement in SQL."""
    value = match.group(1)
    if has_digit(value) or not low.startswith("password", match.start()) or "=" in match.group(0):
        return False
    # A statement may be written on several lines.
    before = low[max(0, match.start() - 400) : match.start()].rpartition("\n\n")[2].rpartition(";")[2]
    return bool(_SAYS.search(value.lower())) and not _STATEMENT.search(before)


def _short_options(text: str) -> Iterator[Span]:
    for option in _SHORT.finditer(text):
        line = text.rfind("\n", max(0, option.start() - 400), option.start()) + 1
        name = text[option.start()] + option.group(1)
        before = max(line, option.start() - 400, 0)
        only = _PASSWORD_ONLY.get(name)
        command = only.search(text, before, option.start()) if only else None
        if command and _is_command_line(text, command.end(), option):
            yield from accept(text, option, "password", lenient=True, first=2)
            continue
        users = _USERS.get(name)
        if users and users.search(text, max(line, option.start() - 400, 0), option.start()):
            yield from accept(text, option, "password", lenient=False, first=2)


def _is_command_line(text: str, at: int, option: re.Match[str]) -> bool:
    """Return True if a command's option has another option or quotation marks, unlike in prose about the command."""
    end = text.find("\n", option.end(), option.end() + 400)
    rest = text[option.end() : end if end >= 0 else option.end() + 400]
    is_quoted = option.group(4) is None
    return is_quoted or bool(_OTHER_OPTION.search(text, at, option.start()) or _OTHER_OPTION.search(rest))


def _placed(text: str, low: str, held: int) -> Iterator[Span]:
    for gate, pattern in _PLACED:
        if gate.is_open(low, held):
            for match in pattern.finditer(text):
                yield from accept(text, match, "password", lenient=False)


def accept(text: str, match: re.Match[str], kind: str, *, lenient: bool, first: int = 1) -> Iterator[Span]:
    """Yield the value of a match, which has the groups of `VALUE` from `first` on, if the value may be a secret."""
    group = next(i for i in range(first, (match.lastindex or first) + 1) if match.group(i) is not None)
    value = match.group(group)
    is_code = group - first == 2 and is_expression(value) and not is_chosen_pair(value)
    if is_placeholder(value) or is_code or (" " in value and not lenient):
        return
    if is_key_id(text, *match.span(group)) or (_FILLED_IN.match(text, match.end(group)) and _NAME.fullmatch(value)):
        return
    if (lenient and not has_plain_shape(value) and not value.startswith("-")) or (
        is_mixed(value) and not has_plain_shape(value)
    ):
        yield Span(*match.span(group), kind)


def _cookies(text: str, low: str) -> Iterator[Span]:
    done = 0
    for header in _COOKIE.finditer(low):
        if header.end() < done:
            continue
        line = _LINE.match(text, header.end())
        done = line.end() if line else header.end()
        for value in _COOKIE_VALUE.finditer(text, header.end(), done):
            if is_mixed(value.group(1), 8) and total_bits(value.group(1)) < 1.0:
                yield Span(*value.span(1), "cookie")
