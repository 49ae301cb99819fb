"""Secrets that people tell in words: "the password is …" in a dozen languages, tables, wallet phrases, lists of codes,
user and password side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from engram.redaction.values import (
    Span,
    has_digit,
    has_plain_shape,
    has_sign,
    is_mixed,
    is_placeholder,
    is_state,
    is_technical,
)

_WALLET = re.compile(
    r"mnemonic|seed phrase|seed words|(?:recovery|backup|secret|wallet)(?: recovery)? (?:phrase|words|seed)|bip-?39"
)
_WORDS = re.compile(
    r"(?:[ \t\n\"'`:=,.)(\-*]|is|are|my|the|\d{1,2}[.):]){0,40}?((?:(?:\d{1,2}[.):] ?)?[a-z]{3,8}[ ,\n\t\-|"
    r"]{1,4}){10,24}(?:\d{1,2}[.):] ?)?[a-z]{3,8})"
)
#: Words that are numbered from 1, in one line or one a line.
_NUMBERED = re.compile(
    r"(?<![\w.])#?1[.):]?[ \t]{0,3}[a-z]{3,8}(?:[ ,;|\n\t]{1,8}#?\d{1,2}[.):]?[ \t]{0,3}[a-z]{3,8}(?![\w-])){11,23}"
)
#: What every such list holds.
_TWELFTH = re.compile(r"12[.):]?[ \t]{0,3}[a-z]{3}")
_NUMBERED_WORD = re.compile(r"(\d{1,2})[.):]?[ \t]{0,3}([a-z]{3,8})")
#: Possible numbers of words in a wallet phrase.
_WALLET_SIZES = frozenset({12, 15, 18, 21, 24})
#: A run of words in small letters with nothing between them.
_PLAIN_WORDS = re.compile(r"[a-z]++(?:[ \n][a-z]++)*+")
#: Minimum number of small letters and blanks before the end of a phrase.
_PLAIN_END = re.compile(r"[\n\"'`<](?<=[a-z \n]{47}[\n\"'`<])")
_PLAIN_TAIL = re.compile(r"[a-z \n]{47}")
_SENTENCE = re.compile(
    r"\b(?:the|and|for|are|was|has|not|but|from|its|our|your|their|which|when|then|been|were|does|how|why|who|use|"
    r"uses)\b"
)
_CODE_OF = re.compile(
    r"(?:verification|one[- ]time|security|2fa|mfa|two[- ]factor|sms|login|auth(?:entication|enticator)?|"
    r"confirmation|access|door|gate|alarm|lock|pairing|unlock|sign[- ]?in|activation|invite|backup|recovery|otp|totp|"
    r"pin|reset|scratch)[- ]$"
)
_CODE = re.compile(
    r"(codes?|t?otp|2fa|pin|passcode)\b(?: (?:for|to|of|on) [^\n:=.]{1,30}?)?(?:[ \"']{0,2}[:=]\s?| (?:is|are):? "
    r"(?:now )?| was |\s)[\"'`]?((?:\d{3}[- ]\d{3}|\d{4,8}|[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,7}))\b"
)
#: The beginnings of all such codes.
_CODE_STEMS = ("code", "totp", "otp", "2fa", "pin", "passcode")
#: The beginnings of all pairs.
_PAIR_STEMS = ("log in", "login", "sign in", "signin", "ssh", "cred", "connect", "account", "auth", "user", "root")
_PAIR = re.compile(
    r"(?:log ?in|sign ?in|ssh(?: in)?|creds?|credentials?|connect|account|auth|login|user(?:name)?|root)(?: (?:is|"
    r"are|as|with|using|for [^\n:/]{1,24}))?[:=]? {0,2}[\"'`]?[\w.@+-]{2,40}[\"'`]? {0,2}(?:/|:|,| and | with | - |\|"
    r") {0,2}(?:pass(?:word)?:? )?[\"'`]?([^\s\"'`]{6,64})"
)
#: The beginnings of all words that introduce a secret in a sentence, by a part that few other words have.
_TOLD_STEMS: dict[str, tuple[str, ...]] = {
    "wort": ("passwort", "kennwort", "losungswort"),
    "pass": ("password", "passcode", "passphrase", "pass phrase", "mot de passe"),
    "code": ("zugangscode", "toegangscode", "code d", "code secret"),
    "rase": ("phrase ", "frase"),
    "ave": ("clave", "llave", "chave"),
    "wacht": ("wachtwoord", "wachtzin"),
    "odi": ("codigo", "codice"),
    "api": ("api key", "api-key"),
} | {
    stem: (stem,)
    for stem in (
        *("pin", "token", "login", "secret", "mdp", "geheimzahl", "jeton", "parola", "palavra", "chiave", "senha"),
        *("sleutel", "hasl", "kod dost", "klucz"),
    )
}
#: Those with letters beyond ASCII.
_TOLD_ACCENTED = (
    *("passwört", "schlüssel", "clé", "código", "contrase", "hasł", "парол", "кодов", "секрет", "пин", "токен", "ключ"),
    "логин",
)
#: A password or a PIN; a name that begins with a blank group may be the end of a longer word.
_TOLD_CHOSEN = (
    r"passw(?:o|ö)rt|kennwort|zugangscode|geheimzahl|losungswort|wachtwoord|toegangscode|(?<!\w)(?:mot de passe|mdp|"
    r"code d['’]acc[èe]s|code secret|contrase(?:ñ|n)a|clave de acceso|clave secreta|c[óo]digo de (?:acceso|acesso)|"
    r"parola d['’](?:ordine|accesso)|parola chiave|codice (?:di accesso|segreto)|senha|palavra[- ]passe|"
    r"has[łl](?:o|em|a)|kod dostępu|парол(?:ь|я|ем|и)|кодовое слово|pin(?:[- ]?(?:code|nummer|kod))?|"
    r"пин(?:-код)?|password|passcode|login|логин)"
)
_TOLD_PHRASE = (
    r"(?<!\w)(?:pass ?phrase|phrase (?:secrète|de passe)|frase (?:de contraseña|secreta|segreta|de acesso)|"
    r"frase[- ]senha|wachtzin|(?:парольная|кодовая|секретная) фраза)|wachtwoordzin|passphrase"
)
_TOLD_ISSUED = (
    r"schlüssel|token|sleutel|(?<!\w)(?:jeton|clé|clave|llave|chiave|chave|klucz(?:em)?|токен|ключ|секрет|api[- ]key|"
    r"secret)(?: (?:d['’]|de |da |di |do )?(?:api|acc[èe]s|acesso|acceso|accesso|dostępu|secrète|secreta|segreta)"
    r"(?!\w))?"
)
#: What a password is for: a preposition in one of the languages, and the rest of the phrase.
_TOLD_FOR = (
    r"(?:[ \t,]{1,2}(?:(?:d|l|dell|all)['’](?=\w)|(?:für|fuer|vom|von|zum|zur|zu|des|der|dem|im|in|auf|am|an|"
    r"bei|hier|de|"
    r"du|pour|à|au|aux|sur|"
    r"dans|del|della|dello|dei|para|en|per|sul|di|do|da|dos|no|na|van|voor|op|bij|dla|od|w|от|для|к|на|в|у|из|for|of|"
    r"to|on)(?= ))(?:[^\n:=;!?.]|\.(?=\w)){0,60}?|[ \t]\([^()\n]{1,40}\))?"
)
_TOLD_NOW = r"(?:[ \t](?:jetzt|nun|maintenant|ahora|adesso|ora|agora|nu|teraz|теперь|сейчас|такой|такая|wie folgt))?"
_TOLD_JOIN = (
    r"\*{0,2}(?:[ \t]{1,2}(?P<verb>ist|lautet|heißt|heisst|war|wäre|wird|est|sera|c['’]est|es|será|era|è|é|sarà|luidt|"
    r"wordt|jest|brzmi|это|был|будет|(?P<english>is|was|to))" + _TOLD_NOW + r"[ \t]?:?[ \t]{1,3}|"
    r"[ \t]{0,2}(?P<sign>[:：=—–→]|->)[ \t]{0,3})\*{0,2}"
)
_TOLD = re.compile(
    rf"(?:(?P<phrase>{_TOLD_PHRASE})|(?P<chosen>{_TOLD_CHOSEN})|(?P<issued>{_TOLD_ISSUED}))(?![\w-])"
    rf"(?:{_TOLD_FOR}{_TOLD_JOIN}|(?P<bare>[ \t]{{1,2}}))"
)
#: Names that English has, too; with an English verb they belong to `assignments`.
_ENGLISH_NAMES = frozenset({"password", "passcode", "token", "login", "secret", "pin", "api key", "api-key"})
_TOLD_CJK = re.compile(
    r"(?:(?P<chosen>パスワード|暗証番号|パスフレーズ|合言葉|密码|密碼|口令|通行码|验证码|認証コード|访问码|暗语|pin码)|"
    r"(?P<issued>シークレット|トークン|apiキー|アクセスキー|秘密鍵|令牌|密钥|密鑰|(?:token|pin|key|login|password)"
    r"(?=[ \t]?[はが是为為：])))"
    r"[はがをもにの是为為就即设設改成置了叫等于於：:=＝ \t「『“\"'`*（(→]{1,8}(?P<value>[!-~]{4,64})"
)
_CJK_STEMS = (
    "パス",
    "暗証",
    "合言葉",
    "密",
    "口令",
    "通行",
    "验证",
    "認証",
    "访问",
    "暗语",
    "シークレット",
    "トークン",
    "キー",
    "令牌",
    "は",
    "是",
    "：",
)
_QUOTES = {"„": "“”", "“": "”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "「": "」", "『": "』"}
_QUOTES |= {sign: sign for sign in "\"'`"}
_TOLD_VALUE = re.compile(r"[^\s\"'`<>“”„«»、。，；）]{3,128}")
#: What is written like code, or holds no letter.
_LIKE_CODE = re.compile(r"\W+|#?\d{1,3}\.?|.*(?:[()\[\]\\]|::|->|//|@\w{1,64}+\.).*")
#: Names in code, which the words for keys and tokens are often said of.
_IDENTIFIER = re.compile(r"[a-zäöü]{1,64}+\d{0,3}[._/][a-z_]{1,64}+\d{0,2}")
#: Words that sentences have and passphrases made of drawn words have not, in the languages above.
_FUNCTION_WORDS = frozenset(
    (
        "the a an is are was be been must should can may not no never always only your you we they it its to for of "
        "from with by as when if this that these and or but nor than then too also at on in into per any all "
        "same still "
        "required optional stored used needed wrong empty missing derived encrypted hashed asked set read kept known "
        "plain text long short there here everywhere anywhere again already because so how what why who "
        "ist nicht und oder der die das den dem des ein eine einen mit für von zu im auf wird muss soll zum beim als "
        "wenn noch schon nur kein keine werden wurde hat haben kann le la les un une du ou pas en pour par sur "
        "dans est "
        "sont doit ne el los las una del no se con por debe il lo gli uno di non si deve che os um uma do da em "
        "não para "
        "com que de het een niet op voor van te wordt moet i lub nie w na z jest od dla и или не в на для от с по это"
    ).split()
)
#: Those that a remembered sentence may have once.
_WEAK_WORDS = frozenset("at on in and my with by und mit im et en con e i и в на".split())
_PHRASE_WORD = re.compile(r"(?:[^\W_]|['’-]){1,24}")
_RECOVERY = re.compile(
    r"(?:(?:recovery|back-?up|scratch|emergency|rescue|2fa|one-time|single-use)[ -]codes|"
    r"(?:wiederherstellungs|notfall|einmal|ersatz|herstel)-?codes|"
    r"codes de (?:récupération|secours)|c[óo]digos de (?:recuperaci[óo]n|respaldo|recupera[çc][ãa]o|backup|emergencia)|"
    r"codici di (?:recupero|backup|emergenza|riserva)|kody (?:zapasowe|odzyskiwania|jednorazowe)|"
    r"(?:резервные|запасные|аварийные) коды|коды (?:восстановления|доступа)|"
    r"(?:リカバリー|バックアップ|復旧|回復)コード|(?:恢复|恢復|备用|備用|备份|救援)代?[码碼])"
)
_CODES = ("codes", "códigos", "codigos", "codici", "kody", "коды", "コード", "码", "碼")
#: The beginnings of all names of such lists.
_RECOVERY_STEMS = (
    *(
        "recovery",
        "back",
        "scratch",
        "emergency",
        "rescue",
        "2fa",
        "one-time",
        "single-use",
        "wiederherstellung",
        "notfall",
    ),
    *(
        "einmal",
        "ersatz",
        "herstel",
        "codes de",
        "código",
        "codigo",
        "codici",
        "kody",
        "резерв",
        "запас",
        "аварий",
        "коды",
    ),
    *("リカバリー", "バックアップ", "復旧", "回復", "恢复", "恢復", "备用", "備用", "备份", "救援"),
)
_RECOVERY_HEAD = re.compile(
    r"[^\n:：]{0,60}?(?:[:：]|[ \t](?:are|sind|lauten|sont|son|sono|são|zijn|to|są)[ \t]|[は是]|\n)"
)
_RECOVERY_GAP = re.compile(
    r"(?:[\s,;|*•·\-–\"'`()\[\]、，]|\d{1,2}[.):](?=\s)|(?:and|und|et|y|e|en|i|и|和|と)(?=\s)){0,24}+"
)
_RECOVERY_CODE = re.compile(
    r"(?=[a-z-]{0,24}\d)[a-z0-9]{3,12}(?:-[a-z0-9]{3,12}){0,5}(?![\w/])|[a-z]{4,6}(?:-[a-z]{4,6}){1,5}(?![\w/-])"
)
_TABLE_RULE = re.compile(
    r"\n[ \t]{0,8}\|?[ \t]{0,8}:?-{2,60}+:?[ \t]{0,60}+"
    r"(?:\|[ \t]{0,8}:?-{2,60}+:?[ \t]{0,60}+){1,40}+\|?[ \t]{0,8}(?=\n)"
)
_TABLE_NAME = re.compile(
    rf"(?:.{{0,24}}[ _-])?(?:(?P<chosen>{_TOLD_PHRASE}|{_TOLD_CHOSEN}|pass|pwd|pw|パスワード|暗証番号|密码|密碼|口令)|"
    rf"(?P<issued>{_TOLD_ISSUED}|access key|トークン|令牌|密钥))(?: ?\([^)]{{0,20}}\))?"
)
#: The longest line of a table, in characters, and the most rows that are read.
_TABLE_LINE = 2_000
_TABLE_ROWS = 400


def phrase_spans(text: str, low: str, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of wallet phrases, one-time codes, and passwords given together with a user name."""
    if "phrase" in low or " words" in low or "seed" in low or "mnemonic" in low or "bip" in low:
        for wallet in _WALLET.finditer(low, start, end):
            words = _WORDS.match(text, wallet.end())
            if words:
                yield Span(*words.span(1), "seed-phrase")
    if _PLAIN_TAIL.fullmatch(text, max(start, end - 47), end) or _PLAIN_END.search(text, start, end):
        yield from _bare_phrases(text, start, end)
    if _TWELFTH.search(low, start, end):
        for numbered in _NUMBERED.finditer(low, start, end):
            if _is_numbered_wallet(numbered.group()):
                yield Span(*numbered.span(), "seed-phrase")
    yield from _codes(low, start, end)
    yield from told_spans(text, low)
    for pair in _matches_at(_PAIR_STEMS, _PAIR, low, start, end):
        first, last = pair.span(1)
        while last > first and text[last - 1] in ".,;:)":
            last -= 1
        value = text[first:last]
        if is_mixed(value) and not is_placeholder(value) and not has_plain_shape(value) and _is_password(value):
            yield Span(first, last, "password")


