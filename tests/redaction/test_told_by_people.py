"""Secrets as people tell them, in sentences of any form, and lines and tables that hold them as plain words; and what
only resembles them.
"""

from __future__ import annotations

from masking import by_class, check_gone

from engram.redaction import redact
from tests.each_case import each_case

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
    "digits spelled apart": [
        ("Bike lock is 4 1 7 7, the trailer is in the shed behind the house", "4 1 7 7"),
        ("Für die Schranke am Parkplatz 7 7 3 1 eintippen, dann Raute", "7 7 3 1"),
    ],
    "a capital after a dot, which is no file's ending": [
        ("log in to the NAS as tobias, it wants `heron.Pool7`, then mount the share", "heron.Pool7"),
        ("le mot de passe c'est Mouette.Grise 2031, avec l'espace", "Mouette.Grise 2031"),
    ],
    "Chinese sentences with commas of ASCII": [
        ("帮我看一下测试后台,账号demo,密码songshu2021,订单列表是空的", "songshu2021"),
    ],
    "a phrase behind a colon": [
        ("mot de passe du coffre: quatre chats dorment au soleil", "quatre chats"),
        ("passphrase: six quiet goats near the mill", "quiet goats"),
    ],
    "issued by a service to a program": [
        ("вместо пароля там пароль приложения wmtz kqhv xfrb npjd, поставь его в rclone", "wmtz kqhv xfrb npjd"),
        ("The seat's key is R4-TQ7M-9XBW-H3VD-KP52-N6LC, put it into the pipeline.", "TQ7M-9XBW-H3VD"),
        ("Redis runs with `--requirepass plover.Pond.31`, the worker without any.", "plover.Pond.31"),
    ],
    "a made-up word, whatever else is said": [
        ("To get into the tracker just type labrat and then Hay&Barn_27.", "Hay&Barn_27"),
    ],
    "a wallet's words in a sentence": [
        (
            "He read the twelve words to me: ribbon oxygen canal vault thunder pencil lemon drift museum shield orbit "
            "fancy — which tool checks them offline?",
            "lemon drift museum",
        ),
        (
            "The wallet, words in order: ribbon oxygen canal vault thunder pencil lemon drift museum shield orbit "
            "fancy. Keep them.",
            "lemon drift museum",
        ),
    ],
}
#: Class → texts that stay as they are.
LOOK_ALIKES: dict[str, list[str]] = {
    "numbers near a door, a gate or an alarm": [
        "the lantern of pier 102947 has 15 doors",
        "gate 4821 is closed today",
        "alarm 50312 in pipeline",
        "Tor 4821 ist heute geschlossen, die Fähre legt an Tor 4822 an",
    ],
    "numbers near words of access": [
        "The ticket for the password reset is 48213.",
        "Die Tür 2207 meldet seit 2023 falsche Zustände.",
        "La porte 12 ferme à 1930, badge obligatoire.",
        "the login page answers 503 since build 2024.11.3",
        "admin panel listens on port 8443",
    ],
    "numbers and names of other things near doors and alarms": [
        "Den Türcode hat Frau Meier, Hausnummer 117, zweite Klingel von oben.",
        "Alarmanlage: Typ Jablotron JA-107K, Seriennummer 1402 3377 9910.",
        "Seriennummer: 7200000b4f8c1d3388e5f90000000004\nAussteller: CN=Werk-CA-2",
    ],
    "what was said of a password instead of it": [
        'Il cliente dice che la password "è quella di sempre" e che non entra.',
    ],
    "names of keys, and places to fill in": [
        "const key = `cart:${id}:items:v3`;\nawait redis.get(key);",
        "lancez `kubectl create secret generic api --from-literal=password=<votre-mot-de-passe>` puis redéployez",
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


@each_case(("text", "secret"), by_class(SECRETS))
def test_what_people_tell_goes(text: str, secret: str) -> None:
    check_gone(text, secret)


@each_case("text", by_class(LOOK_ALIKES))
def test_what_only_resembles_it_stays(text: str) -> None:
    assert redact(text) == text


def test_all_lines_of_a_list_go_with_one_that_is_a_secret() -> None:
    text = (
        "These are the one-time logins for the page:\n1. 8k2m-p4q7\n2. z9x1-c3v5\n\n3. q8w6-e2r4 (used)\n4. none left"
    )

    masked = redact(text)

    assert masked == (
        "These are the one-time logins for the page:\n1. [secret:password]\n2. [secret:password]\n\n"
        "3. [secret:password] (used)\n4. none left"
    )


def test_a_table_may_have_a_line_of_dashes_below_its_headings() -> None:
    text = "user  password    role\n----- ----------- ----\nann   Brombeer91  rw\njo    Schlehe     ro"

    masked = redact(text)

    assert masked == (
        "user  password    role\n----- ----------- ----\nann   [secret:password]  rw\njo    [secret:password]     ro"
    )


def test_a_word_between_passwords_in_a_column_is_one_but_not_what_is_said_of_it() -> None:
    text = "| host | pass |\n|---|---|\n| nas | Quitte77! |\n| ups | Mispel#4 |\n| cam | Holunder |\n| tv | same |"

    masked = redact(text)

    assert "Holunder" not in masked
    assert masked.endswith("| tv | same |")


def test_parts_that_are_read_together_are_judged_by_themselves() -> None:
    from engram.redaction import redact_parts

    parts = ["The wifi password, please?", "build 4471 is green", "the gate takes 4471 and then the hash key"]

    assert redact_parts(parts) == [redact(part) for part in parts]
