"""Measure the page with many memories: time to first paint and from key to result, weight, memory, database time.

    .venv/bin/python benchmarks/page.py --folder /tmp/engram-page --memories 100000 --views 1000
    .venv/bin/python benchmarks/page.py --screenshots docs/page   # pictures of the sample sessions

The folder is filled once and then reused. This needs a browser (``make browser-setup``). No worker runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engram.enums import Channel, Verdict
from engram.models.engine.transaction import Reader, Store
from engram.models.open_memory import open_store
from engram.models.sessions.prompt_outcomes import Candidate, Outcome, add_outcomes
from engram.models.shown.injections import Injection, add_injections
from engram.page.rendering import ASSETS
from engram.paths import Home
from engram.system.clock import SYSTEM_CLOCK
from engram.worker.worker_client import ask_worker

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from tests.page.browsing import launch_browser  # noqa: E402
from tests.page.serving import serve_page  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: The goals: maximum values.
GOALS = {
    "command to first paint, ms": 1_500,
    "first contentful paint p95, ms": 200,
    "key to painted result p95, ms": 150,
    "HTML of a view, bytes": 20_000,
    "assets, bytes": 70_000,
    "memory when it listens, MB": 50,
    "memory after the views, MB": 65,
    "database time of a view, ms": 50,
}
#: Number of outcomes and bites that are written: the maximum that is ever kept.
OUTCOMES = 10_000
#: Words that are typed into the search box, and number of times that each view is loaded.
TYPED = ("con", "conf", "config", "fix", "deploy", "error in", "cache", "test su", "migr", "why do")
LOADS = 20

_PAINT = """() => new Promise(done => {
    const take = () => { const paint = performance.getEntriesByName('first-contentful-paint')[0];
        paint ? done(paint.startTime) : requestAnimationFrame(take) };
    take() })"""
#: Types into the search box, and returns when the list has been replaced and painted.
_KEY = """text => new Promise(done => {
    const box = document.getElementById('search'), began = performance.now();
    document.addEventListener('htmx:after:swap', () => requestAnimationFrame(() => requestAnimationFrame(
        () => done(performance.now() - began))), { once: true });
    box.value = text; box.dispatchEvent(new Event('input', { bubbles: true })) })"""


def fill(home: Home, memories: int) -> None:
    """Fill the folder with synthetic memories and outcomes of prompts, unless it has been filled before."""
    from bench.synthetic import SyntheticMemory

    home.prepare()
    with open_store(home.memory_db, clock=SYSTEM_CLOCK) as store:
        if int(store.value("SELECT count(*) FROM episode")) >= memories:
            return
        for pragma in ("cache_size = -200000", "synchronous = 0", "wal_autocheckpoint = 20000"):
            store.rows(f"PRAGMA {pragma}")
        made = SyntheticMemory()
        made.resume(store)
        while made.turn_count < memories:
            made.add(store, 50)
        _add_outcomes(store)
        store.checkpoint("TRUNCATE")


def _add_outcomes(store: Store) -> None:
    newest = store.rows("SELECT episode_id FROM episode ORDER BY id DESC LIMIT ?", (OUTCOMES,))
    ids = [str(value) for (value,) in newest]
    sessions = [str(value) for (value,) in store.rows("SELECT session_id FROM session ORDER BY id DESC LIMIT 200")]
    now = store.now_ms()
    for start in range(0, OUTCOMES, 1_000):
        outcomes, bites = [], []
        for number in range(start, start + 1_000):
            at_ms = now - (OUTCOMES - number) * 250_000
            session, episode_id = sessions[number % len(sessions)], ids[number % len(ids)]
            is_shown = number % 3 == 0
            candidate = Candidate(
                place=0,
                episode_id=episode_id,
                verdict=Verdict.SHOWN if is_shown else Verdict.BELOW_FLOOR,
                score=0.5 if is_shown else 0.1,
                floor=0.18,
                features={"source": 0.6, "turn": 0.5, "special": 0.2, "siblings": 0.4, "rivals": 0.3, "rare": 7.0},
            )
            outcomes.append(
                Outcome(
                    session_id=session,
                    channel=Channel.PROMPT,
                    verdict=candidate.verdict,
                    at_ms=at_ms,
                    prompt_key=f"p{number}",
                    candidates=20,
                    score=candidate.score,
                    floor=candidate.floor,
                    considered=(candidate,),
                )
            )
            if is_shown:
                bites.append(
                    Injection(
                        session_id=session,
                        prompt_key=f"p{number}",
                        channel="prompt",
                        episode_id=episode_id,
                        score=candidate.score,
                        tokens=30,
                        state="shown",
                        at_ms=at_ms,
                    )
                )
        with store.transaction() as tx:
            add_outcomes(tx, outcomes)
            add_injections(tx, bites)


def paths(home: Home) -> list[str]:
    """Return the addresses of the measured views, each of which has content."""
    with open_store(home.memory_db, clock=SYSTEM_CLOCK) as store:
        memory = store.value("SELECT episode_id FROM outcome_candidate ORDER BY outcome_id DESC LIMIT 1")
        session = store.value("SELECT session_id FROM outcome ORDER BY id DESC LIMIT 1")
    from engram.page.views import VIEWS

    listed = [f"/{view.path}" for view in VIEWS if view.key]
    return [*listed, "/m?q=config", "/m?q=co", "/m?state=current&kind=fact", f"/m/{memory}", f"/s/{session}"]


@contextlib.contextmanager
def running(home: Home) -> Iterator[tuple[str, int, float]]:
    """Run ``engram ui`` as a person does; yield the one-time address, the process id and the milliseconds to start."""
    command = [sys.executable, "-P", "-m", "engram.cli.main", "--home", str(home.root), "ui"]
    environment = os.environ | {"CLAUDE_CONFIG_DIR": str(home.root / "claude")}
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--no-open", "--json"], capture_output=True, text=True, check=True, env=environment
    )
    took = (time.perf_counter() - began) * 1000
    try:
        yield json.loads(done.stdout)["url"], json.loads(home.page_state.read_text())["pid"], took
    finally:
        subprocess.run([*command, "--stop"], capture_output=True, check=True, env=environment)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def p95(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return sorted(values)[max(0, round(len(values) * 0.95) - 1)]


def measure_browser(home: Home, browser: Browser, views: int) -> dict[str, float]:
    """Return how long a person waits, and how much memory the process takes."""
    started = []
    for _ in range(5):
        with running(home) as (url, _, took), browser.new_context() as context:
            tab = context.new_page()
            began = time.perf_counter()
            tab.goto(url)
            tab.wait_for_selector("h1")
            tab.evaluate(_PAINT)
            started.append(took + (time.perf_counter() - began) * 1000)
    shown = paths(home)
    with running(home) as (url, pid, _), browser.new_context() as context:
        at_rest = rss_mb(pid)
        tab = context.new_page()
        tab.goto(url)
        tab.wait_for_selector("h1")
        root = tab.url.rstrip("/")
        after_first = rss_mb(pid)
        paints, sizes = [], []
        for path in shown * LOADS:
            answer = tab.goto(root + path)
            assert answer is not None
            assert answer.ok, path
            paints.append(float(tab.evaluate(_PAINT)))
            sizes.append(len(answer.body()))
        keys = _type(tab, root)
        for number in range(views):
            path = shown[number % len(shown)]
            assert tab.request.get(root + path, headers={"Sec-Fetch-Site": "same-origin"}).ok, path
        return {
            "command to first paint, ms": statistics.median(started),
            "first contentful paint p95, ms": p95(paints),
            "key to painted result p95, ms": p95(keys),
            "HTML of a view, bytes": max(sizes),
            "memory when it listens, MB": at_rest,
            "memory after the first view, MB": after_first,
            "memory after the views, MB": rss_mb(pid),
        }


def _type(tab: Page, root: str) -> list[float]:
    keys = []
    tab.goto(f"{root}/m")
    for _ in range(5):
        for text in TYPED:
            keys.append(float(tab.evaluate(_KEY, text)))
    return keys


def measure_database(home: Home) -> dict[str, float]:
    """Return the milliseconds that each view spends in the database, as the median of several loads."""
    spent = [0.0]

    def timed(method: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            # Measure processor time, so that other programs on the machine don't count; all data is in memory.
            began = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                spent[0] += (time.thread_time() - began) * 1000

        return run

    for name in ("_fetch_all", "rows", "row"):
        setattr(Reader, name, timed(getattr(Reader, name)))
    from engram.settings import load

    settings = load({"home": str(home.root), "claude_folder": str(home.root / "claude")}).settings
    by_path: dict[str, float] = {}
    with serve_page(settings) as page:
        for path in paths(home):
            times = []
            for _ in range(7):
                spent[0] = 0.0
                assert page.ask(page.access.root + path).status == 200, path
                times.append(spent[0])
            by_path[path.split("/ep_")[0]] = statistics.median(times)
    return by_path


@contextlib.contextmanager
def answering(home: Home, environment: dict[str, str]) -> Iterator[None]:
    """Run a worker and a watcher, so that questions are answered and no problems are shown."""
    command = [sys.executable, "-P", "-m", "engram.cli.main", "--home", str(home.root), "up"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
        try:
            while ask_worker(home, {"op": "status"}) is None and up.poll() is None:
                time.sleep(0.5)
            yield
        finally:
            up.terminate()


def take_screenshots(folder: Path) -> None:
    """Take pictures of the sample sessions that ship with Engram, in light and dark mode."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="engram-page-") as name, launch_browser() as browser:
        home = Home(Path(name) / "home")
        samples = REPO / "engram" / "samples"
        environment = os.environ | {"CLAUDE_CONFIG_DIR": str(samples), "ENGRAM_EMBEDDING_MODEL": "hashed"}
        command = [sys.executable, "-P", "-m", "engram.cli.main", "--home", str(home.root), "up", "--once", "--json"]
        subprocess.run(command, check=True, capture_output=True, env=environment)
        folder.mkdir(parents=True, exist_ok=True)
        with (
            answering(home, environment),
            running(home) as (url, _, _),
            browser.new_context(viewport={"width": 1360, "height": 800}) as context,
        ):
            tab = context.new_page()
            tab.goto(url)
            tab.wait_for_selector("h1")
            root = tab.url.rstrip("/")
            tab.goto(f"{root}/m?q=vat")
            tab.locator("[data-beside]").first.click()
            tab.locator("#detail h1").wait_for()
            tab.screenshot(path=folder / "memories.png")
            tab.emulate_media(color_scheme="dark")
            tab.goto(str(tab.locator("[data-beside]").first.evaluate("link => link.href")))
            tab.screenshot(path=folder / "memory-dark.png")


def main() -> None:
    """Measure, and print the figures next to the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/engram-page"))
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--views", type=int, default=1_000)
    parser.add_argument("--screenshots", type=Path, default=None)
    asked = parser.parse_args()
    if asked.screenshots is not None:
        take_screenshots(asked.screenshots)
        return
    home = Home(asked.folder.absolute())
    fill(home, asked.memories)
    with launch_browser() as browser:
        figures = measure_browser(home, browser, asked.views)
    figures["assets, bytes"] = sum(len(asset.read()) for asset in ASSETS.values())
    by_path = measure_database(home)
    figures["database time of a view, ms"] = max(by_path.values())
    for name, goal in GOALS.items():
        print(f"{name:35} {figures[name]:>10,.0f}   aimed at {goal:,}{'' if figures[name] <= goal else '   MISSED'}")
    print(f"{'memory after the first view, MB':35} {figures['memory after the first view, MB']:>10,.0f}")
    print(json.dumps({path: round(took, 1) for path, took in by_path.items()}, indent=2))


if __name__ == "__main__":
    main()
