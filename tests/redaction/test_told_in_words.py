"""Secrets told in words in a dozen languages, in tables and lists; and sentences that only speak of secrets."""

from __future__ import annotations

import base64
import json

import pytest

from engram.redaction import redact
from tests.each_case import each_case


def encoded(value: object) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


#: Text, and the words of the secret in it.
TOLD: list[tuple[str, list[str]]] = [
    ("sa phrase secrète est : tasse nuage pierre vent", ["tasse", "nuage", "vent"]),
    ("La contraseña es: cinco cabras grises", ["cabras", "grises"]),
    ("Le mot de passe est : deux chouettes bleues", ["chouettes", "bleues"]),
    ("A senha é: quatro barcos velhos", ["barcos", "velhos"]),
    ("Wachtwoord: acht luie ezels", ["luie", "ezels"]),
    ("vault passphrase: nine rusty anchors", ["rusty", "anchors"]),
    ("The passphrase is amber falcon waltz", ["amber", "falcon", "waltz"]),
    ("default password v3-Rm71kQz88", ["Rm71kQz88"]),
    ("пароль от почты такой: Ромашка_55", ["Ромашка_55"]),
    ("użytkownik jan, hasło: Bocian_77", ["Bocian_77"]),
    ("| 用户 | 密码 |\n|---|---|\n| root | Douya_66 |", ["Douya_66"]),
    ("Einmalcodes: 482910 771204 993017", ["482910", "771204", "993017"]),
    ("Das Root-Passwort lautet Gartenzaun_12.", ["Gartenzaun_12"]),
    ("Das Datenbankpasswort für db1.acme.io ist Winter!kalt9 und der Port 5432.", ["Winter!kalt9"]),
    ("Passwort: apfelbaum77", ["apfelbaum77"]),
    ("Passwort ist „Sonnenblume“, Gruß Jan", ["Sonnenblume"]),
    ("Melde dich mit dem Passwort wolke7regen an.", ["wolke7regen"]),
    ("Die Geheimzahl ist 9921.", ["9921"]),
    ("Le mot de passe est Cerise_45 pour tous.", ["Cerise_45"]),
    ("mot de passe : «lune rousse 4»", ["rousse"]),
    ("Le code PIN est 7731.", ["7731"]),
    ("Le jeton pour l'API est zq7h-nimbus-44x", ["zq7h-nimbus-44x"]),
    ("La contraseña de la base es Zanahoria*9.", ["Zanahoria*9"]),
    ("la clave secreta es luna-llena-42", ["luna-llena-42"]),
    ("La password di root è Topolino84", ["Topolino84"]),
    ("parola chiave: gelato!91x", ["gelato!91x"]),
    ("A senha do banco é Cachorro_31.", ["Cachorro_31"]),
    ("senha: girassol22", ["girassol22"]),
    ("Het wachtwoord is Tulpenveld9!", ["Tulpenveld9!"]),
    ("Hasło do serwera to Zielony_Las7", ["Zielony_Las7"]),
    ("hasło jest kapusta99", ["kapusta99"]),
    ("Пароль для root: Metel-2231", ["Metel-2231"]),
    ("Логин admin, пароль вьюга77", ["вьюга77"]),
    ("Пароль — берёза12", ["берёза12"]),
    ("ПИН-код: 5512", ["5512"]),
    ("パスワード：himawari88", ["himawari88"]),
    ("新しいパスワードは「Fuji#2291」です", ["Fuji#2291"]),
    ("密码：guoguo1988", ["guoguo1988"]),
    ("root 的密码是 Panda_33。", ["Panda_33"]),
    ("访问令牌是 tk9-shanghai-77b", ["tk9-shanghai-77b"]),
    ("| User | Passwort |\n|---|---|\n| jan | Blau_Berg3 |\n| eva | `mondlicht` |\n", ["Blau_Berg3", "mondlicht"]),
    ("| Host | Mot de passe |\n| :-- | :-- |\n| web | citron77 |", ["citron77"]),
    ('ConvertTo-SecureString "Regen.Bogen4" -AsPlainText -Force', ["Regen.Bogen4"]),
    ("$pw = 'Regen.Bogen4' | ConvertTo-SecureString -AsPlainText -Force", ["Regen.Bogen4"]),
    ("ConvertTo-SecureString -String Wolken12 -AsPlainText -Force", ["Wolken12"]),
    ("the passphrase is correct horse battery staple", ["correct", "horse", "battery", "staple"]),
    ("The passphrase for the key is tulip river candle ghost, please keep it", ["tulip", "river", "candle", "ghost"]),
    ("passphrase: blue whales sing at dawn", ["whales", "sing", "dawn"]),
    ("La phrase de passe est cheval correct pile agrafe.", ["cheval", "agrafe"]),
    ("парольная фраза: синий кот летит домой", ["синий", "летит"]),
    ('My passphrase is "apple tree window"', ["tree", "window"]),
    ("the passphrase is Correct7 horse battery staple", ["horse", "battery"]),
    ("Backup codes:\n- 1234 5678\n- 8765 4321\n", ["5678", "4321"]),
    ("Codes de récupération : ab3d-77xk, qq91-lm2p", ["ab3d-77xk", "qq91-lm2p"]),
    ("Here are the recovery codes for GitHub:\n\n1) a1b2c-3d4e5\n2) f6g7h-8i9j0", ["a1b2c-3d4e5", "f6g7h-8i9j0"]),
    ("恢复码：ab12cd34 ef56gh78", ["ab12cd34", "ef56gh78"]),
    ("Kody zapasowe: 8812-3301, 1123-9987", ["8812-3301"]),
    ("Die Passphrase lautet: Ente Wolke Brücke Salz", ["Ente", "Brücke", "Salz"]),
]
#: What only speaks of passwords, keys and codes.
SPOKEN_OF = [
    "Sleutel: tabel2.id",
    "das Passwort steht in 1Password",
    "Das neue Passwort muss 12 Zeichen haben",
    "Login: siehe README2",
    "密码需要8位以上",
    "The backup codes: 8 digits each, 10 codes",
    "Das Passwort ist falsch.",
    "Das Passwort wird mit bcrypt gehasht.",
    "Das Passwort ist 12-stellig.",
    "Passwort: Pflichtfeld",
    "Das Token ist JWT-basiert.",
    "Der Schlüssel ist user_id2.",
    "Passwortlänge: 1024",
    "Le mot de passe est haché avec sha256.",
    "mot de passe : 8 caractères minimum",
    "La clé est en UTF-8.",
    "La contraseña es sha512-hash.",
    "La clave es la paciencia.",
    "La chiave è in base64.",
    "La password è obbligatoria.",
    "A chave é um uuid.",
    "A senha é salva com argon2id.",
    "Het wachtwoord wordt gecontroleerd in auth2.py.",
    "De sleutel is order_id.",
    "Hasło to podstawa bezpieczeństwa.",
    "Klucz to para tabela_id.",
    "Пароль хранится в sha256.",
    "Ключ — это user_id.",
    "Токен истёк.",
    "Пароль: не менее 8 символов",
    "パスワードを変更してください",
    "パスワードは8文字以上です",
    "密码长度为1024",
    "密码使用 sha256 加密",
    "密码存储在 users_v2 表",
    "令牌已过期",
    "| Token | Meaning |\n|---|---|\n| IDENT | a name |\n| INT32 | number |",
    "| password | required |\n|---|---|\n| yes | no |",
    "| Key | Value |\n|---|---|\n| timeout_30 | 4096 |",
    "| Secret | Rotated |\n|---|---|\n| DB_PASSWORD | 2026-01-01 |",
    "the passphrase is required for every key on disk",
    "The passphrase is read from the environment variable",
    "passphrase: enter the passphrase for the key",
    "The passphrase is wrong on my laptop",
    "passphrase: leave empty for none",
    "Recovery codes: see the docs",
    "The backup codes are stored in the vault",
    "exit codes: 1 2 3 126 127",
    "HTTP codes are 200 404 500",
    "error codes: 1001 1002",
    "ConvertTo-SecureString $env:PW -AsPlainText -Force",
    "ConvertTo-SecureString -String $x -AsPlainText",
    "login to k8s-prod1 and check",
    "add the token to oauth2-proxy",
    "PIN: vierstellig",
    "le login est automatique",
    "Der Login ist über OAuth2 möglich",
    "El token es un JWT.",
    "The login is admin2 page",
    "Il login è user-friendly",
]


