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
        ("ssid=attic\nwpa_passphrase=correct.otter.lamp\n", "correct.otter.lamp"),
        ("keystorePassword=changeme.Walrus5", "changeme.Walrus5"),
        ("PGPASSWORD=otter.over.moss pg_dump stock", "otter.over.moss"),
        ("my login is changeme.Walrus5", "changeme.Walrus5"),
        ("open the zip with 'pewter Lark 51'", "pewter Lark 51"),
        ("snmpd.conf: rocommunity hx92LanternQ 10.0.0.0/8", "hx92LanternQ"),
        ("I have `requirepass Quill7tern` in redis.conf", "Quill7tern"),
        ("kickstart: rootpw --plaintext Hafen3Licht", "Hafen3Licht"),
        ("vncpasswd -f <<< Sp4tzNest > ~/.vnc/passwd", "Sp4tzNest"),
        ("la clave del wifi es 66301857", "66301857"),
        ("usuario;clave;sede\nana;Trebol8verde;norte\nluis;Roble7azul;sur", "Trebol8verde"),
    ],
)
def test_masks_the_value(text: str, secret: str) -> None:
    masked = redact(text)
    assert secret not in masked
    assert masked.split("[secret:")[0] == text.split(secret)[0]


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
        "The door sensor reports code 4471 now.",
        "The door code: see the note of 2024.",
        "gpio pin 4471 does not exist on this board",
        "Das Tor zur Hölle: Code 4711 Zeilen lang",
        "safe code: 200 OK",
        "unlock the mutex with unlock_guard2",
        "token=jwt.sign(payload, key)",
        "password=database.primary.token",
        "PASSWORD=ChangeMe123",
        "passwd: password updated successfully",
        "key,name,value\nretry4ever,x12345yz,a1b2c3d4",
        "| Clave | Tipo |\n|---|---|\n| cliente_id | int |",
        "o código de saída é 137",
    ],
)
def test_leaves_code_and_prose(text: str) -> None:
    assert redact(text) == text


def test_masks_the_recovery_key_of_a_disk() -> None:
    key = "lnrbhrcb-eircgecl-dvtnngkb-fhjlnrcv-etkcgdbu-trhlvjkg-bnriueht-lvnjtrgh"
    assert redact(f"kept for the laptop: {key}") == "kept for the laptop: [secret:license-key]"
    assert redact("see redactor-coverage-somewhere-complete-different-category") == (
        "see redactor-coverage-somewhere-complete-different-category"
    )
