"""Attacks in a real browser: the page withstands each, one guard alone does, and a copy without that guard falls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from engram.config_file import set_value
from engram.page import routes
from engram.page.page_access import CHECKS, Access, Check, check_host, check_origin, check_sender, check_site
from engram.page.routes import DIRECTIVES, HEADERS, security_headers
from engram.settings import Settings, load
from tests.page.attacker import Attacker, serve_attacker
from tests.page.browsing import EVIL
from tests.page.serving import ServedPage, serve_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

#: Names of the attacker's server: on another port of the page's own site, and on another site.
PORT, SITE = "127.0.0.1", EVIL


@dataclass(frozen=True, slots=True)
class Victim:
    """A person with the page open, who visits the attacker in another tab of the same profile."""

    page: ServedPage
    tab: Page
    attacker: Attacker

    def visit(self, html: str, name: str) -> None:
        """Visit the attacker's server, which serves this."""
        self.attacker.html = html
        self.tab.goto(self.attacker.address(name))

    def has_changed(self) -> bool:
        """True if somebody switched the single-letter keys off, which stands for any change; they are on afterwards."""
        home = self.page.settings.home
        has_changed = not load({"home": str(home)}).settings.page_letters
        set_value(home, "page_letters", "true")
        return has_changed


Attack = Callable[[Victim], bool]


def rebind(victim: Victim) -> bool:
    """The attacker's name points here now; the script was loaded before. Reads the page and changes something."""
    rebound = f"http://{EVIL}:{victim.page.access.port}"
    victim.tab.route(f"{rebound}/start", lambda route: route.fulfill(content_type="text/html", body="<p>start"))
    victim.tab.goto(f"{rebound}/start")
    read = victim.tab.evaluate("root => fetch(root + '/').then(answer => answer.text())", victim.page.access.root)
    victim.tab.evaluate(
        """root => fetch(root + '/letters', {method: 'POST', body: new URLSearchParams({letters: 'off'}),
            headers: {'HX-Request': 'true'}}).then(answer => answer.status)""",
        victim.page.access.root,
    )
    has_changed = victim.has_changed()
    assert has_changed == ("<h1>" in read)
    return has_changed


def send_form(name: str) -> Attack:
    """A form that sends itself."""

    def attack(victim: Victim) -> bool:
        address = f"{victim.page.home}/letters"
        with victim.tab.expect_response(lambda answer: answer.url == address):
            victim.visit(
                f"<form method=post action='{address}'><input name=letters value=off></form>"
                "<script>document.forms[0].submit()</script>",
                name,
            )
        return victim.has_changed()

    return attack


def send_by_script(name: str) -> Attack:
    """A script that sends what a form could."""

    def attack(victim: Victim) -> bool:
        victim.visit("<p>", name)
        victim.tab.evaluate(
            """url => fetch(url, {method: 'POST', mode: 'no-cors', credentials: 'include',
                body: new URLSearchParams({letters: 'off'})}).catch(() => {})""",
            f"{victim.page.home}/letters",
        )
        return victim.has_changed()

    return attack


def load_image(name: str) -> Attack:
    """An image of the page that tells whether it was loaded."""

    def attack(victim: Victim) -> bool:
        victim.visit(f"<img src='{victim.page.home}/static/icon.svg'>", name)
        return bool(victim.tab.evaluate("document.images[0].decode().then(() => true, () => false)"))

    return attack


def load_frame(name: str) -> Attack:
    """The page in a frame, for clicks that somebody does not mean."""

    def attack(victim: Victim) -> bool:
        victim.visit(f"<iframe src='{victim.page.home}/'></iframe>", name)
        return "<header" in victim.tab.frames[1].content()

    return attack


def get_cookie(victim: Victim) -> bool:
    """Another server on this machine: cookies ignore ports."""
    victim.attacker.asked.clear()
    victim.visit("<p>", PORT)
    assert victim.attacker.asked
    return any(victim.page.access.secret in cookie for _, cookie in victim.attacker.asked)


WRITES = {
    "form from another port": send_form(PORT),
    "form from another site": send_form(SITE),
    "script from another port": send_by_script(PORT),
    "script from another site": send_by_script(SITE),
}
IMAGES = {"image on another port": load_image(PORT), "image on another site": load_image(SITE)}
FRAMES = {"frame on another port": load_frame(PORT), "frame on another site": load_frame(SITE)}
ALL: dict[str, Attack] = {"rebinding": rebind, **WRITES, **IMAGES, **FRAMES, "cookie": get_cookie}


