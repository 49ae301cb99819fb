"""Secrets written out in words: "the password is …" in a dozen languages, wallet phrases, user beside password."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from engram.redaction.values import (
    Gate,
    Span,
    has_digit,
    has_plain_shape,
    has_sign,
    is_expression,
    is_hex,
    is_mixed,
    is_placeholder,
    is_scrambled,
    is_state,
    is_technical,
    matches,
    total_bits,
)
from engram.system.lazy_regex import lazy_regex

_WALLET = lazy_regex(
    r"mnemonic|seed phrase|seed words|(?:recovery|backup|secret|wallet)(?: recovery)? (?:phrase|words|seed)|bip-?39"
)
_WALLET_WORDS = Gate("phrase", " words", "seed", "mnemonic", "bip")
_WORDS = lazy_regex(
    r"(?:[ \t\n\"'`:=,.)(\-*]|is|are|my|the|\d{1,2}[.):]){0,40}?((?:(?:\d{1,2}[.):] ?)?[a-z]{3,8}[ ,\n\t\-|"
    r"]{1,4}){10,24}(?:\d{1,2}[.):] ?)?[a-z]{3,8})"
)
#: Words that are numbered from 1, on one line or one per line.
_NUMBERED = lazy_regex(
    r"(?<![\w.])#?1[.):]?[ \t]{0,3}[a-z]{3,8}(?:[ ,;|\n\t]{1,8}#?\d{1,2}[.):]?[ \t]{0,3}[a-z]{3,8}(?![\w-])){11,23}"
)
#: What every such list contains.
_TWELFTH = lazy_regex(r"12[.):]?[ \t]{0,3}[a-z]{3}")
_NUMBERED_WORD = lazy_regex(r"(\d{1,2})[.):]?[ \t]{0,3}([a-z]{3,8})")
#: Possible numbers of words in a wallet phrase.
_WALLET_SIZES = frozenset({12, 15, 18, 21, 24})
#: A run of words in small letters with nothing between them, read in either direction.
_PLAIN_WORDS = lazy_regex(r"[a-z]++(?:[ \n][a-z]++)*+")
#: How a run of small letters, blanks and line breaks is marked in bytes, so that long runs are found fast.
_PLAIN, _OTHER = b"p", b"-"
_PLAIN_MARKS = bytes((_PLAIN if chr(code) in f"{string.ascii_lowercase} \n" else _OTHER)[0] for code in range(256))
#: Minimum number of such characters before the end of a phrase, the line breaks that end one, and other ends.
_PLAIN_SIZE = 47
_PLAIN_LINE_END = lazy_regex(r"\n(?![a-z])")
_PLAIN_ENDS = "\"'`<"
_SENTENCE = lazy_regex(
    r"\b(?:the|and|for|are|was|has|not|but|from|its|our|your|their|which|when|then|been|were|does|how|why|who|use|"
    r"uses)\b"
)
_CODE_OF = lazy_regex(
    r"(?:verification|one[- ]time|security|2fa|mfa|two[- ]factor|sms|login|auth(?:entication|enticator)?|"
    r"confirmation|access|door|gate|alarm|lock|pairing|unlock|sign[- ]?in|activation|invite|backup|recovery|otp|totp|"
    r"pin|puk|reset|scratch)[- ]$"
)
_CODE = lazy_regex(
    r"(codes?|t?otp|2fa|pin|puk|passcode)\b(?: (?:for|to|of|on) [^\n:=.]{1,30}?)?(?:[ \"']{0,2}[:=]\s?| (?:is|are):? "
    r"(?:now )?| was |\s)[\"'`]?((?:\d{3}[- ]\d{3}|\d{4,8}|[a-z0-9]{4,6}(?:-[a-z0-9]{4,6}){1,7}))\b"
)
#: The beginnings of all such codes.
_CODE_BEGINNINGS = Gate("code", "totp", "otp", "2fa", "pin", "puk", "passcode")
#: The beginnings of all pairs.
_PAIR_BEGINNINGS = Gate(
    *("log in", "login", "sign in", "signin", "ssh", "cred", "connect", "account", "auth", "user", "root"),
    *("zugangsdaten", "identifiant"),
)
_PAIR = lazy_regex(
    r"(?:log ?in|sign ?in|ssh(?: in)?|creds?|credentials?|zugangsdaten|identifiants?(?: (?=:))?|"
    r"connect|account|auth|login|user(?:name)?|"
    r"root(?! cause))(?![a-z_-]| id\b)(?: (?:is|are|as|with|using|for [^\n:/]{1,24}))?[:=]? {0,2}"
    r"[\"'`]?[\w.@+-]{2,40}[\"'`]?"
    r" {0,2}(?:/|:|,| and | with | - |\|) {0,2}(?:pass(?:word)?:? )?[\"'`]?([^\s\"'`]{6,64})"
)
#: The beginnings of all words that introduce a secret in a sentence.
_TOLD_BEGINNINGS = Gate(
    *("password", "passwort", "kennwort", "losungswort", "passcode", "passphrase", "pass phrase", "mot de passe"),
    *("zugangscode", "toegangscode", "code d", "code secret", "phrase ", "frase", "clave", "llave", "chave"),
    "puk",
    *("wachtwoord", "wachtzin", "codigo", "codice", "api key", "api-key", "pin", "token", "login", "secret", "mdp"),
    *("geheimzahl", "jeton", "parola", "palavra", "chiave", "senha", "sleutel", "hasl", "kod dost", "klucz", "heslo"),
    *("adgangskode", "passord", "passwört", "schlüssel", "clé", "código", "contrase", "hasł", "парол", "кодов"),
    *("секрет", "пин", "токен", "ключ", "логин", "lösenord", "şifre"),
)
#: A password or a PIN; a name that begins with a blank group may be the end of a longer word.
NAMES_OF_PASSWORDS = (
    r"passw(?:o|ö)rt|kennwort|zugangscode|geheimzahl|losungswort|wachtwoord|toegangscode|(?<!\w)(?:mot de passe|mdp|"
    r"code d['’]acc[èe]s|code secret|contrase(?:ñ|n)a|clave de acceso|clave secreta|c[óo]digo de (?:acceso|acesso)|"
    r"parola d['’](?:ordine|accesso)|parola chiave|codice (?:di accesso|segreto)|senha|palavra[- ]passe|"
    r"has[łl](?:o|em|a)|kod dostępu|парол(?:ь|я|ем|и)|кодовое слово|pin(?:[- ]?(?:code|nummer|kod))?|"
    r"пин(?:-код)?|puk(?:[- ]?(?:code|nummer|kod))?|password|passcode|login|логин|lösenord(?:et)?|passord(?:et)?|"
    r"adgangskoden?|heslo|şifre(?:si|niz)?)"
)
NAMES_OF_PHRASES = (
    r"(?<!\w)(?:pass ?phrase|phrase (?:secrète|de passe)|frase (?:de contraseña|secreta|segreta|de acesso)|"
    r"frase[- ]senha|wachtzin|(?:парольная|кодовая|секретная) фраза)|wachtwoordzin|passphrase"
)
NAMES_OF_KEYS = (
    r"schlüssel|token|sleutel|(?<!\w)(?:jeton|clé|clave|llave|chiave|chave|klucz(?:em)?|токен|ключ|секрет|api[- ]key|"
    r"secret)(?: (?:d['’]|de |da |di |do )?(?:api|acc[èe]s|acesso|acceso|accesso|dostępu|secrète|secreta|segreta)"
    r"(?!\w))?"
)
#: What a password is for: a preposition in one of the languages, and the rest of the phrase.
_TOLD_FOR = (
    r"(?:[ \t,]{1,2}(?:(?:d|l|dell|all)['’](?=\w)|(?:für|fuer|vom|von|zum|zur|zu|des|der|dem|im|in|auf|am|an|"
    r"bei|hier|fürs|fuers|ins|ans|aufs|beim|de|"
    r"du|pour|à|au|aux|sur|"
    r"dans|del|della|dello|dei|para|en|per|sul|di|do|da|dos|no|na|van|voor|op|bij|dla|od|w|от|для|к|на|в|у|из|for|of|"
    r"to|on)(?= ))(?:[^\n:=;!?.]|\.(?=\w)){0,60}?|[ \t]\([^()\n]{1,40}\))?"
)
_TOLD_NOW = r"(?:[ \t](?:jetzt|nun|maintenant|ahora|adesso|ora|agora|nu|teraz|теперь|сейчас|такой|такая|wie folgt))?"
_TOLD_JOIN = (
    r"\*{0,2}(?:(?:[ \t]{1,2}|, )(?P<verb>das ist|är|er|je|ist|lautet|heißt|heisst|war|wäre|wird|est|sera|"
    r"c['’]est|es|será|era|è|é|sarà|luidt|"
    r"wordt|jest|brzmi|это|был|будет|(?P<english>is|was|to))" + _TOLD_NOW + r"[ \t]?:?[ \t]{1,3}|"
    r"[ \t]{0,2}(?P<sign>[:：=—–→]|->)[ \t]{0,3})\*{0,2}"
)
_TOLD = lazy_regex(
    rf"(?:(?P<phrase>{NAMES_OF_PHRASES})|(?P<chosen>{NAMES_OF_PASSWORDS})|(?P<issued>{NAMES_OF_KEYS}))(?![\w-])"
    rf"(?:{_TOLD_FOR}{_TOLD_JOIN}|(?P<bare>[ \t]{{1,2}}(?:(?:там|тут|здесь|dort|hier|là|allí|lì|lá|daar|tam)[ \t])?))"
)
_TOLD_NAME = lazy_regex(rf"(?:{NAMES_OF_PHRASES}|{NAMES_OF_PASSWORDS}|passwd|pwd)(?![\w-])")
_ASKED_CJK = Gate("パスワード", "密码", "密碼", "비밀번호")
#: Names that occur in English, too; with an English verb, they belong to `assignments`.
_ENGLISH_NAMES = frozenset({"password", "passcode", "token", "login", "secret", "pin", "puk", "api key", "api-key"})
_TOLD_CJK = lazy_regex(
    r"(?:(?P<chosen>パスワード|暗証番号|パスフレーズ|合言葉|密码|密碼|口令|通行码|验证码|認証コード|访问码|暗语|pin码|비밀번호|암호|패스워드)|"
    r"(?P<issued>シークレット|トークン|apiキー|アクセスキー|秘密鍵|令牌|密钥|密鑰|(?:token|pin|key|login|password)"
    r"(?=[ \t]?[はが是为為：])))"
    r"[はがをもにの는은이가를도是为為就即设設改成置换換更修调調变變了叫等于於：:=＝ \t「『“\"'`*（(→]{1,8}"
    r"(?P<value>[!-~]{4,64})"
)
_CJK_PARTS = Gate(
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
    *("トークン", "비밀번호", "암호", "패스워드"),
    "キー",
    "令牌",
    "は",
    "是",
    "：",
)
_QUOTES = {"„": "“”", "“": "”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "「": "」", "『": "』"}
_QUOTES |= {sign: sign for sign in "\"'`"}
_TOLD_VALUE = lazy_regex(r"[^\s\"'`<>“”„«»、。，；）]{3,128}")
#: What is written like code, or holds no letter.
_LIKE_CODE = lazy_regex(r"\W+|#?\d{1,3}\.?|.*(?:[()\[\]\\]|::|->|//|@\w{1,64}+\.).*")
#: Names in code, of which words such as "key" and "token" are often said.
_IDENTIFIER = lazy_regex(r"[a-zäöü]{1,64}+\d{0,3}[._/][a-z_]{1,64}+\d{0,2}")
#: Words that occur in sentences but not in passphrases made of drawn words, in the languages above.
FUNCTION_WORDS = frozenset(
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
#: Those of them that a memorable sentence may contain once.
_WEAK_WORDS = frozenset("at on in and my with by und mit im et en con e i и в на".split())
_PHRASE_WORD = lazy_regex(r"(?:[^\W_]|['’-]){1,24}")
#: The value before the name: "use … as the password", "… ist das Passwort".
_GIVEN_AS = lazy_regex(
    r"(?:^|[\s(:])[\"'`„“«]?(?P<value>[^\s\"'`„“”«»()]{4,64})[\"'`”“»]?"
    r"[ \t](?:as|als|como|comme|come|jako|как|som|is|ist|es|est|è|é|это|to)"
    r"[ \t](?:(?:the|a|my|your|our|its|das|die|der|dein|mein|le|la|el|il|o|het|un|una|ein|de|\w{1,12})[ \t]){0,3}$"
)
_GIVEN_CHARACTERS = 120
_NAME_ENDS = lazy_regex(
    r"(?:[ \t]?[.,;!)\n]|$|[ \t](?:for|of|on|in|and|to|at|there|now|für|fürs|von|vom|beim|und|im|am|de|del|della|du|"
    r"pour|sur|para|per|do|da|voor|van|en|et|e|y|dla|для|к|works?|worked|geht|klappt|passt)\b)"
)
#: A question for a password, and the answer in one of the next lines.
_ASKED = lazy_regex(
    rf"(?:(?:{NAMES_OF_PHRASES}|{NAMES_OF_PASSWORDS})(?![\w-])|パスワード|密码|密碼|비밀번호)[^\n?？]{{0,80}}(?:[?？]|\n)"
)
_ASKS = lazy_regex(
    r"\b(?:what|which|send|give|tell|need|wie|was|welche[srnm]?|schick|sag|gib|quel(?:le)?|cu[áa]l|qual[ei]?|wat|welk[e]?|jakie|"
    r"какой|скажи)\b|['’]s the|[?？]"
)
#: Words of questions about how passwords are treated, not about what a password is.
_ASKS_HOW = lazy_regex(
    r"\b(?:length|long|how|where|why|who|when|policy|hash\w{0,8}|algorithm|stor\w{1,4}|field|column|type|format|manager|length|rules?|"
    r"reset|min(?:im\w{2,4})?|max(?:im\w{2,4})?|valid\w{0,8}|check\w{0,8}|wo|warum|wer|wann|lang|länge|geprüft|gehasht|gespeichert|feld|spalte|longueur|"
    r"où|pourquoi|dónde|dove|perché|onde|waar|waarom|gdzie|где|почему)\b"
)
_ANSWER = lazy_regex(
    r"[ \t>*\-–•]{0,6}(?:[\[(]?\d[\d:./ T-]{2,24}[\])]?[ \t]{1,2})?"
    r"(?:[*_<@\[]{0,3}[\w .@'’-]{1,30}[*_>\]]{0,3}(?: \([^()\n]{1,20}\))?[:>]\*{0,2}[ \t]{1,3})?(?P<lead>"
    r"(?:(?:sure|yes|yep|ok(?:ay)?|here(?: you go)?|klar|ja|oui|s[ií]|sì|sim|hier|tak|да|try|nimm|use|should be|"
    r"i think)[,:!.]{0,2}[ \t]){0,3}"
    r"(?:(?:it|that|this)(?:['’]s| is|'d be)[ \t]|(?:das |es |it )?(?:ist|is|war|was)[ \t]|c['’]est[ \t]|"
    r"(?:es|è|é|to|это|het is|dat is)[ \t])?(?:still |now |just |noch |immer |jetzt )?)[\"'`„“«*]{0,3}"
)
#: What says that a password is set or changed, and what precedes the new password, in each language.
_SETTING: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (lazy_regex(rf"(?<!\w)(?:{verbs})"), words)
    for verbs, words in (
        (
            r"(?:um|zurück|ein|fest)?ge(?:setzt|ändert|aendert|stellt|wechselt)|(?:ver|ab)?änder|setz|stelle",
            ("auf", "zu"),
        ),
        (r"chang(?:é|er|eons|ez)|modifi|remplac|réinitialis|défini|mise?\b|mets?\b", ("en", "par", "à", "sur")),
        (r"cambi|puse|pongo|puest|actualiz|modific|restablec|configur", ("a", "en", "por", "como")),
        (r"cambi|impost|modific|reimpost|mess[ao]\b|sostitui", ("in", "su", "con", "a")),
        (r"mud(?:ei|ou|ar|ad|amos)|alter(?:ei|ou|ar|ad)|tro(?:qu|cou|car|cad)|redefini|coloq", ("para", "por", "como")),
        (r"verander|gewijzig|wijzig|gezet|ingesteld|aangepast|zet\b", ("naar", "in", "op")),
        (r"zmieni|zmień|ustaw|zresetow", ("na",)),
        (r"(?:по|с|из|за)мен|постав|устан|сброс|задал", ("на",)),
        (r"(?:chang(?:ed?|es|ing)|(?:re)?set|updated?|rotated?|switched)\b", ("to",)),
    )
)
_SET_TO = lazy_regex(
    rf"[ \t]({'|'.join(sorted({word for _, words in _SETTING for word in words}))})[ \t]{{1,2}}"
    r"(?=[\"'`„“«]|\S{0,40}?[\d!@#$%^&*])"
)
#: Words that can also introduce a place, so that the value after one must look more like a password.
_PLACING = frozenset({"in", "en", "op", "a", "su", "à", "sur", "na", "на"})
_NUMBERED_NAME = lazy_regex(r"[a-z]{1,20}(?:-[a-z0-9]{1,20}){0,4}-\d{1,3}")
#: What may follow an English name that isn't the first part of another one, as in "the password hash".
_SET_ENGLISH = lazy_regex(r"[ \t](?:for|of|on|at|from|has|have|had|was|is|got|yesterday|today|now|again|back)\b")
_SENTENCE_ENDS = lazy_regex(r"[.!?;](?:[ \t]|$)|\n")
#: How much of a sentence is read before and after the name, in characters.
_SET_BEFORE, _SET_AFTER = 80, 160
#: The seed of an authenticator, in groups of four or whole, near a word that says what it is for.
_SEED = lazy_regex(
    r"(?<![^\W_])(?:oath\w{0,6}|[th]?otp|2fa|mfa|two-factor|authenticator)(?![^\W_])"
    r"[^\n]{0,80}?(?:\n[ \t]{0,8})?[\s\"'`:]"
    r"(?P<seed>(?:[a-z2-7]{4}[ -]){3,15}[a-z2-7]{4}|[a-z2-7]{16,64})(?![\w-])"
)
_SEED_BEGINNINGS = Gate("oath", "totp", "hotp", "otp", "2fa", "mfa", "two-factor", "authenticator")
#: How many lines after the question may hold the answer, and how many characters.
_ANSWER_LINES, _ANSWER_CHARACTERS = 4, 400


def phrase_spans(text: str, low: str, held: int) -> Iterator[Span]:
    """Yield the spans of wallet phrases, one-time codes, and passwords given together with a user name.

    Args:
        low: the same text in lower case, of the same length.
        held: the literals that the text may hold, as ``Gate`` takes them.
    """
    if _WALLET_WORDS.is_open(low, held):
        for wallet in _WALLET.finditer(low):
            words = _WORDS.match(text, wallet.end())
            if words:
                yield Span(*words.span(1), "seed-phrase")
    yield from _bare_phrases(text)
    if _TWELFTH.search(low):
        for numbered in _NUMBERED.finditer(low):
            if _is_numbered_wallet(numbered.group()):
                yield Span(*numbered.span(), "seed-phrase")
    yield from _codes(low, held)
    for seed in _SEED_BEGINNINGS.matches(_SEED, low, held):
        first, last = seed.span("seed")
        value = text[first:last]
        if has_digit(value) and (value.isupper() or value.islower()) and total_bits(re.sub(r"[ -]", "", value)) < -2:
            yield Span(first, last, "seed")
    for pair in _PAIR_BEGINNINGS.matches(_PAIR, low, held):
        first, last = pair.span(1)
        while last > first and text[last - 1] in ".,;:)":
            last -= 1
        value = text[first:last]
        is_other = (
            is_placeholder(value) or has_plain_shape(value) or (len(value) >= 32 and is_hex(value.replace("-", "")))
        )
        if is_mixed(value) and not is_other and _is_password(value):
            yield Span(first, last, "password")


def _is_numbered_wallet(listed: str) -> bool:
    """Return whether a list holds as many different words as a wallet phrase, each with its number, in columns or
    rows.
    """
    words = _NUMBERED_WORD.findall(listed)
    numbers = sorted(int(number) for number, _ in words)
    is_whole = len(words) in _WALLET_SIZES and numbers == list(range(1, len(words) + 1))
    return is_whole and len({word for _, word in words}) >= 8 and not any(_SENTENCE.fullmatch(w) for _, w in words)


def _bare_phrases(text: str) -> Iterator[Span]:
    """Yield twelve to twenty-four words that form no sentence, at the end of a run of plain words."""
    ends = list(_plain_ends(text))
    backwards = text[::-1] if ends else ""
    for end in ends:
        run = _PLAIN_WORDS.match(backwards, len(text) - end)
        if not run or len(run.group()) < _PLAIN_SIZE:
            continue
        listed = run.group()[::-1]
        lines = listed.split("\n") if listed.count("\n") < 11 else [listed]
        at = end - len(listed)
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


def _plain_ends(text: str) -> Iterator[int]:
    """Yield where a phrase may end: in and after long runs of small letters, blanks and line breaks."""
    marks = text.encode("latin-1", "replace").translate(_PLAIN_MARKS)
    start = marks.find(_PLAIN * _PLAIN_SIZE)
    while start >= 0:
        stop = marks.find(_OTHER, start)
        stop = stop if stop >= 0 else len(text)
        yield from (end.start() for end in _PLAIN_LINE_END.finditer(text, start + _PLAIN_SIZE, stop))
        if stop == len(text) or text[stop] in _PLAIN_ENDS:
            yield stop
        start = marks.find(_PLAIN * _PLAIN_SIZE, stop)


def _codes(low: str, held: int) -> Iterator[Span]:
    for code in _CODE_BEGINNINGS.matches(_CODE, low, held):
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


def told_starts(low: str, held: int) -> list[int]:
    """Return where words that introduce a secret may begin, in any of the languages."""
    return _TOLD_BEGINNINGS.starts(low, held)


def told_spans(text: str, low: str, held: int, starts: list[int]) -> Iterator[Span]:
    """Yield the spans of secrets that sentences write out in words; ``starts`` are those of ``told_starts``."""
    for told in matches(starts, _TOLD, low):
        span = _told(text, low, told)
        if span:
            yield span
    for name in matches(starts, _TOLD_NAME, low):
        yield from _given_before(text, low, name)
        yield from _set_to(text, low, name)
    is_cjk = _CJK_PARTS.is_open(low, held)
    if is_cjk:
        for told in _TOLD_CJK.finditer(low):
            first, last = told.span("value")
            value = re.split(r"[\"'`)*]", text[first:last], maxsplit=1)[0].rstrip(".,;:")
            if is_told(value, is_chosen=told.group("chosen") is not None, is_direct=True, is_quoted=False):
                yield Span(first, first + len(value), "password" if told.group("chosen") else "token")
    if "\n" in text:
        if is_cjk:
            starts = sorted({*starts, *_ASKED_CJK.starts(low, held)})
        for asked in matches(starts, _ASKED, low):
            yield from _answer(text, low, asked)


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
            if 2 <= len(words) <= 16 and sum(w in FUNCTION_WORDS for w in words) <= 1:
                return Span(first, last, "password")
            return None
        if end > first:
            return Span(first, end, "password")
    if is_bare and not (is_phrase or is_chosen):
        return None
    if is_told(value, is_chosen=is_phrase or is_chosen, is_direct=not is_bare, is_quoted=is_quoted and not is_bare):
        return Span(first, last, "password" if is_phrase or is_chosen else "token")
    return None


def _given_before(text: str, low: str, name: re.Match[str]) -> Iterator[Span]:
    """Yield the password that a sentence gives before its name."""
    is_english = name.group() in _ENGLISH_NAMES or name.group() in ("passphrase", "pass phrase", "passwd", "pwd")
    if name.group() == "login" or (is_english and not _NAME_ENDS.match(low, name.end())):
        return
    first = max(0, name.start() - _GIVEN_CHARACTERS)
    first = max(first, low.rfind("\n", first, name.start()) + 1)
    given = _GIVEN_AS.search(low[first : name.start()])
    if not given:
        return
    begin, end = (first + at for at in given.span("value"))
    value = text[begin:end]
    if len(value) < 8 and value.isalnum() and value.islower():
        return
    if (
        is_told(value, is_chosen=True, is_direct=False, is_quoted=False)
        and not is_expression(value)
        and not _IDENTIFIER.fullmatch(value)
    ):
        yield Span(begin, end, "password")


def _set_to(text: str, low: str, name: re.Match[str]) -> Iterator[Span]:
    """Yield the new password in a sentence about a change: "ich habe das Passwort auf … gesetzt"."""
    if not _SET_TO.search(low, name.end(), name.end() + _SET_AFTER):
        return
    before = low[max(0, name.start() - _SET_BEFORE) : name.start()]
    ends = [end.end() for end in _SENTENCE_ENDS.finditer(before)]
    end = _SENTENCE_ENDS.search(low, name.end(), name.end() + _SET_AFTER)
    stop = end.start() if end else min(len(low), name.end() + _SET_AFTER)
    sentence = before[ends[-1] if ends else 0 :] + low[name.start() : stop]
    is_number = name.group().startswith(("pin", "puk", "пин", "geheimzahl"))
    for to in _SET_TO.finditer(low, name.end(), stop):
        first, last, is_quoted = _told_value(text, to.end())
        value, word = text[first:last], to.group(1)
        if (
            is_told(value, is_chosen=True, is_direct=is_number, is_quoted=is_quoted)
            and not is_expression(value)
            and (word not in _PLACING or is_quoted or _is_unlike_name(value))
            and (word != "to" or _SET_ENGLISH.match(low, name.end()))
            and any(word in words and verbs.search(sentence) for verbs, words in _SETTING)
        ):
            yield Span(first, last, "password")
            return


def _is_unlike_name(value: str) -> bool:
    """Return whether a word looks more like a password than names of servers and branches do."""
    body = value.rstrip("!?.")
    if _NUMBERED_NAME.fullmatch(body):
        return False
    return has_sign(body) or "_" in body or sum(c.isdigit() for c in body) >= 2 or is_scrambled(body)


def _answer(text: str, low: str, asked: re.Match[str]) -> Iterator[Span]:
    """Yield the password that is given on one of the lines after a question for it."""
    line = max(low.rfind("\n", max(0, asked.start() - 120), asked.start()) + 1, asked.start() - 120, 0)
    question = low[line : asked.end()]
    if not _ASKS.search(question) or _ASKS_HOW.search(question):
        return
    at = asked.end() if question.endswith("\n") else low.find("\n", asked.end(), asked.end() + 200) + 1
    limit = min(len(text), asked.end() + _ANSWER_CHARACTERS)
    for _ in range(_ANSWER_LINES if at else 0):
        stop = low.find("\n", at, limit)
        stop = stop if stop >= 0 else min(len(text), limit)
        answer = _ANSWER.match(low, at, stop)
        if answer:
            first, last, _ = _told_value(text, answer.end())
            is_whole = not text[last:stop].strip("\"'`”“».,;:!*) \t")
            is_led = bool(answer.group("lead").strip())
            if (
                (is_led or is_whole)
                and last <= stop
                and is_told(text[first:last], is_chosen=True, is_direct=is_led and is_whole, is_quoted=False)
                and not is_expression(text[first:last])
            ):
                yield Span(first, last, "password")
                return
        if stop >= limit or stop == len(text):
            return
        at = stop + 1


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


def is_told(value: str, *, is_chosen: bool, is_direct: bool, is_quoted: bool) -> bool:
    """Return whether the word after a secret's name is the secret, not what a sentence says about it."""
    low = value.lower()
    if len(value) < 4 or is_placeholder(value) or "[secret:" in value:
        return False
    if " " in value:
        return is_quoted and is_chosen and has_digit(value) and not FUNCTION_WORDS.intersection(low.split())
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
    if is_chosen and is_scrambled(body):
        return True
    if has_sign(body) and has_letter:
        return is_chosen and len(value) >= 6
    pieces = low.split("-")
    if len(pieces) >= 4 and all(len(p) >= 3 and p.isalpha() and p not in FUNCTION_WORDS for p in pieces):
        return True
    return is_quoted and is_chosen and len(value) >= 5 and value.isalpha() and not is_state(value)


def _phrase_end(low: str, first: int, last: int, *, after_sign: bool) -> int:
    """Return where the passphrase of plain words that begins at ``first`` ends; ``first`` if there is none."""
    at = first
    ends: list[int] = []
    weak = 0
    while len(ends) < 16:
        word = _PHRASE_WORD.match(low, at)
        if not word:
            break
        if word.group() in FUNCTION_WORDS:
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
