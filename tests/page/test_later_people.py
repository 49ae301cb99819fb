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
from tests.page.browsing import wrong_for_people
from tests.page.lived import live
from tests.page.serving import ServedPage
from tests.page.test_later_views import VIEWS, give_work, spend

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


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
    tab.get_by_text("contradict no memory").wait_for()  # the comparison with files came by itself


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
    tab.get_by_text(re.compile("checks? of engram .*doctor")).wait_for()
    tab.get_by_role("button", name="Preview the next run").click()
    tab.locator("#preview").get_by_text("Nothing was changed.").or_(
        tab.get_by_text("There is nothing to do.")
    ).wait_for()
    tab.goto(f"{house.home}/tasks/1")
    tab.get_by_text("OSError").first.wait_for()
    tab.get_by_role("button", name="Retry").click()
    tab.get_by_text("Due now: extract").wait_for()
    tab.keyboard.press("u")
    tab.get_by_text("The work is as it was before.").wait_for()
    assert tab.evaluate("document.querySelectorAll('[style]').length") == 0
