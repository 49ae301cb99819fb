"""The work grows in proportion to the text, whatever is repeated: judged by structure and counts, not by a clock."""

from __future__ import annotations

import re
import sys
from types import FrameType, ModuleType

import pytest

from engram.redaction import redact, redactor
from tests.linear_patterns import given_back

#: Patterns that are only matched as a whole against one value, of at most this many characters, never against a text.
JUDGES_OF_VALUES = frozenset(
    {
        "composed._HARMLESS",
        "values._PLACEHOLDER",
        "values._DUMMY",
        "values._EXPRESSION",
        "values._UNSECRET_SHAPE",
        "listed_secrets._LIKE_CODE",
    }
)


def test_no_pattern_gives_back_an_unbounded_repeat(rule_texts: ModuleType) -> None:
    found = {place: given_back(pattern) for place, pattern in rule_texts.patterns()}

    assert len(found) >= 100
    assert {place for place, repeats in found.items() if repeats} <= JUDGES_OF_VALUES


def test_the_check_of_patterns_sees_what_it_is_to_see() -> None:
    for wrong in (r"a+b", r"(?:a*b)?c", r"[^=]*=x", r"(?:x|y+z)w", r"(?:ab+)+c", r"(?=.*x)y"):
        assert given_back(re.compile(wrong)), wrong
    for right in (r"a++b", r"[^=]*+=x", r"ba+", r"a{1,64}b", r"(?>a+)b"):
        assert not given_back(re.compile(right)), right


@pytest.mark.parametrize(
    "unit",
    [
        "token=",
        "pw=",
        "pin|",
        "password='",
        "pass))))",
        "key: ",
        "--basic-auth=",
        "jdbc:l9:a/a,x@",
        "://:q@",
        "tok-1ea57f5d-c392-e5df-420f-4719de8bab15",
        "zmpjvds_61310_",
        "hf_",
        "-----BEGIN PRIVATE KEY-----(",
        "[secret:password]",
        "Passwort ist ",
        "密码是",
        "passphrase is abc ",
        "recovery codes: ",
        "| password |\n|---|\n",
        "eyJhIjog",
        "ConvertTo-SecureString ",
        "user,password\n",
        "NAME  PASSWORD\n",
        "what is the password?\n",
        "x is the password. ",
        "login a password ",
        "insert into t (password) values (",
        "auth=('a', ",
        "send assword ",
        "password: |\n  a\n",
        "habe das Passwort auf x1 gesetzt ",
        "PWD={a;",
        ": EAP ",
        "snmp auth sha ",
        "snmpget -v3 -A ",
        "radius key ",
        "totp aaaa ",
        "v=DKIM1; p=aB3dE5fG7hJ9kL1mN3pQ5rS7 ",
        'kty: "n":"aB3dE5fG7hJ9kL1mN3pQ5rS7",',
        '"--password", "',
        "- --token\n  - ",
        "$ cat secret \nab1 ",
        "set password from '",
        "k=[]byte(",
        "<password a",
        "<password>a ",
        "hmac.new(a, ",
        "put-parameter SecureString ",
        "ENC[aB3dE5fG7hJ9kL1mN3pQ5rS7",
        "$ANSIBLE_VAULT;1\n3f7a91bc22d04e853f7a91bc22d04e85 ",
        "pub \n  679F1D825421C58E44CC012267A45BF78ECE49ED ",
        "sums=(679f1d825421c58e44cc012267a45bf78ece49ed ",
    ],
)
def test_four_times_the_text_makes_at_most_five_times_the_calls(unit: str) -> None:
    small, large = (_calls((unit * (size // len(unit) + 1))[:size]) for size in (16_384, 65_536))

    assert large <= 5 * small + 500


def _calls(text: str) -> int:
    """How many functions are called while a text is redacted, those of the standard library included."""
    redactor._plain.clear()
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        redact(text)
    finally:
        sys.setprofile(None)
    return calls


def test_a_tag_within_tags_within_tags_is_dropped_in_a_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    from engram.redaction import fixed_forms

    text = "<private></private>"
    for _ in range(300):
        text = f"<pri{text}vate></private>"
    passes = []
    once = fixed_forms._without_private
    monkeypatch.setattr(fixed_forms, "_without_private", lambda part: passes.append(part) or once(part))

    assert "private>" not in fixed_forms.drop_private(f"before {text} after")
    assert len(passes) <= 10


def test_a_value_longer_than_what_is_judged_goes_as_a_whole() -> None:
    value = "".join(chr(97 + (n * 7 + n // 3) % 26) + str(n % 10) for n in range(600))

    assert value[-10:] not in redact(f"API_TOKEN={value} and more")
    assert value[-10:] not in redact(f'"password": "{value}", "next": 1')
