"""Regular expressions are compiled at their first use, and every one of them can be."""

from __future__ import annotations

import ast
import copy
import gc
import importlib
import pkgutil
import re
import warnings
from pathlib import Path

import pytest

import engram
from engram.system.lazy_regex import LazyRegex, lazy_regex

ROOT = Path(engram.__file__).parent


def compiled_at_import(source: str) -> list[int]:
    """Lines on which a module compiles an expression while it is imported."""
    nodes: list[ast.AST] = [ast.parse(source)]
    lines = []
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            lines.append(node.lineno)
        nodes.extend(ast.iter_child_nodes(node))
    return sorted(lines)


def test_no_module_compiles_while_it_is_imported() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in ROOT.rglob("*.py")
        if "re.compile(" in (text := path.read_text(encoding="utf-8")) and (lines := compiled_at_import(text))
    }

    assert not found, "take lazy_regex (engram/system/lazy_regex.py)"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("A = re.compile('a')", [1]),
        ("A = {\n  'a': re.compile('a')}", [2]),
        ("class A:\n  B: Final = re.compile('a')", [2]),
        ("A = lazy_regex('a')", []),
        ("def a():\n  return re.compile('a')", []),
    ],
)
def test_the_check_sees_what_it_is_to_see(source: str, lines: list[int]) -> None:
    assert compiled_at_import(source) == lines


def test_every_expression_of_the_program_can_be_compiled() -> None:
    for module in pkgutil.walk_packages([str(ROOT)], "engram."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.unfreeze()
    # ``isinstance`` would ask each object for its class, which torch's answer with a warning if torch is installed.
    every = [found for found in gc.get_objects() if issubclass(type(found), LazyRegex)]
    gc.freeze()

    assert len(every) > 600
    with warnings.catch_warnings():
        # Those of a pattern alone: what other tests left open is collected here, too, with warnings of its own.
        warnings.simplefilter("error", FutureWarning)
        warnings.simplefilter("error", DeprecationWarning)
        for one in every:
            re.compile(one.pattern, one.flags)


def test_it_answers_as_a_compiled_one() -> None:
    text, own, real = "Ab1 ab2", lazy_regex(r"(?P<word>ab)(\d)", re.IGNORECASE), re.compile(r"(?P<word>ab)(\d)", re.I)

    assert [match.groups() for match in own.finditer(text)] == [match.groups() for match in real.finditer(text)]
    assert own.sub(r"\2", text) == real.sub(r"\2", text) == "1 2"
    assert (own.split(text), own.findall(text)) == (real.split(text), real.findall(text))
    assert own.fullmatch("x") is own.match("x") is own.search("x") is None
    assert (own.pattern, own.flags, own.groups, own.groupindex) == (
        real.pattern,
        real.flags,
        real.groups,
        real.groupindex,
    )
    assert copy.deepcopy(own).findall(text) == real.findall(text)
    assert lazy_regex(rb"a+").findall(b"aab") == [b"aa"]


def test_it_is_compiled_at_its_first_use_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    own_compile = re.compile
    monkeypatch.setattr(re, "compile", lambda pattern, flags=0: compiled.append(pattern) or own_compile(pattern, flags))

    own = lazy_regex("a(b)")
    assert (own.pattern, compiled) == ("a(b)", [])

    assert own.search("ab")
    assert own.search("ab")
    assert own.sub("", "ab") == ""
    assert compiled == ["a(b)"]


def test_a_mistake_shows_at_the_first_use_under_the_name_of_its_error() -> None:
    with pytest.raises(re.error, match="missing"):
        lazy_regex("a(").search("a")
    with pytest.raises(AttributeError):
        lazy_regex("a").searches  # type: ignore[attr-defined]  # noqa: B018
