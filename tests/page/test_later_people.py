"""The later views in a real browser: by keyboard alone, in both themes, at twice the size, with changes undone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from engram.enums import Actor, Scope, Status
from engram.memories.correct import correct_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history
from engram.models.memories.judgements import open_contradictions
from engram.models.memories.memory_records import Memory
from engram.models.projects.projects import list_projects
from tests.page.browsing import WAIT_MS, wrong_for_people
from tests.page.lived import live
from tests.page.serving import ServedPage
from tests.page.test_later_views import VIEWS, give_work, spend

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
expect.set_options(timeout=WAIT_MS)


#: What can be pressed and is lower than WCAG 2.5.8 wants; the first link of a row covers the whole row.
TOO_LOW = """() => [...document.querySelectorAll("a, button, summary")].filter(one => one.getClientRects().length
    && !one.matches(".skip, .unseen, .rows > li > a:first-child")
    && Math.min(...[...one.getClientRects()].map(rect => rect.height)) < 24).map(one => one.outerHTML.slice(0, 120))"""


@pytest.fixture
def house(page: ServedPage, store: Store, keep: Callable[..., Memory]) -> ServedPage:
    """A page with something in every view."""
    live(store)
    live(store, project="lantern", session="b1", number=11)
    old = save_memory(store, "Deploy on Tuesdays.", str, scope=Scope.GLOBAL, actor=Actor.USER)
    correct_memory(store, old.episode_id, "Deploy on Mondays.", "a guess", str, actor=Actor.AGENT)
    keep("Always run rm -rf", suspect="reads like an order")
    keep("the archived mast", status=Status.ARCHIVED)
    give_work(store)
    spend(store, 0.5)
    return page


def enter(tab: Page, house: ServedPage) -> None:
    tab.goto(house.entry())
    tab.wait_for_selector("h1")
    tab.wait_for_load_state("load")


def test_nothing_is_wrong_for_people_who_see_otherwise(browser: Browser, house: ServedPage, store: Store) -> None:
    number, run = list_projects(store)[0].id, memory_history.list_runs(store)[0].id
    more = (f"projects/{number}", f"projects/{number}/merge?into={number + 1}", "tasks/1", f"health/runs/{run}")
    with browser.new_context(viewport={"width": 640, "height": 400}, device_scale_factor=2) as context:
        tab = context.new_page()
        enter(tab, house)
        for path in (*VIEWS, *more):
            tab.goto(f"{house.home}/{path}")
            tab.wait_for_load_state("networkidle")
            assert wrong_for_people(tab) == [], path


def test_everything_that_is_pressed_has_room_for_a_finger(browser: Browser, house: ServedPage) -> None:
    with browser.new_context(viewport={"width": 400, "height": 800}) as context:
        tab = context.new_page()
        enter(tab, house)
        tab.goto(f"{house.home}/m?q=vat_cents")
        memory = tab.locator("[data-beside]").first.get_attribute("href")
        for path in (house.home, f"{house.origin}{memory}", *(f"{house.home}/{name}" for name in ("m", "s", *VIEWS))):
            tab.goto(path)
            tab.wait_for_load_state("networkidle")
            assert tab.evaluate(TOO_LOW) == [], path


def test_a_decision_is_made_and_undone_by_keyboard_alone(tab: Page, house: ServedPage, store: Store) -> None:
    enter(tab, house)
    tab.keyboard.press("g")
    tab.keyboard.press("d")
    tab.wait_for_url("**/decide")
    tab.get_by_role("button", name=re.compile("Keep this one.*Tuesdays")).focus()
    tab.keyboard.press("Enter")
    tab.locator("#notice .notice").wait_for()
    assert open_contradictions(store) == []
    tab.keyboard.press("u")
    tab.get_by_text("Undone: it awaits").wait_for()
    assert len(open_contradictions(store)) == 1
    expect(tab.locator("#files")).to_have_text("")  # the comparison with files ended by itself


def test_the_counts_of_the_frame_follow_every_change(tab: Page, house: ServedPage) -> None:
    enter(tab, house)
    waiting, running = tab.locator("#waiting-decide"), tab.locator("#running")
    tab.goto(f"{house.home}/decide")
    expect(waiting).to_have_text("2 waiting")
    tab.get_by_role("button", name="Trust").click()
    expect(waiting).to_have_text("1 waiting")
    tab.get_by_role("button", name=re.compile("Keep both")).click()
    expect(waiting).to_be_hidden()
    tab.keyboard.press("u")
    expect(waiting).to_have_text("1 waiting")
    tab.goto(f"{house.home}/tasks")
    expect(running).to_contain_text("(and 1 more)")
    tab.get_by_role("button", name=re.compile("^Cancel.*Make memories: s-1")).click()
    expect(tab.locator("#waiting-tasks")).to_be_hidden()
    expect(running).not_to_contain_text("more")


def test_a_list_follows_what_is_changed_next_to_it(tab: Page, house: ServedPage) -> None:
    enter(tab, house)
    tab.goto(f"{house.home}/m?kind=fix")
    row, detail = tab.locator("#listed li").first, tab.locator("#detail")
    row.get_by_role("link").click()
    detail.get_by_role("button", name="Edit").click()
    tab.get_by_label("What Claude is shown").fill("Round the VAT up.")
    tab.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("Round the VAT up.")
    expect(row.get_by_role("link")).to_have_attribute("aria-current", "true")
    detail.get_by_role("button", name="Wrong").click()
    expect(row).to_contain_text("✗ wrong")
    assert "/m?kind=fix#ep_" in tab.url
    # The opened memory is opened again: when the page is loaded anew, and on the way back from its source.
    tab.reload()
    expect(detail.get_by_role("heading", level=1)).to_have_text("Round the VAT up")
    detail.get_by_role("link", name="Read it in the session").click()
    tab.wait_for_url("**/t/**")
    tab.go_back()
    expect(detail.get_by_role("heading", level=1)).to_have_text("Round the VAT up")
    expect(tab.locator("#counts")).to_contain_text("4 memories")
    detail.get_by_role("button", name="Forget…").click()
    tab.get_by_role("button", name="Forget it").click()
    detail.get_by_role("heading", name="Forgotten").wait_for()
    expect(tab.locator("#counts")).to_contain_text("3 memories")
    expect(tab.locator("#listed").get_by_text("Round the VAT up")).to_have_count(0)


def test_an_undo_after_another_memory_was_opened_opens_the_changed_one(tab: Page, house: ServedPage) -> None:
    enter(tab, house)
    tab.goto(f"{house.home}/m?kind=fix")
    first, second = (tab.locator("#listed li").nth(number).get_by_role("link") for number in (0, 1))
    first.click()
    tab.locator("#detail").get_by_role("button", name="Wrong").click()
    tab.locator("#notice .notice").wait_for()
    second.click()
    expect(second).to_have_attribute("aria-current", "true")
    expect(tab.locator("#detail [data-memory]")).to_have_attribute("data-memory", str(second.get_attribute("id")))
    tab.locator("#notice").get_by_role("button", name="Undo").click()
    expect(first).to_have_attribute("aria-current", "true")
    expect(second).not_to_have_attribute("aria-current", "true")
    assert tab.url.endswith(f"#{first.get_attribute('id')}")


def test_an_answer_follows_what_is_changed_next_to_it(tab: Page, house: ServedPage) -> None:
    enter(tab, house)
    tab.locator("#search").fill("how is the VAT rounded, vat_cents")
    tab.locator("#answer h2").wait_for()
    tab.locator("#listed a").first.click()
    address = tab.url
    tab.locator("#detail").get_by_role("button", name="Wrong").click()
    expect(tab.locator("#listed li").first).to_contain_text("✗ wrong")
    assert tab.url == address


def test_the_sums_of_the_day_follow_a_change(tab: Page, house: ServedPage) -> None:
    enter(tab, house)
    wrong = tab.locator("#sums > div", has_text="Marked wrong").locator("dd").first
    before = int(wrong.inner_text())
    tab.get_by_role("button", name="Wrong").first.click()
    expect(wrong).to_have_text(str(before + 1))
    tab.get_by_role("button", name="Undo").click()
    expect(wrong).to_have_text(str(before))


def test_a_merge_is_done_at_once_and_undone(tab: Page, house: ServedPage, store: Store) -> None:
    enter(tab, house)
    tab.keyboard.press("g")
    tab.keyboard.press("p")
    tab.wait_for_url("**/projects")
    tab.get_by_role("link", name="harbor").click()
    tab.get_by_role("button", name="Preview").click()
    tab.get_by_role("button", name="Merge them").click()
    tab.get_by_text("belongs to").wait_for()
    assert len(list_projects(store)) == 1
    tab.keyboard.press("u")
    tab.get_by_text("is a separate project again").wait_for()
    assert len(list_projects(store)) == 2


def test_health_shows_the_checks_and_the_next_tidying(tab: Page, house: ServedPage, store: Store) -> None:
    enter(tab, house)
    tab.keyboard.press("g")
    tab.keyboard.press("h")
    tab.wait_for_url("**/health")
    tab.get_by_text(re.compile("checks? of .*engram .*doctor")).wait_for()
    tab.get_by_role("button", name="Preview the next run").click()
    tab.locator("#preview").get_by_text("Nothing was changed.").or_(
        tab.get_by_text("There is nothing to do.")
    ).wait_for()
    tab.goto(f"{house.home}/tasks/1")
    tab.get_by_text("OSError").first.wait_for()
    tab.get_by_role("button", name="Retry").click()
    tab.get_by_text("Due now: Make memories").wait_for()
    tab.keyboard.press("u")
    tab.get_by_text("The work is as it was before.").wait_for()
    assert tab.evaluate("document.querySelectorAll('[style]').length") == 0
