"""Secrets that only their place gives away, in prose and in files; and what is public by its own label."""

from __future__ import annotations

import base64
import random

import pytest
from masking import by_class, check_gone

from engram.redaction import redact
from tests.each_case import each_case

#: Class → texts with the secret in each.
SECRETS: dict[str, list[tuple[str, str]]] = {
    "set to": [
        ("Das WLAN-Passwort habe ich gestern auf Nebelkamm31 geändert.", "Nebelkamm31"),
        ("Ich setze das Kennwort für den Proxy jetzt auf tannenhof-88x.", "tannenhof-88x"),
        ("Passwort vom Backup-Konto wurde auf „Rehwiese“ umgestellt", "Rehwiese"),
        ("Die PIN vom Tor habe ich auf 4711 geändert.", "4711"),
        ("J'ai changé le mot de passe de la base en falaise94Bleue hier soir.", "falaise94Bleue"),
        ("Le mot de passe du NAS a été remplacé par corniche7rouge.", "corniche7rouge"),
        ("He cambiado la contraseña del router a tejado55Azul.", "tejado55Azul"),
        ("Puse la contraseña en lobo_gris77 para todos", "lobo_gris77"),
        ("Ho cambiato la password del server in cipresso19Alto.", "cipresso19Alto"),
        ("La password di staging è stata impostata su ginepro_204", "ginepro_204"),
        ("Mudei a senha do painel para figueira82, avisa o time.", "figueira82"),
        ("A senha foi alterada para Jangada!9 ontem", "Jangada!9"),
        ("Ik heb het wachtwoord van de printer veranderd in duinpan46.", "duinpan46"),
        ("Het wachtwoord is gewijzigd naar polder_wind9", "polder_wind9"),
        ("Zmieniłem hasło do bazy na brzozowy71gaj.", "brzozowy71gaj"),
        ("Hasło ustawione na wierzba-2207", "wierzba-2207"),
        ("Сменил пароль администратора на klen48Osen.", "klen48Osen"),
        ("Пароль поставил на рябина63Лес, проверь", "рябина63Лес"),
        ("The password has been changed to larkspur77hill.", "larkspur77hill"),
        ("the root password was rotated back to Tansy-Field-9", "Tansy-Field-9"),
        ("数据库密码换成了huaishu_88Lin", "huaishu_88Lin"),
        ("我把密码修改为 Songbai#42", "Songbai#42"),
        ("パスワードをsakura_71Minaに変更しました", "sakura_71Mina"),
    ],
    "braces of ODBC": [
        ("Driver={PostgreSQL Unicode};Server=db3;UID=etl;PWD={w}}ren;ch4ir}", "ch4ir"),
        ('conn = "DSN=warehouse;UID=loader;PWD={Flint=Moor;7}"', "Flint=Moor;7"),
        ("Provider=MSDASQL;Server=h;User Id=app;Password={a;B=9 cedar};Encrypt=yes", "a;B=9 cedar"),
        ("DRIVER={MySQL ODBC 8.0 Driver};SERVER=h;UID=r;PWD={dovecote31}", "dovecote31"),
    ],
    "blocks of YAML": [
        ("vpn:\n  passphrase: |\n    nine lanterns over the frozen harbour\n  retries: 3", "frozen harbour"),
        ("db:\n  password: |-\n    thornbush-88\n  host: x", "thornbush-88"),
        ("smtp:\n  password: >\n    moss42Kettle\n", "moss42Kettle"),
        ("smtp:\r\n  password: |\r\n    moss42Kettle\r\n", "moss42Kettle"),
        ("api:\n    auth_token: |\n        q8f7x2m9k4w1z6\n", "q8f7x2m9k4w1z6"),
        ("w:\n  passphrase: >-\n    copper lantern morning\n    river thistle anchor\n  x: 1", "river thistle anchor"),
        ("db:\n  password: |\n    " + "a1B" * 500 + "\nx: 1", "a1Ba1B"),
    ],
    "seeds of authenticators": [
        ('oathtool --totp --base32 "K5QW Y3DP NB2X G43T"', "K5QW Y3DP NB2X G43T"),
        ("oathtool --totp -b K5QWY3DPNB2XG43T", "K5QWY3DPNB2XG43T"),
        ("totp-cli add work: gezd gnbv gy3t qojq gezd gnbv gy3t qojq", "gezd gnbv gy3t qojq"),
        ("Authenticator setup key\nONSW G4TF OQ2D EMRS", "ONSW G4TF OQ2D EMRS"),
        ("Can't scan the code? Enter this 2FA key by hand: pfzx a3dm n52g kzlu", "pfzx a3dm n52g kzlu"),
        ("ykman oath accounts add Work ONSWG4TFOQ2DEMRS", "ONSWG4TFOQ2DEMRS"),
    ],
    "ipsec.secrets": [
        ('rosa : EAP "kiln-Hammer-5"', "kiln-Hammer-5"),
        ('%any : XAUTH "weaver"', "weaver"),
        (': RSA gateway.key.pem "barley 72 mill"', "barley 72 mill"),
        ("@hq.example.org : NTLM 0x3f7a91bc22d04e85", "0x3f7a91bc22d04e85"),
        (': PKCS12 laptop.p12 "hearth9Stone"', "hearth9Stone"),
        ('2001:db8::1 2001:db8::2 : PSK "tallow"', "tallow"),
        ("rosa : EAP plainKiln55", "plainKiln55"),
    ],
    "SNMP": [
        ("snmp-server community rookery RO", "rookery"),
        ("snmp-server community W4terMill view all RW 12", "W4terMill"),
        ("rwcommunity heronry 10.9.0.0/16", "heronry"),
        ("com2sec local 127.0.0.1/32 gr4nary", "gr4nary"),
        ("set snmp community millrace authorization read-only", "millrace"),
        ("snmp-agent community read cipher turbine_7x", "turbine_7x"),
        ("snmp_community = 'rookery55'", "rookery55"),
        ("The community string is W4terMill2x on all switches", "W4terMill2x"),
        ('createUser watcher SHA "barn door 8" AES "hay loft 3"', "barn door 8"),
        ('createUser watcher SHA "barn door 8" AES "hay loft 3"', "hay loft 3"),
        ("createUser watcher SHA-256 orchardgate AES cidermill", "cidermill"),
        ("snmp-server user probe netgrp v3 auth sha quarry55 priv aes 128 limekiln8", "quarry55"),
        ("snmp-server user probe netgrp v3 auth sha quarry55 priv aes 128 limekiln8", "limekiln8"),
        ("snmpget -v3 -u probe -l authPriv -a SHA -A 'oak beam six' -x AES -X pantry 10.0.0.9", "oak beam six"),
        ("snmpget -v3 -u probe -l authPriv -a SHA -A 'oak beam six' -x AES -X pantry 10.0.0.9", "pantry"),
        ("snmpbulkwalk -v2c -c rookery 10.0.0.9 ifTable", "rookery"),
        ("defAuthPassphrase bellows77", "bellows77"),
    ],
    "keys of devices": [
        (" key-string 0 mallow77Fen", "mallow77Fen"),
        ("ip ospf message-digest-key 1 md5 mallow77Fen", "mallow77Fen"),
        ("crypto isakmp key mallow77Fen address 10.0.0.1", "mallow77Fen"),
        ("radius-server host 10.0.0.1 key 7 mallow77Fen", "mallow77Fen"),
    ],
    "joined words": [
        ("grafana_admin_password: 'Sandpiper_at_Dusk'", "Sandpiper_at_Dusk"),
        ('db_password = "Quiet_Heath_Lane"', "Quiet_Heath_Lane"),
        ('"smtpPassword": "Rook_over_Mill"', "Rook_over_Mill"),
        ("remotepass = Rook.Mill.204", "Rook.Mill.204"),
        ("dbpass=Rook.Mill.204", "Rook.Mill.204"),
        ("smtppass: rookMill20", "rookMill20"),
    ],
}

