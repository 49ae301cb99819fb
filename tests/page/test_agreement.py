"""The parts of the page agree: lists with their numbers, an undo with what was, commands with the page's memory."""

from __future__ import annotations

import html
import os
import re
import time
from collections.abc import Callable, Iterator

import pytest

from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.projects.projects import find_project
from engram.models.work.work import FOREVER_MS, TASKS_SCOPE, current_pauses
from engram.notes.user_files import read_standing_files
from engram.page.page_access import COOKIE
from engram.page.rendering import as_typed, make_environment
from engram.page.routes import call_of
from engram.page.views import health, memories, today
from engram.redaction import redact
from engram.settings import Settings
from tests.each_case import each_case
from tests.page.lived import live
from tests.page.serving import ServedPage, serve_page
from tests.page.test_later_views import undo_of

Keep = Callable[..., Memory]


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the local time zone until the test ends."""

    def use(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield use
    monkeypatch.undo()
    time.tzset()


@each_case(
    "cookies", ["{secret}; bare", "bare; {secret}", 'other={{"a": "b c"}}; {secret}', "{secret}; path=/x; Secure"]
)
def test_cookies_of_other_programs_on_this_machine_shut_nobody_out(page: ServedPage, cookies: str) -> None:
    sent = cookies.format(secret=f"{COOKIE}={page.access.secret}")

    assert page.ask(f"{page.access.root}/", cookie=sent).status == 200
    assert page.ask(f"{page.access.root}/", cookie=sent.replace(page.access.secret, "guess")).status == 403


def test_a_full_page_of_memories_leads_to_another_only_if_there_is_one(page: ServedPage, keep: Keep) -> None:
    for number in range(memories.MAX_ROWS):
        keep(f"Pier {number} closes at noon.")

    assert "More memories" not in page.see("m").text
    assert "More memories" not in page.see("m", q="noon").text

    keep("The last pier closes at noon.")
    assert f"from={memories.MAX_ROWS}" in page.see("m").text
    assert page.see("m", **{"from": str(memories.MAX_ROWS)}).text.count("data-row") == 1


def test_a_search_that_is_not_counted_names_the_limit(
    page: ServedPage, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("Pier 1 closes at noon.")
    keep("Pier 2 closes at noon.")
    monkeypatch.setattr("engram.models.search.memory_lists.MAX_COUNTED", 1)

    assert f"More than {memories.MAX_COUNTED:,} match" in page.see("m", q="noon").text
    assert memories.MAX_COUNTED == 2_000


def test_the_start_page_says_how_many_of_the_kept_memories_it_does_not_list(page: ServedPage, store: Store) -> None:
    for number in range(today.MAX_KEPT + 1):
        save_memory(store, f"Pier {number} closes at noon.", redact, actor=Actor.USER, scope=Scope.GLOBAL)

    shown = page.see("").text

    assert f"<dt>Kept</dt><dd>{today.MAX_KEPT + 1}</dd>" in shown
    assert "and 1 more memory that was kept today" in shown


def test_nothing_is_said_to_wait_while_a_file_contradicts_a_memory(
    page: ServedPage, store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(today, "list_needs", lambda *_, **__: [])
    keep("The proxy listens on port 8080.")
    assert "Nothing needs your attention." in page.see("").text

    settings.claude_folder.mkdir(exist_ok=True)
    file = settings.claude_folder / "CLAUDE.md"
    file.write_text("# Rules\n\n- The proxy listens on port 7070.\n")
    read_standing_files(store, settings, redact)
    shown = page.see("").text
    assert "Nothing needs your attention." not in shown
    (address,) = re.findall(r'hx-get="([^"]*/decide/files[^"]*)"', shown)
    counted = page.ask(html.unescape(address), hx_request="true").text
    assert "1 memory that your own files contradict" in counted
    assert "Nothing needs your attention." not in counted

    file.write_text("# Rules\n\n- Be kind.\n")
    read_standing_files(store, settings, redact)
    assert "Nothing needs your attention." in page.ask(html.unescape(address), hx_request="true").text


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Pacific/Kiritimati", "UTC"])
def test_a_day_in_the_list_of_events_is_a_local_one(zone: str, in_zone: Callable[[str], None]) -> None:
    in_zone(zone)

    for hour in (0, 12, 23):
        at_ms = int(time.mktime((2020, 3, 4, hour, 30, 0, 0, 0, -1)) * 1000)
        noon = time.localtime(today._noon_of(at_ms) / 1000)
        assert noon[:4] == (2020, 3, 4, 12)


@pytest.mark.parametrize("what", ["project", "tasks"])
def test_an_undone_resume_restores_the_end_of_the_pause(page: ServedPage, store: Store, what: str) -> None:
    live(store)
    place = find_project(store, "harbor")
    assert place is not None
    path, scope = (("projects", str(place.id)), place.identity) if what == "project" else (("tasks",), TASKS_SCOPE)
    page.do(*path, "pause", time="1h")
    before = current_pauses(store)
    assert before[scope] < FOREVER_MS

    resumed = page.do(*path, "resume")
    assert scope not in current_pauses(store)
    assert page.do(*undo_of(resumed.text)).status == 200

    assert current_pauses(store) == before
    assert page.do(*path, "pause", "x").status == 400
    page.do(*path, "resume")
    page.do(*path, "pause", time="")
    assert page.do(*undo_of(page.do(*path, "resume").text)).status == 200
    assert current_pauses(store)[scope] == FOREVER_MS


def test_every_command_in_a_message_is_one_that_works_on_the_memory_of_the_page(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_HOME", str(settings.home.parent / "other"))
    settings.projects_folder.mkdir(parents=True)
    live(store)
    monkeypatch.setattr(
        health,
        "ask_command",
        lambda *_: {
            "checks": [
                {
                    "name": "memory folder",
                    "state": "bad",
                    "detail": "it is open to others; `engram doctor` says more",
                    "advice": "run: chmod -R go-rwx /tmp/engram -x",
                    "command": "chmod -R go-rwx /tmp/engram -x",
                },
                {
                    "name": "paused",
                    "state": "warn",
                    "detail": "everything is paused",
                    "advice": "to continue: engram pause --off",
                    "command": "engram pause --off",
                },
            ]
        },
    )
    called = call_of({"home": str(settings.home)}, None)

    with serve_page(settings) as page:
        checks = html.unescape(page.see("health", "checks").text)
        failed = html.unescape(page.do("tasks", "99", "retry").text)
        spent = page.ask("/enter?token=x", cookie=None, sec_fetch_site="none").text
        views = [html.unescape(page.see(view).text) for view in ("", "health", "tasks", "gone", "settings", "costs")]

    assert "<code>chmod -R go-rwx /tmp/engram -x</code>" in checks
    assert f"<code>{called} doctor</code> says more" in checks
    assert f"<code>{called} pause --off</code>" in checks
    assert f"<code>{called} tasks list --all</code>" in failed
    assert f"{called} ui" in spent
    for view in views:
        commands = re.findall(
            r"(?<![\w/.-])engram (?:[a-z]+ [a-z-]+|[a-z]+(?=[<`]))", re.sub(r"data-copies=\"[^\"]*\"", "", view)
        )
        assert commands == [], commands


@each_case(
    ("message", "written"),
    [
        ("see the log with: engram logs --errors", "see the log with: E logs --errors"),
        ("`engram --vault x doctor`", "`E --vault x doctor`"),
        ("run: engram install, or `engram up`", "run: F install, or `F up`"),
        ("`engram projects vault x`, `engram projects show x`", "`F projects vault x`, `E projects show x`"),
        ("/home/me/engram --x, my-engram up, Engram is off", "/home/me/engram --x, my-engram up, Engram is off"),
    ],
)
def test_only_the_name_of_the_program_is_written_as_it_is_called(message: str, written: str) -> None:
    environment = make_environment()
    # These commands refuse, or don't need, the name of a vault.
    environment.globals |= {"engram": "E", "engram_around": "F"}

    assert as_typed(environment, message) == written


def test_a_connection_that_was_removed_by_hand_is_missed_at_once(
    page: ServedPage, store: Store, settings: Settings
) -> None:
    said = "Claude Code is not connected"
    settings.projects_folder.mkdir(parents=True)
    file = settings.claude_folder / "settings.json"
    file.write_text("{}")
    live(store)
    (day_ago,) = [time.time() - 86_400]
    os.utime(file, (day_ago, day_ago))
    assert said not in page.see().text  # a prompt was answered since the settings changed

    file.write_text('{"hooks": {}}')
    assert said in page.see().text

    later = time.time() + 86_400
    os.utime(file, (later, later))
    assert said not in page.see().text  # a file from the future says nothing
