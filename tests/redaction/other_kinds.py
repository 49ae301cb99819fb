"""Made-up secrets of kinds that the rules were not written for, from a seed; none is real.

`cases(seed)` gives `(kind, text, secret)`: every kind in three contexts of its own. The rules know nothing of this
list; what it measures is how well they carry over. It is read by the tests and by `benchmarks/redaction.py`.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator

LOWER = string.ascii_lowercase
DIGITS = string.digits
ALNUM = string.ascii_letters + DIGITS
HEX = "0123456789abcdef"
BASE32 = string.ascii_uppercase + "234567"
URLSAFE = ALNUM + "-_"

Maker = Callable[[random.Random], tuple[str, list[str]]]
KINDS: dict[str, Maker] = {}


def kind(maker: Maker) -> Maker:
    """Register a kind: a function that makes one secret and the three texts it stands in."""
    KINDS[maker.__name__] = maker
    return maker


def run(rng: random.Random, alphabet: str, length: int) -> str:
    """That many characters of the alphabet, drawn by chance."""
    return "".join(rng.choice(alphabet) for _ in range(length))


def human(rng: random.Random) -> str:
    """A password as people make them: a word, a year, a sign."""
    word = rng.choice(["Tulpe", "Wombat", "Harbor", "Pickle", "Saturn", "Velvet", "Maple", "Cobalt"])
    other = rng.choice(["river", "stone", "Flag", "Moon", "tiger"])
    return f"{word}{other}{rng.randrange(10, 2030)}{rng.choice('!#$%&')}"


@kind
def pgpass_line(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM, 15)
    return s, [
        f"cat ~/.pgpass\ndb.internal:5432:orders:reporting:{s}",
        f"*:*:*:postgres:{s}",
        f"I put localhost:6432:app:svc:{s} in my .pgpass",
    ]


@kind
def gpg_passphrase(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"gpg --batch --pinentry-mode loopback --passphrase {s} -d dump.gpg",
        f"gpg --passphrase='{s}' --symmetric notes.txt",
        f"the gpg passphrase for the release key is {s}",
    ]


@kind
def root_slash_password(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"ssh in with root / {s} and look at the journal",
        f"log in as deploy with {s}, then restart it",
        f"credentials: operator / {s}",
    ]


@kind
def wifi_psk(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f'network={{\n  ssid="lab"\n  psk="{s}"\n}}',
        f"nmcli dev wifi connect lab password {s}",
        f"WIFI:T:WPA;S:lab;P:{s};;",
    ]


@kind
def totp_seed(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, BASE32, 32)
    return s, [
        f"otpauth://totp/Acme:dev@acme.io?secret={s}&issuer=Acme",
        f"oathtool --totp -b {s}",
        f"my authenticator setup key: {s}",
    ]


@kind
def htpasswd_hash(rng: random.Random) -> tuple[str, list[str]]:
    s = "$apr1$" + run(rng, ALNUM, 8) + "$" + run(rng, ALNUM + "./", 22)
    return s, [f"admin:{s}", f"basicauth: 'admin:{s}'", f"the htpasswd line has {s} in it"]


@kind
def shadow_hash(rng: random.Random) -> tuple[str, list[str]]:
    s = "$6$" + run(rng, ALNUM, 16) + "$" + run(rng, ALNUM + "./", 86)
    return s, [f"root:{s}:19000:0:99999:7:::", f"passwd_hash = '{s}'", f"usermod -p '{s}' backup"]


@kind
def bcrypt_hash(rng: random.Random) -> tuple[str, list[str]]:
    s = "$2b$12$" + run(rng, ALNUM + "./", 53)
    return s, [f"INSERT INTO users VALUES (1, 'ann', '{s}');", f"ADMIN_HASH={s}", f"it prints {s}"]


@kind
def sqlserver_string(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    whole = f"Server=tcp:acme.database.windows.net,1433;Database=shop;User ID=sa;Password={s};Encrypt=True"
    return s, [f'"DefaultConnection": "{whole}"', f"use {whole} for now", f"sqlcmd -S acme -U sa -P {s}"]


@kind
def service_bus_string(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(rng.randbytes(32)).decode()
    whole = f"Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={s}"
    return s, [f"SB_CONN={whole}", f'ServiceBusClient("{whole}")', f"the shared access key is {s}"]


@kind
def azure_sas(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM, 40) + "%3D"
    return s, [
        f"https://acme.blob.core.windows.net/in?sv=2022-11-02&se=2027-01-01&sr=c&sp=rl&sig={s}",
        f'AZURE_SAS="?sv=2021-06-08&ss=b&sig={s}"',
        f"azcopy copy ./a 'https://acme.blob.core.windows.net/x?sp=w&sig={s}'",
    ]


@kind
def presigned_s3(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 64)
    return s, [
        f"https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={s}",
        f"curl -o f 'https://b.s3.eu-west-1.amazonaws.com/f.tar?X-Amz-Expires=900&X-Amz-Signature={s}'",
        f"download link: https://b.s3.amazonaws.com/r.csv?X-Amz-Date=20260101T000000Z&X-Amz-Signature={s}",
    ]


@kind
def docker_auth_config(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(f"acme:{run(rng, ALNUM, 20)}".encode()).decode()
    return s, [
        json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": s}}}, indent=2),
        '{"auths":{"ghcr.io":{"auth":"' + s + '"}}}',
        f".dockerconfigjson auth: {s}",
    ]


@kind
def kubeconfig_key(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(b"-----BEGIN RSA PRIVATE KEY-----\n" + rng.randbytes(300)).decode()
    return s, [
        f"    client-key-data: {s}",
        f'"client-key-data":"{s}"',
        f"users:\n- name: a\n  user:\n    client-key-data: {s}",
    ]


@kind
def kubernetes_secret(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(human(rng).encode()).decode()
    return s, [
        f"apiVersion: v1\nkind: Secret\ndata:\n  password: {s}",
        f"kind: Secret\nmetadata:\n  name: db\ndata:\n  db-password: {s}\n",
        f'kubectl patch secret db -p \'{{"data":{{"password":"{s}"}}}}\'',
    ]


@kind
def helm_set(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"helm upgrade db bitnami/postgresql --set auth.postgresPassword={s}",
        f"kubectl create secret generic db --from-literal=password={s}",
        f"docker run -e POSTGRES_PASSWORD={s} -p 5432:5432 postgres:16",
    ]


@kind
def compose_environment(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"    environment:\n      - MARIADB_ROOT_PASSWORD={s}",
        f"      RABBITMQ_DEFAULT_PASS: {s}",
        f'      MINIO_ROOT_PASSWORD: "{s}"',
    ]


@kind
def npmrc_password(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(human(rng).encode()).decode()
    return s, [
        f"//npm.acme.io/:_password={s}\n//npm.acme.io/:username=ci",
        f"_auth={s}",
        f"npm config set //npm.acme.io/:_authToken {s}",
    ]


@kind
def maven_settings(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"<server><id>nexus</id><username>ci</username><password>{s}</password></server>",
        f"<passphrase>{s}</passphrase>",
        f'<add key="SmtpPassword" value="{s}" />',
    ]


@kind
def java_keystore(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"keytool -importcert -keystore k.jks -storepass {s} -noprompt",
        f"server.ssl.key-store-password={s}",
        f"    storePassword '{s}'",
    ]


@kind
def ansible_become(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"web1 ansible_host=10.0.0.4 ansible_user=ops ansible_become_pass={s}",
        f"ansible_ssh_pass: {s}",
        f"vault_db_password: '{s}'",
    ]


@kind
def terraform_variable(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f'db_password = "{s}"',
        f"terraform apply -var 'admin_password={s}'",
        f"export TF_VAR_root_password={s}",
    ]


@kind
def odbc_string(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"Driver={{ODBC Driver 18}};Server=db;Uid=app;Pwd={s};",
        f"jdbc:postgresql://db:5432/shop?user=app&password={s}",
        f'cx = pyodbc.connect("DSN=wh;UID=ro;PWD={s}")',
    ]


@kind
def amqp_url(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM + "-_", 20)
    url = f"amqps://svc:{s}@rabbit.acme.io:5671/prod"
    return s, [f"CELERY_BROKER_URL={url}", f"broker is {url}", f'broker_url: "{url}"']


@kind
def git_remote_with_token(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM, 32)
    return s, [
        f"git clone https://{s}@git.acme.io/ops/infra.git",
        f"git remote set-url origin https://oauth2:{s}@git.acme.io/ops/infra.git",
        f"origin\thttps://ci:{s}@git.acme.io/ops/infra.git (push)",
    ]


@kind
def ftp_login(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"curl -T a.zip ftp://ftp.acme.io --user webmaster:{s}",
        f"lftp -u webmaster,{s} sftp://acme.io",
        f"wget --ftp-user=web --ftp-password={s} ftp://acme.io/a",
    ]


@kind
def smb_mount(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"mount -t cifs //nas/data /mnt -o username=backup,password={s},vers=3.0",
        f"smbclient //nas/data -U backup%{s}",
        f"net use Z: \\\\nas\\data /user:backup {s}",
    ]


@kind
def ldap_bind(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"ldapsearch -x -D cn=admin,dc=acme -w {s} -b dc=acme",
        f"bindpw {s}",
        f"LDAP_BIND_CREDENTIALS={s}",
    ]


@kind
def smtp_settings(rng: random.Random) -> tuple[str, list[str]]:
    s = " ".join(run(rng, LOWER, 4) for _ in range(4))
    return s, [f'EMAIL_HOST_PASSWORD = "{s}"', f"gmail app password: {s}", f"smtp_pass: {s}"]


@kind
def session_cookie(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM, 32)
    return s, [
        f"Cookie: theme=dark; sessionid={s}; lang=en",
        f"curl -b 'PHPSESSID={s}' https://acme.io/admin",
        f"set-cookie: connect.sid=s%3A{s}; Path=/; HttpOnly",
    ]


@kind
def custom_header(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, URLSAFE, 30)
    return s, [
        f"curl -H 'X-Acme-Auth: {s}' https://api.acme.io",
        f'fetch(u, {{ headers: {{ "Ocp-Apim-Subscription-Key": "{s}" }} }})',
        f"X-Vault-Token: {s}",
    ]


@kind
def digest_authorization(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 32)
    return s, [
        f"Authorization: Token token={s}",
        f"Authorization: GenieKey {s}",
        f'headers["Authorization"] = "ApiKey {s}"',
    ]


@kind
def flask_secret(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 48)
    return s, [f"app.secret_key = '{s}'", f"app.config['SECRET_KEY'] = \"{s}\"", f"SECRET_KEY_BASE={s}"]


@kind
def laravel_key(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(rng.randbytes(32)).decode()
    return s, [f"APP_KEY=base64:{s}", f"'key' => 'base64:{s}',", f"php artisan key:generate gave base64:{s}"]


@kind
def rails_master_key(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 32)
    return s, [f"RAILS_MASTER_KEY={s}", f"echo {s} > config/master.key", f"config/master.key contains {s}"]


@kind
def fernet_key(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.urlsafe_b64encode(rng.randbytes(32)).decode()
    return s, [f"FERNET_KEY={s}", f"Fernet(b'{s}')", f"airflow wants fernet_key = {s}"]


@kind
def wireguard_key(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(rng.randbytes(32)).decode()
    return s, [f"[Interface]\nPrivateKey = {s}\nAddress = 10.0.0.2/32", f"PresharedKey = {s}", f"wg genkey printed {s}"]


@kind
def ethereum_private_key(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 64)
    return s, [f"PRIVATE_KEY=0x{s}", f"new ethers.Wallet('0x{s}', provider)", f"the deployer key is 0x{s}"]


@kind
def bitcoin_wif(rng: random.Random) -> tuple[str, list[str]]:
    s = rng.choice("KL") + run(rng, "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 51)
    return s, [f"bitcoin-cli importprivkey {s}", f"wif: {s}", f"I swept it with {s} yesterday"]


@kind
def solana_bytes(rng: random.Random) -> tuple[str, list[str]]:
    s = ",".join(str(rng.randrange(256)) for _ in range(64))
    return s, [f"[{s}]", f"cat id.json\n[{s}]", f"secretKey: [{s}]"]


@kind
def wallet_phrase24(rng: random.Random) -> tuple[str, list[str]]:
    pool = [
        "zebra",
        "wolf",
        "virus",
        "velvet",
        "urban",
        "tulip",
        "turkey",
        "trophy",
        "tenant",
        "swallow",
        "sunset",
        "spirit",
        "snake",
        "silent",
        "rifle",
        "quantum",
        "puzzle",
        "pottery",
    ]
    s = " ".join(rng.choice(pool) for _ in range(24))
    return s, [f"my metamask phrase: {s}", f"recovery phrase\n{s}", f'HDWalletProvider("{s}", url)']


@kind
def ssh_key_body(rng: random.Random) -> tuple[str, list[str]]:
    s = base64.b64encode(b"openssh-key-v1\0" + rng.randbytes(280)).decode()
    return s, [f"SSH_PRIVATE_KEY_B64={s}", f"echo {s} | base64 -d > id_ed25519", f"the deploy key (base64): {s}"]


@kind
def putty_key(rng: random.Random) -> tuple[str, list[str]]:
    raw = base64.b64encode(rng.randbytes(190)).decode()
    s = "\n".join(raw[i : i + 64] for i in range(0, len(raw), 64))
    head = "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: ops"
    return s, [
        f"{head}\nPrivate-Lines: 4\n{s}\nPrivate-MAC: 0",
        f"Private-Lines: 4\n{s}",
        f"my ppk:\nPrivate-Lines: 4\n{s}\n\nhow do I convert it",
    ]


@kind
def openvpn_static(rng: random.Random) -> tuple[str, list[str]]:
    s = "\n".join(run(rng, HEX, 32) for _ in range(16))
    a, z = "-----BEGIN OpenVPN Static key V1-----", "-----END OpenVPN Static key V1-----"
    return s, [f"<tls-auth>\n{a}\n{s}\n{z}\n</tls-auth>", f"ta.key:\n{a}\n{s}\n{z}", f"{a}\n{s}"]


@kind
def mailchimp_key(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 32) + "-us" + str(rng.randrange(1, 22))
    return s, [f"MAILCHIMP={s}", f"my mailchimp is {s}", f'mailchimp.setConfig({{ apiKey: "{s}", server: "us6" }})']


@kind
def algolia_admin(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 32)
    return s, [f'algoliasearch("BH4D9OD16A", "{s}")', f"ALGOLIA_ADMIN={s}", f"algolia admin api key is {s}"]


@kind
def airtable_pat(rng: random.Random) -> tuple[str, list[str]]:
    s = "pat" + run(rng, ALNUM, 14) + "." + run(rng, HEX, 64)
    return s, [f"AIRTABLE={s}", f"Airtable.configure({{ apiKey: '{s}' }})", f"use {s} for the base"]


@kind
def mapbox_secret(rng: random.Random) -> tuple[str, list[str]]:
    body = (
        base64.urlsafe_b64encode(json.dumps({"u": "acme", "a": run(rng, LOWER + DIGITS, 25)}).encode())
        .decode()
        .rstrip("=")
    )
    s = f"sk.{body}.{run(rng, URLSAFE, 22)}"
    return s, [f"MAPBOX={s}", f"mapboxgl.accessToken = '{s}'", f"mapbox is {s} I think"]


@kind
def facebook_token(rng: random.Random) -> tuple[str, list[str]]:
    s = "EAAC" + run(rng, ALNUM, 160)
    return s, [f"FB_PAGE={s}", f"graph.facebook.com/me?access_token={s}", f"page access: {s}"]


@kind
def teams_webhook(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 32)
    url = (
        f"https://acme.webhook.office.com/webhookb2/5f0a3b6c-1111-4222-8333-444455556666@5f0a3b6c-1111-4222-8333-44"
        f"4455556667/IncomingWebhook/{s}/5f0a3b6c-1111-4222-8333-444455556668"
    )
    return s, [f"TEAMS={url}", f"post it to {url}", f'"url": "{url}"']


@kind
def discord_webhook(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, URLSAFE, 68)
    url = f"https://discord.com/api/webhooks/{run(rng, DIGITS, 18)}/{s}"
    return s, [f"HOOK={url}", f"send builds to {url} please", f'requests.post("{url}", json=m)']


@kind
def sentry_dsn(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, HEX, 32)
    url = f"https://{s}@o447951.ingest.sentry.io/5429219"
    return s, [f"SENTRY={url}", f'sentry_sdk.init(dsn="{url}")', f"errors go to {url}"]


@kind
def one_time_code(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, DIGITS, 6)
    return s, [f"the 2fa code is {s}", f"Your verification code: {s}", f"npm publish --otp={s}"]


@kind
def backup_codes(rng: random.Random) -> tuple[str, list[str]]:
    s = f"{run(rng, LOWER + DIGITS, 5)}-{run(rng, LOWER + DIGITS, 5)}"
    return s, [f"recovery codes:\n{s}\n", f"backup code {s} still works", f"one of my github recovery codes is {s}"]


@kind
def oauth_code_exchange(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, URLSAFE, 43)
    return s, [
        f"grant_type=refresh_token&client_id=web&refresh_token={s}",
        f'{{"access_token":"{s}","expires_in":3600,"token_type":"Bearer"}}',
        f"https://app.acme.io/cb#access_token={s}&state=1",
    ]


@kind
def uuid_key(rng: random.Random) -> tuple[str, list[str]]:
    h = run(rng, HEX, 32)
    s = f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"
    return s, [f"HEROKU_API_KEY={s}", f'client_secret: "{s}"', f"the api key is {s}"]


@kind
def spoken_password(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"I changed the router password to {s} yesterday",
        f"pw: {s}",
        f"you can unlock the zip with {s} (that's the password)",
    ]


@kind
def german_password(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [f"Passwort: {s}", f"das Kennwort ist {s}", f"la contraseña es {s}"]


@kind
def sudo_pipe(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"echo {s} | sudo -S apt-get update",
        f"printf '{s}\\n' | docker login --username ci --password-stdin",
        f"echo 'backup:{s}' | chpasswd",
    ]


@kind
def sql_user(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"CREATE USER 'app'@'%' IDENTIFIED BY '{s}';",
        f"ALTER ROLE app WITH LOGIN PASSWORD '{s}';",
        f"create user app password = '{s}';",
    ]


@kind
def redis_conf(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM, 24)
    return s, [f"requirepass {s}", f"AUTH {s}", f"redis-cli -h cache -a '{s}' info"]


@kind
def openssl_password(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"openssl enc -d -aes-256-cbc -in a.enc -k {s}",
        f"openssl pkcs12 -in c.p12 -passin pass:{s} -nodes",
        f"7z x backup.7z -p{s}",
    ]


@kind
def powershell_secure(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f'$pw = ConvertTo-SecureString "{s}" -AsPlainText -Force',
        f"$env:SQL_PASSWORD = '{s}'",
        f"New-LocalUser svc -Password {s}",
    ]


@kind
def csv_export(rng: random.Random) -> tuple[str, list[str]]:
    s = human(rng)
    return s, [
        f"url,username,password\nhttps://acme.io,ann,{s}",
        f"Username: ann\nPassword:\n{s}\n",
        f"| user | password |\n|---|---|\n| ann | {s} |",
    ]


@kind
def commented_secret(rng: random.Random) -> tuple[str, list[str]]:
    s = run(rng, ALNUM, 28)
    return s, [f"# old key: {s}", f"// TODO rotate {s}", f"# token was {s} until May"]


def cases(seed: int = 7) -> Iterator[tuple[str, str, str]]:
    """Every kind in its three contexts, between two lines of ordinary talk: `(kind, text, secret)`."""
    rng = random.Random(seed)
    for name, maker in KINDS.items():
        for number in range(3):
            secret, texts = maker(rng)
            before = rng.choice(["hm, still failing.\n", "Let me check that.\n", "", "ok here goes\n"])
            after = rng.choice(["\nany idea?", "\n\nThanks!", "", "\nand then run the tests"])
            yield name, before + texts[number] + after, secret


def survives(secret: str, text: str) -> bool:
    """Whether a ten-character piece of the secret (all of it, where it is shorter) stands in the text."""
    if len(secret) < 10:
        return secret in text
    return any(secret[i : i + 10] in text for i in range(len(secret) - 9))
