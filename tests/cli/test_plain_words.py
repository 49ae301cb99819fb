"""Commands speak to people who have not read the glossary: no word of how Engram works inside."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import engram.cli

_MODULES = sorted(Path(engram.cli.__file__).parent.glob("*.py"))
#: Words of the program, of which a person sees only what they do.
_INNER = re.compile(
    r"\b(?:distill\w*|inject(?:ed|s)?|superseded|rounds?|rows?|statements?|enqueue\w*|drain|lease|slug|"
    r"cursor|tombstones?|segments?|outgoing|pulled|ingest|consolidations?|recollections?|vectors)\b",
    re.IGNORECASE,
)
#: What has such a word for another reason: an option's name, another program's word, or a page for developers.
_ALLOWED = ("--superseded", "how do we round VAT", "may run twice or never")
_PLACES_OF_PEOPLE = ("command", "group", "option", "argument")


def spoken(module: Path) -> list[str]:
    """Texts of several words that a module may print, and the help of its commands."""
    tree = ast.parse(module.read_text())
    inner: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            is_help = isinstance(node, ast.FunctionDef) and any(
                word in ast.unparse(decorator) for decorator in node.decorator_list for word in _PLACES_OF_PEOPLE
            )
            first = node.body[0]
            if not is_help and isinstance(first, ast.Expr):
                inner.add(id(first.value))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger."):
            inner |= {id(argument) for argument in node.args}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(text.value) for text in texts if id(text) not in inner and " " in str(text.value).strip()]


@pytest.mark.parametrize("module", _MODULES, ids=lambda module: module.stem)
def test_no_message_counts_one_memories(module: Path) -> None:
    """``number_of`` says "1 memory"; the values of a constant are known to be more."""
    found = [
        ast.unparse(value)
        for text in ast.walk(ast.parse(module.read_text()))
        if isinstance(text, ast.JoinedStr)
        for value, after in pairwise(text.values)
        if isinstance(value, ast.FormattedValue) and not ast.unparse(value.value).isupper()
        if isinstance(after, ast.Constant)
        and re.match(r" (?:memories|times|entries|others|texts|tasks)\b", str(after.value))
        if "such" not in ast.unparse(value)
    ]

    assert found == []


@pytest.mark.parametrize("module", _MODULES, ids=lambda module: module.stem)
def test_no_message_has_a_word_of_the_inside(module: Path) -> None:
    found = [
        (word, text)
        for text in spoken(module)
        if not any(allowed in text for allowed in _ALLOWED)
        for word in _INNER.findall(text)
    ]

    assert found == []
