"""Secrets that programs are given and print, and that files wrap; what such files say of keys, ids and references."""

from __future__ import annotations

import base64
import random

import pytest
from masking import by_class, check_gone

from engram.redaction import redact
from tests.each_case import each_case

_random = random.Random(23)


def hexed(size: int) -> str:
    return _random.randbytes(size).hex()


def b64(size: int) -> str:
    return base64.b64encode(_random.randbytes(size)).decode()


def mixed(size: int) -> str:
    return "".join(_random.choice("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(size))


def uuid() -> str:
    return f"{hexed(4)}-{hexed(2)}-4{hexed(2)[:3]}-a{hexed(2)[:3]}-{hexed(6)}"


FINGERPRINT = hexed(20).upper()
SPACED = " ".join(FINGERPRINT[at : at + 4] for at in range(0, 40, 4))

#: Class → texts with the secret in each.
SECRETS: dict[str, list[tuple[str, str]]] = {
    "entries of secrets in manifests": [
        (
            "kind: Secret\nmetadata:\n  name: db\nstringData:\n  admin: heron-pail-44\n  host: db.internal",
            "heron-pail-44",
        ),
        ("stringData:\n  host: db.internal\n  admin: 'Heron!Pail'\n", "Heron!Pail"),
        ("kind: Secret\ndata:\n  admin: SDNyb24h\n", "SDNyb24h"),
        ("kind: Secret\nstringData: {host: db.internal, admin: heron-pail-44}\n", "heron-pail-44"),
        ("kind: Secret\ndata: {\n  admin: 'SDNyb24h',\n}\n", "SDNyb24h"),
        ('{"kind":"Secret","stringData":{"admin":"Heron!Pail"}}', "Heron!Pail"),
        ('{\n  "data": {\n    "admin": "SDNyb24h"\n  },\n  "kind": "Secret"\n}', "SDNyb24h"),
        ("kind: List\nitems:\n  - kind: Secret\n    stringData:\n      root: heron-Pail4\n", "heron-Pail4"),
    ],
    "settings with digits for letters": [
        ("nexusUser=ci\nnexusPassword=h33ron.Pail\n", "h33ron.Pail"),
    ],
    "lists of arguments": [
        ('command: ["redis-server", "--requirepass", "Heron-Pail-6"]', "Heron-Pail-6"),
        ("subprocess.run(['mysqladmin', '--password', 'brookstone77', 'status'])", "brookstone77"),
        ('"args": ["-y", "acme-mcp", "--api-key", "k3v9q2x7m4w8z1p6"]', "k3v9q2x7m4w8z1p6"),
        ('ENTRYPOINT ["relay", "--auth-token", "q7mallow2Fen9"]', "q7mallow2Fen9"),
        ('new ProcessBuilder("keytool", "-list", "-storepass", "oldbarn7")', "oldbarn7"),
        ('Command::new("psql").arg("--password").arg("Latch_gate4")', "Latch_gate4"),
        ("args:\n  - --requirepass\n  - Larchfield44\n  - --port", "Larchfield44"),
        ('args:\n  - "--admin-password"\n  - "Larchfield44"\n', "Larchfield44"),
        ('["mysql", "-u", "root", "-pHeron_Pail6"]', "Heron_Pail6"),
        ('exec.Command("sshpass", "-p", "Larch!field4", "ssh", host)', "Larch!field4"),
    ],
    "given to a program and traced": [
        ("printf '%s' 'six brown otters wait' | cryptsetup luksOpen /dev/sdb2 cold --key-file -", "otters"),
        ('printf "%s\\n" "oldbarn7 gate" | docker login -u ci --password-stdin', "oldbarn7"),
        ('network={\n\tssid="Barn"\n\tpsk="siebenGabelstapler!"\n}', "Gabelstapler"),
        ('write(5, "AUTH pylon-Magpie-60\\r\\n", 23) = 23', "Magpie"),
    ],
    "read from a pipe": [
        (f"echo 'oldbarn7' | {receiver}", "oldbarn7")
        for receiver in (
            "sudo -Sk ls",
            "sudo -u root --stdin ls",
            "npx vercel env add DB_PASS production",
            "openssl pkcs12 -export -passout stdin -in a.pem",
            "sudo tee /run/app/db_password",
            "kubectl create secret generic db --from-file=password=/dev/stdin",
            "aws secretsmanager put-secret-value --secret-id x --secret-string file:///dev/stdin",
            "gcloud secrets versions add db --data-file=-",
            "sshpass ssh me@host",
            "ssh-add -",
            "htpasswd -n -i me",
            "glab auth login --stdin",
        )
    ]
    + [
        (f"{receiver} <<< 'oldbarn7'", "oldbarn7")
        for receiver in (
            "docker login -u ci --password-stdin",
            "keyring set mail me",
            "kinit me",
            "kpasswd me",
            "ldappasswd -S -T /dev/stdin",
            "mosquitto_passwd -c a.txt me",
            "pass insert -e mail",
            "npx wrangler secret put DB_PASS",
            "vercel env add DB_PASS production",
            "hdiutil attach a.dmg -stdinpass",
            "openconnect -u me --passwd-on-stdin vpn",
        )
    ],
    "words that begin like what is said of a password": [
        ("password: unicorn", "unicorn"),
        ("PASSWORD_HEADER = 'Correct-Horse-Battery-Staple'", "Correct-Horse"),
    ],
    "by their place among arguments": [
        ("xfreerdp /u:me /p:oldbarn7 /v:pc", "oldbarn7"),
        ("wlfreerdp /v:pc /p:'oldbarn7' /u:me", "oldbarn7"),
        ("schtasks /create /tn a /tr b.exe /ru me /rp oldbarn7", "oldbarn7"),
        ("rar a -hpoldbarn7 a.rar d", "oldbarn7"),
        ("security unlock-keychain -p oldbarn7 login.keychain", "oldbarn7"),
        ("veracrypt -t -p oldbarn7 a.hc /mnt", "oldbarn7"),
        ("samba-tool user create me oldbarn7", "oldbarn7"),
        ("bw login me@pier.dev oldbarn7", "oldbarn7"),
        ("qpdf --encrypt oldbarn7 newbarn8 256 -- a.pdf b.pdf", "oldbarn7"),
        ("qpdf --encrypt oldbarn7 newbarn8 256 -- a.pdf b.pdf", "newbarn8"),
        ("useradd -p $(openssl passwd -6 -salt x oldbarn7) me", "oldbarn7"),
        ("ansible-vault encrypt_string --vault-id dev@ask 'oldbarn7' --name db", "oldbarn7"),
        ("db2 connect to pier user me using oldbarn7", "oldbarn7"),
        ("netsh wlan set profileparameter name=pier keyMaterial=oldbarn7", "oldbarn7"),
        ("rsync --password-file=<(echo oldbarn7) a b", "oldbarn7"),
    ],
    "options that end in pass": [
        ("keytool -importkeystore -srckeystore a.jks -srcstorepass oldbarn1x -destkeystore b", "oldbarn1x"),
        ("keytool -genkey -alias x -srckeypass lowbarn -destkeypass highbarn", "highbarn"),
        ("keytool -storepasswd -new Hayrick55 -keystore k.jks", "Hayrick55"),
        ("java -Djavax.net.ssl.trustStorePassword=hayloft -jar a.jar", "hayloft"),
        ("redis-server --requirepass hayloft88 --port 6380", "hayloft88"),
        ("nuget sources add -Name a -UserName ci -Password hayloft88", "hayloft88"),
    ],
    "elements of XML": [
        ("<passphrase>six brown otters waiting</passphrase>", "otters"),
        ("<privateKeyPassphrase>\n  six brown otters waiting\n</privateKeyPassphrase>", "otters"),
        ("<passphrase><![CDATA[six brown otters waiting]]></passphrase>", "otters"),
        ("<password><![CDATA[Otter<&>9pail]]></password>", "9pail"),
        ('<property name="passphrase">six brown otters waiting</property>', "otters"),
        ('<entry key="ssh.passphrase">slow green barge noon</entry>', "barge"),
        ("<wallet:mnemonic>lunar bishop crate olive tunnel maple</wallet:mnemonic>", "bishop"),
        ("<password>Qu&amp;rry7Lantern</password>", "rry7Lantern"),
        ('<wsse:Password Type="x#PasswordText">heronpail9</wsse:Password>', "heronpail9"),
    ],
    "wrapped literals": [
        ('var hmacKey = []byte("9g!heron-under-the-mill-448")', "heron-under"),
        ("var signingKey = []byte(`heron-under-mill-448`)", "heron-under"),
        ("const secret = Buffer.from('heron-under-mill-448', 'utf8')", "heron-under"),
        ("COOKIE_SECRET = bytes('heron-under-mill-448', 'utf-8')", "heron-under"),
        ('const encryptionKey = new TextEncoder().encode("heron-under-mill-448")', "heron-under"),
        ('let jwtSecret = Data("heron-under-mill-448".utf8)', "heron-under"),
        ('String password = new String("Heron_Pail6");', "Heron_Pail6"),
        ('let password = String::from("Heron_Pail6");', "Heron_Pail6"),
        ('password: SecretStr = SecretStr("Heron_Pail6")', "Heron_Pail6"),
        ('Password: pointer.String("Heron_Pail6"),', "Heron_Pail6"),
        ('password = std::string("Heron_Pail6");', "Heron_Pail6"),
        ("APP_SECRET = bytes.fromhex('9c1f77a2b4d05e6683fa')", "9c1f77a2b4d05e6683fa"),
    ],
    "calls that take a key": [
        ("crypto.createHmac('sha256', 'heron-under-mill-448')", "heron-under"),
        ('jwt.encode(payload, "heron-under-mill-448", algorithm="HS256")', "heron-under"),
        ('h = hmac.new(b"heron-under-mill-448", body, hashlib.sha256)', "heron-under"),
        ('hmac.New(sha256.New, []byte("heron-under-mill-448"))', "heron-under"),
        ("SELECT pgp_sym_decrypt(body, 'heronpail9') FROM m", "heronpail9"),
    ],
    "codes that unlock": [
        ("PIV PIN: 740211\nPIV PUK: 51206914", "51206914"),
        ("Die PUK lautet 51206914.", "51206914"),
        ("PUK-Code: 51206914", "51206914"),
        ("le code PUK est 51206914", "51206914"),
        ("puk code is 40771265", "40771265"),
        ("the unlock code is 51206914", "51206914"),
        ("BitLocker: 111222-333444-555666-177188-199200-211222-233244-255266", "199200"),
        ("manage-bde -unlock D: -rp 111222-333444-555666-177188-199200-211222-233244-255266", "199200"),
    ],
    "stores of secrets": [
        ('aws ssm put-parameter --name /db/pw --value "Heron_Pail6" --type SecureString', "Heron_Pail6"),
        ("aws secretsmanager create-secret --name db --secret-string 'Heron_Pail6'", "Heron_Pail6"),
        ("az keyvault secret set --vault-name kv --name dbpw --value Heron_Pail6", "Heron_Pail6"),
        ('gh secret set DEPLOY_PW --body "heronpail9"', "heronpail9"),
        ("fly secrets set SESSION_SALT=heronpail9 --app x", "heronpail9"),
        ("flyctl secrets set MODE=fast B=heronpail9 --app x", "heronpail9"),
        ('doppler secrets set HOST="a" SALT="heronpail9"', "heronpail9"),
        ("fly secrets set SALT='heron;pail|9'", "heron;pail|9"),
        ('fly secrets set MODE="a&b" SALT="heron&<pail9"', "heron&<pail9"),
        ("fly secrets set \\\n  MODE=fast \\\n  SALT=heronpail9", "heronpail9"),
        ("fly secrets set -a web SALT=heronpail9", "heronpail9"),
        ("doppler secrets set SALT heronpail9 --project x", "heronpail9"),
        ("vercel secrets add salt heronpail9", "heronpail9"),
        ("bws secret create SALT heronpail9", "heronpail9"),
        ("eas secret:create --scope project --name SALT --value heronpail9", "heronpail9"),
        ("firebase functions:secrets:set SALT <<< heronpail9", "heronpail9"),
        ("chamber write app SALT heronpail9", "heronpail9"),
        ("netlify env:set SALT HeronPail99", "HeronPail99"),
        ("npx convex env set SALT HeronPail99", "HeronPail99"),
        ("glab variable set SALT HeronPail99", "HeronPail99"),
        ('dotnet user-secrets set "Smtp:Password" "heronpail9"', "heronpail9"),
        ("poetry config http-basic.acme ci heronpail9", "heronpail9"),
        ("bundle config set gems.acme.io ci:heronpail9", "heronpail9"),
        ("pulumi config set --secret dbPassword heronpail9", "heronpail9"),
        ("setx DB_PASSWORD heronpail9", "heronpail9"),
        ("set -gx DB_PASSWORD heronpail9", "heronpail9"),
    ],
    "what commands print": [
        ("$ pass show servers/db1\nheronpail9\n", "heronpail9"),
        ("user@host:~$ cat /run/secrets/db_password\nheronpail9\n", "heronpail9"),
        ("% heroku config:get SMTP_PASSWORD\nheronpail9\n", "heronpail9"),
        ("$ terraform output -raw db_password\nheronpail9%", "heronpail9"),
        ("❯ security find-generic-password -s db -w\nheronpail9\n", "heronpail9"),
        ('$ kubectl get secret db -o jsonpath="{.data.password}" | base64 -d\nheronpail9\n', "heronpail9"),
        ("$ gcloud secrets versions access latest --secret=db\nheronpail9", "heronpail9"),
        ("Key         Value\n---         -----\npassword    heronpail9\nusername    ci", "heronpail9"),
    ],
    "dialogues": [
        ('Content-Disposition: form-data; name="password"\r\n\r\nheronpail9\r\n--b', "heronpail9"),
        ("USER ci\n331 Please specify the password.\nPASS heronpail9\n230 ok", "heronpail9"),
        ("C: a1 LOGIN ci@x.io heronpail9\nS: a1 OK", "heronpail9"),
    ],
    "statements": [
        ("SET PASSWORD FOR 'app'@'%' = PASSWORD('heronpail');", "heronpail"),
        ("CREATE LOGIN app WITH PASSWORD = N'heronpail';", "heronpail"),
        ("ALTER CURRENT USER SET PASSWORD FROM 'heronpail' TO 'millrace9'", "heronpail"),
        ("ALTER USER app IDENTIFIED BY heronpail9;", "heronpail9"),
        ("ACL SETUSER app on >heronpail9 ~* +@all", "heronpail9"),
        (f"ALTER ROLE app PASSWORD 'SCRAM-SHA-256$4096:{b64(16)}${(key := b64(32))}:{b64(32)}'", key),
    ],
    "networks and hosts": [
        ("WPA2 key: heronpail9", "heronpail9"),
        ("db1 ansible_user=ci ansible_ssh_pass=heronpail", "heronpail"),
        ("machine repo.acme.io\n  login robot\n  password amber.Sloop-4471", "Sloop-4471"),
    ],
    "prose": [
        ("Benutzer ci, PW heronpail9", "heronpail9"),
        ("Zugangsdaten: ci / heronpail99", "heronpail99"),
        ("identifiants : ci / heronpail99", "heronpail99"),
        ("Зайди под root, пароль там Sosna-Les42, посмотри", "Sosna-Les42"),
    ],
}
#: Class → texts that stay as they are.
LOOK_ALIKES: dict[str, list[str]] = {
    "commands without a secret": [
        "ansible-vault encrypt_string --stdin-name db_password",
        "doppler secrets set SALT --project web2 --config dev2",
        'gh secret set SALT --body "$SALT2"',
        "bws secret create SALT $SALT2",
        "supabase secrets set --env-file .env.v2",
        "heroku config:set WEB_CONCURRENCY=4 TZ=Europe/Berlin URL=https://App1.example.com/Login",
        "netlify env:set NODE_VERSION 18.17.0",
        "gh variable set NODE_VERSION --body 20.11.1",
        "npx convex env set SITE_URL http://localhost:3000",
        "fly secrets set -a web LOG_LEVEL=debug",
        "the secret set in production2 is old, and the secret added on my-app-v2 too",
        "the secret put on my-app-v2 is old",
        "# instead of a kind: Secret\nkind: ConfigMap\ndata:\n  mode: sha256sum1\n",
        "kind: SecretProviderClass\ndata:\n  objectName: my-object-22\n",
        "the secret set in step 2b, and variables set by terraform1, are read later",
        "xfreerdp /v:pc /u:me /size:1920x1080",
        "security find-identity -v -p codesigning",
        "wc -c <<< hayloft88",
        "openssl passwd -6",
        "cat <<< 'oldbarn7' | sha256sum",
        "kinit me <<< $NEW_PASSWORD",
        "read -r su rest <<< 'alpha beta'",
        "age --encrypt -r age1xyz99 secrets.yaml",
    ],
    "names of headers, and what is said of a password": [
        "AUTH_TOKEN_HEADER = 'X-Auth-Token'",
        'TOKEN_HEADER = "Authorization"',
        "la password è obbligatoria",
        "la clave es única",
    ],
    "text that a program reads from a pipe": [
        "echo 'net.ipv4.ip_forward=1' | sudo tee -a /etc/sysctl.conf",
        "echo 'select count(*) from boats' | docker exec -i db psql -U app",
        "printf '%s\\n' 'Weigh the boat again' | gh pr comment 12 -F -",
        "echo 'boat and pier' | openssl dgst -sha256",
        "echo 'boat and pier' | gpg --clearsign",
        "echo 'Boat7 and pier' | sudo -E pacman -S boats",
        "echo 'Boat7 and pier' | tee src/tokenizer.py",
        "echo 'Boat7 and pier' | grep -i secret",
        "echo 'Boat7 and pier' | sort --key 2 -",
        "echo 'Boat7 and pier' | pulumi config set name",
    ],
    "lists of arguments": [
        'subprocess.run(["mysqladmin", "--password", password])',
        '["--password-file", "/run/secrets/db"]',
        '["relay", "--token", "$RELAY_TOKEN"]',
        'parser.add_argument("--password", "-p", help="password of the user")',
        '@click.option("--api-key", "api_key2")',
        '["docker", "build", "--secret", "id=npm1,src=.npmrc"]',
        "args:\n  - --token\n  - $(TOKEN)\n",
        'options = ["--token", "--password", "--user2"]',
        'assert args == ["--token", "<redacted>"]',
    ],
    "options that end in pass": [
        "keytool -list -srcstorepass:env SRC_PASS9",
        "use -bypass level2x when stuck",
        "gcc --multipass x86build2",
        "-Dpassword.file=/x/y2",
    ],
    "elements of XML": [
        "<passphrase>Enter your passphrase here</passphrase>",
        '<string name="password">Choose a new password</string>',
        "<passphrase>${env.SIGN_PASSPHRASE}</passphrase>",
        '<token type="keyword">return value of call</token>',
        '<option value="password">Password and one-time code</option>',
        f'<pin digest="SHA-256">{b64(32)}</pin>',
        "<passphrase/><server>x</server>",
    ],
    "wrapped literals": [
        'password := []byte(os.Getenv("DB_PASSWORD"))',
        "const key = Buffer.from(process.env.KEY9, 'hex')",
        'SECRET_KEY = os.environ["SECRET_KEY9"].encode()',
        'key = []byte("index_v2")',
        'cacheKey := []byte("session:v2:")',
        'const tokenKey = Buffer.from("auth_token")',
        'signingKey = "release-signing-2024"',
        'token: Some("ident1".to_string())',
        "crypto.createHmac('sha256', secret2)",
        'hmac.new(key, b"message1", hashlib.sha256)',
        "jwt.verify(token, publicKey, {algorithms: ['RS256']})",
    ],
    "codes that unlock": [
        "PUK tries remaining: 3",
        "Das PUK-Feld ist 8-stellig",
        "order 123456-789012-345678",
        "206140-400312-591492-511654-414601-480601-655039 are seven groups",
    ],
    "what commands print": [
        "$ cat password_reset.md\nresetting2now\n",
        "$ cat src/token.py\nimport2x\n",
        "$ echo $TOKEN | base64 -d\nbase64: invalid\n",
        "password   varchar255\n",
        "  token            string2 \n",
    ],
    "statements": ["import password from './env2'", 'const pw = await password("Enter2 it")'],
    "names of columns": [
        'range_key = "tenant#created_at"',
        'hash_key = "pk"',
        '"lookup_key": "acme#user#email"',
        'rangeKey: "createdAt#eventId"',
        'composite_key = "region:store:sku"',
        'sort_key: "GSI1SK#v2"',
    ],
    "references": [
        "existingSecret: loki-basic2",
        'existingSecret: "db-main-1"',
        "auth:\n  existingSecret: redis-auth9\n  existingSecretPasswordKey: redis-password1",
        "- secretKey: db_password1\n  remoteRef:\n    key: prod/db1",
        "credentialsSecret: backup-s3-1",
        'password_secret = "prod/db/main1"',
        "pullSecret: regcred1",
        "environment:\n  TOKEN:\n    from_secret: gh_token1",
        "kubernetes.io/service-account-token: default-token-x7k2q",
        "certificate_secret: ingress-tls1",
    ],
    "fingerprints of OpenPGP": [
        f"pub   nistp256 2023-06-01 [SC]\n      {FINGERPRINT}",
        f"sec   rsa4096 2021-03-01 [SC]\n      {FINGERPRINT}\nuid           [ultimate] A <a@x.io>",
        f"pub   rsa4096 2021-03-01 [SC]\n      Key fingerprint = {SPACED[:24]}  {SPACED[25:]}\n",
        f"gpg: using EDDSA key {FINGERPRINT}",
        f"pub:u:255:22:{FINGERPRINT[-16:]}:1685577600:::u:::scESC:\nfpr:::::::::{FINGERPRINT}:",
        f"git config --global user.signingkey {FINGERPRINT}",
        f"gpg --export-secret-keys -a {FINGERPRINT} > k.asc",
        f"creation_rules:\n  - pgp: {FINGERPRINT}",
        f"apt-key adv --keyserver k.x.io --recv-keys 0x{FINGERPRINT}",
        f"validpgpkeys=('{FINGERPRINT}')",
        f"Key fingerprint = {FINGERPRINT}",
    ],
    "ids": [
        f'{{"msg":"token refreshed","user_id":"{uuid()}"}}',
        f'{{"event":"password reset","account_id": "{uuid()}"}}',
        f'"user-id": "{uuid()}"',
        f"credential_id: {uuid()}",
        f'"organization_id":"{hexed(12)}","msg":"secret rotated"',
        f'zone_id = "{hexed(16)}"',
        f"CLOUDFLARE_ACCOUNT_ID={hexed(16)}",
        "auth_method: k8s-prod1",
        '"user_name": "alice_01"',
    ],
    "headers": [
        f"< cf-ray: {hexed(8)}-AMS",
        f"x-amz-cf-id: {mixed(50)}==",
        f"x-amz-id-2: {b64(56)}",
        f"b3: {hexed(16)}-{hexed(8)}-1",
        f"x-correlation-id: {hexed(16)}",
        f"x-guploader-uploadid: {mixed(70)}",
        f"x-azure-ref: 0{mixed(60)}==",
        f"content-security-policy: script-src 'nonce-{mixed(22)}=='",
        f"code_challenge={mixed(43)}&code_challenge_method=S256",
    ],
    "encrypted values": [
        f"password: ENC[AES256_GCM,data:{b64(12)},iv:{b64(32)},tag:{b64(16)},type:str]",
        f"password: ENC[PKCS7,{b64(120)}]",
        f"db_password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  {hexed(40)}\n  {hexed(40)}",
        f"encryptedData:\n  password: AgB{b64(200)}",
        f'- secure: "{b64(200)}"',
    ],
    "digests in lists": [
        f"SPEC CHECKSUMS:\n  KeychainAccess: {hexed(20)}\n  AuthKit: {hexed(20)}",
        f"  jwt-auth (2.1.0) sha256={hexed(32)}",
        f'"jwt": {{:hex, :jwt, "1.2.0", "{hexed(32)}", [:mix], [], "hexpm", "{hexed(32)}"}},',
        f"sha256sums=('{hexed(32)}'\n            '{hexed(32)}')",
        f'  hashes = [\n    "zh:{hexed(32)}",\n  ]',
        f"secret-scanner-1.2.tgz: {hexed(32)}",
        f'.add("api.acme.io", "sha256/{b64(32)}")',
        f"Serial Number: {hexed(16)}",
    ],
    "public addresses": [
        f"/ipfs/baf{'y'}bei{'q5zl2x7k3m' * 5}{'a2'}",
        f"price_1{mixed(23)}",
        f"https://docs.google.com/document/d/1{mixed(43)}/edit",
        f"https://www.figma.com/file/{mixed(22)}/Login-Page",
        f'data-sitekey="6L{mixed(38)}"',
        f"123456789012-{hexed(16)}.apps.googleusercontent.com",
    ],
}
#: Private values that stand where public ones do: text and secret.
PRIVATE = [
    (f"gpg --batch --passphrase {(key := hexed(20))} -c f", key),
    (f"signing_key = '{(key := hexed(20))}'", key),
    (f'{{"user_id":"{uuid()}","token":"{(key := hexed(16))}"}}', key),
    (f"x-request-id: {hexed(16)}\nx-api-key: {(key := hexed(16))}", key),
    (f"password: ENC[PKCS7,abc]\ntoken: {(key := hexed(20))}", key),
    ("existingSecret: k3V9q2X7m4W8z1P6b5N0", "k3V9q2X7m4W8z1P6b5N0"),
    (f"sha256sums=('{hexed(32)}')\napi_key='{(key := hexed(32))}'", key),
]


@each_case(("text", "secret"), by_class(SECRETS))
def test_what_programs_are_given_or_print_goes(text: str, secret: str) -> None:
    check_gone(text, secret)


@each_case("text", by_class(LOOK_ALIKES))
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(("text", "secret"), PRIVATE, ids=range(len(PRIVATE)))
def test_what_is_private_goes_where_public_values_stand(text: str, secret: str) -> None:
    assert secret not in redact(text)


@each_case(
    "text",
    [
        "kind: List\nitems:\n- kind: ConfigMap\n  data:\n    zone: Prod2East9x\n- kind: Secret\n  data: {}\n",
        "items:\n- data:\n    zone: Prod2East9x\n  kind: ConfigMap\n- data: {}\n  kind: Secret\nkind: List\n",
        "kind: ConfigMap\n# not kind: Secret\ndata:\n  zone: Prod2East9x\n",
        '{"items":[{"data":{"zone":"Prod2East9x"},"kind":"ConfigMap"},{"data":{"a":""},"kind":"Secret"}]}',
        '{"kind": "Secret", "data": {}}, {"kind": "ConfigMap", "data": {"zone": "Prod2East9x"}}',
        "kind: SecretStore\nspec:\n  data:\n    zone: Prod2East9x\n",
        "The secret set in Production2 is old.",
        "A secret set by Terraform0.14 is fine.",
    ],
)
def test_data_of_another_kind_and_prose_are_no_secrets(text: str) -> None:
    assert redact(text) == text


def test_every_part_of_a_list_of_manifests_is_judged_by_its_own_kind() -> None:
    secret = "- data:\n    cfg: Zk39dkfLq2Xx8u\n  kind: Secret\n"
    config = "- data:\n    zone: Prod2East9x\n  kind: ConfigMap\n"

    masked = redact(f"items:\n{config}{secret}{config}kind: List\n")

    assert "Zk39dkfLq2Xx8u" not in masked
    assert masked.count("Prod2East9x") == 2


def test_a_value_with_an_ampersand_hides_no_later_value_and_an_option_takes_no_name() -> None:
    assert redact('fly secrets set CFG="ab&cd;ef9Kx2" B=Xk29dlZq0') == (
        'fly secrets set CFG="[secret:password]" B=[secret:password]'
    )
    assert redact("fly secrets set -a app DB_PASS=Zk39dkfLq2Xx").endswith("DB_PASS=[secret:password]")
