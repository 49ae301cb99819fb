"""The user's own Claude Code as the language model: how it is called, and every way in which it fails."""

from __future__ import annotations

import itertools
import json
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from processes import WAIT_SECONDS, wait_until_gone, wait_until_group_gone

from engram.enums import Kind
from engram.errors import ExtractionError, RetryLater
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.model.claude_provider import (
    ClaudeProvider,
    drop_keys_beside_login,
    find_claude,
    seems_logged_out,
    who_pays,
)
from engram.extraction.model.model_extractor import ModelExtractor
from engram.extraction.model.provider import STAGE, BrokenOff, Budget, ModelRequest, NotServed, Unfit
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.task_runs import list_stages
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts.turns import Opening, Role, TextBlock, Turn

CONTEXT = ExtractionContext(project="harbor")
TURN = Turn(
    key="t1",
    session_id="s",
    opening=Opening.PROMPT,
    said=(TextBlock("u1", Role.USER, "we round VAT half up because the tax office does, in invoice.py"),),
    is_closed=True,
)
STAND_IN = Path(__file__).parent / "stand_in_claude.py"
REQUEST = ModelRequest(
    task="extract",
    system="You keep the memory.",
    user="[e1] user: we round VAT half up because the tax office does é\n" * 3,
    schema={"type": "object", "properties": {"memories": {"type": "array"}}},
    max_output_tokens=4_000,
)