def _is_numbered_wallet(listed: str) -> bool:
    """Return whether a list holds as many different words as a wallet phrase, each with its number, in columns or
    rows.
    """
    words = _NUMBERED_WORD.findall(listed)
    numbers = sorted(int(number) for number, _ in words)
    is_whole = len(words) in _WALLET_SIZES and numbers == list(range(1, len(words) + 1))
    return is_whole and len({word for _, word in words}) >= 8 and not any(_SENTENCE.fullmatch(w) for _, w in words)


def _matches_at(
    stems: Iterable[str], pattern: re.Pattern[str], low: str, start: int, end: int
) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern, tried only at the beginnings of all that it matches."""
    starts: set[int] = set()
    for stem in stems:
        at = low.find(stem, start, end)
        while at >= 0:
            starts.add(at)
            at = low.find(stem, at + 1, end)
    for at in sorted(starts):
        match = pattern.match(low, at, end) if at >= start else None
        if match:
            yield match
            start = match.end()


def _bare_phrases(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield twelve to twenty-four words that form no sentence, at the end of a run of plain words."""
    for run in _PLAIN_WORDS.finditer(text, start, end):
        if run.end() - run.start() < 47 or text[run.end() : run.end() + 1] not in ("", "\n", '"', "'", "`", "<"):
            continue
        lines = run.group().split("\n") if run.group().count("\n") < 11 else [run.group()]
        at = run.start()
        for line in lines:
            words = line.split()
            kept = len(words)
            while kept and 3 <= len(words[kept - 1]) <= 8 and not _SENTENCE.fullmatch(words[kept - 1]):
                kept -= 1
            phrase = words[kept:]
            if 12 <= len(phrase) <= 26 and len(set(phrase)) >= 8:
                size = len(" ".join(phrase))
                yield Span(at + len(line) - size, at + len(line), "seed-phrase")
            at += len(line) + 1


