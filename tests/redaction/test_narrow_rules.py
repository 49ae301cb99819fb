"""Exemptions that are narrow, so that no password passes for a template; and rules that mask no neighbour by chance."""

from __future__ import annotations

from masking import by_class, check_gone

from engram.redaction import redact
from tests.each_case import each_case

#: Class → texts with the secret in each.
SECRETS: dict[str, list[tuple[str, str]]] = {
    "words of templates inside a password": [
        ("password=Herbst2023-hier", "Herbst2023"),
        ("DB_PASSWORD=wohn-Hier", "wohn-Hier"),
        ("DB_PASSWORD=Amseln_hier", "Amseln_hier"),
        ("password: Tua-Zia-1958!", "Tua-Zia-1958"),
        ("Passwort: Ihr-Garten-2023!", "Ihr-Garten-2023"),
        ('password="Sua-Nave88!"', "Sua-Nave88"),
        ('password = "Ihre-Wiese-2023!"', "Ihre-Wiese-2023"),
        ("DB_PASSWORD=Tuo-Zio-1958", "Tuo-Zio-1958"),
        ("PGPASSWORD=Toujours-Lyon-ici", "Toujours-Lyon-ici"),
        ("DB_PASSWORD=sua-nonna", "sua-nonna"),
        ("password=tu-amor-secreto", "tu-amor-secreto"),
        ("Das WLAN-Passwort ist Herbst2023-hier", "Herbst2023"),
        ("https://eva:Herbst23-hier@db.acme.io/x", "Herbst23-hier"),
    ],
    "words of a sentence inside a password in SQL": [
        ("CREATE USER eva IDENTIFIED BY 'goat in the orchard'", "goat in the orchard"),
        ("ALTER USER eva WITH PASSWORD 'der dachs ist im bau'", "dachs ist im bau"),
        ("ALTER ROLE eva PASSWORD 'the slow badger 17'", "slow badger"),
        ("ALTER USER 'eva'@'%' IDENTIFIED BY 'None for all 1793!'", "for all 1793"),
        ("set password 'the slow badger 17' on the replica", "slow badger"),
    ],
    "codes of a letter and a number": [
        ("The locker code is D-3907", "D-3907"),
        ("the alarm code is B-39071", "B-39071"),
    ],
    "a variable inside a token": [
        ("SECRET_TOKEN=Qw83fk${STAGE}", "Qw83fk"),
        ("SECRET_TOKEN=Qw83fkXz1${STAGE}bb52Tr", "bb52Tr"),
        ("SECRET_TOKEN=Qw83fkXz1${STAGE}bb52Tr", "Qw83fkXz1"),
        ('API_KEY="m4R7${fkw3RtUyAa66Bv"', "fkw3RtUyAa66Bv"),
        ('API_KEY="m4R7${fkw3RtUyAa66Bv"', "m4R7"),
    ],
    "a value before an element": [
        ("<li>vncviewer --password keller-Nord=</li>", "keller-Nord"),
        ("<code>login --password mossKettle=</code>", "mossKettle"),
        ("login --password mossKettle=<br>", "mossKettle"),
    ],
    "a number and a word joined by a semicolon": [("the door code is 12;Dachs!Bau", "Dachs!Bau")],
}
#: Class → texts that stay as they are.
LOOK_ALIKES: dict[str, list[str]] = {
    "places to fill in": [
        "password=dein-passwort",
        "DB_PASSWORD=IHR_PASSWORT_HIER",
        "API_KEY=dein-api-key",
        "token: votre-jeton-ici",
        "password: tu-contraseña-aquí",
        'senha="sua-senha-aqui"',
        "PASSWORD=twoje-haslo",
        "clave: sua_chave_secreta",
        "password=tu-secreto",
        "password=dein-geheimes-passwort",
        "wachtwoord: jouw-wachtwoord-hier",
        "--token TOKEN=<value>",
    ],
    "a sentence after the word password": ['She says that the password "is the same as ever" and leaves.'],
    "a variable and words": ['KEY_PREFIX=1\napi_key="cart:${REGION}:items"', "TOKEN=${STAGE}-${REGION}"],
    "a value of another key": [
        '{"id": "b2-q017", "answer": "NOT FOUND"}\n{"id": "b2-q018", "answer": "the password is in the safe"}',
        '{"prompt": "Kannst du den Seed wiederherstellen?", "scope": "session", "kind": "fact"}',
        '{"id": "b2-q017", "answer": "NOT GIVEN"}\n{"id": "b2-q018", "answer": "Report tab of the login panel"}',
    ],
    "names that end with pass": [
        "sshpass: command not found",
        "testpass: pending",
        "userpass: enabled",
        "auth:\n  userpass: kerberos\n",
        "db.userpass: obsolete",
        "localpass: ignored",
    ],
}
#: Texts with one password, which is the only part that goes.
ALONE: dict[str, list[tuple[str, str]]] = {
    "below an empty line": [
        ("The wifi password is:\nbadger33x\n\nSincerely,\nEva\n", "badger33x"),
        ("wifi password:\nmeadow7b\n\nThursday\nwe go.\n", "meadow7b"),
        ("The password is\nscheun88\n\nMakefile\nREADME.md\nsetup.py\n", "scheun88"),
        ("password:\nScheun-2023\n\nDocker-file\nreadme-page\n", "Scheun-2023"),
        ("The password for the test user is:\nDemo-4321\n\nTASK-8765\nTASK-2109\n", "Demo-4321"),
    ],
    "next to a word": [
        ("NAS login\n\ngardener\nBadger33\n\nis the password\n", "Badger33"),
        ("passwords:\n  - Zr74mwqa\n  - mongoose\nhosts:\n  - db1\n", "Zr74mwqa"),
    ],
    "next to a state": [
        (f"| service | password |\n|---|---|\n| db | Zr74!mwqa |\n| cache | {state} |\n", "Zr74!mwqa")
        for state in ("inherited", "disabled", "unchanged", "unbekannt", "postgres", "deaktiviert", "inchangé")
    ]
    + [
        (
            "| service | password |\n|---|---|\n| db | Zr74!mwqa |\n| web | Vk51!plor |\n| api | Nd62!hbes |\n"
            f"| cache | {state} |\n",
            "",
        )
        for state in ("inherited", "disabled", "unchanged", "unbekannt", "geerbt", "heredada")
    ],
}


@each_case(("text", "secret"), by_class(SECRETS))
def test_a_password_with_words_of_templates_or_sentences_goes(text: str, secret: str) -> None:
    check_gone(text, secret)


@each_case("text", by_class(LOOK_ALIKES))
def test_what_is_not_a_value_stays(text: str) -> None:
    assert redact(text) == text


@each_case(("text", "secret"), by_class(ALONE))
def test_the_neighbours_of_a_password_stay(text: str, secret: str) -> None:
    masked = redact(text)

    kept = text.replace(secret, "[secret:password]") if secret else text.splitlines()[-1]
    assert masked == kept if secret else masked.splitlines()[-1] == kept


def test_a_random_token_with_a_word_of_templates_keeps_its_kind() -> None:
    assert redact("token=7gJ1sua-8cMpQy61nYv3Ss") == "token=[secret:token]"
    assert redact("SECRET_KEY=8gkL1m_seu_71lEnz9PqMx") == "SECRET_[secret:token]"


def test_codes_next_to_each_other_go_even_if_one_has_no_digit() -> None:
    text = "one-time logins:\n8k2mp4q7\nzrwxkqvb\nq8w6e2r4\n"

    assert redact(text) == "one-time logins:\n" + "[secret:password]\n" * 3