class Bench:
    """A provider whose ``claude`` is the stand-in."""

    def __init__(self, home: Path, folder: Path) -> None:
        folder.mkdir()
        command = folder / "claude"
        command.write_text(f"#!{sys.executable}\n" + STAND_IN.read_text(encoding="utf-8"), encoding="utf-8")
        command.chmod(0o755)
        self.log = folder / "calls.jsonl"
        self.environ = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "STAND_IN_LOG": str(self.log),
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": "11111111-1111-4111-8111-111111111111",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_PROJECT_DIR": "/somewhere",
            "CLAUDE_CODE_OAUTH_TOKEN": "login",
            "CLAUDE_CONFIG_DIR": "/configuration",
            "ENGRAM_HOME": str(home),
        }
        self.settings = Settings(home=home, claude_timeout_seconds=30)

    def provider(self, mode: str = "well", **changes: Any) -> ClaudeProvider:
        settings = Settings(home=self.settings.home, claude_timeout_seconds=30, **changes) if changes else self.settings
        return ClaudeProvider(settings, environ={**self.environ, "STAND_IN_MODE": mode})

    def calls(self) -> list[dict[str, Any]]:
        if not self.log.exists():
            return []
        # The last line may be half written.
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").rpartition("\n")[0].splitlines()]

    def wait_for_call(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.calls():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self.calls()[0]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return Bench(home, tmp_path / "bin")


def test_the_call_brings_no_tools_no_hooks_no_session_and_none_of_the_callers_session(bench: Bench) -> None:
    bench.provider().complete(REQUEST)

    (call,) = bench.calls()
    flags = call["argv"]
    values = dict(itertools.pairwise(flags))
    assert {"-p", "--safe-mode", "--strict-mcp-config", "--no-session-persistence"} <= set(flags)
    assert (values["--tools"], values["--model"], values["--output-format"]) == ("", "haiku", "json")
    assert values["--system-prompt"] == REQUEST.system
    assert json.loads(values["--json-schema"]) == REQUEST.schema
    assert call["stdin"] == REQUEST.user
    assert not any(REQUEST.user.splitlines()[0] in argument for argument in flags)
    environ = call["environ"]
    assert environ["ENGRAM_DISABLE"] == "1"
    assert {name for name in environ if name.startswith("CLAUDE")} == {
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_EFFORT_LEVEL",
    }
    # Older models can be kept from thinking, newer ones only from thinking long.
    assert (environ["MAX_THINKING_TOKENS"], environ["CLAUDE_CODE_EFFORT_LEVEL"]) == ("0", "low")
    assert "ENGRAM_HOME" not in environ


@pytest.mark.parametrize(
    ("folder", "named", "file", "is_login"),
    [
        (".claude", "", ".claude.json", True),
        (".claude", "", ".claude/.claude.json", False),
        # The variable names the folder of another login: the file of the default one stays beside it.
        (".claude", ".claude-work", ".claude.json", True),
        (".claude", ".claude-work", ".claude-work/.claude.json", True),
        (".claude", ".claude-work", ".claude/.claude.json", False),
        (".claude", ".claude", ".claude/.claude.json", True),
        (".claude", ".claude", ".claude.json", False),
        (".claude-work", "", ".claude-work/.claude.json", True),
        (".claude-work", "", ".claude.json", True),
        (".claude-work", ".claude-work", ".claude.json", False),
    ],
)
def test_a_login_is_found_in_the_file_that_claude_code_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, named: str, file: str, is_login: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {"CLAUDE_CONFIG_DIR": f"~/{named}/"} if named else {}
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text('{"oauthAccount": {}}')

    assert seems_logged_out(Settings(claude_folder=tmp_path / folder), environ) is not is_login


@pytest.mark.parametrize(
    ("file", "more", "is_dropped"),
    [
        (None, {}, False),
        (".credentials.json", {}, True),
        (".credentials.json", {"ANTHROPIC_MODEL": "m"}, True),
        (".credentials.json", {"ANTHROPIC_BASE_URL": "https://gateway.example"}, False),
        (".credentials.json", {"CLAUDE_CODE_USE_VERTEX": "1"}, False),
    ],
)
def test_a_key_is_passed_on_only_where_no_login_serves(
    tmp_path: Path, file: str | None, more: dict[str, str], is_dropped: bool
) -> None:
    if file:
        (tmp_path / file).write_text("{}")
    others = {"PATH": "/bin", "CLAUDE_CONFIG_DIR": str(tmp_path)} | more
    key = {"ANTHROPIC_API_KEY": "k"}

    left = drop_keys_beside_login(Settings(claude_folder=tmp_path), others | key)

    assert left == (others if is_dropped else others | key)


@pytest.mark.parametrize("name", ["closed", "x" * 300])
def test_a_folder_that_cannot_be_looked_into_has_no_login(tmp_path: Path, name: str) -> None:
    if name == "closed":
        (tmp_path / name).mkdir(mode=0)

    assert seems_logged_out(Settings(claude_folder=tmp_path / name), {})


def test_the_call_runs_in_an_empty_private_folder_of_engrams_own(bench: Bench) -> None:
    bench.provider().complete(REQUEST)

    (call,) = bench.calls()
    folder = bench.settings.places.call_folder
    assert (call["cwd"], call["folder"]) == (str(folder), [])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_answer_comes_with_its_model_its_tokens_and_what_it_cost(bench: Bench) -> None:
    reply = bench.provider().complete(REQUEST)

    assert json.loads(reply.text)["rolling_summary"] == "Rounding of VAT."
    assert reply.model == "claude-haiku-4-5-20251001"
    assert (reply.input_tokens, reply.output_tokens, reply.dollars) == (1023, 650, 0.00425)


def test_an_answer_in_prose_is_handed_on_to_be_read(bench: Bench) -> None:
    assert "```json" in bench.provider("prose").complete(REQUEST).text


def test_a_model_that_never_kept_the_form_is_named_and_its_calls_are_paid(bench: Bench) -> None:
    failed = {"is_error": True, "subtype": "error_max_structured_output_retries", "structured_output": None}

    reply = bench.provider(json.dumps(failed)).complete(REQUEST)

    assert (reply.is_prose, reply.text, reply.dollars) == (True, "", 0.00425)


@pytest.mark.parametrize(
    ("mode", "error", "reason"),
    [
        ("garbage", BrokenOff, "no result"),
        ("empty", BrokenOff, "no result"),
        ("error", BrokenOff, "exit code 1"),
        ("huge", BrokenOff, "8 MB"),
        ("login", NotServed, "log in with /login"),
        ("flag", NotServed, "update Claude Code"),
        ("limit", NotServed, "usage limit reached"),
        ("overloaded", NotServed, "529"),
        ("long", Unfit, "too long"),
    ],
)
def test_each_failure_is_told_by_its_kind(bench: Bench, mode: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        bench.provider(mode).complete(REQUEST)


@pytest.mark.parametrize(
    ("mode", "is_passing"), [("login", False), ("flag", False), ("limit", True), ("overloaded", True)]
)
def test_what_the_user_must_mend_is_told_from_what_passes(bench: Bench, mode: str, is_passing: bool) -> None:
    with pytest.raises(NotServed) as caught:
        bench.provider(mode).complete(REQUEST)

    assert caught.value.is_passing is is_passing


@pytest.mark.parametrize("is_error", [True, False], ids=["an error", "in the place of an answer"])
@pytest.mark.parametrize(
    "notice",
    [
        "You've hit your session limit · resets 5:40pm (Europe/Berlin)\n/login to switch to an API account.",
        "You've hit your monthly spend limit · raise it at claude.ai",
        "Weekly limit reached · resets Oct 3, 9am",
        "You've reached your Opus limit · resets 4am",
        "5-hour limit reached ∙ resets 3am",
        "You're out of extra usage · resets 7pm (UTC)",
        "This request would exceed your account's rate limit. Please try again later.",
    ],
)
def test_a_limit_of_the_subscription_passes_whatever_its_notice_says(bench: Bench, notice: str, is_error: bool) -> None:
    told = {"is_error": is_error, "result": notice, "structured_output": None, "total_cost_usd": 0}

    with pytest.raises(NotServed, match=r"limit|usage") as caught:
        bench.provider(json.dumps(told)).complete(REQUEST)

    assert caught.value.is_passing
    assert "not logged in" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({}, "With a subscription nothing is billed"),
        ({"ANTHROPIC_API_KEY": ""}, "With a subscription nothing is billed"),
        ({"ANTHROPIC_API_KEY": "k"}, "ANTHROPIC_API_KEY is set here: Claude Code bills each call to that key"),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, "ANTHROPIC_AUTH_TOKEN is set here"),
    ],
)
def test_it_is_said_what_a_call_is_billed_to(environ: dict[str, str], told: str) -> None:
    assert who_pays(environ).startswith(told)


