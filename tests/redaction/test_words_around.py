"""Secrets that the words around them give away, and look-alikes that they explain: lines of configuration files,
columns, questions and answers, words between dots; digests, references, labels, placeholders in Markdown.
"""

from __future__ import annotations

import pytest
from masking import by_class

from engram.redaction import redact
from tests.each_case import each_case

SHA1 = "7be1c09d55aa3f6e20418c9d4f7702b6e5a3d918"
SHA256 = "51a0c7e92b44d6f3801b7a5e9c2d10f48e6b3a7790c1d52e4f8a6b3c0d9e7f12"
BASE64 = "r7Kx2mZp0Qv9Ld4TtYh1sWnB8cEjG5uA6iRoX3fVzPk="

#: Text, and the secrets in it.
SECRETS: dict[str, list[tuple[str, list[str]]]] = {
    "a line of a configuration file without a sign": [
        ("machine repo.acme.io login robot password Heather21", ["Heather21"]),
        ("machine repo.acme.io\n\tlogin robot\n\tpassword qTzRwLmKxPv4\n", ["qTzRwLmKxPv4"]),
        ("default login x account y password Pebble9", ["Pebble9"]),
        ("username root password 0 Cobalt77", ["Cobalt77"]),
        ("enable secret Lagoon=4x", ["Lagoon=4x"]),
        ("ENV SMTP_PASSWORD Marble3", ["Marble3"]),
    ],
    "words between dots": [
        ("PGPASSWORD=Amber.Wharf.9 psql -h db", ["Wharf"]),
        ("mysql -u root -pSilver.Heron.4 shop", ["Heron"]),
        ("  password: Cedar.Moss7", ["Moss7"]),
        ("smtp.password=Onyx.Reef.12", ["Reef"]),
        ("user=app&password=Flint.Dune.6&next=1", ["Dune"]),
        ("the password is Plum.Canyon.8", ["Canyon"]),
    ],
    "a digit before a capital, letters in no order": [
        ("das Passwort ist 4Birken", ["4Birken"]),
        ("Password for jo is 9Larches", ["9Larches"]),
        ("hasło: bQvTzrwNxKdL", ["bQvTzrwNxKdL"]),
        ("A senha é WrZkqLmPtxGv", ["WrZkqLmPtxGv"]),
    ],
    "the value before its name": [
        ("Use Tundra44 as the password.", ["Tundra44"]),
        ("nimm bitte Eiche!55 als Kennwort", ["Eiche!55"]),
        ("usa Girasol31 como contraseña", ["Girasol31"]),
        ("utilise Bruyere-8-mer comme mot de passe pour la base", ["Bruyere-8-mer"]),
        ("Hemlock.Bay.3 is the admin password", ["Hemlock"]),
    ],
    "an answer to a question": [
        ("jo: what's the password for the wiki?\nann: it's Juniper-Sled-7", ["Juniper"]),
        ("> which password?\n> hm, let me look\n> that's Gravel88, sorry", ["Gravel88"]),
        ("A: Can you send me the root password?\nB: Basalt.Fox.2", ["Basalt"]),
        ("Jan: Wie war das WLAN-Passwort?\nEva: das ist Fichte88", ["Fichte88"]),
        ("Q: which PIN?\nA: it's 7702", ["7702"]),
        ("- quel est le mot de passe ?\n- c'est Tilleul19", ["Tilleul19"]),
        ("用户: 密码是什么?\n同事: Songshu_77", ["Songshu_77"]),
    ],
    "a column without lines": [
        ("host,user,password\ndb1,root,Canary55\ndb2,root,Finch.Oak.3\n", ["Canary55", "Finch"]),
        ("user\tpassword\tnote\njo\tAspen-61\tnew\n", ["Aspen-61"]),
        ("NAME      PASSWORD\njo        Walrus19\neva       Birke_42\n", ["Walrus19", "Birke_42"]),
        ("benutzer;passwort\njan;Dachs77\n", ["Dachs77"]),
        (" id | login | password \n----+-------+----------\n  1 | jo    | Otter_55\n(1 row)", ["Otter_55"]),
        ("+----+----------+\n| id | password |\n+----+----------+\n|  1 | Lynx2024 |\n+----+----------+", ["Lynx2024"]),
        ("<tr><th>Password</th><td>Quail55</td></tr>", ["Quail55"]),
        ("<tr><td><b>Password</b></td><td><code>Snipe6gold</code></td></tr>", ["Snipe6gold"]),
        ("<key>Password</key>\n<string>Stoat81</string>", ["Stoat81"]),
    ],
    "a password at the end of a line of a configuration file or script": [
        ("open ftp.acme.io\nuser backup Sedge-Pond-4\nput a.gz", ["Sedge-Pond-4"]),
        ("requirepass Alder.Rock.2\nmaxmemory 2gb", ["Alder"]),
        ("masterauth Rowan77x", ["Rowan77x"]),
        ("rootpw Linden_55", ["Linden_55"]),
        ("  auth_pass Yarrow88", ["Yarrow88"]),
        ("jo * Spruce-7-Hill *", ["Spruce"]),
    ],
    "an answer below other lines, with times and names": [
        ("[9:41] mia: which password did you set?\n[9:42] tom: one sec\n[9:43] tom: it's Teasel-Cove-8", ["Teasel"]),
        ("**Ann**: what is the wiki password?\n**Bob**: it's Clover_2024", ["Clover_2024"]),
        ("2026-03-01 10:02 ann: wie ist das Passwort?\n2026-03-01 10:03 bob: Distel!88", ["Distel!88"]),
        ("<ann> the wifi password?\n<bob> Nettle2024", ["Nettle2024"]),
    ],
    "a value before its name, and more of the sentence behind it": [
        ("Der Kollege hat Buche-77-Nord als neues Passwort gesetzt.", ["Buche-77-Nord"]),
        ("J'ai mis Fougere_62 comme mot de passe sur le routeur.", ["Fougere_62"]),
        ("Puse Romero_31 como contraseña nueva en el servidor.", ["Romero_31"]),
        ("Zet Heide2024 als wachtwoord erin.", ["Heide2024"]),
    ],
    "arguments and statements": [
        ("requests.get(url, auth=('jo', 'Badger77'))", ["Badger77"]),
        ('HTTPBasicAuth("jo", "Heron4you")', ["Heron4you"]),
        ('DriverManager.getConnection(url, "jo", "Magpie8x")', ["Magpie8x"]),
        ("INSERT INTO users (id, name, password) VALUES (1, 'jo', 'Weasel');", ["Weasel"]),
        ('expect "assword:"\nsend "Ferret9\\r"', ["Ferret9"]),
        ("net use Z: \\\\nas\\data Marten55 /user:jo", ["Marten55"]),
    ],
    "more languages": [
        ("비밀번호는 Sanho_81 입니다", ["Sanho_81"]),
        ("lösenordet är Granskog9", ["Granskog9"]),
        ("heslo je Smrk_771", ["Smrk_771"]),
        ("şifre: Cinar_45", ["Cinar_45"]),
        ("le mot de passe, c'est Sorbier6", ["Sorbier6"]),
        ("Passwort fürs WLAN: Erle_2024x", ["Erle_2024x"]),
    ],
}
#: What only looks like a secret.
LOOK_ALIKES: dict[str, list[str]] = {
    "a hash whose context says of what it is": [
        f'resolved "https://registry.yarnpkg.com/csrf-token/-/csrf-token-2.0.0.tgz#{SHA1}"',
        f'"auth-kit": "git+https://github.com/acme/auth-kit.git#{SHA1}"',
        f"uses: acme/secret-scan@{SHA1} # v4",
        f"image: registry.acme.io/team/auth-service@sha256:{SHA256}",
        f"FROM acme/token:1.2@sha256:{SHA256} AS build",
        f"key-store digest: sha256:{SHA256}",
        f'"keyring": {{"integrity": "sha256-{BASE64}"}}',
        f"github.com/acme/token v1.2.0 h1:{BASE64}",
        f"token.py at commit {SHA1}",
        f"{SHA1}\trefs/heads/fix-token",
        f" {SHA1} vendor/auth-token (v1.2)",
        f"{SHA256}  secret-tool.deb",
        f"SHA256 (token.zip) = {SHA256}",
        f"cache key: deps-{SHA1}",
        f"-{SHA1} third_party/secret-store",
        f"{SHA1}\tHEAD",
    ],
    "where a secret is kept": [
        "openssl rsa -passin env:KEYPASS9 -in k.pem",
        "openssl pkcs12 -passout file:/run/pw1.txt",
        "password: vault:secret/data/db1#pass",
        "password: op://vault/item1/pass",
        "password: arn:aws:secretsmanager:eu-west-1:123456789012:secret:db1-AbCdEf",
        "DB_PASSWORD=__DB_PASSWORD_1__",
        "password=#{db.pass1}",
        "password: *db_pw1",
        "passwordSecret: db1-creds",
        "DB_PASSWORD=@@DB_PASSWORD2@@\nSECRET=%SECRET2%",
        "API_TOKEN=__API_TOKEN2__\nNEXT=%NEXT2%",
        "Password=@Microsoft.KeyVault(SecretUri=https://kv1.vault.azure.net/secrets/db1)",
    ],
    "a placeholder in Markdown or brackets": [
        "| `DB_PASSWORD` | *(none)* | of the database |",
        "| DB_PASSWORD | **required** | x |",
        "| `API_TOKEN` | *(unset)* | token |",
        "| admin_password | *(auto-generated)* |",
        "DB_PASSWORD: (optional)",
        "password: _leer_",
    ],
    "a label": [
        '"login.password": "Passwort"',
        '"password": "Mot de passe"',
        '"password": "Пароль"',
        '"login.secret": "Geheimnis"',
        '"confirm_password": "Bestätigen"',
        '"forgotPassword": "Vergessen"',
        '"show_password": "Anzeigen"',
    ],
    "code": [
        "password = cfg.db1.password",
        "DB_PASSWORD = config.Db1.Password",
        "token = s3.Client1",
        "password=user.pass2",
        "api_key=Config.ApiKey2",
        "auth=(user, pw1)",
        "HTTPBasicAuth('user', 'password')",
        "INSERT INTO users (name, password) VALUES (?, ?)",
        "SELECT user,password\nFROM users2",
        "username,password\n$USER1,$PASS1",
    ],
    "what is said about passwords": [
        "password manager 1Password",
        "password sha256",
        "password encrypted-md5",
        "users.pw1 is the password column",
        "use bcrypt12 as the password hash",
        "use `input1` as the password field",
        "How is the password stored?\nit's argon2id in users_v2",
        "what is the password column?\nit's pass_hash2",
        "what's the login flow?\nit's oauth2",
        "NAME      PASSWORD\nrequired  required",
        "12-stellig ist das Passwort",
        "compass north2west",
        "open a file\nuser story2 done",
        "Is the password wrong?\nIt's handled in login2.ts",
        "what is the minimum password?\nit's 12chars2",
        "<th>Password</th><td>required</td>",
    ],
}


@each_case(("text", "secrets"), by_class(SECRETS))
def test_what_the_words_around_give_away_goes(text: str, secrets: list[str]) -> None:
    masked = redact(f"As it was today:\n\n{text}\n\nThat is all.")

    assert not [secret for secret in secrets if secret in masked]
    assert masked.startswith("As it was today:\n")
    assert masked.endswith("\n\nThat is all.")
    assert redact(masked) == masked


@each_case("text", by_class(LOOK_ALIKES))
def test_what_the_words_around_explain_stays(text: str) -> None:
    assert redact(text) == text
    assert redact(f"As it was today:\n\n{text}\n\nThat is all.") == f"As it was today:\n\n{text}\n\nThat is all."


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"the api key is {SHA1}", SHA1),
        (f"auth token: {SHA256}", SHA256),
        (f"password hash {SHA1[:32]}", SHA1[:32]),
        (f"API_KEY={SHA1}  # key.txt", SHA1),
    ],
)
def test_a_hash_that_is_a_key_by_its_name_goes(text: str, secret: str) -> None:
    assert secret not in redact(text)
