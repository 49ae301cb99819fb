"""Nobody but a browser that came in by a fresh entry is answered, and only what its own page asks."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator

import pytest

from engram.page import page_access
from engram.page.page_access import COOKIE
from engram.page.views import VIEWS
from engram.settings import Settings
from tests.page.serving import ServedPage


def routes() -> Iterator[tuple[str, str]]:
    """Every method and path below the root, with something in the place of each parameter."""
    yield "GET", "/static/page.js"
    yield "GET", "/live/memories"
    for view in VIEWS:
        for route in view.routes:
            yield route.method, re.sub(r"\{\w+\}", "ep_000000000000", route.path)


ROUTES = sorted(set(routes()))


def test_every_view_has_a_route_and_keys_are_unique() -> None:
    assert len(ROUTES) >= len(VIEWS)
    keys = [view.key for view in VIEWS if view.key]
    assert len(keys) == len(set(keys))
    assert len({view.name for view in VIEWS}) == len(VIEWS)


def test_no_route_answers_without_the_cookie_or_to_another_host_or_site(page: ServedPage) -> None:
    for method, path in ROUTES:
        path = page.access.root + path
        form = None if method == "GET" else {}
        assert page.ask(path, method=method, form=form, cookie=None).status == 403, path
        assert page.ask(path, method=method, form=form, cookie=f"{COOKIE}=guess").status == 403, path
        assert page.ask(path, method=method, form=form, host=f"evil.test:{page.access.port}").status == 421, path
        for site in ("same-site", "cross-site", "", None):
            assert page.ask(path, method=method, form=form, sec_fetch_site=site).status == 403, (path, site)


def test_a_change_needs_the_page_itself(page: ServedPage) -> None:
    for method, path in ROUTES:
        if method == "GET":
            continue
        path = page.access.root + path
        for origin in (None, "null", f"http://localhost:{page.access.port}", page.origin + "0", "http://evil.test"):
            assert page.ask(path, method=method, form={}, origin=origin).status == 403, (path, origin)
        assert page.ask(path, method=method, form={}, sec_fetch_site="none").status == 403, path
        assert page.ask(path, method=method, form={}, hx_request=None).status == 403, path


def test_a_header_that_stands_twice_counts_for_nothing(page: ServedPage) -> None:
    path = f"{page.access.root}/"

    assert page.ask(path).status == 200
    assert page.ask(path, more=[("Sec-Fetch-Site", "same-origin")]).status == 403
    assert page.ask(path, more=[("Cookie", f"{COOKIE}=guess")]).status == 403


def test_every_answer_has_the_security_headers(page: ServedPage) -> None:
    for reply in (page.see(""), page.see("nowhere"), page.ask("/", cookie=None), page.ask("/enter?token=x")):
        headers = {name.lower(): value for name, value in reply.headers.items()}
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_each_answer_has_its_own_nonce_that_its_scripts_carry(page: ServedPage) -> None:
    seen = set()
    for _ in range(3):
        reply = page.see("")
        nonces = set(re.findall(r'nonce="([^"]+)"', reply.text))
        assert len(nonces) == 1
        assert f"'nonce-{nonces.copy().pop()}'" in reply.headers["content-security-policy"]
        seen |= nonces
    assert len(seen) == 3


def test_an_entry_lets_in_once_and_sets_a_strict_cookie_for_the_room(page: ServedPage) -> None:
    path = page.entry().removeprefix(page.origin)

    head = page.ask(path, method="HEAD", cookie=None, sec_fetch_site="cross-site", origin=None)
    first = page.ask(path, cookie=None, sec_fetch_site="cross-site")
    second = page.ask(path, cookie=None, sec_fetch_site="cross-site")

    assert (head.status, first.status, second.status) == (403, 200, 403)
    cookie = first.headers["set-cookie"]
    assert cookie == f"{COOKIE}={page.access.secret}; Path={page.access.root}/; HttpOnly; SameSite=Strict"
    assert f"url={page.access.root}/" in first.text
    assert page.access.secret not in first.text + second.text
    assert page.access.room not in second.text


def test_an_entry_is_for_another_host_refused_and_not_spent(page: ServedPage) -> None:
    path = page.entry().removeprefix(page.origin)

    assert page.ask(path, cookie=None, host="evil.test").status == 421
    assert page.ask(path, cookie=None, sec_fetch_site="none").status == 200


def test_an_entry_ends_after_a_minute(settings: Settings) -> None:
    folder = settings.places.page_entries
    path, url = page_access.make_entry(folder, 1)
    old = time.time() - page_access.MAX_AGE_SECONDS - 1
    os.utime(path, (old, old))
    ahead, other = page_access.make_entry(folder, 1)
    os.utime(ahead, (time.time() + 3600, time.time() + 3600))

    assert not path.exists()
    assert not page_access.spend_entry(folder, url.partition("token=")[2])
    assert not page_access.spend_entry(folder, other.partition("token=")[2])
    assert not page_access.spend_entry(folder, "../../memory.db")
    assert not page_access.spend_entry(folder, "")


def test_the_files_of_an_entry_are_for_the_owner_and_do_not_name_the_token(settings: Settings) -> None:
    path, url = page_access.make_entry(settings.places.page_entries, 4711)

    token = url.partition("token=")[2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert token not in path.name
    assert url in path.read_text()
    assert page_access.spend_entry(path.parent, token)
    assert not path.exists()
    assert not page_access.spend_entry(path.parent, token)


@pytest.mark.parametrize("name", ["../__init__.py", "%2e%2e/app.py", "vendor/htmx-4.0.1.min.js", "nothing.js"])
def test_only_listed_files_are_served(page: ServedPage, name: str) -> None:
    assert page.ask(f"{page.access.root}/static/{name}").status == 404