@each_case(("text", "words"), TOLD)
def test_a_secret_told_in_words_goes_with_all_its_words(text: str, words: list[str]) -> None:
    masked = redact(text)

    assert not [word for word in words if word in masked]
    assert redact(masked) == masked


@each_case(("text", "words"), TOLD)
def test_it_goes_between_other_lines_as_well(text: str, words: list[str]) -> None:
    masked = redact(f"Deployments run on the staging host.\n\n{text}\n\nThat is all for today.")

    assert not [word for word in words if word in masked]
    assert masked.startswith("Deployments run on the staging host.\n")
    assert masked.endswith("\nThat is all for today.")


@each_case("text", SPOKEN_OF)
def test_a_sentence_about_secrets_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "value",
    [
        {"db": {"user": "app", "password": "Kirsche_81"}},
        {"apiToken": "h7Gk2-pq9Zt-44xLm"},
        [{"name": "ci", "client_secret": "pT5-vw8Qz_31kLmN0"}],
    ],
)
def test_json_in_base64_goes_where_it_holds_a_secret(value: object) -> None:
    run = encoded(value)

    assert redact(f"value: {run} in the cluster") == "value: [secret:encoded] in the cluster"


@pytest.mark.parametrize(
    "value", [{"name": "demo", "version": "1.2.3"}, {"dependencies": ["left", "right"], "on": True}]
)
def test_json_in_base64_without_a_secret_stays(value: object) -> None:
    text = f"value: {encoded(value)} in the manifest"

    assert redact(text) == text
