"""Passwords of two words in settings, codes of doors and safes, and passwords in fixed turns of speech."""

from __future__ import annotations

import pytest

from engram.redaction import redact


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("PGPASSWORD=Falcon.reed4 pg_dump stock", "Falcon.reed4"),
        ("keystorePassword=P3pper.cove", "P3pper.cove"),
        ("level=debug user=anna pass=Gl4zier.plum ok=true", "Gl4zier.plum"),
        ("htpasswd -b .htpasswd anna Mango-hill", "Mango-hill"),
        ("psql \"host=db user=app password='Thr33 fields' dbname=stock\"", "Thr33 fields"),
        ("The gate code is #6142 until Friday.", "6142"),
        ("safe combo: 18-27-36 (left first)", "18-27-36"),
        ("le code de la porte est 27B36", "27B36"),
        ("il codice della porta è 4431", "4431"),
        ("el código de la puerta de salida es 4821", "4821"),
        ("код от сейфа 18-27-36", "18-27-36"),
        ("ロッカーの暗証番号は 6142 です", "6142"),
        ("hab das pw vom NAS auf Ziegel.dach7 gesetzt", "Ziegel.dach7"),
        ("login with test@site.example and Pl4teau.fern works", "Pl4teau.fern"),
    ],
)
def test_masks_the_value(text: str, secret: str) -> None:
    assert redact(text) == text.replace(secret, "[secret:password]")


@pytest.mark.parametrize(
    "text",
    [
        "password=config.db.password",
        "connect(user=user, password=Vault.slot2)",
        "    password=settings.auth2.token,",
        "login(password=self.conf.v2Password)",
        "PASSWORD=${DB_PASSWORD:?missing}",
        "docker run -p 8080:80 -e PASSWORD nginx:1.27.3",
        'action=refresh ab12cd34ef56: "refresh about=x"',
        "htpasswd -c .htpasswd anna",
        "log in with google and oauth2",
        "open the archive with 7zip",
        "decrypt the backup with aes-256-gcm",
        "il codice della porta 443",
        "o código da porta 8080",
        "Le code du portail est 500 lignes de PHP.",
        "the keypad code is 250 lines",
        "il codice di stato è 500",
        "el código de estado es 404",
        "o código de saída é 137",
    ],
)
def test_leaves_code_and_prose(text: str) -> None:
    assert redact(text) == text