def _codes(low: str, start: int, end: int) -> Iterator[Span]:
    for code in _matches_at(_CODE_STEMS, _CODE, low, start, end):
        first = code.start()
        if code.group(1).startswith("code"):
            qualified = bool(_CODE_OF.search(low, max(0, first - 20), first))
        else:
            qualified = not first or not low[first - 1].isalnum()
        if qualified and any(c.isdigit() for c in code.group(2)):
            yield Span(*code.span(2), "code")


def _is_password(value: str) -> bool:
    if any(c in "/\\()[]{}<>," for c in value):
        return False
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def told_spans(text: str, low: str) -> Iterator[Span]:
    """Yield the spans of secrets that sentences, lists and tables tell in words, in a dozen languages."""
    stems = [stem for part, some in _TOLD_STEMS.items() if part in low for stem in some]
    if not low.isascii():
        stems += _TOLD_ACCENTED
    elif "contrasena" in low:
        stems.append("contrasena")
    for told in _matches_at(stems, _TOLD, low, 0, len(low)):
        span = _told(text, low, told)
        if span:
            yield span
    if not low.isascii() and any(stem in low for stem in _CJK_STEMS):
        for told in _TOLD_CJK.finditer(low):
            first, last = told.span("value")
            value = re.split(r"[\"'`)*]", text[first:last], maxsplit=1)[0].rstrip(".,;:")
            if _is_told(value, is_chosen=told.group("chosen") is not None, is_direct=True, is_quoted=False):
                yield Span(first, first + len(value), "password" if told.group("chosen") else "token")
    if any(kind in low for kind in _CODES):
        for head in _matches_at(_RECOVERY_STEMS, _RECOVERY, low, 0, len(low)):
            yield from _recovery_codes(low, head.end())
    if "|" in text and "--" in text:
        for rule in _TABLE_RULE.finditer(text):
            yield from _table_spans(text, low, rule)


