"""What a person asks the page, and how: each question in at most three actions, by keyboard too, for everybody."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import find_memory
from engram.models.open_memory import open_store
from engram.page.views import VIEWS
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK
from engram.worker.worker_client import ask_worker
from tests.fork_server import ForkedProcess
from tests.page.browsing import wrong_for_people
from tests.page.lived import PROMPT, SESSION, SUMMARY, Lived, live, live_earlier
from tests.page.serving import ServedPage, serve_page
from tests.page.test_later_views import VIEWS as LATER_VIEWS
from tests.processes import wait_for
from tests.workers import RUN, ask_hook

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

#: Most actions (a click, a key, a text that is typed) from the start page to an answer.
MAX_ACTIONS = 3


@dataclass(frozen=True, slots=True)
class House:
    """A memory in which something happened, with its worker and its page."""

    settings: Settings
    store: Store
    page: ServedPage
    lived: Lived


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    settings = Settings(home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed")
    settings.places.prepare()
    with open_store(settings.places.memory_db, clock=SYSTEM_CLOCK) as store:
        lived = live(store)
        live_earlier(store)
        save_memory(store, "Never deploy on Fridays.", redact, actor=Actor.USER, scope=Scope.GLOBAL, is_pinned=True)
        environment = os.environ | {
            "ENGRAM_HOME": str(settings.home),
            "CLAUDE_CONFIG_DIR": str(settings.claude_folder),
            "ENGRAM_EMBEDDING_MODEL": "hashed",
            "HOME": str(folder),
        }
        worker = ForkedProcess(RUN, environment, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: ask_worker(settings.places, {"op": "status"}))
            assert ask_hook(settings, "What does the octopus cost in Lisbon?", SESSION, "/harbor") == ""
            with serve_page(settings) as page:
                yield House(settings, store, page, lived)
        finally:
            worker.terminate()
            worker.wait(60)


@dataclass(slots=True)
class Person:
    """Somebody in front of the start page, whose actions are counted."""

    tab: Page
    actions: int = field(default=0)

    def click(self, name: str | re.Pattern[str], role: str = "link") -> None:
        self._act()
        self.tab.get_by_role(role, name=name).first.click()  # type: ignore[arg-type]

    def press(self, keys: str) -> None:
        self._act()
        for key in keys.split():
            self.tab.keyboard.press(key)

    def type(self, text: str) -> None:
        self._act()
        self.tab.keyboard.type(text)

    def sees(self, text: str) -> Locator:
        found = self.tab.get_by_text(text).first
        found.wait_for()
        return found

    def _act(self) -> None:
        self.actions += 1
        assert self.actions <= MAX_ACTIONS


@pytest.fixture
def person(house: House, tab: Page) -> Iterator[Person]:
    """A person who has just opened the page; nothing may be reported as an error on the way."""
    errors: list[str] = []
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(house.page.entry())
    tab.wait_for_selector("h1")
    tab.wait_for_load_state()
    yield Person(tab)
    assert errors == []


def test_what_does_it_know(person: Person, house: House) -> None:
    person.press("/")
    person.type("vat")
    person.press("Enter")
    person.sees("2 memories with this word")
    person.sees(house.lived.fix.shown_title)


def test_why_was_it_shown(person: Person) -> None:
    person.click(re.compile("How do we round"))
    person.click("20 considered ▸", role="button")
    person.sees("rare words in common")
    person.sees("and 18 more, less relevant")


def test_why_was_it_silent(person: Person) -> None:
    shown, kept = [chart.bounding_box() for chart in person.tab.locator("[data-chart]").all()]
    assert kept is not None
    assert shown is not None
    # Two pictures that are compared have one scale.
    assert (kept["height"], kept["y"]) == (shown["height"], shown["y"])
    person.sees("silent: it has no topic to search for")
    person.click(re.compile("yes, go on"))
    person.sees("silent: it has no topic to search for")


def test_what_would_be_shown(person: Person, house: House) -> None:
    person.tab.goto(f"{house.page.home}/s/try?project=harbor")
    person.tab.get_by_label("Prompt", exact=True).focus()
    person.type(PROMPT)
    person.click("Try it", role="button")
    person.sees(" considered · ")
    assert wrong_for_people(person.tab) == []


def test_where_is_it_from(person: Person, house: House) -> None:
    person.click(re.compile(r"^vat_cents"))
    assert person.tab.locator("mark").inner_text() == SUMMARY
    person.click("line 18")
    person.tab.locator(".cited:target").get_by_text("line 18").wait_for()


def test_wrong_fix_it_now_and_undo(person: Person, house: House) -> None:
    def is_lowered() -> bool:
        memory = find_memory(house.store, house.lived.fix.episode_id)
        assert memory is not None
        return memory.is_lowered

    person.click("Wrong", role="button")
    person.sees("Claude won't be shown it again")
    person.sees("✗ wrong")
    assert is_lowered()
    person.press("u")
    person.sees("Undone: judged wrong")
    assert not is_lowered()
    assert person.tab.get_by_text("✗ wrong").count() == 0


def test_what_was_forgotten_is_asked_for_and_waits(person: Person, house: House) -> None:
    canary = save_memory(house.store, "The canary sings.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    person.tab.goto(f"{house.page.home}/m/{canary.episode_id}")
    asked = person.tab.locator("button:focus", has_text="Keep it")  # Enter alone changes nothing
    person.press("f")
    person.sees("Forget this for good?")
    asked.wait_for()
    person.tab.keyboard.press("Shift+Tab")
    person.press("Enter")
    person.sees("Forgetting in 6 seconds")
    person.press("Escape")
    person.tab.get_by_text("Forgetting in").wait_for(state="hidden")
    assert find_memory(house.store, canary.episode_id) is not None
    person.tab.keyboard.press("f")
    asked.wait_for()
    person.tab.keyboard.press("Shift+Tab")
    person.tab.keyboard.press("Enter")
    person.tab.get_by_role("heading", name="Forgotten").wait_for()
    assert find_memory(house.store, canary.episode_id) is None


def test_what_has_changed(person: Person) -> None:
    person.click(re.compile("^Kept a fix: vat_cents"))
    person.sees("Kept from what was said")


def test_what_will_it_say_next(person: Person) -> None:
    person.sees("What Claude will be shown first in harbor")
    person.sees("Never deploy on Fridays.")


def test_is_it_working(person: Person) -> None:
    person.sees("Watcher not running: new lines are not read")
    person.press("g s")
    person.tab.wait_for_url(re.compile("/s$"))
    person.sees("Watcher not running")


def test_a_list_is_walked_with_the_keyboard_and_corrected_next_to_it(person: Person, house: House) -> None:
    tab = person.tab
    tab.keyboard.press("g")
    tab.keyboard.press("m")
    tab.wait_for_url(re.compile("/m$"))
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    title = tab.evaluate("document.activeElement.textContent").strip()[:30]
    tab.locator("#detail h1", has_text=title).wait_for()
    tab.keyboard.press("p")
    tab.locator("#notice .notice").wait_for()
    tab.keyboard.press("u")
    person.sees("Undone: ")
    tab.keyboard.press("e")
    tab.get_by_label("What Claude is shown").wait_for()
    assert tab.evaluate("document.activeElement.id") == "summary"
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    tab.locator("#from").wait_for()


def test_a_search_that_finds_nothing_shows_nothing_else(person: Person, house: House) -> None:
    tab = person.tab
    tab.goto(f"{house.page.home}/m")
    tab.locator("#search").fill("zeppelin quokka")
    person.sees("Nothing that was kept or said relates to it.")
    assert tab.locator("#found li[data-row]").count() == 0


def test_a_question_is_answered_while_it_is_typed_wherever_one_is(person: Person, house: House) -> None:
    tab = person.tab
    for view in ("/", "/s", "/tasks"):
        tab.goto(f"{house.page.home}{view}")
        tab.locator("#search").press_sequentially(PROMPT)
        tab.locator("#answer h2", has_text="nswer").wait_for()
        tab.locator("#answer").get_by_text("integer arithmetic").first.wait_for()
        assert tab.url.split("?")[0].endswith("/m")
        assert tab.locator("nav [aria-current]").inner_text() == "Memories"
        tab.go_back()
        tab.wait_for_url(f"{house.page.home}{view}")
        # The view is loaded anew, which would end the next step.
        tab.locator("#answer h2").wait_for(state="detached")


def test_the_days_of_a_chart_are_read_with_the_arrows(person: Person) -> None:
    tab = person.tab
    chart = tab.locator("[data-chart]").first
    chart.locator("li").last.focus()
    assert chart.locator("li:focus b").inner_text().endswith(": 1")
    tab.keyboard.press("ArrowLeft")
    tip = chart.locator("li:focus b")
    assert tip.inner_text().endswith(": 0")
    assert tip.evaluate("tip => getComputedStyle(tip).opacity") == "1"


def test_times_are_those_of_the_readers_zone(browser: Browser, house: House) -> None:
    with browser.new_context(timezone_id="Asia/Kathmandu", locale="en-GB") as context:
        tab = context.new_page()
        tab.goto(house.page.entry())
        tab.wait_for_selector("h1")
        tab.goto(f"{house.page.home}/m")
        told, at = tab.locator("main time").first.evaluate("time => [time.textContent, time.dateTime]")
        moment = datetime.datetime.fromisoformat(at).astimezone(zoneinfo.ZoneInfo("Asia/Kathmandu"))
        assert moment.strftime("%H:%M") in told


def test_times_of_another_zone_are_as_short_as_those_of_this_machine(browser: Browser, house: House) -> None:
    zone = zoneinfo.ZoneInfo("Asia/Kathmandu")
    now = datetime.datetime.now(zone).replace(hour=12, minute=5, second=0, microsecond=0)
    early, day = now.replace(hour=2), datetime.timedelta(days=1)
    # In the form, the moment in the zone of the machine, and what the reader sees.
    utc = datetime.UTC
    expected = (
        ("when", now, "12:05"),
        ("when", now - 40 * day, f"{now - 40 * day:%-d %b %H:%M}"),
        ("when", now - 400 * day, f"{now - 400 * day:%-d %b %Y}"),
        ("date", now, f"{now:%-d %b %Y}"),
        ("day", now, "Today"),
        ("day", now - day, "Yesterday"),
        ("day", now - 400 * day, f"{now - 400 * day:%-d %B %Y}"),
        ("date", now.replace(year=2024, month=9), f"{now.day} Sep 2024"),
        ("clock", now, "12:05"),
        ("clock", early, f"{early:%-d %b} 02:05"),  # for the machine, that is the day before
    )
    with browser.new_context(timezone_id=zone.key) as context:
        tab = context.new_page()
        tab.goto(house.page.entry())
        tab.wait_for_selector("h1")
        tab.wait_for_load_state("load")  # the page's script has run
        told = tab.evaluate(
            """times => {
                for (const [form, at] of times) {
                    const time = document.createElement("time");
                    [time.dataset.form, time.dateTime, time.className] = [form, at, "tried"];
                    document.body.append(time);
                }
                document.dispatchEvent(new Event("htmx:after:swap"));
                return [...document.querySelectorAll(".tried")].map(time => time.textContent);
            }""",
            [[form, at.astimezone(utc).isoformat()] for form, at, _ in expected],
        )
    this_year = [text for (_, at, text) in expected if at.year == now.year]
    shown = [one for one, (_, at, _) in zip(told, expected, strict=True) if at.year == now.year]
    assert shown == this_year
    assert told[2] == expected[2][2]


def test_a_view_is_printed_without_what_only_a_screen_needs(person: Person, house: House) -> None:
    tab = person.tab
    tab.goto(f"{house.page.home}/m/{house.lived.fix.episode_id}")
    tab.emulate_media(media="print", color_scheme="dark")
    for name in ("nav", "#search", "footer", "main button"):
        assert not tab.locator(name).first.is_visible()
    assert tab.locator("h1").is_visible()
    assert tab.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"


def test_on_a_narrow_phone_words_stay_whole(person: Person) -> None:
    tab = person.tab
    tab.set_viewport_size({"width": 320, "height": 800})
    shown, tools = (tab.locator(f".shown {name}").first.bounding_box() for name in ("a", ".tools"))
    assert shown is not None
    assert tools is not None
    assert tools["y"] >= shown["y"] + shown["height"]


def test_what_is_new_waits_until_it_is_wanted(person: Person, house: House) -> None:
    tab = person.tab
    tab.goto(f"{house.page.home}/m")
    rows = tab.locator("#found li[data-row]").count()
    save_memory(house.store, "Something new came up.", redact, actor=Actor.AGENT, scope=Scope.GLOBAL)
    tab.get_by_role("button", name="1 new – show").wait_for()
    assert tab.locator("#found li[data-row]").count() == rows
    with tab.expect_navigation():
        tab.get_by_role("button", name="1 new – show").click()
    person.sees("Something new came up")
    tab.get_by_role("button", name=re.compile("live")).click()
    tab.get_by_role("button", name=re.compile("paused")).wait_for()


def test_nothing_is_wrong_for_people_who_see_or_move_otherwise(browser: Browser, house: House) -> None:
    lived = house.lived
    routes = [route for view in VIEWS for route in view.routes if route.method == "GET" and not route.is_part]
    # test_later_people.py shows the later views with something in them.
    shown = [route.path for route in routes if "{" not in route.path and route.path[1:] not in LATER_VIEWS]
    shown += [f"/m/{lived.fix.episode_id}", f"/s/{SESSION}", f"/s/{SESSION}/t/{lived.turn_id}", "/m?q=vat"]
    with browser.new_context() as context:
        tab = context.new_page()
        tab.goto(house.page.entry())
        tab.wait_for_selector("h1")
        for path in shown:
            tab.goto(house.page.home + path)
            assert wrong_for_people(tab) == [], path


def test_a_page_at_twice_the_size_needs_no_scrolling_sideways(browser: Browser, house: House) -> None:
    """1280 pixels at 200 % are 640."""
    with browser.new_context(viewport={"width": 640, "height": 400}, device_scale_factor=2) as context:
        tab = context.new_page()
        tab.goto(house.page.entry())
        tab.wait_for_selector("h1")
        for path in ("/", "/m", f"/m/{house.lived.fix.episode_id}", "/s", f"/s/{SESSION}"):
            tab.goto(house.page.home + path)
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
