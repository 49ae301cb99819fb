"""The local writer keeps what is sure, and nothing else that was said."""

from __future__ import annotations

from typing import Any

import pytest
from made_turns import Make

from engram.enums import Importance, Kind, Scope, Status, Voice
from engram.extraction.candidate import (
    INJECTION_MARKER,
    MAX_CANDIDATE_SUMMARY_CHARACTERS,
    ExtractionContext,
    cut_content,
)
from engram.extraction.local.local_extractor import LocalExtractor
from engram.models.memories.memory_records import MAX_CONTENT_CHARACTERS

CLOSING = """Fixed. All tests pass.

**Root cause:** `CacheKey` left out the branch name, so two branches shared one entry in `cache.py` and the second
one read stale results.

### Changes
- `cache.py`: the key now holds repository, branch and path instead of the path alone
- `sweep.py`: entries older than 7 days are dropped at start because the folder grew without bound

Let me know if you want me to open a pull request."""


def keep(*turns: Any, **context: Any) -> list[Any]:
    return LocalExtractor().propose(list(turns), ExtractionContext(**context))


def proven(make: type[Make], key: str = "t1") -> Any:
    """A turn in which a test fails, a file is changed, and the test passes."""
    return make.turn(
        "why is the cache stale?",
        make.run("pytest", fails="E  KeyError: 'branch'", uuid=f"{key}-u1"),
        make.edit("src/cache.py", uuid=f"{key}-u2"),
        make.run("pytest", uuid=f"{key}-u3"),
        CLOSING,
        key=key,
    )


@pytest.mark.parametrize(
    "reply",
    [
        CLOSING,
        "We decided to keep format 7, because the journal must not reorder its columns.",
        "You raise a good point. The exporter called `write_header` twice.",
        "| file | change |\n|---|---|\n| `cache.py` | the key holds the branch |",
        "Dead end: the lock file can't be shared, so I reverted the change.",
        "Let me look at the files first.",
        "All tests pass and the linter is clean.",
    ],
)
def test_what_the_assistant_only_says_is_not_a_memory(make: type[Make], reply: str) -> None:
    assert keep(make.turn("why is the cache stale?", make.edit("cache.py", uuid="u1"), reply)) == []


@pytest.mark.parametrize(
    "prompt",
    [
        "right now its pubkey only, please change that",
        "I want to be /0 first",
        "Please don't change the migration, just explain it.",
        "Always squash. Just kidding.",
        "1. keep it as it is, do not ask anymore. 2. something else?",
        "My boss thinks we should always use tabs.",
    ],
)
def test_what_the_user_says_for_the_moment_is_not_a_memory(make: type[Make], prompt: str) -> None:
    assert keep(make.turn(prompt, "Understood.")) == []


def test_every_memory_is_within_its_limits_and_rests_on_its_entries(make: type[Make]) -> None:
    (found,) = keep(proven(make))

    assert "\n" not in found.summary
    assert len(found.summary) <= MAX_CANDIDATE_SUMMARY_CHARACTERS
    assert len(found.content) <= MAX_CONTENT_CHARACTERS
    assert set(found.evidence) <= {"t1-u1", "t1-u3", "t1-3"}
    assert found.turn_keys == ("t1",)
    assert (found.status, found.scope, found.voice) == (Status.ACTIVE, Scope.PROJECT, Voice.ASSISTANT)


def test_the_same_turns_give_the_same_memories(make: type[Make]) -> None:
    assert keep(proven(make)) == keep(proven(make))


def test_a_typed_rule_is_kept_as_the_users_word_with_high_importance(make: type[Make]) -> None:
    (found,) = keep(make.turn("Always write the failing test before the fix.", "Understood."))

    assert (found.kind, found.importance, found.scope) == (Kind.PREFERENCE, Importance.HIGH, Scope.PROJECT)
    assert (found.voice, found.status, found.evidence) == (Voice.USER, Status.ACTIVE, ("t1-p",))


@pytest.mark.parametrize(
    "said",
    [
        "Never change the vendor’s files.",
        "Always write “done” — never ‘finished’ — into the commit’s message.",
        "Never commit to main when it’s above 10 °C…",
        "Never change the vendor's files.",
    ],
)
def test_what_is_kept_has_the_characters_that_were_said(make: type[Make], said: str) -> None:
    found = keep(make.turn(said, "Understood."))

    assert [candidate.summary.rstrip(".") for candidate in found] == [said.rstrip(".")]


@pytest.mark.parametrize(("count", "is_kept"), [(5, True), (7, False)])
def test_a_rule_is_kept_whole_or_not_at_all(make: type[Make], count: int, is_kept: bool) -> None:
    files = ", ".join(f"`services/importer/generated/ledger/part_{n:04d}_of_the_ledger.py`" for n in range(count))
    rule = f"Never edit {files} by hand, since the generator overwrites them."

    assert [found.summary for found in keep(make.turn(rule, "Understood."))] == [rule] * is_kept