def test_an_answer_that_speaks_of_a_limit_is_an_answer(bench: Bench) -> None:
    told = {"result": "We reached the rate limit of the API, so we batch.", "structured_output": {"memories": []}}

    assert json.loads(bench.provider(json.dumps(told)).complete(REQUEST).text) == {"memories": []}


def test_a_missing_command_says_what_to_do(bench: Bench) -> None:
    with pytest.raises(NotServed, match="config set claude_command"):
        bench.provider(claude_command="/nowhere/claude").complete(REQUEST)


def test_an_error_that_was_paid_for_is_settled_at_what_it_cost(bench: Bench) -> None:
    reply = bench.provider("budget").complete(REQUEST)

    assert (reply.text, reply.dollars) == ("", 0.21)


@pytest.mark.parametrize("mode", ["never", "stubborn"])
def test_after_the_time_limit_no_process_is_left(bench: Bench, mode: str) -> None:
    settings = Settings(home=bench.settings.home, claude_timeout_seconds=3)

    with pytest.raises(BrokenOff, match="within 3 s"):
        ClaudeProvider(settings, environ={**bench.environ, "STAND_IN_MODE": mode}).complete(REQUEST)

    (call,) = bench.calls()
    wait_until_gone(call["pid"])
    wait_until_group_gone(call["group"])


def test_closing_ends_a_call_that_is_under_way_and_begins_none(bench: Bench) -> None:
    provider = bench.provider("never")
    failures: list[Exception] = []

    def ask() -> None:
        try:
            provider.complete(REQUEST)
        except ExtractionError as error:
            failures.append(error)

    caller = threading.Thread(target=ask)
    caller.start()
    call = bench.wait_for_call()
    provider.close()
    caller.join(30)

    assert [type(failure) for failure in failures] == [BrokenOff]
    wait_until_gone(call["pid"])
    with pytest.raises(NotServed, match="stopping"):
        provider.complete(REQUEST)
    assert len(bench.calls()) == 1


