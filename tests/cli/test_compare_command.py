"""``engram compare``, and how the installer and the report offer it: agreed to before, asked once, nothing kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_llm
import pytest
from click.testing import Result
from transcript_lines import commit, say

from engram.enums import Actor, ComparisonAnswer
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.compare_extractors import answer_of, note_answer
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.paths import Home
from engram.redaction import redact
from engram.settings import Settings

Run = Callable[..., Result]
SESSION = "11111111-2222-3333-4444-555555555555"
STAND_IN = Path(__file__).parents[1] / "extraction" / "stand_in_claude.py"
CAUSE = "`CacheKey` leaves out the branch name, so two branches share one entry in `cache.py` and read stale results."
BETTER = "Stale results: `CacheKey` left out the branch name, so two branches shared one entry in `cache.py`"
HINT = "engram compare"


@pytest.fixture
def store(run: Run, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The open memory, in which one session was read by the local extractor; there is no ``claude`` and no key."""
    for name in ("OPENAI_API_KEY", "ENGRAM_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    settings = Settings(home=home.root, claude_folder=tmp_path / "claude", extract_first_messages=1)
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    place = {"cwd": "/work/demo", "at": "2025-05-01T10:00:00.000Z"}
    say(path, "user", "why is the cache stale after I change the branch? it was right yesterday", **place)
    say(path, "assistant", CAUSE, **place)
    say(path, "user", "then add the branch to the key, and keep the old entries until the next release", **place)
    say(path, "assistant", f"The key has the branch now, and old entries are read until 3.0. Before, {CAUSE}", **place)
    commit(path, "key entries by branch", CAUSE, **place)
    settings.places.prepare()
    with open_store(home.memory_db) as opened:
        ingest_path(opened, path, settings=settings, redact=redact)
        extract_session(opened, SESSION, extractor=LocalExtractor(), embedder=None, settings=settings)
        yield opened


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake_llm.FakeLanguageModel]:
    """A model's server of one's own, which the settings name."""
    answer = fake_llm.answer(fake_llm.memory(BETTER, "e2", kind="fix", title="Stale cache across branches"))
    server = fake_llm.FakeLanguageModel(lambda body: fake_llm.chat(answer))
    monkeypatch.setenv("ENGRAM_LLM_BASE_URL", server.base_url)
    yield server
    server.close()


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a stand-in for Claude Code, the only ``claude`` on PATH."""
    command = tmp_path / "bin" / "claude"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\n" + STAND_IN.read_text(encoding="utf-8"), encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    log = tmp_path / "calls.jsonl"
    monkeypatch.setenv("STAND_IN_LOG", str(log))
    return log


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody reads and answers."""
    monkeypatch.setattr("engram.cli.report_commands.has_terminal", lambda: True)


def flat(result: Result) -> str:
    return " ".join(result.output.split())


def summaries(store: Store) -> set[str]:
    return {memory.summary for memory in all_memories(store) if memory.is_current}


def test_what_is_sent_and_what_it_costs_is_said_first_and_a_no_sends_nothing(
    run: Run, store: Store, server: fake_llm.FakeLanguageModel
) -> None:
    said = flat(run("compare", stdin="n\n", code=1))

    assert "why is the cache stale after I change the branch" in said
    assert f"Sent once, to {server.base_url} (model gpt-4.1-nano)" in said
    assert "Price one call, about" in said
    assert "tokens in and 1,250 to 2,000 out" in said
    assert server.received == []
    assert answer_of(store) is ComparisonAnswer.NO


