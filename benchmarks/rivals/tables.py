"""Print the table of results of ``run.py``, or write the figures in README.md and docs/comparison.md.

    python benchmarks/rivals/tables.py            # print
    python benchmarks/rivals/tables.py --write    # write both files
    python benchmarks/rivals/tables.py --check    # exit code 1 where they differ from the results

The figures come from ``benchmarks/results/rivals/*.json``, and the readers' answers from ``READING``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from bench.qa.figures import verdicts_of  # noqa: E402 - the folder of the benchmarks isn't installed
from bench.qa.folder import RunKey, read_answers, read_scores  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "rivals"
#: The recorded run of ``python -m bench qa`` with a reader for each program.
READING = ROOT / "benchmarks" / "answers" / "qa" / "2026-11-26-all-rivals"
#: Program → its arm in that run; another program's arm is its own name with 400 words.
ARMS = {"Engram": "rules:400", "plain FTS5": "fts5:400"}
#: Programs in the order of the tables; the others are compared with the first.
ORDER = (
    "Engram",
    "Engram, all projects",
    "plain FTS5",
    "deja-vu",
    "mempalace",
    "basic-memory",
    "memsearch",
)
NONE = "–"
Result = Mapping[str, Any]


def main() -> None:
    """Print, write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="write README.md and docs/comparison.md")
    parser.add_argument("--check", action="store_true", help="exit code 1 if they differ")
    given = parser.parse_args()
    results = read_results(given.results)
    if not (given.write or given.check):
        print(comparison_block(results))
        return
    stale = []
    for path, block in ((ROOT / "README.md", readme_block), (ROOT / "docs" / "comparison.md", comparison_block)):
        text = path.read_text(encoding="utf-8")
        wanted = with_block(text, block(results))
        if wanted != text and given.write:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != text:
            stale.append(path.name)
    if stale:
        sys.exit(f"{', '.join(stale)}: the figures differ from those in {given.results}; run tables.py --write")