def test_an_answer_counts_where_the_command_does_not_end_after_it(bench: Bench) -> None:
    settings = Settings(home=bench.settings.home, claude_timeout_seconds=3)
    provider = ClaudeProvider(settings, environ={**bench.environ, "STAND_IN_MODE": "lingering"})

    reply = provider.complete(REQUEST)

    assert (json.loads(reply.text)["rolling_summary"], reply.dollars) == ("Rounding of VAT.", 0.00425)
    wait_until_group_gone(bench.calls()[0]["group"])


def test_half_an_answer_at_the_time_limit_is_none(bench: Bench) -> None:
    settings = Settings(home=bench.settings.home, claude_timeout_seconds=3)

    with pytest.raises(BrokenOff, match="within 3 s"):
        ClaudeProvider(settings, environ={**bench.environ, "STAND_IN_MODE": "half"}).complete(REQUEST)


def test_nothing_in_the_current_folder_is_taken_for_claude(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(bench.environ["HOME"])
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "claude").symlink_to(folder / "claude")
    monkeypatch.chdir(folder)

    for path in (".", "", "node_modules", ":/nowhere:."):
        assert find_claude(bench.settings, {"PATH": path}) is None
    for command in ("./claude", "node_modules/claude"):
        assert find_claude(Settings(home=bench.settings.home, claude_command=command), bench.environ) is None


