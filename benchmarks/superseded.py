"""Count overturned memories that are no longer in force, and similar memories that were wrongly ended.

    python benchmarks/superseded.py KEPT.jsonl GOLD_MEMORIES.jsonl

KEPT is the file that ``python -m bench code --answers … --kept KEPT.jsonl`` wrote. ``superseded_pairs.jsonl`` lists,
for each question whose answer changed, the entries with the old and the new answer; ``near_pairs.jsonl`` lists gold
memories that are similar and both true. A memory counts as old if it rests on an old entry and on no new one. A person
has to decide whether it still states what was overturned, so each one that is in force is printed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
IN_FORCE = ("active", "provisional")
#: Share of a gold summary's words that a memory must contain to count as the same.
MIN_SHARE = 0.4


def read(path: Path) -> list[dict[str, Any]]:
    """Return the objects in a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def old_memories(pair: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the memories that rest on an old entry of a pair and on none of its new ones."""
    old, new = set(pair["old"]), set(pair["new"])
    return [memory for memory in kept if old & set(memory["evidence"]) and not new & set(memory["evidence"])]


def taken_for(gold: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the ids of the memories that state the same as a gold memory."""
    wanted = _words(gold["summary"])
    return {
        memory["id"]
        for memory in kept
        if set(gold["evidence"]) & set(memory["evidence"])
        and len(wanted & _words(memory["summary"])) >= MIN_SHARE * len(wanted)
    }


def wrongly_ended(kept: Sequence[Mapping[str, Any]], gold: Mapping[str, Mapping[str, Any]]) -> tuple[int, list[str]]:
    """Return how many similar pairs are both kept, and the pairs in which one memory ended the other."""
    by_id = {memory["id"]: memory for memory in kept}
    both, wrong = 0, []
    for pair in read(HERE / "near_pairs.jsonl"):
        first, second = (taken_for(gold[name], kept) for name in pair["memories"])
        both += bool(first and second and first != second)
        for one, others in ((first, second), (second, first)):
            wrong += [
                f"{pair['memories']}: {by_id[name]['summary']}"
                for name in one - others
                if by_id[name]["superseded_by"] in others - one
            ]
    return both, wrong


def _words(text: str) -> set[str]:
    return {word.strip(".,;:()`'\"").lower() for word in text.split() if len(word) > 2}


def main(kept_path: str, gold_path: str) -> None:
    """Print both counts, and what has to be read."""
    kept = read(Path(kept_path))
    gold = {row["id"]: row for row in read(Path(gold_path)) if "id" in row}
    pairs = read(HERE / "superseded_pairs.jsonl")
    standing = 0
    for pair in pairs:
        living = [memory for memory in old_memories(pair, kept) if memory["status"] in IN_FORCE]
        standing += bool(living)
        for memory in living:
            print(f"{pair['question']} in force: {memory['kind']}: {memory['summary']}")
    both, wrong = wrongly_ended(kept, gold)
    for line in wrong:
        print(f"wrongly ended {line}")
    print(
        json.dumps(
            {
                "pairs": len(pairs),
                "with a memory in force that rests on the old entry alone": standing,
                "near pairs": 50,
                "of which both are kept": both,
                "wrongly ended": len(wrong),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:3])
