"""Secrets as people tell them, in sentences of any form, and lines and tables that hold them as plain words; and what
only resembles them.
"""

from __future__ import annotations

import pytest
from masking import by_class, check_gone

from engram.redaction import redact

#: Class → texts with the secret in each.
SECRETS: dict[str, list[tuple[str, str]]] = {
    "a code of a door or an alarm": [
        ("At the side door of the mill tap 4471, then the hash key.", "4471"),
        ("Die Alarmanlage geht mit 730912 aus, dann Raute drücken.", "730912"),
        ("Pour le portail tu tapes 58A13, puis tu pousses fort.", "58A13"),
        ("La alarma del taller se quita con 3095.", "3095"),
        ("Код от сейфа поменяли, теперь 6042.", "6042"),
        ("倉庫の暗証番号は 7413 になりました", "7413"),
    ],
    "old and new": [
        ("I changed the wifi password from tadpole2019 to bullfrog2024.", "tadpole2019"),
        ("I changed the wifi password from tadpole2019 to bullfrog2024.", "bullfrog2024"),
        ("Das Kennwort vom NAS war Dachs2020, jetzt ist es Marder!21.", "Dachs2020"),
        ("Пароль от роутера был Ivolga2020, теперь Kulik_2024.", "Ivolga2020"),
        ("旧密码 shanque77 不能用了,新的是 Baiyun#48", "Baiyun#48"),
    ],
    "to log in as somebody": [
        ("log in to the router as admin, then type Pelican#52", "Pelican#52"),
        ("inloggen op de NAS als beheer, daarna Kievit_Wad9 intoetsen", "Kievit_Wad9"),
        ("entra no painel como caixa e digita paoQuente_8", "paoQuente_8"),
    ],
    "several words": [
        ('the passphrase of the key is "nine herons over a harbour"', "nine herons over a harbour"),
        ("die Passphrase lautet: drei Dachse graben leise", "drei Dachse graben leise"),
        ("la phrase de passe est « quatre hiboux sous la pluie »", "quatre hiboux sous la pluie"),
    ],
    "a line of its own": [
        ("The wifi password of the workshop:\nLantern_Moor7\nPlease don't pin it to the door.", "Lantern_Moor7"),
        ("das WLAN-Passwort ist jetzt\nHeidekraut-58\nbitte weitersagen", "Heidekraut-58"),
    ],
    "lines in which any word is a password": [
        ("machine repo.acme.io\n  login robot\n  password hedgerow", "hedgerow"),
        ("username backup privilege 15 password 0 Barge-To-Lille", "Barge-To-Lille"),
        ("local-user noc password cipher Tundra_900km", "Tundra_900km"),
        ("  set psksecret Rye.Field.Mill", "Rye.Field.Mill"),
        ("add name=hall wpa2-pre-shared-key=twelve_barrels", "twelve_barrels"),
        ("$ cat ~/.pgpass\ndb1:5432:shop:reader:lake-of-como", "lake-of-como"),
        ('"Server=db3;User Id=app;Password=hay&amp;barley;Encrypt=true"', "barley"),
        ("HikariConfig: password........gR4nnx8Lq", "gR4nnx8Lq"),
        ("redis-cli CONFIG SET requirepass plover2025", "plover2025"),
        ("schtasks /Create /TN x /RU ACME\\svc /RP Plover.1931", "Plover.1931"),
        ("  wachtwoord: Zandbank&Duin", "Zandbank&Duin"),
        ("<password>otter_By_Stream</password>", "otter_By_Stream"),
    ],
    "cells of plain words": [
        ("| host | password |\n|---|---|\n| sw1 | Alder.Fen |", "Alder.Fen"),
        ("| Gerät | Kennwort |\n|---|---|\n| Drucker | esel esel |", "esel esel"),
    ],
    "a wallet's words in a sentence": [
        (
            "The wallet, words in order: ribbon oxygen canal vault thunder pencil lemon drift museum shield orbit "
            "fancy. Keep them.",
            "lemon drift museum",
        ),
    ],
}
#: Class → texts that stay as they are.
LOOK_ALIKES: dict[str, list[str]] = {
    "numbers near words of access": [
        "The ticket for the password reset is 48213.",
        "Die Tür 2207 meldet seit 2023 falsche Zustände.",
        "La porte 12 ferme à 1930, badge obligatoire.",
        "the login page answers 503 since build 2024.11.3",
        "admin panel listens on port 8443",
    ],
    "where it is kept, who has it": [
        "the router password is in Bitwarden, entry Staging Router",
        "ask Marta for the door code, I won't write it here",
        "Das WLAN-Passwort steht auf der Rückseite vom Router.",
    ],
    "names in code": [
        "I renamed password_v2 to credential_hash and login_form to SignInForm",
        "the admin route is guarded by `requireLogin2` in auth-guard.ts",
        "we moved login from SessionToken to AuthTicket",
    ],
    "labels": [
        '"profile.pin": "PIN de 4 dígitos"',
        'password: "Hasła nie są identyczne"',
        "PASSED tests/test_login.py::test_rejects_wrong_password\nPASSED tests/test_login.py::test_locks_after_five",
        "| field | password |\n|---|---|\n| kept in | see the vault |",
    ],
}


@pytest.mark.parametrize(("text", "secret"), by_class(SECRETS))
def test_what_people_tell_goes(text: str, secret: str) -> None:
    check_gone(text, secret)


@pytest.mark.parametrize("text", by_class(LOOK_ALIKES))
def test_what_only_resembles_it_stays(text: str) -> None:
    assert redact(text) == text


def test_parts_that_are_read_together_are_judged_by_themselves() -> None:
    from engram.redaction import redact_parts

    parts = ["The wifi password, please?", "build 4471 is green", "the gate takes 4471 and then the hash key"]

    assert redact_parts(parts) == [redact(part) for part in parts]
