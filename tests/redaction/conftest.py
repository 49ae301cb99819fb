"""The data modules beside the tests, loaded by path: test folders are no packages here."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

HERE = Path(__file__).resolve().parent


def load(path: Path) -> ModuleType:
    """The Python file as a module, under a name of its own."""
    name = f"redaction_data_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def other_kinds() -> ModuleType:
    """Made-up secrets of many kinds in three contexts each."""
    return load(HERE / "other_kinds.py")


@pytest.fixture(scope="session")
def rule_texts() -> ModuleType:
    """Texts made from the rules' own patterns."""
    return load(HERE / "rule_texts.py")


@pytest.fixture(scope="session")
def pasted_texts() -> ModuleType:
    """Texts as people paste them with a planted order each, and rules that people type."""
    return load(HERE / "pasted_texts.py")


@pytest.fixture(scope="session")
def red_team() -> ModuleType:
    """Planted instructions, and the ways they get pasted."""
    return load(HERE / "red_team.py")


@pytest.fixture(scope="session")
def relayed() -> ModuleType:
    """What others say of a project, and what they order the agent to do."""
    return load(HERE / "relayed.py")


@pytest.fixture(scope="session")
def addressed() -> SimpleNamespace:
    """What others say of a project, their orders, and orders that only hint; the rules were made on these."""
    folder = HERE.parents[1] / "benchmarks" / "answers" / "trust"
    said = SimpleNamespace(plain=[], orders=[], hints=[])
    for path in sorted(folder.glob("early-*.jsonl")):
        for record in map(json.loads, path.read_text("utf-8").splitlines()):
            hostile = said.hints if path.stem == "early-hints" else said.orders
            (hostile if record["label"] == "hostile" else said.plain).append(record["text"])
    return said


@pytest.fixture(scope="session")
def pasted_letters() -> ModuleType:
    """Mails, chats and tickets as people paste them, and what people type."""
    return load(HERE / "pasted_letters.py")


@pytest.fixture(scope="session")
def shared_cases(shared: Path) -> ModuleType:
    """The development set of secrets and look-alikes."""
    return load(shared / "redaction" / "cases.py")


@pytest.fixture(scope="session")
def corpus_texts(corpus: Path) -> list[str]:
    """What users and the assistant said in the real sessions (at most a million characters, evenly taken)."""
    texts = list(dict.fromkeys(said_texts(corpus)))
    step = max(1, sum(map(len, texts)) // 1_000_000)
    return texts[::step]


def said_texts(folder: Path) -> Iterator[str]:
    """Texts of user and assistant lines of every session file below the folder; tool results left out."""
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text("utf-8", errors="replace").splitlines():
            yield from _said(line)


def _said(line: str) -> Iterator[str]:
    try:
        entry = json.loads(line)
    except ValueError:
        return
    if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant"):
        return
    content = (entry.get("message") or {}).get("content")
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "text":
            yield block["text"]


@pytest.fixture(scope="session")
def corpus_prompts(corpus: Path) -> list[str]:
    """The prompts of the real sessions, each once."""
    return prompts_of(corpus)


def prompts_of(folder: Path) -> list[str]:
    """What stands in the user lines of the sessions below the folder, commands and notifications left out, each
    once.
    """
    machine = ("<command", "<local", "Caveat", "<task", "<system", "[Request", "This session is being", "<bash")
    found: dict[str, None] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text("utf-8", errors="replace").splitlines():
            if '"type":"user"' in line.replace(" ", "")[:4000]:
                found.update(dict.fromkeys(t for t in _said(line) if not t.startswith(machine)))
    return list(found)
