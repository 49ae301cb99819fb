"""Values of `.env` lines are found again wherever they come back, without being stored."""

from __future__ import annotations

import pytest

from engram.redaction import env_values, hash_value, redact

SALT = b"0123456789abcdef"


def known_of(*values: str) -> set[bytes]:
    return {hash_value(value, SALT) for value in values}


@pytest.mark.parametrize(
    "text",
    [
        "the value sunny-river comes back",
        "in quotes: 'sunny-river'.",
        "proxy://u:sunny-river@host/db",
        "X=sunny-river;Y=2",
        "sunny-river",
        "(sunny-river)",
    ],
)
def test_a_known_value_is_masked_wherever_it_stands_as_a_word(text: str) -> None:
    assert "sunny-river" not in redact(text, known_of("sunny-river"))


def test_a_known_value_inside_a_longer_word_is_not_touched() -> None:
    assert redact("sunny-rivers are nice", known_of("sunny-river")) == "sunny-rivers are nice"


def test_a_known_value_with_blanks_or_signs_is_found() -> None:
    known = known_of("red fox jumps", "p@ss/w0rd:x,y")

    masked = redact("say red fox jumps and p@ss/w0rd:x,y now", known)

    assert masked == "say [secret:known-value] and [secret:known-value] now"


def test_entries_of_several_salts_work_together_and_rubbish_is_ignored() -> None:
    known = [hash_value("first-word", b"a" * 16), hash_value("other-word", b"b" * 16), b"", b"short"]

    assert redact("first-word other-word", known) == "[secret:known-value] [secret:known-value]"


def test_an_entry_does_not_hold_the_value() -> None:
    assert b"sunny" not in hash_value("sunny-river", SALT)
    assert hash_value("sunny-river", SALT) != hash_value("sunny-river", b"another-salt-16b")


@pytest.mark.parametrize("salt", [b"", b"short", b"x" * 65])
def test_a_salt_of_a_wrong_size_is_refused(salt: bytes) -> None:
    with pytest.raises(ValueError, match="salt"):
        hash_value("value", salt)


def test_values_worth_masking_are_taken_from_env_lines() -> None:
    text = (
        "DB_PASSWORD=tulip-wagon-7\nexport API_TOKEN='q8Wn2LrT5vYx'\nDEBUG=1\nPORT=8080\nNODE_ENV=production\n"
        "DATABASE_URL=postgres://app:zebra-crossing@db/x\nAPP_NAME=shop\nSECRET_KEY=your-secret-here\nLOG_PATH=/var/l"
        "og/app\n# PASSWORD=commented\nAPI_TOKEN=q8Wn2LrT5vYx\n"
    )

    assert env_values(text) == ["tulip-wagon-7", "q8Wn2LrT5vYx", "zebra-crossing"]


@pytest.mark.parametrize(
    "line",
    [
        "     2→NAME",
        "     2\tNAME",
        "  12 | NAME",
        "2:export NAME",
        "12-NAME",
        ".env:2:NAME",
        "./a/.env:NAME",
        "+NAME",
        "-export NAME",
        "      - NAME",
        "declare -x NAME",
        "typeset -x NAME",
    ],
)
def test_env_lines_are_known_as_tools_print_them(line: str) -> None:
    assert env_values(f"DEBUG=1\n{line.replace('NAME', 'API_TOKEN=q8Wn2LrT5vYx')}\n") == ["q8Wn2LrT5vYx"]


@pytest.mark.parametrize(
    "text",
    ['"Env": [\n  "SECRET_KEY=tulip-wagon-7",\n  "PATH=/bin"\n]', "HOME=/root\0SECRET_KEY=tulip-wagon-7\0LANG=C"],
)
def test_env_values_are_known_in_lists(text: str) -> None:
    assert env_values(text) == ["tulip-wagon-7"]


def test_a_masked_env_value_is_not_taken_as_a_value() -> None:
    assert env_values("API_TOKEN=[secret:token]\n") == []
