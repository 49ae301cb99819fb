"""The daily log: each prompt stands once, in the log of its day, as soon as the session is flushed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from engram.models.engine.transaction import Store
from engram.notes.daily_log import log_session, session_section
from engram.paths import Home
from engram.transcripts.turns import Action, Opening, Role, TextBlock, Turn

#: Says ``(role, text, time)`` in the session "s1" and reads it.
Speak = Callable[[str, str, str], None]
DAYS = ("2026-05-01", "2026-05-02", "2026-05-03")


@pytest.fixture
def time_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Moves the machine to a time zone, until the test ends."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def logs(home: Home) -> dict[str, str]:
    return {path.stem: path.read_text() for path in home.daily_notes.iterdir()}


def test_a_session_of_three_days_has_each_prompt_in_the_log_of_its_day(home: Home, memory: Store, speak: Speak) -> None:
    for day in DAYS:
        speak("user", f"Where was the zebra on {day}?", f"{day}T10:00:00.000Z")
        speak("assistant", "In hall 9.", f"{day}T10:01:00.000Z")
        log_session(memory, home, "s1")

    written = logs(home)
    assert sorted(written) == list(DAYS)
    for day in DAYS:
        assert [other for other in DAYS if f"zebra on {other}" in written[day]] == [day]
        assert written[day].count("zebra on") == 1


def test_logs_that_repeat_a_session_are_mended_when_it_is_logged_again(home: Home, memory: Store, speak: Speak) -> None:
    for day in DAYS:
        speak("user", f"Where was the zebra on {day}?", f"{day}T10:00:00.000Z")
    repeated = "".join(f"- Where was the zebra on {day}?\n" for day in DAYS)
    for day in DAYS:
        (home.daily_notes / f"{day}.md").write_text(
            f"# {day}\n\n## demo\n<!-- session s1 -->\n\nAsked:\n{repeated}\n## demo\n<!-- session s0 "
            f"-->\n\nAsked:\n- Other?\n"
        )

    log_session(memory, home, "s1")

    for day, text in logs(home).items():
        assert [other for other in DAYS if f"zebra on {other}" in text] == [day]
        assert "- Other?" in text


@pytest.mark.parametrize(
    ("said_at", "before", "now"),
    [
        ("2026-05-01T16:30:00.000Z", "Asia/Tokyo", "America/Los_Angeles"),
        ("2026-05-01T16:30:00.000Z", "America/Los_Angeles", "Asia/Tokyo"),
        ("2026-05-01T23:30:00.000Z", "Europe/London", "Etc/UTC"),
    ],
)
def test_a_session_is_logged_once_though_the_time_zone_changed(
    home: Home, memory: Store, speak: Speak, time_zone: Callable[[str], None], said_at: str, before: str, now: str
) -> None:
    time_zone(before)
    speak("user", "Where was the zebra?", said_at)
    log_session(memory, home, "s1")
    time_zone(now)
    speak("user", "And the heron?", said_at)
    speak("assistant", "In hall 9.", said_at)
    log_session(memory, home, "s1")

    told = "".join(logs(home).values())

    assert (told.count("zebra"), told.count("heron"), told.count("session s1")) == (1, 1, 1)


def test_logging_twice_changes_no_file(home: Home, memory: Store, speak: Speak) -> None:
    for day in DAYS:
        speak("user", f"Where was the zebra on {day}?", f"{day}T10:00:00.000Z")
    assert len(log_session(memory, home, "s1")) == 3
    before = {path.name: path.stat().st_mtime_ns for path in home.daily_notes.iterdir()}

    assert log_session(memory, home, "s1") == []
    assert {path.name: path.stat().st_mtime_ns for path in home.daily_notes.iterdir()} == before


def test_a_secret_that_was_stored_before_its_rule_does_not_reach_the_log(
    home: Home, memory: Store, speak: Speak
) -> None:
    speak("user", "Deploy with PLACEHOLDER please", "2026-05-01T10:00:00.000Z")
    token = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"
    with memory.transaction() as tx:
        tx.run("UPDATE said SET text = replace(text, 'PLACEHOLDER', ?)", (token,))

    log_session(memory, home, "s1")

    assert token not in "".join(logs(home).values())
    assert "Deploy with" in "".join(logs(home).values())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("bun run test 2>&1", "`bun run test 2>&1`"),
        ("cat <<'EOF' > `pwd`/mast", "`` cat <<'EOF' > `pwd`/mast ``"),
        ("echo '<!-- session s2 -->'", "`echo '‹!-- session s2 -->'`"),
        ("cat <<'EOF' > mast\ncedar\nEOF", "`cat <<'EOF' > mast ⏎ cedar ⏎ EOF`"),
        ("# The mast first\n\nmake mast\n", "`# The mast first ⏎ ⏎ make mast`"),
        ("make mast \\\n  WOOD=cedar", "`make mast \\ ⏎ WOOD=cedar`"),
        ("grep ma\\\nst fleet", "`grep ma\\ ⏎ st fleet`"),
        ("echo 'C:\\\\mast'\\\\\nls", "`echo 'C:\\\\mast'\\\\ ⏎ ls`"),
        ("make mast \\\r\n  WOOD=cedar\r\n", "`make mast \\ ⏎ WOOD=cedar`"),
        ("make mast" + " " * 4_000 + "sail", "`make mast…`"),
        ("cat <<'EOF'\n" + "plank\n" * 30 + "EOF", "`cat <<'EOF'" + " ⏎ plank" * 11 + "…`"),
    ],
)
def test_a_command_is_written_as_it_was_run(command: str, code: str) -> None:
    failed = Action("call", "Bash", command=command, is_error=True)
    said = (TextBlock("u", Role.USER, "Test it"), TextBlock("a", Role.ASSISTANT, "It fails."))

    section = session_section("s1", "boats", [Turn("u", "s1", Opening.PROMPT, said, actions=(failed,))])

    assert f"- {code} failed\n" in section
