"""Pack a model's answers into one file per project: those that a run of ``python -m bench code --answers`` needs.

python benchmarks/pack_answers.py ANSWERS CORPUS QUESTIONS OUT --model "a Claude model" --date 2026-11-22
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench.answers import AnsweredMemories
from bench.datasets import read_code_questions
from bench.homes import BenchHomes
from bench.recorded_provider import RecordedProvider
from engram.extraction.model.model_answer import json_object
from engram.settings import Settings
from engram.system.atomic import write_atomic


def pack(answers: Path, corpus: Path, questions: Path, out: Path, model: str, date: str) -> None:
    """Write ``OUT/PROJECT.jsonl`` for each project."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="engram-pack-") as folder:
        homes = BenchHomes(Path(folder), Settings(home=Path(folder)), None)
        provider = RecordedProvider(answers)
        made = AnsweredMemories(homes, corpus, provider)
        for project in read_code_questions(questions):
            provider.asked.clear()
            with made.memory(project):
                records = [
                    {"key": key, "model": model, "date": date, "answer": json_object(provider.answers[key])}
                    for key, has_answer in provider.asked.items()
                    if has_answer
                ]
            lines = "".join(json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n" for record in records)
            write_atomic(out / f"{project}.jsonl", lines.encode())
            print(f"{project}: {len(records)} of {len(provider.asked)} requests answered")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("answers", "corpus", "questions", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--date", required=True)
    given = parser.parse_args()
    pack(given.answers, given.corpus, given.questions, given.out, given.model, given.date)


if __name__ == "__main__":
    main()