def test_a_command_is_found_by_its_path_by_its_home_and_through_a_link(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(bench.environ["HOME"])
    (folder / "link").symlink_to(folder / "claude")
    monkeypatch.setenv("HOME", str(folder))

    for command in (str(folder / "link"), "~/link"):
        settings = Settings(home=bench.settings.home, claude_command=command)
        assert find_claude(settings, {"PATH": "/usr/bin"}) == str(folder / "link")


def test_a_command_that_was_replaced_or_can_no_longer_be_run_is_reported(bench: Bench) -> None:
    provider = bench.provider()
    provider.complete(REQUEST)
    command = Path(bench.environ["HOME"]) / "claude"

    command.chmod(0o644)
    with pytest.raises(NotServed, match="config set claude_command"):
        bench.provider(claude_command=str(command)).complete(REQUEST)
    command.write_text("#!/nowhere/interpreter\n")
    command.chmod(0o755)
    with pytest.raises(NotServed, match="can't be started") as caught:
        provider.complete(REQUEST)
    assert not caught.value.is_passing


def test_the_interpreter_beside_the_command_is_found_where_the_path_is_short(bench: Bench) -> None:
    folder = Path(bench.environ["HOME"])
    (folder / "interpreter").symlink_to(sys.executable)
    command = folder / "claude"
    command.write_text("#!/usr/bin/env interpreter\n" + STAND_IN.read_text(encoding="utf-8"), encoding="utf-8")
    settings = Settings(home=bench.settings.home, claude_command=str(command))

    reply = ClaudeProvider(settings, environ={**bench.environ, "PATH": "/usr/bin:/bin"}).complete(REQUEST)

    assert reply.dollars == 0.00425


def test_a_folder_that_cannot_be_made_passes_and_costs_nothing(bench: Bench) -> None:
    bench.settings.places.call_folder.write_text("in the way")

    with pytest.raises(NotServed, match="can't be started now") as caught:
        bench.provider().complete(REQUEST)

    assert caught.value.is_passing
    assert bench.calls() == []


# -- behind caps, ledger, breaker and the local extractor


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(steady=1e6)


@pytest.fixture
def store(bench: Bench, clock: FixedClock) -> Iterator[Store]:
    with open_store(bench.settings.places.memory_db, clock=clock) as opened:
        yield opened


class Local:
    """Stands in for the local extractor: a candidate a turn."""

    name = "local-test"

    def propose(self, turns: Sequence[Turn], context: ExtractionContext) -> list[Candidate]:
        return [Candidate(Kind.TURN, "by the local extractor", turn.prompt, (), (turn.key,)) for turn in turns]


Propose = Callable[..., list[Candidate]]


@pytest.fixture
def propose(bench: Bench, store: Store) -> Propose:
    """Propose by a stand-in of the mode, through everything that lies around a provider."""
    kept: dict[str, ModelExtractor] = {}

    def ask(mode: str, **changes: Any) -> list[Candidate]:
        provider = bench.provider(mode, **changes)
        settings = provider._settings
        extractor = kept.setdefault(
            f"{mode} {changes}",
            ModelExtractor("claude-1", provider, Budget(store, settings), Local()),
        )
        return extractor.propose([TURN], CONTEXT)

    return ask


def ledger(store: Store) -> list[tuple[str, str, int, int, float]]:
    rows = store.rows("SELECT model, state, input_tokens, output_tokens, dollars FROM spend ORDER BY id")
    return [(*rest, round(dollars, 6)) for *rest, dollars in rows]


def trouble(store: Store) -> str:
    return next((stage.last_error for stage in list_stages(store) if stage.name == STAGE), "")


@pytest.mark.parametrize("mode", ["login", "flag"])
def test_where_the_user_must_act_the_local_extractor_serves_and_status_says_what_to_do(
    propose: Propose, store: Store, bench: Bench, mode: str
) -> None:
    for _ in range(3):
        assert [candidate.extractor for candidate in propose(mode)] == ["local-test"]

    assert len(bench.calls()) == 1
    assert {"login": "/login", "flag": "update Claude Code"}[mode] in trouble(store)
    assert ledger(store) == [("claude:haiku", "spent", 0, 0, 0.0)]


@pytest.mark.parametrize("mode", ["limit", "overloaded"])
def test_what_passes_leaves_the_turns_due_and_costs_nothing(propose: Propose, store: Store, mode: str) -> None:
    with pytest.raises(RetryLater):
        propose(mode)

    assert ledger(store) == [("claude:haiku", "spent", 0, 0, 0.0)]


def test_a_call_is_reserved_at_its_ceiling_and_settled_at_what_it_cost(propose: Propose, store: Store) -> None:
    propose("well")

    assert ledger(store) == [("claude:haiku", "spent", 1023, 650, 0.00425)]


def test_a_cap_of_dollars_stops_the_call_before_it_is_made(propose: Propose, store: Store, bench: Bench) -> None:
    found = propose("well", llm_dollars_per_call=0.3, llm_dollars_per_hour=0.2)

    assert [candidate.extractor for candidate in found] == ["local-test"]
    assert bench.calls() == []
    assert "dollars an hour" in trouble(store)


def test_a_cap_of_tokens_stops_the_call_before_it_is_made(propose: Propose, store: Store, bench: Bench) -> None:
    found = propose("well", llm_tokens_per_day=500)

    assert [candidate.extractor for candidate in found] == ["local-test"]
    assert bench.calls() == []
    assert "500 tokens a day" in trouble(store)


def test_a_call_whose_end_nobody_saw_counts_in_full(propose: Propose, store: Store) -> None:
    with pytest.raises(RetryLater):
        propose("error")

    assert ledger(store)[0][4] == 0.2


@pytest.mark.parametrize("cost", ["-3", "NaN", "Infinity", '"0.01"', "true", "1e300", "1" + "0" * 400, "null"])
def test_a_cost_that_is_not_an_amount_counts_as_the_most_that_a_call_may_cost(
    propose: Propose, store: Store, cost: str
) -> None:
    usage = '"modelUsage": {"m": {"inputTokens": 900, "outputTokens": 60}}'

    assert [candidate.extractor for candidate in propose(f'{{"total_cost_usd": {cost}, {usage}}}')] == [""]

    assert ledger(store) == [("claude:haiku", "spent", 900, 60, 0.2)]


def test_tokens_that_no_call_can_take_leave_the_estimate(propose: Propose, store: Store) -> None:
    propose('{"modelUsage": {"m": {"inputTokens": 1' + "0" * 30 + ', "outputTokens": 5}}}')

    ((_, state, read, written, dollars),) = ledger(store)
    assert (state, written, dollars) == ("spent", 8_000, 0.00425)
    assert read < 100_000