def _told(text: str, low: str, told: re.Match[str]) -> Span | None:
    is_phrase, is_chosen = told.group("phrase") is not None, told.group("chosen") is not None
    name = told.group("phrase") or told.group("chosen") or told.group("issued")
    is_english = name in _ENGLISH_NAMES and (
        told.group("english") or told.group("sign") or told.group("bare") is not None
    )
    if is_english or (told.group("english") == "to" and not name.startswith(("has", "kod", "klucz"))):
        return None
    is_bare = told.group("bare") is not None
    first, last, is_quoted = _told_value(text, told.end())
    value = text[first:last]
    if is_phrase and not is_bare:
        end = (
            last
            if is_quoted and " " in value
            else _phrase_end(low, first, last, after_sign=told.group("sign") is not None)
        )
        if is_quoted and " " in value:
            words = low[first:last].split()
            if 2 <= len(words) <= 16 and sum(w in _FUNCTION_WORDS for w in words) <= 1:
                return Span(first, last, "password")
            return None
        if end > first:
            return Span(first, end, "password")
    if is_bare and not (is_phrase or is_chosen):
        return None
    if _is_told(value, is_chosen=is_phrase or is_chosen, is_direct=not is_bare, is_quoted=is_quoted and not is_bare):
        return Span(first, last, "password" if is_phrase or is_chosen else "token")
    return None


