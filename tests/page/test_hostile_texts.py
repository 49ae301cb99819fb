"""Hostile texts in every stored field do nothing; not even if escaping fails, as long as the policy holds.

The fast tier shows one text of each kind, the full tier those of the shared data too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from engram.config_file import set_value
from engram.models.engine.transaction import Store
from engram.page import routes
from engram.page.rendering import ASSETS, make_environment, spell_hidden
from engram.page.views import VIEWS
from engram.page.views.sessions import MAX_MOMENTS
from engram.settings import Settings, load
from tests.page.hostile import OWN, live_with, payloads
from tests.page.lived import Lived
from tests.page.serving import ServedPage, serve_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Response

pytestmark = pytest.mark.browser


TIERS = [pytest.param(OWN, id="own"), pytest.param(payloads(), id="all", marks=pytest.mark.soak)]


@pytest.fixture
def lived(store: Store, texts: Sequence[str]) -> list[Lived]:
    return live_with(store, texts)


def paths(lived: Sequence[Lived]) -> list[str]:
    """Every view, each memory, and the trace of the session in which everything was said."""
    shown = [route.path for view in VIEWS for route in view.routes if route.method == "GET" and "{" not in route.path]
    shown += [f"/m/{one.fix.episode_id}" for one in lived]
    shown += [f"/s/s-0000?upto={last}" for last in range(MAX_MOMENTS, 2 * len(lived) + MAX_MOMENTS, MAX_MOMENTS)]
    return [*shown, f"/s/s-0000/t/{lived[0].turn_id}", "/m?q=harbor", "/m?from=30", "/m?project=nobody"]


def has_run_a_script(tab: Page) -> bool:
    """Whether a payload left its mark. A text that led the browser on while it was asked is asked about again."""
    from playwright.sync_api import Error as PlaywrightError

    while True:
        try:
            return bool(tab.evaluate("'PWN' in window"))
        except PlaywrightError as error:
            if "Execution context was destroyed" not in error.message:
                raise
            tab.wait_for_load_state("load")


def harm(browser: Browser, page: ServedPage, shown: Sequence[str], *, is_change_expected: bool = False) -> set[str]:
    """Look at everything; returns what went wrong: a script ran, something was loaded or changed.

    With ``is_change_expected``, wait at each path for the answer to a change: htmx asks when the page is loaded, and
    the answer leads on at once, so that nobody could wait for the end of the loading.
    """
    found: set[str] = set()

    def is_write(answer: Response) -> bool:
        """A text of an earlier page asks too, at that page's address, and is refused."""
        return answer.request.method == "POST" and answer.url.startswith(page.home)

    outside: set[Request] = set()

    def note(request: Request) -> None:
        if not request.url.startswith((page.origin, "data:", "blob:")) and not request.is_navigation_request():
            outside.add(request)

    def take_back(request: Request) -> None:
        """A request that the policy stopped is reported too, and never left the browser."""
        if "csp" in (request.failure or "").lower():
            outside.discard(request)

    with browser.new_context() as context:
        context.on("request", note)
        context.on("requestfailed", take_back)
        tab = context.new_page()
        tab.on("dialog", lambda dialog: (found.add("a script ran"), dialog.dismiss()))
        tab.goto(page.entry())
        tab.wait_for_url(f"{page.home}/**")
        for path in shown:
            with tab.expect_response(is_write) if is_change_expected else contextlib.nullcontext():
                tab.goto(page.home + path, wait_until="commit" if is_change_expected else "load")
            if tab.url.startswith(page.home) and has_run_a_script(tab):
                found.add("a script ran")
    if outside:
        found.add("something was loaded from elsewhere")
    if not load({"home": str(page.settings.home)}).settings.page_letters:
        found.add("something was changed")
        set_value(page.settings.home, "page_letters", "true")
    return found


@pytest.mark.parametrize("texts", TIERS)
def test_the_page_shows_hostile_texts_as_texts(
    browser: Browser, settings: Settings, lived: list[Lived], texts: Sequence[str]
) -> None:
    with serve_page(settings) as page:
        assert harm(browser, page, paths(lived)) == set()
        for one, text in zip(lived, texts, strict=True):
            shown = html.unescape(page.see("m", one.fix.episode_id).text)
            # Marks of code are left out where a text is shown; a list of the same words leaves none out.
            said = re.sub(r"</?(?:code|strong)>", "", shown)
            assert re.sub(r"[`*]", "", spell_hidden(text))[:60] in re.sub(r"[`*]", "", said), text


@pytest.mark.parametrize("texts", TIERS)
def test_if_escaping_fails_no_script_runs_and_nothing_is_loaded_or_changed(
    browser: Browser, settings: Settings, store: Store, lived: list[Lived], texts: Sequence[str]
) -> None:
    with store.transaction() as tx:
        # Every page lists all projects. Some browsers parse markup in that list: a tag cut open in a project's name
        # would swallow the rest of each page, and no other text would be tried.
        tx.run("UPDATE project SET name = 'p' || id")
    unescaped = make_environment(autoescape=False)
    # A tag that leads the browser away is no matter of the policy: it takes the address along, which opens nothing.
    shown = [f"/m/{one.fix.episode_id}" for one, text in zip(lived, texts, strict=True) if "refresh" not in text]
    with serve_page(settings, environment=unescaped) as page:
        assert harm(browser, page, shown) == set()
    with serve_page(settings, environment=unescaped, headers_of=lambda nonce: {}) as page:
        assert {"a script ran", "something was loaded from elsewhere"} <= harm(browser, page, shown[: len(OWN)])


def test_if_escaping_fails_what_has_no_nonce_changes_nothing(
    browser: Browser, settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markup alone can ask htmx to change something: the nonce gate of htmx stops that, and without it, it happens."""

    def attack(*, is_change_expected: bool = False) -> set[str]:
        with serve_page(settings, environment=make_environment(autoescape=False)) as page:
            text = f"<div hx-post='{page.access.root}/letters' hx-trigger='load' hx-vals='letters:off'>x</div>"
            (one,) = live_with(store, [text])
            return harm(browser, page, [f"/m/{one.fix.episode_id}"], is_change_expected=is_change_expected)

    assert attack() == set()
    htmx = ASSETS["htmx.js"]
    ungated = dataclasses.replace(htmx, paths=tuple(path for path in htmx.paths if "hx-csp" not in path.name))
    assert len(ungated.paths) == len(htmx.paths) - 1
    monkeypatch.setattr(routes, "ASSETS", {**ASSETS, "htmx.js": ungated})
    assert "something was changed" in attack(is_change_expected=True)