def test_both_ways_are_shown_and_kept_only_after_the_switch(
    run: Run, store: Store, server: fake_llm.FakeLanguageModel, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = summaries(store)
    monkeypatch.setenv("COLUMNS", "61")

    shown = run("compare", stdin="y\nn\n").output

    assert "Without a model: 1 memory" in shown
    assert "With gpt-4.1-nano: 1 memory" in shown
    assert "  • Stale cache across branches (fix)\n    Stale results:" in shown
    lines = [line for line in shown.splitlines() if line.startswith(" ")]
    assert max(map(len, lines)) <= 60
    assert summaries(store) == before
    assert not home.config_file.exists()
    assert answer_of(store) is ComparisonAnswer.SHOWN

    switched = run("compare", stdin="y\ny\n").output

    assert "kept from this session: 1 memory" in " ".join(switched.split())
    assert 'extractor = "openai"' in home.config_file.read_text()
    assert summaries(store) == {BETTER}
    assert answer_of(store) is ComparisonAnswer.SWITCHED
    (kept,) = [memory for memory in all_memories(store) if memory.is_current]
    assert {change.actor for change in history_of(store, kept.episode_id)} == {Actor.MODEL}
    assert "already writes your memories" in run("compare", stdin="y\n", code=1).output
    assert len(server.received) == 2


def test_the_users_own_claude_is_asked_with_its_price_and_what_it_takes_of_the_plan(
    run: Run, store: Store, claude: Path
) -> None:
    said = flat(run("compare", stdin="y\n"))

    assert "to Anthropic, by your own Claude Code with your login (model haiku)" in said
    assert "at the list prices of Claude Haiku of 2026-11-26, at most $0.20, where Claude Code stops it." in said
    assert "With a subscription nothing is billed: the tokens count against its limits." in said
    assert "With claude:haiku:" in said
    assert "The call cost $0.0043" in said
    # Nobody answered the second question.
    assert "None of it was stored" in said
    (call,) = [json.loads(line) for line in claude.read_text().splitlines()]
    assert "cache" in call["stdin"]


def test_a_script_agrees_by_yes_and_gets_both_ways_as_json(
    run: Run, run_json: Callable[..., Any], store: Store, server: fake_llm.FakeLanguageModel
) -> None:
    assert "add --yes" in run("compare", "--json", code=1).output
    assert "nobody to answer: add --yes" in run("compare", stdin="", code=1).output
    assert server.received == []

    shown = run_json("compare", "--yes")

    assert [memory["sentence"] for memory in shown["by_model"]] == [BETTER]
    assert [memory["kind"] for memory in shown["without"]] == ["fix"]
    assert (shown["session"], shown["extractor"], shown["prompts"]) == (SESSION, "openai", 2)
    assert 0 < shown["dollars"] <= shown["price"]["reserved_dollars"]
    assert "None of it was stored" in run("compare", "--yes").output


@pytest.mark.parametrize("answers", ["n\n", "", "y\nn\n", "y\ny\n"])
def test_the_report_offers_it_once_on_a_terminal(
    run: Run, store: Store, server: fake_llm.FakeLanguageModel, terminal: None, answers: str
) -> None:
    first = run("report", stdin=answers).output
    again = run("report", stdin="y\ny\n").output

    is_shown = answers.startswith("y")
    assert ("Send it?" in first) is bool(answers)  # a question that nobody can answer is not printed
    assert "Send it?" not in again
    assert len(server.received) == is_shown
    # After a no, one line names the command.
    assert again.count(HINT) == (not is_shown)


def test_without_a_terminal_the_report_asks_nothing_and_names_the_command(
    run: Run, run_json: Callable[..., Any], store: Store, server: fake_llm.FakeLanguageModel
) -> None:
    said = run("report", stdin="y\ny\n").output
    facts = run_json("report")["comparison"]

    assert "Send it?" not in said
    assert said.count(HINT) == 1
    assert (facts["command"], facts["answer"]) == (HINT, None)
    assert facts["offer"]["session"] == SESSION
    assert server.received == []
    assert answer_of(store) is None


@pytest.mark.parametrize("changes", [("--set", "extractor=openai"), ("--set", "extractor=off"), ()])
def test_nothing_is_offered_where_a_model_writes_already_or_none_is_there(
    run: Run, store: Store, terminal: None, changes: tuple[str, ...]
) -> None:
    assert HINT not in run(*changes, "report", stdin="y\n").output
    assert run(*changes, "compare", stdin="y\n", code=1).output.startswith("Error: ")
    assert answer_of(store) is None


def test_a_key_that_others_can_read_stops_the_comparison_and_no_report(
    run: Run, store: Store, terminal: None, home: Home
) -> None:
    home.env_file.write_text("OPENAI_API_KEY=sk-test\n")
    home.env_file.chmod(0o644)

    assert "before that" in run("report", stdin="y\n").output
    assert "chmod 600" in run("compare", stdin="y\n", code=1).output

    home.env_file.chmod(0o600)

    assert "to OpenAI, with your key (model gpt-4.1-nano)" in flat(run("report", stdin="n\n"))


def test_a_call_that_fails_is_said_and_leaves_the_report_whole(
    run: Run, store: Store, server: fake_llm.FakeLanguageModel, terminal: None
) -> None:
    server.reply = lambda body: fake_llm.http("{}", "401 Unauthorized")

    said = run("report", stdin="y\n").output

    assert "before that" in said
    assert "The comparison failed: the model's server answered 401: the key is wrong" in said
    assert "Send it?" not in run("report", stdin="y\n").output


@pytest.mark.parametrize("login", ["none", "credentials", "account", "helper", "key"])
def test_a_missing_login_is_said_before_the_question(
    run: Run, store: Store, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    folder = tmp_path / "claude"
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if login == "credentials":
        (folder / ".credentials.json").write_text("{}")
    elif login == "account":
        (folder / ".claude.json").write_text('{"oauthAccount": {}}')
    elif login == "helper":
        (folder / "settings.json").write_text('{"apiKeyHelper": "cat"}')
    elif login == "key":
        monkeypatch.setenv("ANTHROPIC_API_KEY", "x")

    said = flat(run("compare", stdin="n\n", code=1))

    assert ("type /login first" in said) is (login == "none")


def test_a_call_that_was_refused_is_not_a_line_of_the_costs(
    run: Run, store: Store, claude: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_MODE", "login")

    assert "claude is not logged in" in run("compare", "--yes", code=1).output
    assert "Nothing was spent" in run("cost").output
    assert "claude is not logged in" not in run("status").output


def test_the_offer_of_status_is_not_made_to_who_answered_already(run: Run, store: Store, claude: Path) -> None:
    note_answer(store, ComparisonAnswer.NO)

    assert HINT not in run("status").output
    assert not claude.exists()


@pytest.mark.parametrize("answer", ["local", "compare"])
def test_the_installer_shows_both_ways_at_its_end_if_that_was_chosen(
    run: Run, store: Store, server: fake_llm.FakeLanguageModel, home: Home, answer: str
) -> None:
    said = run("install", "--no-service", "--no-import", stdin=f"n\n{answer}\ny\ny\n").output
    again = run("report", stdin="y\n").output

    is_chosen = answer == "compare"
    assert "compare Rules" in said
    assert (said.find("Send it?") > said.find("Self-test")) is is_chosen
    assert len(server.received) == is_chosen
    assert (home.config_file.exists() and "openai" in home.config_file.read_text()) is is_chosen
    assert (BETTER in summaries(store)) is is_chosen
    assert again.count(HINT) == (not is_chosen)


def test_the_installer_offers_no_comparison_without_a_model_to_ask(run: Run, store: Store) -> None:
    said = run("install", "--no-service", "--no-import", stdin="n\ncompare\nlocal\n").output

    assert "compare Rules" not in said
    assert "Error: 'compare' is not an answer. Type local or openai, or press Enter for local" in said