def _told_value(text: str, at: int) -> tuple[int, int, bool]:
    """Return where the value at ``at`` begins and ends, and whether it is quoted."""
    while text[at : at + 1] == " ":
        at += 1
    closing = _QUOTES.get(text[at : at + 1])
    if closing:
        inside = at + 1 + (text[at + 1 : at + 2] == " ")
        line = text[inside : inside + 120].split("\n", 1)[0]
        ends = [line.find(sign) for sign in closing if sign in line]
        if ends and min(ends) > 0:
            return inside, inside + len(line[: min(ends)].rstrip()), True
        at += 1
    run = _TOLD_VALUE.match(text, at)
    if not run:
        return at, at, False
    return at, at + len(run.group().rstrip(".,;:)]}*")), False


def _is_told(value: str, *, is_chosen: bool, is_direct: bool, is_quoted: bool) -> bool:
    """Return whether the word behind the name of a secret is one, and not what a sentence says about it."""
    low = value.lower()
    if len(value) < 4 or is_placeholder(value) or "[secret:" in value:
        return False
    if " " in value:
        return is_quoted and is_chosen and has_digit(value) and not _FUNCTION_WORDS.intersection(low.split())
    if value.isdigit():
        return is_chosen and is_direct and len(value) <= 12
    if (
        has_plain_shape(value)
        or is_technical(value)
        or _LIKE_CODE.fullmatch(value)
        or (not is_chosen and _IDENTIFIER.fullmatch(low))
    ):
        return False
    body = value.rstrip("!?")
    has_letter = any(c.isalpha() for c in body)
    if has_digit(body) and has_letter:
        return len(value) >= (6 if is_chosen else 8)
    if has_sign(body) and has_letter:
        return is_chosen and len(value) >= 6
    pieces = low.split("-")
    if len(pieces) >= 4 and all(len(p) >= 3 and p.isalpha() and p not in _FUNCTION_WORDS for p in pieces):
        return True
    return is_quoted and is_chosen and len(value) >= 5 and value.isalpha() and not is_state(value)


