"""A second set of made-up secrets, written after the rules and after the first set; none is real.

Each kind is a template of its shape and three contexts with `{}` for the secret. In a template `a9*20` means twenty
characters drawn from a named alphabet. `cases(seed)` gives `(kind, text, secret)`.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator

ALPHABETS = {
    "A9": string.ascii_letters + string.digits,
    "a9": string.ascii_lowercase + string.digits,
    "U9": string.ascii_uppercase + string.digits,
    "hx": "0123456789abcdef",
    "HX": "0123456789ABCDEF",
    "dd": string.digits,
    "aa": string.ascii_lowercase,
    "AA": string.ascii_letters,
    "bs": string.ascii_letters + string.digits + "+/",
    "ur": string.ascii_letters + string.digits + "-_",
    "sy": string.ascii_letters + string.digits + "!#%*+=?@^~",
}
UUID = "{hx*8}-{hx*4}-4{hx*3}-a{hx*3}-{hx*12}"

#: kind → (shape, three contexts)
SHAPES: dict[str, tuple[str, tuple[str, str, str]]] = {
    "okta token": ("00{ur*40}", ("OKTA_API_TOKEN={}", "Authorization: SSWS {}", "okta gave me {} for the sync")),
    "auth0 client secret": ("{ur*64}", ("AUTH0_CLIENT_SECRET={}", "clientSecret: '{}',", "the auth0 secret is {}")),
    "asana pat": ("1/{dd*16}:{hx*32}", ("ASANA_TOKEN={}", "asana.Client.access_token('{}')", "asana pat: {}")),
    "dropbox": ("sl.{ur*130}", ("DROPBOX={}", "dropbox.Dropbox('{}')", "my dropbox token {} expired?")),
    "bitbucket app password": (
        "ATBB{A9*32}",
        ("git clone https://ann:{}@bitbucket.org/acme/x.git", "app password: {}", "BB_PASS={}"),
    ),
    "circleci": (
        "{hx*40}",
        ("CIRCLE_TOKEN={}", "curl -H 'Circle-Token: {}' https://circleci.com/api/v2/me", "circle-token={}"),
    ),
    "sonarqube": ("sqp_{hx*40}", ("SONAR_TOKEN={}", "sonar-scanner -Dsonar.login={}", "sonar wants {}")),
    "snyk": (UUID, ("SNYK_TOKEN={}", "snyk auth {}", "snyk token is {}")),
    "cloudinary": (
        "{ur*27}",
        ("CLOUDINARY_URL=cloudinary://123456789012345:{}@acme", "api_secret: '{}'", "cloudinary secret {}"),
    ),
    "postmark": (UUID, ("POSTMARK_SERVER_TOKEN={}", "X-Postmark-Server-Token: {}", '"serverToken": "{}"')),
    "plaid": ("{hx*30}", ("PLAID_SECRET={}", "'PLAID-SECRET': '{}'", "plaid sandbox secret: {}")),
    "braintree": (
        "access_token$production${a9*16}${hx*32}",
        ("BRAINTREE={}", "gateway = braintree('{}')", "braintree: {}"),
    ),
    "paypal": ("E{ur*79}", ("PAYPAL_CLIENT_SECRET={}", "paypal.configure(secret='{}')", "live paypal secret {}")),
    "binance": ("{A9*64}", ("BINANCE_API_SECRET={}", "Client(api_key, '{}')", "binance one is {} be careful")),
    "firebase server key": ("AAAA{ur*7}:APA91b{ur*134}", ("FCM_SERVER_KEY={}", "Authorization: key={}", "fcm {}")),
    "planetscale": (
        "pscale_pw_{ur*43}",
        ("DATABASE_PASSWORD={}", "mysql -h aws.connect.psdb.cloud -u x -p{}", "pscale gave {}"),
    ),
    "tailscale": (
        "tskey-auth-{A9*12}CNTRL-{A9*32}",
        ("TS_AUTHKEY={}", "tailscale up --authkey {}", "tailscale key {}"),
    ),
    "ngrok": ("2{A9*26}_{A9*21}", ("NGROK_AUTHTOKEN={}", "ngrok config add-authtoken {}", "authtoken: {}")),
    "cloudflare global": ("{hx*37}", ("CF_API_KEY={}", "X-Auth-Key: {}", "global api key {}")),
    "launchdarkly": ("sdk-" + UUID, ("LD_SDK_KEY={}", "LDClient.init('{}')", "launchdarkly sdk key: {}")),
    "honeycomb": ("{A9*22}", ("HONEYCOMB_API_KEY={}", "x-honeycomb-team: {}", "honeycomb api key is {}")),
    "elastic api key": (
        "{bs*58}==",
        ("ELASTIC_API_KEY={}", "Authorization: ApiKey {}", "Elasticsearch(url, api_key='{}')"),
    ),
    "kafka sasl": (
        "{bs*64}",
        (
            "sasl.password={}",
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="K" password="{}";',
            "sasl_plain_password='{}'",
        ),
    ),
    "snowflake": (
        "{sy*16}",
        ("SNOWFLAKE_PASSWORD={}", "snowsql -a acme -u ann --password '{}'", "snowflake://ann:{}x@acme/db"),
    ),
    "buildkite": ("bkua_{hx*40}", ("BUILDKITE={}", "buildkite token {}", "Authorization: Bearer {}")),
    "doppler": ("dp.st.prd.{A9*42}", ("DOPPLER_TOKEN={}", "doppler run --token {} -- npm start", "doppler is {}")),
    "1password service account": ("ops_eyJ{A9*240}", ("OP_SERVICE_ACCOUNT_TOKEN={}", "op: {}", "export OP='{}'")),
    "intercom": ("dG9r{bs*55}=", ("INTERCOM={}", "intercom access token is {}", "new Client({ token: '{}' })")),
    "jenkins api token": (
        "11{hx*32}",
        ("curl -u ann:{} https://ci.acme.io/job/x/build", "JENKINS_TOKEN={}", "jenkins {} works"),
    ),
    "jira basic": (
        "ATATT3xFfGF0{ur*160}={HX*8}",
        ("JIRA_TOKEN={}", "curl -u ann@acme.io:{} https://acme.atlassian.net/rest", "jira is {}"),
    ),
    "gitea": ("{hx*40}", ("GITEA_TOKEN={}", "tea login add --token {}", "https://git.acme.io/api/v1/user?token={}")),
    "mailjet": ("{hx*32}", ("MJ_APIKEY_PRIVATE={}", "mailjet.connect(pub, '{}')", "mailjet private is {}")),
    "zapier hook": (
        "{a9*7}",
        (
            "https://hooks.zapier.com/hooks/catch/123456/{}/",
            "ZAP=https://hooks.zapier.com/hooks/catch/9/{}",
            "post to https://hooks.zapier.com/hooks/catch/77/{}",
        ),
    ),
    "ifttt": ("{ur*43}", ("https://maker.ifttt.com/trigger/x/with/key/{}", "IFTTT={}", "ifttt key {}")),
    "grafana cloud": ("glc_{bs*100}", ("GRAFANA={}", "grafana: {}", "prometheus password: {}")),
    "influx": ("{ur*86}==", ("INFLUX_TOKEN={}", "influx query -t {}", "InfluxDBClient(url, token='{}')")),
    "rds iam": (
        "{bs*200}",
        (
            "https://s3.amazonaws.com/x?X-Amz-Security-Token={}",
            "url=https://b.s3.amazonaws.com/k?a=1&X-Amz-Security-Token={}",
            "got ?X-Amz-Security-Token={} in the log",
        ),
    ),
    "mqtt": (
        "{A9*12}",
        ("mosquitto_pub -h broker -u dev -P {} -t x -m y", "mqtt_password: {}", "mqtt://dev:{}@broker"),
    ),
    "borg": ("{sy*18}", ("BORG_PASSPHRASE='{}'", "export RESTIC_PASSWORD={}", "the restic password is {}")),
    "winrm": ("{sy*14}", ("evil-winrm -i 10.0.0.4 -u admin -p '{}'", "ansible_password={}", "admin pw is {}")),
    "zip password": ("{A9*10}7", ("unzip -P {} a.zip", "the zip password is {}", "zip pw: {}")),
    "pin": ("{dd*4}", ("the door pin is {}", "PIN: {}", "alarm code is {}")),
    "ios push key": (
        "{bs*200}",
        ("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", "AuthKey (p8): {}", "APNS_KEY={}"),
    ),
    "license key": ("{U9*5}-{U9*5}-{U9*5}-{U9*5}", ("LICENSE_KEY={}", "license key: {}", "serial is {}")),
    "hashcat line": ("{hx*32}", ("ntlm hash of the admin password: {}", "password hash {}", "pwd_hash={}")),
    "react native": ("{ur*37}", ("CodePush.sync({ deploymentKey: '{}' })", "appcenter key {}", "APPCENTER={}")),
    "openai org prose": ("sk-{A9*48}", ("try {} with curl", "openai.api_key = '{}'", "key ({})")),
    "yaml anchors": (
        "{sy*16}",
        ("  default: &default\n    password: {}", "secrets:\n  db_password: {}\n", "auth:\n  pass: {}"),
    ),
    "toml": ("{A9*24}", ('[registry]\ntoken = "{}"', "[auth]\nsecret = '{}'", '[db]\npassword="{}"')),
    "dotted property": (
        "{sy*16}",
        ("spring.datasource.password={}", "spring.rabbitmq.password: {}", "-Dhttps.proxyPassword={}"),
    ),
    "php": ("{sy*16}", ("define('DB_PASSWORD', '{}');", "$password = '{}';", "mysqli_connect('h', 'root', '{}');")),
    "ruby": ("{sy*16}", (':password => "{}"', "password: '{}',", "ENV['DB_PASS'] = '{}'")),
    "java": ("{A9*26}", ('.setPassword("{}")', 'String apiKey = "{}";', '@Value("{}")')),
    "go": ("{A9*30}", ('const apiSecret = "{}"', 'os.Setenv("API_TOKEN", "{}")', 'Token: "{}",')),
    "csharp": ("{sy*14}", ('new NetworkCredential("ann", "{}")', 'builder.Password = "{}";', 'var secret = "{}";')),
    "rust": ("{A9*32}", ('let token = "{}";', 'env::set_var("SECRET", "{}");', '.bearer_auth("{}")')),
    "pasted alone": ("{A9*32}", ("{}", "\n{}\n", "`{}`")),
    "github actions": ("{A9*36}", ("echo '::add-mask::{}'", "gh secret set TOKEN -b '{}'", "with:\n  token: {}")),
    "chat": ("{sy*13}", ("user is ann, pass is {}", "ann:{} should work on staging", "login: ann\npassword: {}")),
}


def _grow(shape: str, rng: random.Random) -> str:
    def run(found: re.Match[str]) -> str:
        return "".join(rng.choice(ALPHABETS[found.group(1)]) for _ in range(int(found.group(2))))

    return re.sub(r"\{(\w\w)\*(\d+)\}", run, shape)


def cases(seed: int = 11) -> Iterator[tuple[str, str, str]]:
    """Every kind in its three contexts: `(kind, text, secret)`."""
    rng = random.Random(seed)
    for kind, (shape, contexts) in SHAPES.items():
        for context in contexts:
            secret = _grow(shape, rng)
            yield kind, rng.choice(["", "ok.\n", "still red:\n"]) + context.replace("{}", secret), secret
