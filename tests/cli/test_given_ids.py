"""What a person types in place of a whole id or a date: the beginning of an id, a day by its name."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from engram.enums import Actor
from engram.errors import BadRequest
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.sessions.passage_rows import find_quotation, quotations_beginning_with
from engram.models.sessions.sessions import list_sessions
from engram.reports.memory_report import whole_id
from engram.search.named_times import named_period
from tests.each_case import each_case

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def two_alike(store: Store) -> tuple[str, str]:
    """Save two memories whose ids begin alike."""
    first, second = "ep_abc000000001", "ep_abc000000002"
    save_memory(store, "Ship the crates on Mondays.", str, actor=Actor.USER, project_id=1, episode_id=first)
    save_memory(store, "Paint the buoys red.", str, actor=Actor.USER, project_id=1, episode_id=second)
    return first, second


def quotations(store: Store) -> list[str]:
    """The ids of all quotations."""
    return [
        found.quotation_id
        for digit in "0123456789abcdef"
        for found in quotations_beginning_with(store, f"q_{digit}", 999)
    ]


def test_a_unique_beginning_is_the_whole_id(filled: Store) -> None:
    for memory in memory_records.all_memories(filled):
        others = [other.episode_id for other in memory_records.all_memories(filled) if other.id != memory.id]
        length = next(size for size in range(4, 16) if not any(o.startswith(memory.episode_id[:size]) for o in others))
        assert whole_id(filled, memory.episode_id[:length]) == memory.episode_id


def test_the_digits_of_an_id_are_enough(filled: Store, run: Run) -> None:
    memory = memory_records.all_memories(filled)[0]
    digits = memory.episode_id.removeprefix("ep_")

    assert whole_id(filled, digits) == whole_id(filled, digits[:9]) == memory.episode_id
    assert whole_id(filled, "0123456789ab") == "0123456789ab"
    assert memory.episode_id in run("expand", digits).stdout
    assert run("why", digits).stdout == run("why", memory.episode_id).stdout
    assert memory.episode_id in run("timeline", digits).stdout


def test_an_id_is_found_as_it_was_copied(filled: Store, run: Run) -> None:
    name = memory_records.all_memories(filled)[0].episode_id
    session = list_sessions(filled)[0].session_id
    for copied in (f"[{name}]", f"[{name}],", f"`{name}`", f"“{name}”", f" ({name}). ", name.upper(), name[3:].upper()):
        assert whole_id(filled, copied) == name
    assert whole_id(filled, "[a text]") == "[a text]"
    assert whole_id(filled, f"[{name}] and more") == f"[{name}] and more"
    assert name in run("expand", f"[{name.upper()}]").stdout
    assert name in run("forget", f"[{name}]", "--dry-run").stdout
    assert run("sessions", f"[{session}]").stdout == run("sessions", session).stdout
    assert run("why", f"[{session}]").stdout == run("why", session).stdout


def test_a_quotation_is_found_by_a_beginning(filled: Store) -> None:
    known = quotations(filled)

    assert known
    assert all(find_quotation(filled, name) is not None for name in known)
    alone = [name for name in known if sum(other.startswith(name[:14]) for other in known) == 1]
    assert alone
    assert [whole_id(filled, name[:14]) for name in alone] == alone


@pytest.mark.parametrize("text", ["ep_fffffffffff", "ep_xyz", "e", "", "ep_0123456789ab", "q_000000000000"])
def test_a_text_that_no_id_begins_with_comes_back(filled: Store, text: str) -> None:
    assert whole_id(filled, text) == text


@pytest.mark.parametrize(("text", "command"), [("ep_", "timeline"), ("q_", "recall")])
def test_what_every_id_begins_with_is_too_short(filled: Store, run: Run, text: str, command: str) -> None:
    said = run("expand", text, code=1).stderr

    assert f"{text} is too short" in said
    assert f"`engram {command}` prints it" in said


def test_several_candidates_are_named_with_their_titles(filled: Store) -> None:
    first, second = two_alike(filled)

    with pytest.raises(BadRequest) as refused:
        whole_id(filled, "ep_abc")

    assert str(refused.value) == (
        f"several ids begin with ep_abc: {first} “Ship the crates on Mondays”; {second} “Paint the buoys red”. "
        "Type more of the one that you mean"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("expand",), ("edit", "--summary", "x"), ("correct", "y", "--why", "z"), ("pin",), ("feedback", "wrong"),
        ("undo",), ("forget", "--dry-run"), ("purge",), ("review", "keep"), ("review", "both"), ("review", "trust"),
        ("why",), ("timeline",), ("share",), ("pack", "make"), ("save", "--global", "A text.", "--supersedes"),
    ],
)  # fmt: skip
def test_every_command_that_takes_an_id_names_the_candidates(filled: Store, run: Run, words: tuple[str, ...]) -> None:
    two_alike(filled)
    commands = 2 if words[0] in ("review", "pack") else len(words) if words[0] == "save" else 1

    said = run(*words[:commands], "ep_abc", *words[commands:], code=1).stderr

    assert "several ids begin with ep_abc: ep_abc000000001" in said or words[0] in ("share", "pack")


def test_a_memory_changes_by_the_beginning_of_its_id(filled: Store, run: Run, run_json: RunJson) -> None:
    made = run_json("save", "--global", "Weigh the crates twice.")["id"]

    assert json.loads(run("pin", made[:12], "--json").stdout)["id"] == made
    assert f"Changed {made}" in run("edit", made[:12], "--summary", "Weigh every crate twice.").stdout
    assert run_json("expand", made[:12])["id"] == made
    assert "never shown" in run("why", made[:12]).stdout
    assert run_json("forget", made[:12], "--yes")["forgotten"] == [made]


def test_the_home_folder_becomes_no_project_unless_it_is_a_repository(
    filled: Store, run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path.home()
    home.mkdir(exist_ok=True)
    known = [project["name"] for project in run_json("projects")["projects"]]
    for folder in (home, home.parent):
        monkeypatch.chdir(folder)
        refused = " ".join(run("save", "Weigh the crates twice.", code=1).stderr.split())
        assert "is a folder of projects, not a project. Name one with --project, or use --global." in refused
    assert [project["name"] for project in run_json("projects")["projects"]] == known

    monkeypatch.chdir(home)
    subprocess.run(["git", "init", "-q"], check=True)
    assert run_json("save", "Weigh the crates twice.")["id"]

    monkeypatch.chdir(home.parent)
    assert run_json("save", "Weigh the crates three times.", "--project", ".")["id"]


def test_sessions_that_begin_alike_are_named(filled: Store, run: Run) -> None:
    with contextlib.closing(sqlite3.connect(filled.path)) as database, database:
        database.execute("UPDATE session SET session_id = 'ab' || session_id")
    known = [session.session_id for session in list_sessions(filled)]

    said = run("sessions", "ab", code=1).stderr

    assert "several ids begin with" in said
    assert sum(name in said for name in known) >= 2


#: A Thursday, at noon on this machine.
NOW = datetime(2026, 11, 26, 12, 0)


@each_case(
    ("text", "last_day"),
    [
        ("today", "2026-11-26"), ("yesterday", "2026-11-25"), ("Yesterday", "2026-11-25"), ("monday", "2026-11-23"),
        ("last monday", "2026-11-23"), ("on tue", "2026-11-24"), ("thursday", "2026-11-26"),
        ("last thursday", "2026-11-19"), ("friday", "2026-11-20"), ("last week", "2026-11-22"),
        ("3 days ago", "2026-11-23"), ("7d", "2026-11-19"), ("2 weeks ago", "2026-11-12"), ("2w", "2026-11-12"),
        ("2026-11-05", "2026-11-05"), ("november 5", "2026-11-05"), ("5 nov 2025", "2025-11-05"),
        ("march 2026", "2026-03-31"), ("last month", "2026-10-31"), ("in march 2026", "2026-03-31"),
        ("last july", "2026-07-31"), ("last november", "2025-11-30"), ("this monday", "2026-11-23"),
        ("last year", "2025-12-31"), ("day before yesterday", "2026-11-24"), ("2026-07", "2026-07-31"),
        ("gestern", "2026-11-25"), ("letzte Woche", "2026-11-22"), ("letzten Montag", "2026-11-23"),
        ("am Dienstag", "2026-11-24"), ("im Juli", "2026-07-31"), ("Mai 2026", "2026-05-31"),
        ("vor 3 Tagen", "2026-11-23"),
        ("vor 2 Wochen", "2026-11-12"), ("5. November 2026", "2026-11-05"), ("05.11.2026", "2026-11-05"),
        ("two days ago", "2026-11-24"), ("until the 5th of november", "2026-11-05"),
        ("end of october", "2026-10-31"), ("March", "2026-03-31"),
    ],
)  # fmt: skip
def test_a_day_is_named_as_people_name_it(text: str, last_day: str) -> None:
    period = named_period(text, int(NOW.timestamp() * 1000))

    assert period is not None
    assert datetime.fromtimestamp((period.stop_ms - 1) / 1000).strftime("%Y-%m-%d %H:%M:%S") == f"{last_day} 23:59:59"


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "ep_0", "2026-99-99", "the day", "mo", "32 november", "november 31", "31 nov 2026", "2026-02-30",
        "5 november-ish", "yesterday week", "march 40", "a day in march",
    ],
)  # fmt: skip
def test_what_is_not_a_day_is_refused(text: str) -> None:
    assert named_period(text, int(NOW.timestamp() * 1000)) is None


@pytest.mark.parametrize(
    ("text", "first_day"),
    [
        ("today", "2026-11-26"), ("last thursday", "2026-11-19"), ("3 days ago", "2026-11-23"), ("2w", "2026-11-12"),
        ("last week", "2026-11-16"), ("july", "2026-07-01"), ("this year", "2026-01-01"), ("last year", "2025-01-01"),
        ("two days ago", "2026-11-24"), ("a week ago", "2026-11-19"), ("vor einer Woche", "2026-11-19"),
    ],
)  # fmt: skip
def test_a_period_begins_with_its_first_day(text: str, first_day: str) -> None:
    period = named_period(text, int(NOW.timestamp() * 1000))

    assert period is not None
    assert datetime.fromtimestamp(period.start_ms / 1000) == datetime.fromisoformat(first_day)


def test_a_time_without_a_zone_is_local_as_all_printed_times_are(
    filled: Store, run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run_json("save", "--global", "Weigh the crates twice.")["id"]
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # UTC+14
    time.tzset()
    try:
        now = datetime.now()
        for shown, is_listed in ((now + timedelta(minutes=2), True), (now - timedelta(minutes=2), False)):
            listed = run_json("timeline", f"{shown:%Y-%m-%d %H:%M:%S}")["episodes"]
            assert (made in [memory["id"] for memory in listed]) is is_listed
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_timeline_takes_a_day(filled: Store, run: Run, run_json: RunJson) -> None:
    made = run_json("save", "--global", "Weigh the crates twice.")["id"]

    assert made in [memory["id"] for memory in run_json("timeline", "today")["episodes"]]
    assert made not in [memory["id"] for memory in run_json("timeline", "yesterday")["episodes"]]
    days = {memory["created_at"][:10] for memory in run_json("timeline", "-n", "1000")["episodes"]}
    assert len(days) > 1
    assert {memory["created_at"][:10] for memory in run_json("timeline", "today")["episodes"]} < days
    assert run_json("timeline", "until today", "-n", "1000") == run_json("timeline", "-n", "1000")
    assert "No memories up to 2020-01-01." in run("timeline", "Bis 2020-01-01").stdout
    assert len(run_json("timeline", "-n", "1")["episodes"]) == 1
    assert "yesterday" in run("timeline", "whenever", code=1).stderr