def _phrase_end(low: str, first: int, last: int, *, after_sign: bool) -> int:
    """Return where a passphrase of plain words ends that begins at ``first``, or ``first`` where there is none."""
    at = first
    ends: list[int] = []
    weak = 0
    while len(ends) < 16:
        word = _PHRASE_WORD.match(low, at)
        if not word:
            break
        if word.group() in _FUNCTION_WORDS:
            weak += 1
            if not (after_sign and ends and weak == 1 and word.group() in _WEAK_WORDS):
                break
        ends.append(word.end())
        if low[word.end() : word.end() + 1] not in (" ", "-"):
            break
        at = word.end() + 1
    if len(ends) >= (3 if after_sign else 4) and not low[ends[-1] : ends[-1] + 1].isalnum():
        return ends[-1]
    return first


def _recovery_codes(low: str, at: int) -> Iterator[Span]:
    """Yield the codes of a list that begins behind its name; two at least, each with a digit or in groups."""
    head = _RECOVERY_HEAD.match(low, at)
    if not head:
        return
    at = head.end()
    found: list[Span] = []
    while len(found) < 64:
        gap = _RECOVERY_GAP.match(low, at)
        code = _RECOVERY_CODE.match(low, gap.end() if gap else at)
        if not code:
            break
        found.append(Span(code.start(), code.end(), "code"))
        at = code.end()
    if len(found) >= 2 and all(len(low[s.start : s.end]) >= 4 for s in found[:2]):
        yield from found


def _table_spans(text: str, low: str, rule: re.Match[str]) -> Iterator[Span]:
    """Yield the values in those columns of a Markdown table whose heading names a secret."""
    begin = low.rfind("\n", max(0, rule.start() - _TABLE_LINE), rule.start()) + 1
    headings = _cells(low, begin, rule.start())
    columns = {
        number: name.group("chosen") is not None
        for number, (first, last) in enumerate(headings)
        if (name := _TABLE_NAME.fullmatch(low[first:last].strip("*_` "))) and last - first <= 60
    }
    at = rule.end() + 1
    for _ in range(_TABLE_ROWS if columns else 0):
        stop = text.find("\n", at, at + _TABLE_LINE)
        stop = stop if stop >= 0 else min(len(text), at + _TABLE_LINE)
        cells = _cells(text, at, stop)
        if len(cells) < 2 or _TABLE_RULE.match(text, stop):
            return
        for number, is_chosen in columns.items():
            if number < len(cells):
                first, last = cells[number]
                is_marked = text[first] in "`" if first < last else False
                first, last = (first + 1, last - 1) if is_marked and last - first > 2 else (first, last)
                if _is_told(text[first:last], is_chosen=is_chosen, is_direct=True, is_quoted=is_marked):
                    yield Span(first, last, "password" if is_chosen else "token")
        at = stop + 1


def _cells(text: str, first: int, last: int) -> list[tuple[int, int]]:
    """Return where the cells of a row of a table begin and end, without the blanks around them."""
    line = text[first:last]
    cells: list[tuple[int, int]] = []
    at = 0
    for part in line.split("|"):
        inner = part.strip()
        begin = at + (len(part) - len(part.lstrip()) if inner else 0)
        cells.append((first + begin, first + begin + len(inner)))
        at += len(part) + 1
    return cells if len(cells) > 1 else []
