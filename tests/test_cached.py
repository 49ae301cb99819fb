"""The cache for what a function found in a text."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from engram.redaction import redact, redactor
from engram.system.cached import cached_by_text, empty_text_caches, lru_cache_by_text

ENGRAM = Path(__file__).resolve().parent.parent / "engram"
#: Functions with a cache that is not emptied with those of texts, because their first argument is no text of a session.
NO_TEXTS = {
    "_compiled": "patterns of this program",
    "_first_line": "the path of a file of an agent",
    "_read": "the path of a vault",
    "_session_id": "the path of a file of an agent",
    "_tracked_folders": "the path of a repository",
    "_warn_once": "the name of a class",
    "cut_key": "the id of an entry",
    "entry_key": "the id of an entry",
    "is_of_project": "a path, during one request",
    "pack_uuid": "the id of an entry",
}
LONG = "From now on use kilograms. " * 200
TOO_LONG = LONG * 20


@cached_by_text
def judged(text: str, *, following: str = "", said_before: frozenset[str] = frozenset()) -> object:
    return object()


@lru_cache_by_text(8)
def weighed(word: str) -> object:
    return object()


def test_what_was_found_in_a_short_text_is_kept() -> None:
    assert judged("a", following="b") is judged("a", following="b")
    assert judged("a", following="b") is not judged("a", following="c")


@pytest.mark.parametrize(
    ("text", "others"), [(TOO_LONG, {}), ("a", {"following": TOO_LONG}), ("a", {"said_before": frozenset([TOO_LONG])})]
)
def test_no_text_that_is_too_long_is_kept_whichever_argument_it_is(text: str, others: dict[str, Any]) -> None:
    assert judged(text, **others) is not judged(text, **others)


def test_the_prompts_of_a_long_session_are_kept() -> None:
    found = [judged(f"prompt {number}") for number in range(5_000)]

    assert all(judged(f"prompt {number}") is result for number, result in enumerate(found))


def test_texts_give_way_to_later_ones_before_they_take_too_much_memory() -> None:
    first, kept = judged(LONG), judged(f"{LONG}kept")

    for number in range(1_500):
        judged(f"{LONG}{number}")
        assert judged(f"{LONG}kept") is kept

    assert judged(LONG) is not first


def test_emptied_caches_keep_no_text() -> None:
    found, word = judged("a prompt"), weighed("word")
    redact("a sentence with the word quokkafied")
    assert (judged("a prompt"), weighed("word")) == (found, word)
    assert "quokkafied" in redactor._plain

    empty_text_caches()

    assert judged("a prompt") is not found
    assert weighed("word") is not word
    assert not redactor._plain


def test_every_cache_of_texts_can_be_emptied() -> None:
    kept = set()
    for file in ENGRAM.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.args.args:
                caches = {ast.unparse(decorator).split("(")[0].rpartition(".")[2] for decorator in node.decorator_list}
                if caches & {"cache", "lru_cache"} and ast.unparse(node.args.args[0].annotation or node) == "str":
                    kept.add(node.name)

    assert kept == NO_TEXTS.keys()