def read_results(folder: Path) -> list[Result]:
    """Return the results of all programs in the order of the tables."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda result: ORDER.index(result["name"]))


def with_block(text: str, block: str) -> str:
    """Return a page with its figures, which are between two comments, replaced."""
    begin, end = "<!-- figures: benchmarks/rivals/tables.py -->", "<!-- end of figures -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    if not pattern.search(text):
        raise ValueError(f"the page has no line {begin}")
    return pattern.sub(lambda _: f"{begin}\n{block}\n{end}", text)


def readme_block(results: Sequence[Result]) -> str:
    """Return the short table, with a row per program."""
    readers = read_readers(READING)
    columns: dict[str, Callable[[Result], str]] = {
        "": lambda result: f"{result['name']} {result['version'].removeprefix('SQLite ')}",
        "asked: evidence shown": lambda result: percent(evidence(result, 400)),
        "asked: answered correctly": lambda result: percent(
            [float(verdict == "right") for verdict in verdicts(readers, result)]
        ),
        "asked: right session named": lambda result: percent(sessions(result)),
        "unprompted: shows something relevant": lambda result: percent(tells(result)),
        "unprompted: speaks when nothing fits (lower is better)": lambda result: percent(
            speaks(result, "nothing", "routine")
        ),
        "first reading, processor seconds": lambda result: number(result["read_processor_seconds"]),
        "memory at rest, MB": lambda result: number(result["rest_mb"]),
        "disk, MB": lambda result: number(result["installed_mb"]),
    }
    return table(list(columns), [[cell(result) for cell in columns.values()] for result in results])


def comparison_block(results: Sequence[Result]) -> str:
    """Return the long table, with a column per program, followed by the setups and the limits of the comparison."""
    own, readers = results[0], read_readers(READING)
    rows: dict[str, Callable[[Result], str]] = {
        "version": lambda result: result["version"],
        "measured": lambda result: result["date"],
        "**asked through its tool**, 152 questions with an answer": lambda result: "",
        "evidence in 200 words, %": lambda result: share(evidence(result, 200)),
        "evidence in 400 words, %": lambda result: share(evidence(result, 400)),
        "Engram ahead in 400 words by": lambda result: ahead(own, result),
        "right session named in 400 words, %": lambda result: share(sessions(result)),
        "words of the reference answer in 400 words, %": lambda result: share(values(result, "reference")),
        f"right answers of a reader in 400 words, {len(verdicts(readers, own))} questions, %": lambda result: share(
            [float(verdict == "right") for verdict in verdicts(readers, result)]
        ),
        "Engram ahead in right answers by": lambda result: ahead_of_reader(readers, own, result),
        "wrong answers of that reader, %": lambda result: share(
            [float(verdict == "wrong") for verdict in verdicts(readers, result)]
        ),
        "words of an answer": lambda result: number(fmean(line["words"] for line in result["questions"])),
        "20 questions without an answer: says something, %": lambda result: share(unanswerable(result, False)),
        "20 questions of no work: says something, %": lambda result: share(unanswerable(result, True)),
        "**by itself**, at a prompt": lambda result: "" if "prompts" in result else "no hook",
        "65 prompts that something fits: speaks, %": lambda result: share(speaks(result, "fits")),
        "… and tells it, %": lambda result: share(tells(result)),
        "30 prompts that nothing fits: speaks, %": lambda result: share(speaks(result, "nothing")),
        "14 prompts of any project, in four: speaks, %": lambda result: share(speaks(result, "routine")),
        "285 prompts in a foreign project: speaks, %": lambda result: share(speaks(result, "foreign")),
        "words when it speaks": spoken_words,
        "seconds a prompt, median": lambda result: number(result.get("prompt_seconds"), 2),
        "**what it takes**": lambda result: "",
        "processor seconds to read the sessions": lambda result: number(result["read_processor_seconds"]),
        "memory while it reads, MB": lambda result: number(result["read_peak_mb"]),
        "stored, MB": lambda result: number(result["stored_mb"]),
        "memory at rest, MB": lambda result: number(result["rest_mb"]),
        "memory with open sessions, MB": lambda result: number(result["session_mb"]),
        "seconds to the first answer of a session": lambda result: number(result["first_answer_seconds"], 1),
        "seconds an answer, median": lambda result: number(result["answer_seconds"], 2),
        "tools; characters of their descriptions": tools,
        "installed, MB": lambda result: number(result["installed_mb"]),
        "agents whose history it reads": lambda result: str(result["agents"]),
        "systems": lambda result: result["systems"],
    }
    names = [result["name"] for result in results]
    body = table(["", *names], [[name, *(cell(result) for result in results)] for name, cell in rows.items()])
    first = results[0]
    about = (
        f"{first['transcripts']} transcripts ({first['transcripts_mb']:.0f} MB) of 95 sessions and their agents, on "
        f"{first['machine'].rpartition(',')[0]}; ± is half of a 95 % interval."
    )
    setups = "\n".join(
        f"- **{result['name']}**: {'; '.join([result['configuration'], *result['unfair']])}. "
        f"`{result['command']}`, commit {result['commit']}, {result['machine'].rpartition(', ')[2]}"
        for result in results
    )
    return f"{about}\n\n{body}\n\n{setups}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def values(result: Result, name: str) -> list[float]:
    """Return a figure for every question with an answer."""
    return [float(line[name]) for line in result["questions"] if name in line]


def evidence(result: Result, words: int) -> list[float]:
    """Return, for each question with an answer, the share of its evidence in this many words."""
    return values(result, f"evidence in {words}")


def sessions(result: Result) -> list[float]:
    """Return, for each question with an answer, whether a right session is named."""
    return values(result, "session")


def unanswerable(result: Result, is_nowhere: bool) -> list[float]:
    """Return, for each question without an answer, whether something was answered."""
    lines = [line for line in result["questions"] if "reference" not in line]
    return [float(line["words"] > 0) for line in lines if line["id"].startswith("nowhere") == is_nowhere]


def speaks(result: Result, *kinds: str) -> list[float]:
    """Return, for each prompt of the given kinds, whether something was added to it; [] without a hook."""
    return [float(line["words"] > 0) for line in result.get("prompts", ()) if line["kind"] in kinds]


def tells(result: Result) -> list[float]:
    """Return, for each prompt that a memory fits, whether that memory was stated; [] without a hook."""
    return [float(line["tells"]) for line in result.get("prompts", ()) if "tells" in line]


def spoken_words(result: Result) -> str:
    """Return the mean number of words that were added to a prompt."""
    spoken = [line["words"] for line in result.get("prompts", ()) if line["words"]]
    return number(fmean(spoken)) if spoken else NONE


def tools(result: Result) -> str:
    """Return the number of tools, and the length of their descriptions for the agent."""
    return f"{result['tools']}; {result['tools_characters']:,}" if "tools" in result else NONE


def ahead(own: Result, result: Result) -> str:
    """Return the paired difference in the evidence within 400 words, with its interval."""
    if own is result:
        return NONE
    mine = {line["id"]: line for line in own["questions"]}
    key = "evidence in 400"
    return share([mine[line["id"]][key] - line[key] for line in result["questions"] if key in line], "+.1f")


def read_readers(folder: Path) -> Mapping[str, Mapping[str, str]]:
    """Return arm → id of a question with an answer → verdict for a recorded run; {} if there is no such run."""
    if not (folder / "key.json").exists():
        return {}
    key = RunKey.read(folder)
    found = verdicts_of(key, read_answers(folder, key), read_scores(folder / "judge" / "scores.jsonl"))
    asked = [question.id for question in key.questions if question.is_answerable]
    return {arm: {name: of_arm[name] for name in asked} for arm, of_arm in found.items()}


def verdicts(readers: Mapping[str, Mapping[str, str]], result: Result) -> list[str]:
    """Return the verdicts on a program's reader, question by question; [] if it had none."""
    name = result["name"]
    return list(readers.get(ARMS.get(name, f"{name}:400"), {}).values())


def ahead_of_reader(readers: Mapping[str, Mapping[str, str]], own: Result, result: Result) -> str:
    """Return the paired difference in right answers, with its interval."""
    pairs = zip(verdicts(readers, own), verdicts(readers, result), strict=False)
    return NONE if own is result else share([float(a == "right") - (b == "right") for a, b in pairs], "+.1f")


def share(found: Sequence[float], form: str = ".1f") -> str:
    """Return a mean in percent, with half of its 95 % interval."""
    if not found:
        return NONE
    spread = 196 * stdev(found) / len(found) ** 0.5 if len(found) > 1 else 0.0
    return f"{100 * fmean(found):{form}} ± {spread:.1f}"


def percent(found: Sequence[float]) -> str:
    """Return a mean in percent."""
    return f"{100 * fmean(found):.0f} %" if found else NONE


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as text; by default, numbers between 0 and 10 get one decimal."""
    if value is None:
        return NONE
    return f"{value:,.{digits if digits else int(0 < value < 10)}f}"


if __name__ == "__main__":
    main()
