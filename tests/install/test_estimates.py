"""What an installation tells beforehand: what is about to be deleted, what Claude would cost, whether it can work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engram.cli import install_commands
from engram.cli.up_commands import SAMPLES
from engram.errors import InstallError
from engram.paths import Home
from engram.settings import Settings
from engram.setup.agents.claude_code import ClaudeCode, choose
from engram.setup.installing import preflight
from engram.setup.installing.preflight import (
    CANARY,
    DOLLARS,
    SERVED_BY_MODEL,
    SERVED_BY_RULES,
    CostEstimate,
    check_machine,
    estimate_cost,
    mod_price,
    run_self_test,
)
from engram.setup.installing.stray import purge_memory
from engram.system.clock import iso_time
from engram.transcripts.agents import Source
from engram.transcripts.claude_code.discover import find_expiring, read_cleanup_days

REPO = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/language-model.md")
DAY_NS = 86_400 * 10**9
NOW_SECONDS = 1_000 * 86_400


def source(name: str, age_days: float, **facts: object) -> Source:
    changed = int(NOW_SECONDS * 10**9 - age_days * DAY_NS)
    made = Source("claude-code", Path(f"/p/{name}.jsonl"), name, name, size=1000, changed_at_ns=changed)
    return replace(made, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "days"),
    [("", 30), ('{"cleanupPeriodDays": 90}', 90), ('{"cleanupPeriodDays": true}', 30), ("{", 30), ("[]", 30)],
)
def test_how_long_claude_code_keeps_its_sessions(tmp_path: Path, settings: str, days: int) -> None:
    if settings:
        (tmp_path / "settings.json").write_text(settings)

    assert read_cleanup_days(tmp_path) == days


def test_sessions_are_about_to_be_deleted_a_week_before(tmp_path: Path) -> None:
    sources = [
        source("new", 1),
        source("old", 24),
        source("oldest", 40),
        source("subagent", 40, parent_id="old"),
        source("codex", 40, agent="codex"),
    ]

    retention = find_expiring(sources, [tmp_path], NOW_SECONDS)

    assert [expiring.session_id for expiring in retention.expiring] == ["oldest", "old"]
    assert (retention.sessions, retention.days) == (3, 30)


def test_a_copied_prompt_and_what_claude_code_wrote_cost_nothing_more(tmp_path: Path) -> None:
    written = ["why is the tide late", "<task-notification>done</task-notification>", "[Request interrupted by user]"]
    lines = [json.dumps({"type": "user", "uuid": f"u{n}", "content": text}) for n, text in enumerate(written)]
    sources = [source(name, 1) for name in ("first", "fork")]
    for number, one in enumerate(sources):
        path = tmp_path / one.path.name
        path.write_text("\n".join(lines).replace('": "', '":"'))
        sources[number] = replace(one, path=path, size=path.stat().st_size)

    assert estimate_cost(sources, NOW_SECONDS).turns == 1


def test_the_cost_is_that_of_the_turns_of_the_last_month_and_large_ones_are_estimated() -> None:
    files = sorted((SAMPLES / "projects").rglob("*.jsonl"))
    sources = [
        Source("claude-code", path, path.stem, "", size=path.stat().st_size, changed_at_ns=NOW_SECONDS * 10**9)
        for path in files
    ]
    old = replace(sources[0], changed_at_ns=(NOW_SECONDS - 40 * 86_400) * 10**9)

    cost = estimate_cost(sources, NOW_SECONDS)
    guessed = estimate_cost(sources, NOW_SECONDS, max_counted_bytes=1)

    assert (cost.sessions, cost.turns) == (5, 13)
    assert 5 <= guessed.turns <= 30
    for model, (low, high) in DOLLARS.items():
        assert cost.dollars(model) == pytest.approx((13 * low / 1000, 13 * high / 1000))
        assert replace(cost, turns=0).dollars(model) == (low, high)
    assert estimate_cost([old, source("gone", 1)], NOW_SECONDS).turns == 0


def test_what_the_installer_says_of_cost_and_use_is_what_the_pages_say() -> None:
    texts = [(REPO / name).read_text(encoding="utf-8") for name in PAGES]
    readme, page = (" ".join(text.split()) for text in texts)
    table = {
        cells[0]: cells
        for line in texts[1].splitlines()
        if line.startswith("| ") and (cells := [cell.strip() for cell in line.strip("|").split("|")])
    }
    columns = table["for 1,000 turns"]

    for model, dollars in DOLLARS.items():
        at = columns.index(model)
        said = [float(table[name][at].strip("$")) for name in ("import of whole sessions", "while you work")]
        assert said == list(dollars), model
    low, high = DOLLARS["Claude Haiku 5.5"]
    assert f"a thousand turns of your sessions cost about ${low} to ${high} (Claude Haiku 5.5)" in readme
    assert f"memories helped with {SERVED_BY_MODEL} %, and rule-based memories with {SERVED_BY_RULES} %" in page
    assert f"helpful memory to {SERVED_BY_RULES} %, and your own Claude as the writer to {SERVED_BY_MODEL} %" in readme


def test_choices_are_kept_until_they_are_given_again() -> None:
    stored = choose(None, service=False, plugin=None).to_json()

    assert choose({**stored, "unknown": 1}).service is False
    assert choose(stored, service=True).service is True


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda settings, patch: patch.setenv("SUDO_USER", "ann"), "without sudo"),
        (lambda settings, patch: patch.setattr(preflight, "is_bundled_intact", lambda: False), "Install Engram again"),
        (lambda settings, patch: patch.setattr(preflight, "MIN_FREE_BYTES", 1 << 60), "are free on the disk"),
        (lambda settings, patch: settings.claude_folder.write_text("a file"), "is not a folder"),
    ],
)
def test_a_machine_that_would_not_work_is_refused(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Settings, pytest.MonkeyPatch], None],
    said: str,
) -> None:
    bundled = replace(settings, embedding_model="bundled")
    if "sudo" in said:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    spoil(bundled, monkeypatch)

    with pytest.raises(InstallError, match=said):
        check_machine(bundled)


@pytest.mark.parametrize(
    ("interpreter", "said"),
    [("/gone/python", "can't be run"), ("/x/uv/archive-v0/abc/bin/python", "uv tool install .")],
)
def test_an_interpreter_that_does_not_stay_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, interpreter: str, said: str
) -> None:
    if "archive" in interpreter:
        monkeypatch.setattr(preflight.os, "access", lambda *_: True)

    with pytest.raises(InstallError, match=said):
        check_machine(settings, interpreter=interpreter)


def test_a_dry_check_creates_nothing(settings: Settings) -> None:
    check_machine(replace(settings, home=settings.home / "new"), is_dry=True)

    assert not (settings.home / "new").exists()


@pytest.mark.model
def test_the_self_test_uses_the_model_and_leaves_no_trace(settings: Settings) -> None:
    result = run_self_test(replace(settings, embedding_model="bundled"))

    assert (result.problem, result.has_vectors) == ("", True)
    assert [path for path in settings.home.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()] == []
    assert list(settings.home.glob(".self-test*")) == []


def test_the_self_test_says_what_does_not_work(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.tasks.drain.drain", lambda *_, **__: None)

    assert run_self_test(settings).problem == "no memory was made from a session"
    assert list(settings.home.glob(".self-test*")) == []


def test_a_purge_deletes_this_programs_files_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "memory").prepare()
    for name in ("memory.db", "memory.db-wal", "memory.v2.db", "queue.db", ".env", "MEMORY.md", "engram-state.json"):
        (home.root / name).write_text("x")

    left = purge_memory(home, keep=[home.root / "memory.v2.db"])

    assert [path.name for path in left] == ["MEMORY.md", "engram-state.json", "memory.v2.db"]
    for path in left:
        path.unlink()
    assert purge_memory(home) == []
    assert not home.root.exists()
    assert purge_memory(home) == []


def session(folder: Path, name: str, began_days: float, ended_days: float, **facts: object) -> Source:
    """A session that was open between two ages in days."""
    path = folder / f"{name}.jsonl"
    begin = iso_time(int(NOW_SECONDS * 1000 - began_days * 86_400_000))
    end = iso_time(int(NOW_SECONDS * 1000 - ended_days * 86_400_000))
    times = f'{{"type":"user","timestamp":"{begin}"}}\n{{"type":"assistant","timestamp":"{end}"}}\n'
    path.write_text(f'{{"type":"summary"}}\n{times}')
    return source(name, ended_days, path=path, **facts)


def test_a_session_is_as_old_as_what_it_says_and_not_as_its_copy(tmp_path: Path) -> None:
    copied = [
        replace(session(tmp_path, f"s{age}", age + 1, age), changed_at_ns=NOW_SECONDS * 10**9) for age in (40, 90)
    ]
    fresh = session(tmp_path, "fresh", 3, 2)

    assert estimate_cost(copied, NOW_SECONDS).sessions == 0
    assert estimate_cost([*copied, fresh], NOW_SECONDS).sessions == 1
    assert "Of your 1 sessions in 30 days, at most 1 were open" in mod_price([*copied, fresh], NOW_SECONDS)
    assert "30 days" not in mod_price(copied, NOW_SECONDS)


def test_the_price_of_the_mod_counts_the_sessions_that_were_open_at_once(tmp_path: Path) -> None:
    sources = [
        session(tmp_path, "long", 20, 1),
        session(tmp_path, "first", 9, 8),
        session(tmp_path, "second", 8.5, 7),
        session(tmp_path, "third", 6, 5),
        session(tmp_path, "subagent", 20, 1, parent_id="long"),
        session(tmp_path, "codex", 20, 1, agent="codex"),
        session(tmp_path, "old", 90, 40),
        source("gone", 3),
    ]

    price = mod_price(sources, NOW_SECONDS)

    assert "Of your 5 sessions in 30 days, at most 3 were open at once: that is 111 to 144 MB, and 1 s for all" in price
    assert mod_price([], NOW_SECONDS).endswith("0.19 s of processor time per start.")
    assert "at most 1 were" not in price


@pytest.mark.parametrize("name", sorted(name for name, kind in vars(Home).items() if isinstance(kind, property)))
def test_a_purge_deletes_every_place_that_the_program_knows(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / "memory").prepare()
    place = getattr(home, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_dir():
        place.write_text("x")

    assert purge_memory(home) == []
    assert not home.root.exists()


def test_a_purge_deletes_the_vaults_and_leaves_what_others_put_there(tmp_path: Path) -> None:
    home = Home(tmp_path / "memory").prepare()
    for name in ("acme", "globex", "broken"):
        vault = Home(home.root / "vaults" / name).prepare()
        (vault.root / "vault.json").write_text("{" if name == "broken" else "{}")
        vault.memory_db.write_text("x")
    (home.root / "vaults" / "acme" / "contract.pdf").write_text("x")

    assert [path.name for path in purge_memory(home)] == ["vaults"]

    assert [path.name for path in (home.root / "vaults").rglob("*")] == ["acme", "contract.pdf"]


@pytest.mark.parametrize(
    ("has_command", "has_login", "is_recommended"), [(True, True, True), (True, False, False), (False, False, False)]
)
def test_claude_is_recommended_only_where_it_can_be_used_at_once(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_command: bool,
    has_login: bool,
    is_recommended: bool,
) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "CLAUDE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(Path, "home", lambda: settings.home)
    settings.claude_folder.mkdir(parents=True, exist_ok=True)
    if has_login:
        (settings.claude_folder / ".credentials.json").write_text("{}")
    monkeypatch.setattr(install_commands.click, "prompt", lambda text, default, **rest: default)
    claude = ClaudeCode("/usr/bin/claude" if has_command else None, "2.1.332")

    answer = install_commands.ask_extractor(settings, claude, CostEstimate(0, 0))

    shown = " ".join(capsys.readouterr().out.split())
    assert answer == "local"
    assert ("Recommended" in shown) is is_recommended
    assert ("No login of Claude Code was found" in shown) is (has_command and not has_login)
