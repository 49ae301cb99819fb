"""Real sessions give the prompts they should, in any order and cut anywhere."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from turn_memory import Memory

from engram.transcripts.turns import Opening

pytestmark = pytest.mark.corpus

#: Prompts that stand only in queue-operation lines as this reader sees them, against ``expected.tsv``, where it
#: differs. The table leaves out a queued prompt whose words some other line quotes later; here a quotation by the
#: assistant or by a compaction summary is no prompt line, so that the queued line stays the only one:
#: entireio__cli "rebase to main before we start" and "uhh, #89 should be in there now?" (quoted by a summary),
#: "looks like, we are not saving its value …" (quoted by the assistant); marot__spotter "check again" and "new beads
#: for the epic were added. tackle them" (quoted by a summary). The table counts a bare "/clear" that stands at the
#: end of a file of PackmindHub__context-evaluator; a command without words is none here.
EXPLAINED = {"entireio__cli": 3, "marot__spotter": 2, "PackmindHub__context-evaluator": -1}

#: Slash commands with further words, which the table does not count: "/plan …" (twice), "/compact …", and
#: "/code-review ultra --fix", which it counts as a queued prompt because no other line shows it without tags.
COMMANDS = {"PackmindHub__context-evaluator": 2, "entireio__cli": 1, "JanDeDobbeleer__oh-my-posh": 1}
QUEUED_COMMANDS = {"JanDeDobbeleer__oh-my-posh": 1}

#: Messages of a hook that stopped a prompt ("Operation stopped by hook: …"), which the table counts as prompts.
STOPPED = {"entireio__cli": 2}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture(scope="module")
def sessions(corpus: Path) -> dict[str, list[tuple[Path, list[int]]]]:
    """Project → session files with their growth marks."""
    found: dict[str, list[tuple[Path, list[int]]]] = {}
    for row in rows(corpus / "manifest.tsv"):
        if row["kind"] == "session":
            marks = [int(mark) for mark in row["growth_marks"].replace(",", " ").split()]
            found.setdefault(row["project"], []).append((corpus / row["file"], marks))
    return found


@pytest.fixture(scope="module")
def whole(sessions: Any, make_memory: Callable[[], Any]) -> dict[str, Any]:
    """Project → everything read at once, in the order of the manifest."""
    found = {}
    for project, files in sessions.items():
        found[project] = make_memory()
        for path, _ in files:
            found[project].read(path)
    return found


def test_the_prompts_are_those_that_were_typed(corpus: Path, whole: dict[str, Any]) -> None:
    for row in rows(corpus / "expected.tsv"):
        turns = whole[row["project"]].turns.values()
        counts = {opening: sum(turn.opening is opening for turn in turns) for opening in Opening}

        prompts = int(row["unique_prompts"]) + COMMANDS.get(row["project"], 0) - STOPPED.get(row["project"], 0)
        assert counts[Opening.PROMPT] == prompts, row["project"]
        queued = int(row["queue_only_prompts"]) + EXPLAINED.get(row["project"], 0)
        queued -= QUEUED_COMMANDS.get(row["project"], 0)
        assert counts[Opening.QUEUED] == queued, row["project"]


def test_every_entry_of_the_conversation_belongs_to_one_turn(sessions: Any, whole: dict[str, Any]) -> None:
    for project, files in sessions.items():
        expected = set()
        for path, _ in files:
            for line in path.read_bytes().split(b"\n"):
                if b'"uuid"' in line and b'"type":"progress"' not in line[:700]:
                    data = json.loads(line)
                    if data["type"] in ("user", "assistant", "system"):
                        expected.add(data["uuid"])
        assert whole[project].uuids >= expected, project
        assert len(whole[project].uuids - expected) <= 2, project


def test_the_order_of_files_does_not_matter(
    sessions: Any, whole: dict[str, Any], make_memory: Callable[[], Any]
) -> None:
    for project, files in sessions.items():
        memory = make_memory()
        shuffled = list(files)
        random.Random(7).shuffle(shuffled)
        for path, _ in shuffled:
            memory.read(path)

        assert memory.prompts == whole[project].prompts, project
        assert memory.uuids == whole[project].uuids, project


def test_cut_at_every_growth_mark_the_result_is_the_same(
    sessions: Any, whole: dict[str, Any], make_memory: Callable[[], Any], tmp_path: Path
) -> None:
    for project, files in sessions.items():
        memory = make_memory()
        for path, marks in files:
            grow(memory, path, marks, tmp_path)

        assert memory.turns.keys() == whole[project].turns.keys(), project
        assert memory.partition == whole[project].partition, project


@pytest.mark.parametrize("seed", range(3))
def test_cut_at_random_bytes_the_result_is_the_same(
    sessions: Any, make_memory: Callable[[], Any], tmp_path: Path, seed: int
) -> None:
    chosen = random.Random(seed)
    for path in chosen.sample(list(middling(sessions)), 4):
        whole, pieces = make_memory(), make_memory()
        whole.read(path)
        size = path.stat().st_size
        grow(pieces, path, sorted(chosen.randrange(size) for _ in range(12)), tmp_path)

        assert pieces.partition == whole.partition, path.name
        assert pieces.prompts == whole.prompts, path.name


def test_transcripts_of_the_newest_version_hold_the_prompts_that_were_sent(
    shared: Path, make_memory: Callable[[], Any]
) -> None:
    memory = make_memory()
    for path in sorted((shared / "fixtures" / "projects-2.1.330").glob("projects/*/*.jsonl")):
        memory.read(path)

    assert {"hello", "RUNBASH please", "RUNREAD again", "RUNREAD fork"} <= set(memory.prompts)
    assert not any("additional context" in prompt or prompt.startswith("<") for prompt in memory.prompts)


def middling(sessions: Any) -> Iterator[Path]:
    for files in sessions.values():
        yield from (path for path, _ in files if 20_000 < path.stat().st_size < 1_000_000)


def grow(memory: Memory, path: Path, marks: list[int], tmp_path: Path) -> None:
    """Read a growing copy of ``path``, stopping at each mark."""
    content = path.read_bytes()
    copy = tmp_path / path.parent.parent.parent.name / path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    start = 0
    copy.write_bytes(b"")
    for mark in [*marks, len(content)]:
        with copy.open("ab") as file:
            file.write(content[start:mark])
        start = max(start, mark)
        memory.read(copy)
