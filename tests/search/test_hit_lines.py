"""A hit is printed by one module: what a memory has besides its text reaches the command and the tool alike."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from engram.cli.results import hit_result, print_results
from engram.enums import Scope, Status
from engram.search.hit_lines import OWN, RETIRED, VERBATIM, answer_text, remarks_of
from engram.search.hits import NAMED_SPEAKER, MemoryFields, Origin, Part, PublicHit, Standing, text_of_parts
from tests.hits import PLAIN
from tests.hits import memory_hit as hit

#: Fields of a memory that a hit has for scripts only, and why no line shows them.
NOT_PRINTED = {"content": "memory_expand shows it"}
#: Field → a value that is worth a remark.
TELLING: dict[str, Any] = {
    "scope": Scope.GLOBAL,
    "is_pinned": True,
    "is_lowered": True,
    "superseded_by": "ep_00000000000a",
    "stale_reason": "vat.py is gone",
    "branch": "feat/logs",
    "told_by": "teammate ada",
    "suspect": "secrecy towards the user",
}


def printed_by_command(shown: PublicHit) -> str:
    runner = CliRunner()
    with runner.isolation() as (output, *_):
        print_results([hit_result(shown)])
        return output.getvalue().decode()


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(MemoryFields)])
def test_every_field_of_a_memory_is_printed_by_command_and_tool(name: str) -> None:
    assert name in TELLING or name in NOT_PRINTED, f"hit_lines does not print {name}: add it to remarks_of"
    if name in NOT_PRINTED:
        return
    memory = replace(PLAIN, **{name: TELLING[name]})

    (remark,) = set(remarks_of(hit(memory=memory))) - set(remarks_of(hit()))

    assert remark in printed_by_command(hit(memory=memory))
    assert remark in answer_text([hit(memory=memory)])


def test_a_title_that_somebody_wrote_is_printed_and_one_that_repeats_the_text_is_not() -> None:
    written, repeated = hit(title="Where logs go"), hit(title="Logs go to stdout")

    assert "“Where logs go”, replaced: Logs go to stdout." in answer_text([written])
    assert "“" not in answer_text([repeated])


@pytest.mark.parametrize(
    ("standing", "remark"),
    [
        (Standing(stands_in="CLAUDE.md"), "lso in CLAUDE.md"),
        (Standing(contradicted_by="CLAUDE.md: logs go to a file"), "but CLAUDE.md: logs go to a file"),
    ],
)
def test_what_the_users_own_files_say_is_printed(standing: Standing, remark: str) -> None:
    assert remark in printed_by_command(hit(standing=standing))
    assert remark in answer_text([hit(standing=standing)])


@pytest.mark.parametrize(
    "shown",
    [
        hit(),
        hit(memory=None, id="q_0123456789ab2f", kind="turn", role="user", status=Status.ACTIVE),
        hit(memory=replace(PLAIN, is_pinned=True)),
    ],
    ids=["memory", "passage", "pinned"],
)
def test_what_the_readers_own_session_said_is_named_as_such(shown: PublicHit) -> None:
    assert OWN in answer_text([shown], session_id="s-1")
    assert OWN not in answer_text([shown], session_id="s-2")
    assert OWN not in answer_text([shown])
    assert OWN not in answer_text([replace(shown, session_id="")], session_id="")


def test_a_memory_of_another_project_tells_nothing_of_that_project() -> None:
    memory = replace(PLAIN, scope=Scope.GLOBAL, stale_reason="vat.py is gone", branch="feat/logs")
    origin = Origin(resume="claude --resume abc", commit="3f2a91c", pull_request="https://github.com/acme/x/pull/7")
    shown = hit(memory=memory, origin=replace(origin, session_title="Ship the lamp"), title="Logs of the lamp")

    elsewhere, at_home = answer_text([shown], "lantern"), answer_text([shown], "harbor")

    assert "global" in elsewhere
    for text in ("vat.py", "feat/logs", "abc", "3f2a91c", "PR#7", "Ship the lamp", "Logs of the lamp"):
        assert text in at_home
        assert text not in elsewhere.replace(shown.id, "")


@pytest.mark.parametrize(
    "said",
    [
        "Use `List<String>` — “never” a raw list…",
        "Fence it with ```python``` or ~~~",
        "See https://example.org/a?b=c&d for the “why”",
        "a < b && b > c, it’s ‘fine’ – 100 €",
        "数据库 & naïve <T>",
    ],
)
def test_a_person_reads_the_characters_that_were_said(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (hit(text=said), hit(text=said, memory=None, kind="turn", status=Status.ACTIVE)):
        print_results([hit_result(shown)])

        assert said in capsys.readouterr().out


def test_nothing_that_a_person_reads_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_results([hit_result(hit(text="a\x1b[2Jb\u202ec\u200bd"))])

    assert "abcd" in capsys.readouterr().out


@pytest.mark.parametrize("values", [{"status": Status.ARCHIVED}, {"memory": replace(PLAIN, is_lowered=True)}], ids=str)
def test_a_memory_that_no_longer_holds_comes_last_under_its_own_heading(values: dict[str, Any]) -> None:
    valid = hit(status=Status.ACTIVE)
    passage = hit(id="turn_1#1", kind="turn", text="Ask the harbour master.", status=Status.ACTIVE, memory=None)
    retired = hit(id="ep_00000000000b", text="Logs go to a file.", **{"status": Status.ACTIVE, **values})

    lines = answer_text([retired, passage, valid]).splitlines()

    places = [
        next(place for place, line in enumerate(lines) if part in line)
        for part in ("to stdout", VERBATIM, "harbour master", RETIRED, "to a file")
    ]
    assert places == sorted(places)
    assert RETIRED not in answer_text([passage, valid])


@pytest.mark.parametrize("name", ["the user", "the user chose", "a program", "not typed"])
def test_a_speaker_whom_a_speaker_quotes_is_not_a_speaker_of_the_hit(name: str) -> None:
    quoted = f"The ticket says:\n{name}: push it\nSo don't."
    text = text_of_parts([Part("1", "user", "What does it say?"), Part("2", "assistant", quoted)])

    assert NAMED_SPEAKER.findall(text) == ["the user", "the assistant"]
    assert f"\n {name}: push it\nSo don't." in text
    assert text_of_parts([Part("2", "assistant", quoted)]) == quoted
