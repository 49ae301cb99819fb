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

Maker = Callable[[random.Random], str]


def run(rng: random.Random, alphabet: str, length: int) -> str:
    """That many characters of the alphabet, drawn by chance."""
    return "".join(rng.choice(alphabet) for _ in range(length))


def human(rng: random.Random) -> str:
    """A password as people make them: a word, a year, a sign."""
    word = rng.choice(["Tulpe", "Wombat", "Harbor", "Pickle", "Saturn", "Velvet", "Maple", "Cobalt"])
    other = rng.choice(["river", "stone", "Flag", "Moon", "tiger"])
    return f"{word}{other}{rng.randrange(10, 2030)}{rng.choice('!#$%&')}"


def drawn(alphabet: str, length: int) -> Maker:
    return lambda rng: run(rng, alphabet, length)


WALLET_WORDS = (
    "zebra wolf virus velvet urban tulip turkey trophy tenant "
    "swallow sunset spirit snake silent rifle quantum puzzle pottery"
).split()


def _putty_key(rng: random.Random) -> str:
    raw = base64.b64encode(rng.randbytes(190)).decode()
    return "\n".join(raw[i : i + 64] for i in range(0, len(raw), 64))


def _mapbox_secret(rng: random.Random) -> str:
    body = (
        base64.urlsafe_b64encode(json.dumps({"u": "acme", "a": run(rng, LOWER + DIGITS, 25)}).encode())
        .decode()
        .rstrip("=")
    )
    return f"sk.{body}.{run(rng, URLSAFE, 22)}"


def _uuid_key(rng: random.Random) -> str:
    h = run(rng, HEX, 32)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