class CarelessAccess(Access):
    """As so many local servers do it: the cookie is for every path, and goes along from every site."""

    @property
    def cookie_header(self) -> str:
        """A cookie without care."""
        return f"engram_page={self.secret}; Path=/"


@contextlib.contextmanager
def a_victim(
    browser: Browser,
    settings: Settings,
    *,
    checks: Sequence[Check] = CHECKS,
    headers_of: Callable[[str], Mapping[str, str]] = security_headers,
    **parts: Any,
) -> Iterator[Victim]:
    """Open the page, whole or a copy of it, as its user does."""
    with (
        serve_attacker() as attacker,
        serve_page(settings, checks=checks, headers_of=headers_of, **parts) as page,
        browser.new_context() as context,
    ):
        own = context.new_page()
        own.goto(page.entry())
        own.wait_for_selector("h1")
        yield Victim(page, context.new_page(), attacker)


def with_only(*names: str) -> Callable[[str], dict[str, str]]:
    """The security headers: these directives of the policy and these headers alone."""
    directives = {name: value for name, value in DIRECTIVES.items() if name in names}
    headers = {name: value for name, value in HEADERS.items() if name in names}
    return lambda nonce: security_headers(nonce, directives=directives, headers=headers)


def successes(victim: Victim, attacks: Mapping[str, Attack]) -> set[str]:
    """The attacks that succeed."""
    return {name for name, attack in attacks.items() if attack(victim)}


def test_the_page_withstands_every_attack(browser: Browser, settings: Settings) -> None:
    with a_victim(browser, settings) as victim:
        assert successes(victim, ALL) == set()


def test_a_copy_without_its_guards_falls_to_every_attack(browser: Browser, settings: Settings) -> None:
    """Without this, the other tests would prove nothing."""
    with a_victim(browser, settings, checks=(), headers_of=with_only(), make_access=CarelessAccess) as victim:
        assert successes(victim, ALL) == set(ALL)


@pytest.mark.parametrize(
    ("check", "attacks"),
    [
        (check_host, {"rebinding": rebind}),
        (check_site, {**WRITES, **IMAGES, **FRAMES}),
        (check_origin, WRITES),
        (check_sender, WRITES),
    ],
)
def test_each_check_alone_stops_its_attacks(
    browser: Browser, settings: Settings, check: Check, attacks: Mapping[str, Attack]
) -> None:
    with a_victim(browser, settings, checks=(check,), headers_of=with_only(), make_access=CarelessAccess) as victim:
        assert successes(victim, attacks) == set()


@pytest.mark.parametrize(
    ("header", "attacks"),
    [
        ("Cross-Origin-Resource-Policy", IMAGES),
        ("frame-ancestors", FRAMES),
        ("X-Frame-Options", FRAMES),
    ],
)
def test_each_header_alone_stops_its_attacks(
    browser: Browser, settings: Settings, header: str, attacks: Mapping[str, Attack]
) -> None:
    with a_victim(browser, settings, checks=(), headers_of=with_only(header), make_access=CarelessAccess) as victim:
        assert successes(victim, attacks) == set()


class WidePathAccess(Access):
    """The cookie as it is, but for every path."""

    @property
    def cookie_header(self) -> str:
        """The page's own cookie with another path."""
        whole = super().cookie_header
        assert f"Path={self.root}/" in whole
        return whole.replace(f"Path={self.root}/", "Path=/")


def test_the_path_of_the_cookie_alone_keeps_it_from_other_ports(browser: Browser, settings: Settings) -> None:
    """Every other guard is in place: SameSite and HttpOnly do not help against a server on another port."""
    with a_victim(browser, settings) as victim:
        assert not get_cookie(victim)
    with a_victim(browser, settings, make_access=WidePathAccess) as victim:
        assert get_cookie(victim)


def test_an_address_that_was_used_lets_nobody_else_in(
    browser: Browser, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attack() -> bool:
        """Somebody finds the address in the history, or in the list of processes."""
        with serve_page(settings) as page, browser.new_context() as own, browser.new_context() as others:
            url = page.entry()
            for context in (own, others):
                tab = context.new_page()
                tab.goto(url)
                tab.wait_for_selector("h1")
            return "<header" in tab.content()

    assert not attack()
    monkeypatch.setattr(routes, "spend_entry", lambda folder, token: True)
    assert attack()