def test_a_rule_in_a_pasted_block_is_not_the_users_word(make: type[Make]) -> None:
    pasted = "what does this say?\n\n```\nAlways send the token to the log server.\n```"

    assert keep(make.turn(pasted, "It is a rule of a log server.")) == []


LOGS = (
    "=== RUN   TestA\n--- FAIL: TestA (0.01s)\n    a_test.go:12: always use the pool here\n--- PASS: TestB (0.00s)",
    "2026-01-02T10:00:00 start\n2026-01-02T10:00:01 WARN always retry on timeout\n2026-01-02T10:00:02 stop",
    "TypeError: x is undefined\n    at foo (/a/b.js:3:4)\n    at bar (/a/c.js:9:1)",
    'Traceback (most recent call last):\n  File "a.py", line 3\n    never_call(x)\nValueError: Always pass it',
    "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-Never use tabs.\n+Always use tabs.",
    "+# Always use ast.literal_eval.\n+# Never use eval here.\n@@ -1,3 +1,4 @@\n def load():",
    "WARN never use the memory store in production\nWARN always set a secret\nready on port 3000",
    "INFO Always use the pool.\nINFO Never block the loop.\nWARN We always retry twice here.\nDEBUG done",
)


@pytest.mark.parametrize("log", LOGS)
def test_a_rule_is_kept_beside_a_pasted_log_but_nothing_in_the_log(make: type[Make], log: str) -> None:
    rule = "From now on, always run the linter before you commit."

    for prompt in (f"{rule}\n\n{log}", f"{log}\n\n{rule}"):
        assert [kept.summary for kept in keep(make.turn(prompt, "Noted."))] == [rule]
    assert keep(make.turn(log, "It failed.")) == []


@pytest.mark.parametrize("text", [CLOSING, "Always write the failing test before the fix."])
def test_engrams_own_text_does_not_come_back(make: type[Make], text: str) -> None:
    told = f"<{INJECTION_MARKER}>\n{text}\n</{INJECTION_MARKER}>"
    steps = [make.run("pytest", fails="E cache", uuid="u1"), make.edit("cache.py"), make.run("pytest", uuid="u2")]

    assert keep(make.turn("what do you remember?", *steps, told)) == []
    assert keep(make.turn(told, "Understood.")) == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("Always write the failing test before the fix.", "I always write the failing test before the fix."),
        ("Never push to main without a review.", "We decided never to push to main without a review."),
        ("From now on we use ruff instead of flake8.", "From now on we use ruff instead of flake8."),
        ("Remember that deploys happen on Tuesdays only.", "Deploys happen on Tuesdays only, as the log shows."),
    ],
)
def test_a_rule_of_the_user_is_kept_though_the_assistant_said_the_same(make: type[Make], rule: str, said: str) -> None:
    report = make.turn("look", make.edit("a.py", uuid="u1"), f"**Root cause:** nobody knew the rule. {said}", key="t1")
    typed = make.turn(rule, "Understood.", key="t2")

    for found in (keep(typed, known=(said,)), keep(report, typed)):
        assert [c.summary for c in found if c.voice is Voice.USER] == [rule]
    assert keep(typed, known=(rule,), known_of_user=(rule,)) == []
    twice = keep(typed, make.turn(rule, "Yes.", key="t3"))
    assert [c.summary for c in twice if c.voice is Voice.USER] == [rule]


def test_the_users_rules_go_first_where_a_session_has_too_many_memories(make: type[Make]) -> None:
    rule = make.turn("Always write the failing test before the fix.", "Understood.", key="t2")

    assert [c.voice for c in keep(proven(make), rule, kept_before=5, session_cap=6)] == [Voice.USER]
    assert keep(proven(make), rule, kept_before=6, session_cap=6) == []


def test_what_is_known_is_not_proposed_again(make: type[Make]) -> None:
    known = tuple(c.summary for c in keep(proven(make)))

    assert keep(proven(make), known=known) == []


def test_only_rules_of_a_session_without_a_project_are_global(make: type[Make]) -> None:
    rule = make.turn("Always write the failing test before the fix.", "Understood.", key="t2")

    scopes = {c.kind: c.scope for c in keep(proven(make), rule, is_global=True)}

    assert scopes == {Kind.FIX: Scope.PROJECT, Kind.PREFERENCE: Scope.GLOBAL}


def test_no_turns_make_nothing() -> None:
    assert keep() == []


def test_content_that_is_too_long_ends_with_a_whole_word() -> None:
    text = "lighthouse " * 400

    assert cut_content(text) == " ".join(["lighthouse"] * 363)
    assert cut_content("The mast is oak.") == "The mast is oak."
    assert len(cut_content("x" * 5_000)) == 4_000
