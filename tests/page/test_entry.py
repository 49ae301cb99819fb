"""A person's browser comes in by the file, finds its way with the keyboard, and sees no error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engram.page.page_access import make_entry
from engram.settings import load
from tests.page.serving import ServedPage

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_the_file_leads_in_and_the_keys_work_until_they_are_switched_off(page: ServedPage, tab: Page) -> None:
    errors: list[str] = []
    tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    tab.on("request", lambda request: errors.append(request.url) if not request.url.startswith(origins) else None)
    origins = (page.origin, "file:", "data:")
    file, _ = make_entry(page.settings.places.page_entries, page.access.port)

    tab.goto(file.as_uri())
    tab.wait_for_selector("h1")
    tab.wait_for_load_state()
    assert tab.url == f"{page.home}/"
    tab.keyboard.press("?")
    assert tab.locator("#keys").is_visible()
    tab.keyboard.press("Escape")
    tab.keyboard.press("/")
    assert tab.locator("#search").evaluate("box => box === document.activeElement")
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Keys").click()
    with tab.expect_navigation():
        tab.get_by_role("button", name="Switch these keys off").click()
    tab.keyboard.press("?")
    assert not tab.locator("#keys").is_visible()
    assert not load({"home": str(page.settings.home)}).settings.page_letters
    assert errors == []
