"""A served page over the memory of the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, Clock
from tests.page.browsing import WAIT_MS, launch_browser
from tests.page.serving import ServedPage, serve_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def clock() -> Clock:
    """The real clock: the page reads the memory with it."""
    return SYSTEM_CLOCK


@pytest.fixture
def page(settings: Settings) -> Iterator[ServedPage]:
    """The page, whole."""
    with serve_page(settings) as page:
        yield page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a module, each of which has its own profile."""
    with launch_browser() as browser:
        yield browser


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in a new profile."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(WAIT_MS)
        yield context.new_page()