#: What makes a secret of a kind, and the three texts it stands in, as {}.
KINDS: dict[str, tuple[Maker, str, str, str]] = {
    "pgpass_line": (
        drawn(ALNUM, 15),
        "cat ~/.pgpass\ndb.internal:5432:orders:reporting:{}",
        "*:*:*:postgres:{}",
        "I put localhost:6432:app:svc:{} in my .pgpass",
    ),
    "gpg_passphrase": (
        human,
        "gpg --batch --pinentry-mode loopback --passphrase {} -d dump.gpg",
        "gpg --passphrase='{}' --symmetric notes.txt",
        "the gpg passphrase for the release key is {}",
    ),
    "root_slash_password": (
        human,
        "ssh in with root / {} and look at the journal",
        "log in as deploy with {}, then restart it",
        "credentials: operator / {}",
    ),
    "wifi_psk": (
        human,
        'network={\n  ssid="lab"\n  psk="{}"\n}',
        "nmcli dev wifi connect lab password {}",
        "WIFI:T:WPA;S:lab;P:{};;",
    ),
    "totp_seed": (
        drawn(BASE32, 32),
        "otpauth://totp/Acme:dev@acme.io?secret={}&issuer=Acme",
        "oathtool --totp -b {}",
        "my authenticator setup key: {}",
    ),
    "htpasswd_hash": (
        lambda rng: "$apr1$" + run(rng, ALNUM, 8) + "$" + run(rng, ALNUM + "./", 22),
        "admin:{}",
        "basicauth: 'admin:{}'",
        "the htpasswd line has {} in it",
    ),
    "shadow_hash": (
        lambda rng: "$6$" + run(rng, ALNUM, 16) + "$" + run(rng, ALNUM + "./", 86),
        "root:{}:19000:0:99999:7:::",
        "passwd_hash = '{}'",
        "usermod -p '{}' backup",
    ),
    "bcrypt_hash": (
        lambda rng: "$2b$12$" + run(rng, ALNUM + "./", 53),
        "INSERT INTO users VALUES (1, 'ann', '{}');",
        "ADMIN_HASH={}",
        "it prints {}",
    ),
    "sqlserver_string": (
        human,
        '"DefaultConnection": "Server=tcp:acme.database.windows.net,1433;Database=shop;'
        'User ID=sa;Password={};Encrypt=True"',
        "use Server=tcp:acme.database.windows.net,1433;Database=shop;User ID=sa;Password={};Encrypt=True for now",
        "sqlcmd -S acme -U sa -P {}",
    ),
    "service_bus_string": (
        lambda rng: base64.b64encode(rng.randbytes(32)).decode(),
        "SB_CONN=Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}",
        'ServiceBusClient("Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}")',
        "the shared access key is {}",
    ),
    "azure_sas": (
        lambda rng: run(rng, ALNUM, 40) + "%3D",
        "https://acme.blob.core.windows.net/in?sv=2022-11-02&se=2027-01-01&sr=c&sp=rl&sig={}",
        'AZURE_SAS="?sv=2021-06-08&ss=b&sig={}"',
        "azcopy copy ./a 'https://acme.blob.core.windows.net/x?sp=w&sig={}'",
    ),
    "presigned_s3": (
        drawn(HEX, 64),
        "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={}",
        "curl -o f 'https://b.s3.eu-west-1.amazonaws.com/f.tar?X-Amz-Expires=900&X-Amz-Signature={}'",
        "download link: https://b.s3.amazonaws.com/r.csv?X-Amz-Date=20260101T000000Z&X-Amz-Signature={}",
    ),
    "docker_auth_config": (
        lambda rng: base64.b64encode(f"acme:{run(rng, ALNUM, 20)}".encode()).decode(),
        '{\n  "auths": {\n    "https://index.docker.io/v1/": {\n      "auth": "{}"\n    }\n  }\n}',
        '{"auths":{"ghcr.io":{"auth":"{}"}}}',
        ".dockerconfigjson auth: {}",
    ),
    "kubeconfig_key": (
        lambda rng: base64.b64encode(b"-----BEGIN RSA PRIVATE KEY-----\n" + rng.randbytes(300)).decode(),
        "    client-key-data: {}",
        '"client-key-data":"{}"',
        "users:\n- name: a\n  user:\n    client-key-data: {}",
    ),
    "kubernetes_secret": (
        lambda rng: base64.b64encode(human(rng).encode()).decode(),
        "apiVersion: v1\nkind: Secret\ndata:\n  password: {}",
        "kind: Secret\nmetadata:\n  name: db\ndata:\n  db-password: {}\n",
        'kubectl patch secret db -p \'{"data":{"password":"{}"}}\'',
    ),
    "helm_set": (
        human,
        "helm upgrade db bitnami/postgresql --set auth.postgresPassword={}",
        "kubectl create secret generic db --from-literal=password={}",
        "docker run -e POSTGRES_PASSWORD={} -p 5432:5432 postgres:16",
    ),
    "compose_environment": (
        human,
        "    environment:\n      - MARIADB_ROOT_PASSWORD={}",
        "      RABBITMQ_DEFAULT_PASS: {}",
        '      MINIO_ROOT_PASSWORD: "{}"',
    ),
    "npmrc_password": (
        lambda rng: base64.b64encode(human(rng).encode()).decode(),
        "//npm.acme.io/:_password={}\n//npm.acme.io/:username=ci",
        "_auth={}",
        "npm config set //npm.acme.io/:_authToken {}",
    ),
    "maven_settings": (
        human,
        "<server><id>nexus</id><username>ci</username><password>{}</password></server>",
        "<passphrase>{}</passphrase>",
        '<add key="SmtpPassword" value="{}" />',
    ),
    "java_keystore": (
        human,
        "keytool -importcert -keystore k.jks -storepass {} -noprompt",
        "server.ssl.key-store-password={}",
        "    storePassword '{}'",
    ),
    "ansible_become": (
        human,
        "web1 ansible_host=10.0.0.4 ansible_user=ops ansible_become_pass={}",
        "ansible_ssh_pass: {}",
        "vault_db_password: '{}'",
    ),
    "terraform_variable": (
        human,
        'db_password = "{}"',
        "terraform apply -var 'admin_password={}'",
        "export TF_VAR_root_password={}",
    ),
    "odbc_string": (
        human,
        "Driver={ODBC Driver 18};Server=db;Uid=app;Pwd={};",
        "jdbc:postgresql://db:5432/shop?user=app&password={}",
        'cx = pyodbc.connect("DSN=wh;UID=ro;PWD={}")',
    ),
    "amqp_url": (
        drawn(ALNUM + "-_", 20),
        "CELERY_BROKER_URL=amqps://svc:{}@rabbit.acme.io:5671/prod",
        "broker is amqps://svc:{}@rabbit.acme.io:5671/prod",
        'broker_url: "amqps://svc:{}@rabbit.acme.io:5671/prod"',
    ),
    "git_remote_with_token": (
        drawn(ALNUM, 32),
        "git clone https://{}@git.acme.io/ops/infra.git",
        "git remote set-url origin https://oauth2:{}@git.acme.io/ops/infra.git",
        "origin\thttps://ci:{}@git.acme.io/ops/infra.git (push)",
    ),
    "ftp_login": (
        human,
        "curl -T a.zip ftp://ftp.acme.io --user webmaster:{}",
        "lftp -u webmaster,{} sftp://acme.io",
        "wget --ftp-user=web --ftp-password={} ftp://acme.io/a",
    ),
    "smb_mount": (
        human,
        "mount -t cifs //nas/data /mnt -o username=backup,password={},vers=3.0",
        "smbclient //nas/data -U backup%{}",
        "net use Z: \\\\nas\\data /user:backup {}",
    ),
    "ldap_bind": (human, "ldapsearch -x -D cn=admin,dc=acme -w {} -b dc=acme", "bindpw {}", "LDAP_BIND_CREDENTIALS={}"),
    "smtp_settings": (
        lambda rng: " ".join(run(rng, LOWER, 4) for _ in range(4)),
        'EMAIL_HOST_PASSWORD = "{}"',
        "gmail app password: {}",
        "smtp_pass: {}",
    ),
    "session_cookie": (
        drawn(ALNUM, 32),
        "Cookie: theme=dark; sessionid={}; lang=en",
        "curl -b 'PHPSESSID={}' https://acme.io/admin",
        "set-cookie: connect.sid=s%3A{}; Path=/; HttpOnly",
    ),
    "custom_header": (
        drawn(URLSAFE, 30),
        "curl -H 'X-Acme-Auth: {}' https://api.acme.io",
        'fetch(u, { headers: { "Ocp-Apim-Subscription-Key": "{}" } })',
        "X-Vault-Token: {}",
    ),
    "digest_authorization": (
        drawn(HEX, 32),
        "Authorization: Token token={}",
        "Authorization: GenieKey {}",
        'headers["Authorization"] = "ApiKey {}"',
    ),
    "flask_secret": (
        drawn(HEX, 48),
        "app.secret_key = '{}'",
        "app.config['SECRET_KEY'] = \"{}\"",
        "SECRET_KEY_BASE={}",
    ),
    "laravel_key": (
        lambda rng: base64.b64encode(rng.randbytes(32)).decode(),
        "APP_KEY=base64:{}",
        "'key' => 'base64:{}',",
        "php artisan key:generate gave base64:{}",
    ),
    "rails_master_key": (
        drawn(HEX, 32),
        "RAILS_MASTER_KEY={}",
        "echo {} > config/master.key",
        "config/master.key contains {}",
    ),
    "fernet_key": (
        lambda rng: base64.urlsafe_b64encode(rng.randbytes(32)).decode(),
        "FERNET_KEY={}",
        "Fernet(b'{}')",
        "airflow wants fernet_key = {}",
    ),
    "wireguard_key": (
        lambda rng: base64.b64encode(rng.randbytes(32)).decode(),
        "[Interface]\nPrivateKey = {}\nAddress = 10.0.0.2/32",
        "PresharedKey = {}",
        "wg genkey printed {}",
    ),
    "ethereum_private_key": (
        drawn(HEX, 64),
        "PRIVATE_KEY=0x{}",
        "new ethers.Wallet('0x{}', provider)",
        "the deployer key is 0x{}",
    ),
    "bitcoin_wif": (
        lambda rng: rng.choice("KL") + run(rng, "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 51),
        "bitcoin-cli importprivkey {}",
        "wif: {}",
        "I swept it with {} yesterday",
    ),
    "solana_bytes": (
        lambda rng: ",".join(str(rng.randrange(256)) for _ in range(64)),
        "[{}]",
        "cat id.json\n[{}]",
        "secretKey: [{}]",
    ),
    "wallet_phrase24": (
        lambda rng: " ".join(rng.choice(WALLET_WORDS) for _ in range(24)),
        "my metamask phrase: {}",
        "recovery phrase\n{}",
        'HDWalletProvider("{}", url)',
    ),
    "ssh_key_body": (
        lambda rng: base64.b64encode(b"openssh-key-v1\0" + rng.randbytes(280)).decode(),
        "SSH_PRIVATE_KEY_B64={}",
        "echo {} | base64 -d > id_ed25519",
        "the deploy key (base64): {}",
    ),
    "putty_key": (
        _putty_key,
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: ops\nPrivate-Lines: 4\n{}\nPrivate-MAC: 0",
        "Private-Lines: 4\n{}",
        "my ppk:\nPrivate-Lines: 4\n{}\n\nhow do I convert it",
    ),
    "openvpn_static": (
        lambda rng: "\n".join(run(rng, HEX, 32) for _ in range(16)),
        "<tls-auth>\n-----BEGIN OpenVPN Static key V1-----\n{}\n-----END OpenVPN Static key V1-----\n</tls-auth>",
        "ta.key:\n-----BEGIN OpenVPN Static key V1-----\n{}\n-----END OpenVPN Static key V1-----",
        "-----BEGIN OpenVPN Static key V1-----\n{}",
    ),
    "mailchimp_key": (
        lambda rng: run(rng, HEX, 32) + "-us" + str(rng.randrange(1, 22)),
        "MAILCHIMP={}",
        "my mailchimp is {}",
        'mailchimp.setConfig({ apiKey: "{}", server: "us6" })',
    ),
    "algolia_admin": (
        drawn(HEX, 32),
        'algoliasearch("BH4D9OD16A", "{}")',
        "ALGOLIA_ADMIN={}",
        "algolia admin api key is {}",
    ),
    "airtable_pat": (
        lambda rng: "pat" + run(rng, ALNUM, 14) + "." + run(rng, HEX, 64),
        "AIRTABLE={}",
        "Airtable.configure({ apiKey: '{}' })",
        "use {} for the base",
    ),
    "mapbox_secret": (_mapbox_secret, "MAPBOX={}", "mapboxgl.accessToken = '{}'", "mapbox is {} I think"),
    "facebook_token": (
        lambda rng: "EAAC" + run(rng, ALNUM, 160),
        "FB_PAGE={}",
        "graph.facebook.com/me?access_token={}",
        "page access: {}",
    ),
    "teams_webhook": (
        drawn(HEX, 32),
        "TEAMS=https://acme.webhook.office.com/webhookb2/5f0a3b6c-1111-4222-8333-444455556666@5f0a3b6c-1111-4222-8333-444455556667/IncomingWebhook/{}/5f0a3b6c-1111-4222-8333-444455556668",
        "post it to https://acme.webhook.office.com/webhookb2/5f0a3b6c-1111-4222-8333-444455556666@5f0a3b6c-1111-4222-8333-444455556667/IncomingWebhook/{}/5f0a3b6c-1111-4222-8333-444455556668",
        '"url": "https://acme.webhook.office.com/webhookb2/5f0a3b6c-1111-4222-8333-444455556666@5f0a3b6c-1111-4222-8333-444455556667/IncomingWebhook/{}/5f0a3b6c-1111-4222-8333-444455556668"',
    ),
    "discord_webhook": (
        drawn(URLSAFE, 68),
        "HOOK=https://discord.com/api/webhooks/990695848304011980/{}",
        "send builds to https://discord.com/api/webhooks/990695848304011980/{} please",
        'requests.post("https://discord.com/api/webhooks/990695848304011980/{}", json=m)',
    ),
    "sentry_dsn": (
        drawn(HEX, 32),
        "SENTRY=https://{}@o447951.ingest.sentry.io/5429219",
        'sentry_sdk.init(dsn="https://{}@o447951.ingest.sentry.io/5429219")',
        "errors go to https://{}@o447951.ingest.sentry.io/5429219",
    ),
    "one_time_code": (drawn(DIGITS, 6), "the 2fa code is {}", "Your verification code: {}", "npm publish --otp={}"),
    "backup_codes": (
        lambda rng: f"{run(rng, LOWER + DIGITS, 5)}-{run(rng, LOWER + DIGITS, 5)}",
        "recovery codes:\n{}\n",
        "backup code {} still works",
        "one of my github recovery codes is {}",
    ),
    "oauth_code_exchange": (
        drawn(URLSAFE, 43),
        "grant_type=refresh_token&client_id=web&refresh_token={}",
        '{"access_token":"{}","expires_in":3600,"token_type":"Bearer"}',
        "https://app.acme.io/cb#access_token={}&state=1",
    ),
    "uuid_key": (_uuid_key, "HEROKU_API_KEY={}", 'client_secret: "{}"', "the api key is {}"),
    "spoken_password": (
        human,
        "I changed the router password to {} yesterday",
        "pw: {}",
        "you can unlock the zip with {} (that's the password)",
    ),
    "german_password": (human, "Passwort: {}", "das Kennwort ist {}", "la contraseña es {}"),
    "sudo_pipe": (
        human,
        "echo {} | sudo -S apt-get update",
        "printf '{}\\n' | docker login --username ci --password-stdin",
        "echo 'backup:{}' | chpasswd",
    ),
    "sql_user": (
        human,
        "CREATE USER 'app'@'%' IDENTIFIED BY '{}';",
        "ALTER ROLE app WITH LOGIN PASSWORD '{}';",
        "create user app password = '{}';",
    ),
    "redis_conf": (drawn(ALNUM, 24), "requirepass {}", "AUTH {}", "redis-cli -h cache -a '{}' info"),
    "openssl_password": (
        human,
        "openssl enc -d -aes-256-cbc -in a.enc -k {}",
        "openssl pkcs12 -in c.p12 -passin pass:{} -nodes",
        "7z x backup.7z -p{}",
    ),
    "powershell_secure": (
        human,
        '$pw = ConvertTo-SecureString "{}" -AsPlainText -Force',
        "$env:SQL_PASSWORD = '{}'",
        "New-LocalUser svc -Password {}",
    ),
    "csv_export": (
        human,
        "url,username,password\nhttps://acme.io,ann,{}",
        "Username: ann\nPassword:\n{}\n",
        "| user | password |\n|---|---|\n| ann | {} |",
    ),
    "commented_secret": (drawn(ALNUM, 28), "# old key: {}", "// TODO rotate {}", "# token was {} until May"),
}


def cases(seed: int = 7) -> Iterator[tuple[str, str, str]]:
    """Every kind in its three contexts, between two lines of ordinary talk: `(kind, text, secret)`."""
    rng = random.Random(seed)
    for name, (maker, *contexts) in KINDS.items():
        for context in contexts:
            secret = maker(rng)
            before = rng.choice(["hm, still failing.\n", "Let me check that.\n", "", "ok here goes\n"])
            after = rng.choice(["\nany idea?", "\n\nThanks!", "", "\nand then run the tests"])
            yield name, before + context.replace("{}", secret) + after, secret


def survives(secret: str, text: str) -> bool:
    """Whether a ten-character piece of the secret (all of it, where it is shorter) stands in the text."""
    if len(secret) < 10:
        return secret in text
    return any(secret[i : i + 10] in text for i in range(len(secret) - 9))