_random = random.Random(5)


def b64(size: int) -> str:
    return base64.b64encode(_random.randbytes(size)).decode()


def url64(size: int) -> str:
    return base64.urlsafe_b64encode(_random.randbytes(size)).decode().rstrip("=")


def hexed(size: int) -> str:
    return _random.randbytes(size).hex()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pem(kind: str) -> str:
    return f"-----BEGIN {kind}-----\n{b64(300)}\n-----END {kind}-----\n"


#: Class → texts that stay as they are.
LOOK_ALIKES: dict[str, list[str]] = {
    "set to": [
        "Das Passwort-Feld wurde auf varchar255 geändert.",
        "Wir haben die Prüfung des Passworts auf argon2id umgestellt.",
        "wir haben das Passwort auf Wunsch von team-42 geändert",
        "I changed the password hashing to bcrypt12 and moved the token check to utils2.",
        "The password was changed to something longer.",
        "reset the password policy to level3strict",
        "Le mot de passe a été changé en production le 12/03.",
        "J'ai changé le mot de passe sur web-prod-01",
        "la contraseña se cambia en el servidor srv-db-02",
        "Ik heb het wachtwoord op server-nl-04 veranderd",
        "Zmieniłem hasło na serwerze db-02",
        "Пароль сменил на новый, см. wiki",
        "パスワードを変更しました",
        "密码修改为必填项",
    ],
    "words that end like a password": [
        "bypass = none.Of.604",
        "compass: north.West.604",
        "multipass = daily.Build.12",
        "let dbpass = config.dbPass;",
        "userpass: string",
    ],
    "braces of ODBC": [
        "PWD={pwd};UID={user}",
        "Server={0};Database={1};User Id={2};Password={3};",
        "<Login password={password} token={state.token2} />",
        'f"DRIVER={{ODBC Driver 18}};SERVER={host};PWD={db_pass2}"',
        "Driver={SQL Server};Server=h;UID={user};PWD={password};",
    ],
    "blocks of YAML": [
        "i18n:\n  password: |\n    Enter your new password\n",
        "fields:\n  passphrase: >-\n    Choose a passphrase that nobody else knows\n",
        "  token: |\n    The token of the session, see below.\n",
        "password: |\n  required\n",
        "  password: |\n    {{ .Values.password }}\n",
        "  passphrase: |\n    ${VPN_PASSPHRASE}\n",
    ],
    "seeds of authenticators": [
        "oathtool --totp -b $SECRET",
        "the 2fa code that they sent will work once with this page here",
        "totp uses SHA1 with 6 digits and 30 seconds",
        "The TOTP page must load fast when many come here",
    ],
    "ipsec.secrets": [
        "Key type : RSA 4096",
        'Unsupported mode : EAP "your-password"',
        "Method: EAP PEAPv0",
        "phase2: PSK authentication failed for %any",
        ": RSA moonKey.pem",
    ],
    "SNMP": [
        "snmp-server community public RO",
        "snmpwalk -v2c -c public 10.0.0.9",
        "snmp-server community <string> RO",
        "snmp-server host 10.0.0.9 traps",
        "trapsink localhost public",
        "snmpwalk uses -A and -X for passwords",
        "createUser takes SHA or MD5 and AES or DES",
        "snmp community string is missing",
        "SNMP_COMMUNITY=public",
    ],
    "joined words": ["password: 'login_form_label'", '"password": "INVALID_PASSWORD"', "pass: 'Not_Set_Yet'"],
    "fingerprints": [
        f"RSA key fingerprint is SHA256:{b64(32).rstrip('=')}.",
        f"debug1: Server host key: ssh-ed25519 SHA256:{b64(32).rstrip('=')}",
        f"Offending key fingerprint SHA512:{b64(64).rstrip('=')}",
        f"token signing key thumbprint SHA1:{b64(20).rstrip('=')}",
    ],
    "public keys": [
        f"peer: {b64(32)}\n  allowed ips: 10.0.0.2/32",
        f"wg set wg0 peer {b64(32)} allowed-ips 10.0.0.3/32",
        f'{{"kty":"EC","crv":"P-256","x":"{url64(32)}","y":"{url64(32)}","kid":"{url64(20)}"}}',
        f'{{"kid": "{url64(32)}", "kty": "OKP", "crv": "Ed25519", "x": "{url64(32)}"}}',
        f"{{\n  kty: 'RSA',\n  n: '{url64(256)}',\n  e: 'AQAB'\n}}",
        f'mail._domainkey IN TXT ( "v=DKIM1; k=ed25519; p={b64(32)}" )',
        f'"v=DKIM1; h=sha256; k=rsa; " "p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA{b64(90)}" "{b64(150)}"',
        f"v=DKIM1; t=s; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC{b64(120)}",
        f"realm key: MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE{b64(64)}",
        f"example.org. 3600 IN DNSKEY 257 3 13 {b64(64)}",
        f"certificate-authority-data: {encoded(pem('CERTIFICATE'))}",
        f"<X509Certificate>MIIDdzCCAl+gAwIBAgIE{b64(300)}</X509Certificate>",
    ],
    "digests": [
        f"_25._tcp.mx IN TLSA 3 1 1 {hexed(32)}",
        f"host IN SSHFP 4 2 {hexed(32)}",
        f"example.org. DS 12345 13 2 {hexed(32).upper()}",
        f"topic1 0x{hexed(32)}",
        f'"topics": ["0x{hexed(32)}", "0x{hexed(32)}"]',
        f"stateRoot: 0x{hexed(32)}",
        f"block 0x{hexed(32)} has the token transfer",
        f"Dropped refs/stash@{{0}} ({hexed(20)})",
    ],
    "ids of documents": [
        f'{{"_id": {{"$oid": "{hexed(12)}"}}}}',
        f'"token_id" : {{ "$oid" : "{hexed(12)}" }}',
        f"db.keys.find({{_id: ObjectId('{hexed(12)}')}})",
    ],
    "encoded words": [
        "echo 'the quick brown fox jumps over it' | base64",
        f"echo {encoded('Hello, World!')} | base64 -d",
        f"It printed {encoded('the quick brown fox jumps over the lazy dog')}",
        f"body: {encoded('subject line of the mail' + chr(10) + 'second line of it')}",
    ],
    "names of resources": [
        "pod/token-service-7c9d8f6b54-x2k9q   1/1   Running",
        "bin/auth/password_test\npod/ledger-7c9d8f6b54-x2k9q   1/1   Running",
        "src/auth/reset_token\nbuild/cache-8f3k2m9x",
        "tests/e2e/password\nnode-a1b2c3d4e5",
        "deployment.apps/password-reset-api-6d5f9c7b8-q4zkx created",
        "kubectl logs auth-token-refresher-5d4f8c9b7-m2x7p -f",
    ],
    "labels": [
        '"login.token": "Sicherheitsschlüssel"',
        '"mfa.token": "Jednorazowykod"',
        '"form.secret": "Geheimschlüssel"',
        '"login.session_key": "Wprowadź klucz szyfrujący"',
        '"login.token": "vahvistuskoodi"',
        '"login.token": "Подтверждение"',
        '{"auth": {"token": "Bezpečnostníkód"}}',
        "author: Release2024x",
        "authority: Server12prod",
    ],
    "remarks in place of a value": [
        "  ~ db_password = (sensitive value)",
        "client_secret: (hidden by policy)",
        "secret_id   = (known after apply)",
    ],
    "colours": [
        "--secret-badge: #b03a2e;",
        "token-color=#fff",
        "password-hint { --key: #0a7c5aff }",
    ],
    "regular expressions": [
        r"api[_-]?key['\"]?\s*[:=]\s*['\"]?([A-Za-z0-9]{20,})",
        r"token=[A-Za-z0-9_-]{32,64}",
        r"secret:\s+(\S+)",
        r"password=([^&\s]+)",
        r"/pwd=(\w+)&/i",
        r"re.compile(r'(?i)(token|secret|pwd)\s*=\s*[^\s]+')",
        r"grep -E '(passwd|pwd|secret)[=:][^ ]{6,}' app.log",
        r"(?P<token>[A-Z0-9]{4}-[A-Z0-9]{4})",
        r'password: "^[A-Za-z0-9!@#$%]{8,20}$"',
        r"pattern = '[^0-9a-fA-F$]9'",
    ],
    "code and terminals": [
        "cancel := context.WithTimeout(ctx, 30*time.Second)",
        '   SubagentTokens *TokenUsage2 `json:"t"`',
        "^[[48;2;228;134;119mM-nM-+M-7^[[48;2;228;136;96m ^[[48",
    ],
}
#: Private values beside public ones of the same label or form: text and secret.
PRIVATE = [
    ('password = "(Marten22-Fjord)"', "Marten22-Fjord"),
    (f"PrivateKey = {(key := b64(32))}\n[Peer]\nPublicKey = {b64(32)}", key),
    (f"peer: {b64(32)}\n  preshared key: {(key := b64(32))}", key),
    (f'{{"kty":"RSA","n":"{url64(256)}","e":"AQAB","d":"{(key := url64(256))}"}}', key),
    (f'{{"kty":"EC","crv":"P-256","x":"{url64(32)}","y":"{url64(32)}","d":"{(key := url64(32))}"}}', key),
    (f'{{"kty":"oct","kid":"a1","k":"{(key := url64(32))}"}}', key),
    (f"PRIVATE_KEY=0x{(key := hexed(32))}", key),
    (f"new ethers.Wallet('0x{(key := hexed(32))}')", key),
    (f"block explorer key: 0x{(key := hexed(32))}", key),
    (f"client-key-data: {(key := encoded(pem('RSA PRIVATE KEY')))}", key),
    (f"data: {(key := encoded(pem('CERTIFICATE') + pem('RSA PRIVATE KEY')))}", key),
    (f"data: MIIEvgIBADANBgkqhkiG9w0BAQEFAASC{(key := b64(120))}", key),
    (f"data: MIIEpAIBAAKCAQEA{(key := b64(120))}", key),
    (f"echo {(key := encoded('moss42Kettle'))} | base64 -d", key),
    (encoded(key := "orchard velvet hazard tunnel ripple anchor dwarf cinnamon jungle pistol maple scissors"), key),
    ("token=abcd1234efgh5678，请保存", "abcd1234efgh5678"),
]


@each_case(("text", "secret"), by_class(SECRETS))
def test_a_secret_that_its_place_gives_away_goes(text: str, secret: str) -> None:
    check_gone(text, secret)


@each_case("text", by_class(LOOK_ALIKES))
def test_what_is_public_or_no_value_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(("text", "secret"), PRIVATE, ids=range(len(PRIVATE)))
def test_what_is_private_goes_beside_what_is_public(text: str, secret: str) -> None:
    masked = redact(text)

    assert secret not in masked
    assert encoded(secret) not in masked
