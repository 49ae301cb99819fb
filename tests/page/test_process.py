"""``engram ui``: one process, opened by a second call, small, silent, and gone when nobody uses it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.open_memory import open_store
from engram.page import open_page
from engram.page.open_page import PageState, ensure_page, find_page, own_version, stop_page, write_state
from engram.page.view import ask_command
from engram.paths import Home
from engram.settings import Settings
from engram.vaults import Vault, free_folder, settings_of, write_vault
from tests.forked import run_command
from tests.page.serving import serve_page
from tests.processes import wait_until_gone


@pytest.fixture
def places(settings: Settings) -> Iterator[Home]:
    """The memory folder; a page that was started in it is ended."""
    yield settings.places
    stop_page(settings.places)


def run_ui(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("--home", str(settings.home), "ui", *arguments)


def test_a_second_call_opens_the_first_page_and_each_address_works_once(settings: Settings, places: Home) -> None:
    first, second = (run_ui(settings, "--no-open", "--json") for _ in range(2))

    assert first.stdout.count("\n") == 1, first.stderr
    urls = [json.loads(done.stdout)["url"] for done in (first, second)]
    assert urls[0] != urls[1]
    assert urls[0].partition("/enter")[0] == urls[1].partition("/enter")[0]
    assert urls[0].startswith("http://127.0.0.1:")
    for url in urls:
        assert "http-equiv" in urllib.request.urlopen(url, timeout=30).read().decode()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url, timeout=30)
    files = [path for path in places.root.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    logs = "".join(path.read_text() for path in places.logs.glob("*"))
    assert not any(secret in logs for secret in ("enter", "token", "127.0.0.1"))


def test_the_page_ends_when_it_is_asked_to_and_by_itself(settings: Settings, places: Home) -> None:
    run_ui(settings, "--no-open")
    stopped = [json.loads(run_ui(settings, "--stop", "--json").stdout) for _ in range(2)]

    assert stopped == [{"stopped": True}, {"stopped": False}]
    assert not places.page_state.exists()
    command = [sys.executable, "-P", "-m", "engram.page.page_process", "--set", f"home={settings.home}"]
    done = subprocess.run([*command, "--idle-seconds", "0.2"], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "ready\n"
    assert find_page(places) is None


def test_of_many_calls_at_once_one_starts_the_page(settings: Settings, places: Home) -> None:
    pages: list[PageState] = []
    threads = [threading.Thread(target=lambda: pages.append(ensure_page(places, _flags(settings)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(pages) == 4
    assert len({page.pid for page in pages}) == 1


def test_a_page_from_another_version_is_replaced(settings: Settings, places: Home) -> None:
    old = ensure_page(places, _flags(settings))
    write_state(places.page_state, PageState(old.pid, old.port, "0.0.1"))

    new = ensure_page(places, _flags(settings))

    assert new.pid != old.pid
    assert new.version == own_version()
    wait_until_gone(old.pid)


@pytest.fixture
def vault(settings: Settings) -> Iterator[Vault]:
    """An empty vault; its page is ended."""
    vault = Vault("acme", ("/work/acme",), free_folder(settings.places, "acme"), is_sealed=True)
    write_vault(vault)
    yield vault
    stop_page(vault.home)


def test_a_vault_has_a_separate_page(settings: Settings, places: Home, vault: Vault) -> None:
    page = ensure_page(vault.home, _flags(settings), vault.name)

    assert find_page(vault.home) == page
    assert find_page(places) is None
    assert ensure_page(places, _flags(settings)).pid != page.pid
    assert ensure_page(vault.home, _flags(settings), vault.name) == page


def test_the_page_of_a_vault_shows_and_asks_the_vault_alone(settings: Settings, vault: Vault) -> None:
    for home, said in ((settings.places, "outside of the vault"), (vault.home, "kept in the vault")):
        with open_store(home.prepare().memory_db) as store:
            save_memory(store, said, str, scope=Scope.GLOBAL, actor=Actor.USER)
    inner = settings_of(vault, settings)

    with serve_page(settings, vault=vault.name) as page:
        shown = page.see("m").text
    asked = ask_command(inner, "sessions")

    assert "kept in the vault" in shown
    assert "outside of the vault" not in shown
    assert asked == {"sessions": []}


def test_a_page_that_cannot_start_says_why(settings: Settings, places: Home) -> None:
    places.config_file.write_text("nonsense = 1\n")

    done = run_ui(settings, "--no-open")

    assert done.returncode == 1
    assert "nonsense" in done.stderr
    assert find_page(places) is None


def test_a_page_that_cannot_write_its_lock_names_the_file(settings: Settings, places: Home) -> None:
    places.page_lock.mkdir()

    done = run_ui(settings, "--no-open")

    assert done.returncode == 1
    assert f"the page can't start: {places.page_lock}: a folder is in its place: move that away" in done.stderr


def test_the_browser_gets_a_file_and_a_terminal_without_one_the_address(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(open_page.webbrowser, "open", lambda url: opened.append(url) or True)
    monkeypatch.setattr(open_page.sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    file = settings.home / "entry.html"

    assert not open_page.open_browser(file, "http://x")
    monkeypatch.setenv("DISPLAY", ":0")
    assert open_page.open_browser(file, "http://x")
    monkeypatch.setenv("WSL_DISTRO_NAME", "Debian")
    assert open_page.open_browser(file, "http://x")
    assert opened == [file.as_uri(), "http://x"]


def test_the_page_loads_neither_numpy_nor_the_search(settings: Settings) -> None:
    """Every view is asked for, in a separate process that has loaded nothing else."""
    code = """
import sys
from tests.page.serving import serve_page
from tests.page.test_access import ROUTES
from engram.settings import Settings
from pathlib import Path
with serve_page(Settings(home=Path(sys.argv[1]), claude_folder=Path(sys.argv[1]) / "claude")) as page:
    statuses = {page.ask(page.access.root + path, method=method, form=None if method == "GET" else {}).status
                for method, path in ROUTES if not path.startswith("/live")}
assert 200 in statuses and 500 not in statuses, statuses
loaded = [name for name in sys.modules if name.partition(".")[0] in ("numpy", "onnxruntime", "mcp")
          or name.startswith("engram.search")]
assert loaded == [], loaded
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(settings.home)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def _flags(settings: Settings) -> dict[str, str]:
    return {"home": str(settings.home), "claude_folder": str(settings.claude_folder)}


@pytest.mark.parametrize("purge", [(), ("--purge",)])
def test_an_uninstallation_ends_the_page_and_a_purge_leaves_no_folder(
    settings: Settings, places: Home, purge: tuple[str, ...]
) -> None:
    run_ui(settings, "--no-open", "--json")
    page = find_page(places)
    assert page is not None

    done = run_command("--home", str(settings.home), "uninstall", "--yes", *purge)

    assert done.returncode == 0, done.stderr
    wait_until_gone(page.pid)
    assert places.root.exists() != bool(purge)
