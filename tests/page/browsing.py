"""A real browser: Debian's Chromium, or Chrome on macOS, driven by Playwright.

Chromium's headless shell is its engine without the windows that nobody sees: a tab costs a fifth of the processor time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Longest wait for anything in a page, in milliseconds.
WAIT_MS = 60_000
#: What Chromium is called, the cheapest first.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: A name that the browser believes to be this machine: another site.
EVIL = "evil.test"
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Runs axe, which was loaded before; returns a line for each kind of violation. Its argument: the rules, all if empty.
RUN_AXE = """rules => axe.run({resultTypes: ["violations"], ...(rules.length ? {runOnly: rules} : {})}).then(found =>
    found.violations.map(one => `${one.id}: ${one.nodes[0].html.slice(0, 160)}`))"""
#: The rules whose answer depends on the theme: the themes differ in colours alone.
RULES_OF_COLOURS = ["color-contrast", "link-in-text-block"]


def _is_missing(what: str) -> None:
    """Skip the test, or fail it in CI, where everything has to be there."""
    sentence = f"{what}; `make browser-setup` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextlib.contextmanager
def launch_browser() -> Iterator[Browser]:
    """Start the browser; skips the test where it is missing. ``evil.test`` points to this machine."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _is_missing("playwright is not installed")
    options: dict[str, Any] = {"channel": "chrome"}
    if sys.platform != "darwin":
        path = next((found for name in NAMES if (found := shutil.which(name))), None)
        if path is None:
            _is_missing("there is no Chromium")
        options = {"executable_path": path}
    elif not Path("/Applications/Google Chrome.app").exists():
        _is_missing("there is no Chrome")
    with sync_playwright() as playwright:
        # Chromium alone asks before a page reaches this machine: what other browsers let through is to be stopped here.
        arguments = [f"--host-resolver-rules=MAP {EVIL} 127.0.0.1", "--disable-features=LocalNetworkAccessChecks"]
        browser = playwright.chromium.launch(args=arguments, **options)
        try:
            yield browser
        finally:
            browser.close()


def wrong_for_people(tab: Page) -> list[str]:
    """What axe finds on the page of a tab in either theme, and whether the page is wider than the window."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab.evaluate(axe.axe_script)
    found: list[str] = []
    for scheme in THEMES:
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        rules = [] if scheme == THEMES[0] else RULES_OF_COLOURS
        found += [f"{scheme}: {one}" for one in tab.evaluate(RUN_AXE, rules)]
        if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{scheme}: wider than the window")
    return found
