"""The words around secrets in sentences, in eleven languages, grouped by meaning.

A stem represents every word that begins with it; a stem in ``_INSIDE`` also represents words that contain it, as in
German and Dutch compounds. Japanese and Chinese words are matched anywhere, because their beginnings are not marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from engram.system.cached import lru_cache_by_text
from engram.system.lazy_regex import lazy_regex

#: Stems that name a password anywhere in a word.
_INSIDE = (
    "passw passcode kennwort losungswort wachtwoord contrase haseł hasł "
    "парол digicode パスワード パスコード 暗証 密码 密碼 口令 暗语 暗号 비밀번호"
)
#: Stems by meaning. `_` represents a space, and `$` the end of a word.
CUES: dict[str, str] = {
    "phrase": (
        "passphras pass_phrase phrase_de_passe phrase_secr phrase$ phrases$ frase$ frases$ frase_de fraza frazę "
        "фраз zin$ satz$ wachtzin sleutelzin hoofdzin passphrase パスフレーズ 合言葉 一句话 sentence"
    ),
    "password": (
        "pwd pw$ pws$ ww$ pass$ passe$ mdp şifre passord adgangskod mot_de_passe mots_de_passe senha clave$ claves$ "
        "palavra-pass palavra_pass parola$ parolę hasel heslo lösenord кодовое_слово login_with word_is パスは "
        "パスを パス「 暗号化キー"
    ),
    "key": (
        "key$ keys$ schlüssel clé$ clés$ chiave llave$ chave sleutel klucz ключ キー 密钥 密鑰 鍵 secret geheim "
        "token jeton токен секрет トークン 令牌 psk$ credential zugangsdaten identifiant creden anmeldedaten "
        "logindaten данные_для_вход"
    ),
    "pin": (
        "pin$ pins$ pincode pin-code puk$ geheimzahl пин combin kombin szyfr zahlencode zugangscode toegangscode "
        "türcode alarmcode deurcode 验证码 通行码 取件码 开门码"
    ),
    "code": (
        "unlock$ entsperr verification sim$ sim- code$ codes$ kod$ kodu$ kody$ kodem$ código codigo codice codici код$ "
        "кода$ кодом$ коды$ コード 番号"
    ),
    "door": (
        "alarm allarm antifurto alarme door$ doors$ gate$ tür$ türe tor$ garage porte$ portail grille puerta "
        "portón verja cancell porta$ portone portão deur poort drzwi bram domof домоф двер замок замка калит "
        "шлагб lock$ lockbox safe$ tresor coffre caja_fuerte cassaforte cofre kluis sleutelkl sejf сейф keypad "
        "pinpad tastenfeld tastatur clavier teclad tastier klawiat raute almohadilla asteris sternchen sterretje "
        "hekje krzyżyk gwiazdk решётк решетк звёздоч звездоч voicemail mailbox anrufbeantw schrank spind locker "
        "skrytk kłódk padlock cadenas candado lucchett cadeado hangslot schlüsselkasten caixinha шкаф сигнализ "
        "охран 玄関 門 金庫 ロッカー 门禁 門禁 机房 门 柜 保险 警報 アラーム building studio_door entrance "
        "türschl zahlenschl vorhängeschl schloss$ hash_key hash_sign pound_key star_key "
        "eingang entrée ingresso entrada ingang wejści вход panel_by"
    ),
    "net": (
        "wifi wi-fi wlan ssid router routeur ruter роутер рутер вайф вай-ф ルーター 路由 hotspot 無線 无线 "
        "gästenetz gastnetz réseau rede$ red$ rete$ netwerk sieć сеть vpn box$ fritzbox access_point modem "
        "гостев guest_net network netz$ netzwerk"
    ),
    "account": (
        "login logins log$ log-in$ log_in$ logon account konto kontem compte$ cuenta conta$ utente utilisateur "
        "usuari usuári benutzer gebruik user$ username admin root$ nazwa_użytk użytkown логин учёт учет аккаунт "
        "пользоват админ рут$ рутом 账号 帐号 账户 用户 帳號 アカウント ユーザ idは ftp ssh rdp panel$ panelu "
        "paneel backoffice portal nas$ backend registrar hosting staging"
    ),
    "enter": (
        "type$ types$ typing typed press$ presses$ enter$ enters entering tap$ punch key_in use$ using say$ tipp "
        "eintip eingeb eingibst gib$ drück tape$ tapes$ tapez taper saisi entre$ entrer entrez entr$ mets$ mettre "
        "mettez compose teclea tecleas pulsa marca$ marcas pon$ pones poner mete$ digit metti$ mettere inserisci "
        "inseri$ digite coloca põe$ toets intoets intyp invoer voer vul$ wpisz wpisuj wpisać wpisu wklep wbij "
        "введи вводи ввод набер набир жми вбей 入力 押し 打ち 输入 輸入 输 按 打 déverrouill desbloq sblocc "
        "ontgrendel odblok разблок opens_with get_you_in gets_you_in lets_you get_in get_on rein$ reinkomm "
        "se_abre si_apre s'ouvre geht_auf pide ask$ asks asking prompt fragt demande chiede pede vraagt pyta "
        "спрашив просит 聞かれ 求め get_into gets_into punch"
    ),
    "logs in": (
        "anmeld einlogg connecte$ connecter$ connectez connexion conecta "
        "entrar entras entra$ entri$ entrare accedi acced acess inlog inlogg "
        "zalog loguj logow wchodz wejd зайд заход войти входи логин 登录 登陆 登錄 ログイン サインイン sign$ sign_in "
        "log_into logged_in ssh_in"
    ),
    "old": (
        "old$ previous former before$ was$ used_to alt$ alte$ alten$ altes$ vorher bisher früher bis_gestern "
        "ancien avant antes anterior viej antigu prima$ vecchi precedent antig velh oud$ oude$ vroeger stary "
        "stare starego poprzed wcześniej zamiast instead_of statt était era$ estaba byl był был стар раньше "
        "прежн вместо 原来 旧 之前 以前 先週まで 前は"
    ),
    "new": (
        "now$ new$ as_of from_now jetzt nun$ neu neue$ neues$ ab_sofort ab_heute seit maintenant désormais nouve "
        "ahora nuev adesso ora$ nuov agora novo$ nova$ nu$ nieuw teraz nowe nowy nowa nowego теперь новый новая "
        "новое нового сейчас стал 现在 新 改成 改为 今 新しい 仮 provis vorläuf tempor"
    ),
    "changed": (
        "chang rotat reset swapp änder geänder umgestellt zurückgesetzt gesetzt gewechselt cambi changé modifi "
        "réinit mud troc trocou alter veranderd gewijzigd wijzig gezet zmien zresetow ustaw смен помен измен "
        "сброс постав 变更 改 換 换 変更 変わ リセット 設定 设置 设成 重置 puse pus-lhe ficou elig przest"
    ),
    "spelling": (
        "with_the_space with_spaces the_space spaces space$ capital all_lower lowercase uppercase lower_case "
        "upper_case no_spaces without_quotes no_quotes case_sensitive full_stop ampersand underscore hyphen "
        "exclamation question_mark leerzeichen klein$ kleingeschr großgeschr groß$ grosses_ großes_ ausrufez "
        "bindestrich espace minuscule majuscule guillemet accent espacio mayúscula mayuscula minúscula minuscul "
        "comillas sin_ñ sin_acento spazi maiuscol virgolette espaço maiúscul minúscul aspas sem_acento "
        "hoofdletter kleine_letter spatie aanhalings wielk małymi małą spacj cudzysł пробел с_большой заглавн "
        "маленьк кавыч раскладк слитно 大文字 小文字 スペース 大写 小写 空格 rechtschreib spell exactly_like"
    ),
    "secrecy": (
        "don't_share don't_tell don't_put don't_paste don't_write dont_tell dont_share keep_it between_us "
        "whiteboard don't_judge i_know weitergeb nicht_weiter niemand ne_le_dis pas_l'écrire no_la_pas "
        "no_lo_pegu no_se_lo non_dirl non_scriv cancella_questo não_passa não_conta niet_door niet_delen "
        "nie_pisz nie_dawaj nie_mów не_пиши никому не_говори 言わないで 書かないで 教えないで 别外传 别发 "
        "不要告诉 rotate_it change_it cambi_subito"
    ),
    "question": (
        "security_question question$ questions$ secret_question memorable maiden first_pet first_car mother's "
        "sicherheitsfrage geheimfrage mädchenname haustier question_secr question_de_séc animal pregunta mascota "
        "domanda_di nubile animale pergunta beveiligingsvraag huisdier meisjesnaam pytanie panieńsk контрольн "
        "девич кличк 秘密の質問 质问 ペット 密保 安全问题 answer antwort réponse respuesta risposta resposta "
        "antwoord odpowied ответ 答え"
    ),
    "recovery": (
        "backup_code recovery scratch_code emergency_code 2fa$ mfa$ totp otp$ two-factor two-step authenticator "
        "authy one-time wiederherstellung notfallcode zwei-faktor récupération secours double_auth recuperac "
        "recuperaç recupero semilla semente$ seed seme$ herstelcode noodcode zapasow odzyskiw резервн "
        "восстановлен двухфактор リカバリ バックアップコード 二段階 予備 恢复 备用码 助记 wallet ledger кошел "
        "portafogl each_works"
    ),
    "licence": (
        "licen[cs]e lizenz licence licenza licencia licença licentie licencj лиценз ライセンス 许可 serial "
        "serien seriennummer activation aktivier activación ativaç attivaz activeer aktywac актив 激活 产品密钥"
    ),
    "numbered": (
        "port$ poort porto$ porta_ puerto порт$ version versión wersja версия バージョン ticket issue order$ "
        "bestell commande pedido ordine zamówien заказ 注文 订单 room raum salle sala línea line$ lines zeile "
        "ligne riga phone telefon tel$ тел$ 電話 电话 extension durchwahl interno ramal toestel 内線 postal "
        "postleit plz$ articolo artículo artigo promo albarán tracking zip_code ошибк reference badge_no invoice "
        "rechnung factur fattur fatura faktur счёт 請求 发票 commit hash isbn id$ ids$ uuid row$ rows pr$ build$ "
        "error fehler erreur errore erro$ fout błąd status exit http page seite minut second hour stunde heure "
        "hora ora_ uur godzin час € eur$ usd kg$ mb$ gb$ ms$ px$ tests passed tokens$ chars lines_ pull step "
        "schritt model modell artikel vlan$ сборк hausnummer huisnummer civico kundenn klantn seriennr inventar "
        "artikeln matricola référence referenc référ ref$ nr$ number$ número$ numéro$ numero$ numer$ nummer$ номер$ "
        "codice_di_stato codice_di_uscita código_de_estado codigo_de_estado código_de_salida codigo_de_salida "
        "código_de_saída codigo_de_saida "
        "号室 号楼 型番 型号 订单 threshold schwell seuil umbral soglia drempel próg$ порог sensor sensore firmware"
    ),
    "kept": (
        "1password keepass bitwarden lastpass keychain vault$ vaultwarden key_vault secrets_manager stored "
        "saved_in kept gespeichert abgelegt hinterlegt steht_in stocké dans_le est_dans guardad está_en salvat "
        "memorizzat opgeslagen staat_in zapisan лежит хран 保存 存储 存在 env$ variable umgebungs environ "
        "config$ doppler gopass"
    ),
    "rules": (
        "at_least minimum maximum characters chars$ digits length must$ should policy expire forgot forgotten "
        "lost invalid wrong incorrect required optional missing match validat mindestens zeichen stellig muss$ "
        "vergess abgelauf ungültig falsch caractères doit expiré oubli invalide caracteres debe olvid caducad "
        "inválid caratteri deve scadut dimenticat errat deve$ esquec expirou tekens moet$ vergeten verlopen "
        "ongeldig znak musi zapomnia wygas nieprawid символ должен забы истёк истек неверн 文字以上 忘れ 期限 "
        "無効 必須 忘记 过期 位以上 错误 hashed bcrypt argon encrypted field column feld spalte champ campo veld "
        "pole поле フィールド 字段"
    ),
}
#: Words that occur in sentences, but not in passphrases of randomly chosen words.
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
        "não para è quella quello sempre stessa stesso siempre misma mismo même toujours celui celle gleiche selbe "
        "immer wie jak taki takie samo hetzelfde zelfde altijd mesma mesmo как тот же "
        "com que de het een niet op voor van te wordt moet i lub nie w na z jest od dla и или не в на для от с по это"
    ).split()
)
#: English stems that are too common to trigger the reading of a text, stems that trigger it only for a short text, and
#: kinds of cues that are all too common.
_COMMON = frozenset(
    (
        "pass$ key$ keys$ root$ code$ codes$ user$ username token combin red$ answer seed sentence phrases$ "
        "questions$ verification typ building secret activation serial licen[cs]e licence animal inter network "
        "netzwerk backend 番号 コード "
        "门 柜 用户 ユーザ キー ログイン 登录"
    ).split()
)
_FOR_SHORT = frozenset(
    "pwd$ log$ question$ safe$ gate$ lock$ staging sign$ recovery box$ garage unlock$ phrase$".split()
)
_NEVER_OPENING = frozenset({"enter", "old", "new", "secrecy", "numbered", "kept", "rules", "spelling"})
#: The corresponding stems of the other kinds.
_NOT_CHANGING = frozenset("chang reset modifi alter mud 改 換 换".split())
#: By kind: complete words, beginnings of words, and parts of Japanese and Chinese text; expressions of several words;
#: and all those that trigger reading.
_WHOLE: dict[str, str] = {}
_STEMS: dict[str, str] = {}
_PARTS: list[tuple[str, str]] = []
_OPENERS: set[str] = set()
_HINTS: set[str] = set()
_JOINED: dict[str, str] = {}


def _fill() -> None:
    for kind, stems in CUES.items():
        for stem in stems.split():
            text = stem.rstrip("$").replace("_", " ")
            if stem in _FOR_SHORT:
                _HINTS.add(text)
            elif kind not in _NEVER_OPENING and stem not in _COMMON and stem not in _NOT_CHANGING:
                _OPENERS.add(text)
            if text[0] >= "\u3000":
                _PARTS.append((text, kind))
            elif not text.isalpha() and not text.isalnum():
                _JOINED.setdefault(text, kind)
            elif stem.endswith("$"):
                _WHOLE.setdefault(text, kind)
            else:
                _STEMS.setdefault(text, kind)


_fill()
#: The stems, longest first, grouped by as many first letters as the shortest stem has.
_SHORTEST = min(map(len, _STEMS))
_STEMS_BY_BEGINNING: dict[str, list[str]] = {}
for _stem in sorted(_STEMS, key=len, reverse=True):
    _STEMS_BY_BEGINNING.setdefault(_stem[:_SHORTEST], []).append(_stem)
_INNER = tuple(_INSIDE.split())
_INNER_STEM = lazy_regex("|".join(_INNER))
_OPENERS.update(_INNER)
_OPENING_BEGINNINGS = {stem[:_SHORTEST] for stem in (*_OPENERS, *_HINTS)}
_OPENING_PARTS = tuple(stem for stem in sorted(_OPENERS) if stem[0] >= "\u3000")
_LONGEST_OPENER = 40
_IS_CJK = lazy_regex(r"[\u3040-\u30ff\u3400-\u9fff]")
_LOG, _LOG_IN = lazy_regex(r"(?i)\W{0,3}(?:log|sign)\b"), lazy_regex(r"(?i)\W{0,3}(?:log|sign) ?-?(?:in|on)")
_JOINED_WORD = lazy_regex(r"[^\W_]++(?:[-/'’][^\W_]++){1,3}+")
_BETWEEN = lazy_regex(r"[-/'’]")
#: The headings of a table without spaces, and what separates them.
_HEADINGS, _COMMA = lazy_regex(r"[^\W_]{1,24}(?:[,;][^\W_]{1,24}){1,12}"), lazy_regex("[,;]")
WORD = lazy_regex(r"[^\W_]+(?:['’][^\W_]+)?")
_EXPRESSION = lazy_regex(r"(?<![^\W_])(?:" + "|".join(sorted(map(re.escape, _JOINED), key=len, reverse=True)) + ")")
#: Punctuation around a word in a sentence.
_AROUND = ".,;:!?…()[]\"'`*_„“”«»‘’-–—"
#: Bits of words: around a word with the first bit, any text is read; around one with the second, only a short text.
OPENS, HINTS = 1, 2


class Cue(NamedTuple):
    """A word that indicates a secret or its absence, with its meaning."""

    start: int
    end: int
    kind: str


@lru_cache_by_text(8_192)
def _stem_of(word: str) -> str:
    """Return the stem of a lower-case word that has a meaning; "" if there is none."""
    if word in _WHOLE:
        return word
    inner = _INNER_STEM.search(word) if len(word) > 3 or not word.isascii() else None
    if inner:
        return inner.group()
    return next((stem for stem in _STEMS_BY_BEGINNING.get(word[:_SHORTEST], ()) if word.startswith(stem)), "")


@lru_cache_by_text(8_192)
def kind_of(word: str) -> str:
    """Return the meaning of a lower-case word; "" if it has none."""
    stem = _stem_of(word)
    return _WHOLE.get(word) or _STEMS.get(stem) or ("password" if stem else "")


def openings(words: str) -> Iterator[tuple[int, int]]:
    """Yield the number and bit of each word that triggers reading; words are in lower case, one per line."""
    lines = words.split("\n")
    inner = [part for part in _INNER if part in words]
    for number, word in enumerate(lines):
        if len(word) > _LONGEST_OPENER:
            continue
        bare = word.strip(_AROUND)
        may_hold = bare[:_SHORTEST] in _OPENING_BEGINNINGS or not bare.isalnum() or any(part in bare for part in inner)
        if may_hold and (bit := _opens(bare)):
            yield number, bit
    if words.isascii():
        return
    numbers = [n for n, word in enumerate(lines) if not word.isascii() and any(map(word.__contains__, _OPENING_PARTS))]
    if numbers and _IS_CJK.search(words):
        yield from ((number, OPENS) for number in numbers)


def _opens(bare: str) -> int:
    if bare.isalnum():
        return _bit_of(bare)
    if ("," in bare or ";" in bare) and _HEADINGS.fullmatch(bare):
        return HINTS if any(map(_bit_of, _COMMA.split(bare))) else 0
    if not _JOINED_WORD.fullmatch(bare):
        return 0
    parts = _BETWEEN.split(bare)
    return max(map(_bit_of, parts)) if len(parts) == 2 else _bit_of(parts[-1])


def may_open(text: str, place: int) -> bool:
    """Return True if a common word triggers reading, as "log" and "sign" do if "in" follows; headings never do."""
    return not (_LOG.match(text, place) or _HEADINGS.match(text, place)) or _LOG_IN.match(text, place) is not None


def _bit_of(word: str) -> int:
    stem = _stem_of(word)
    return (OPENS if stem in _OPENERS else HINTS if stem in _HINTS else 0) if stem else 0


def cues_in(low: str, first: int, last: int) -> list[Cue]:
    """Return the cues in ``low[first:last]``, in order."""
    found = [Cue(*match.span(), _JOINED[match.group()]) for match in _EXPRESSION.finditer(low, first, last)]
    for match in WORD.finditer(low, first, last):
        word = match.group()
        if kind := kind_of(word) or ("'" in word and kind_of(word.rpartition("'")[2])):
            found.append(Cue(*match.span(), kind))
        elif not word.isascii():
            for part, kind in _PARTS:
                at = low.find(part, *match.span())
                if at >= 0:
                    found.append(Cue(at, at + len(part), kind))
    return sorted(found)
