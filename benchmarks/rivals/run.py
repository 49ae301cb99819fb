"""Run memory programs on the same transcripts, questions and prompts, each through its own regular interface.

    python benchmarks/rivals/run.py --corpus DIR --bench DIR [--program NAME=PATH …] [--only NAME …] [--into DIR]

Engram and plain full-text search are always measured; another program is measured only if its path is given. Nothing is
installed or downloaded. Each program gets its own machine: a home with all sessions of the corpus, which it reads from
scratch. Results and logs go to ``benchmarks/results``; ``tables.py`` prints them. To be sure that nothing is fetched,
run it without a network: ``unshare -rn sh -c 'ip link set lo up; make bench-rivals …'``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from asked import Prompt, Question, read_prompts, read_questions
from driver import Driver
from machine import Machine, folder_mb, prepare_machine
from score import WORDS, Corpus, evidence_share, names_session, read_corpus, reference_share, tells_memory

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "rivals"
#: Module and class of each driver, in the order of the table.
DRIVERS = (
    ("drive_engram", "Engram"),
    ("drive_engram", "EngramEverywhere"),
    ("drive_fts5", "Fts5"),
    ("drive_deja_vu", "DejaVu"),
    ("drive_mempalace", "MemPalace"),
    ("drive_basic_memory", "BasicMemory"),
    ("drive_memsearch", "MemSearch"),
)
#: Number of words that are examined in a text added to a prompt.
PROMPT_WORDS = 200
#: Figures that two drivers of one machine share.
READING = ("read_processor_seconds", "read_seconds", "read_peak_mb", "stored_mb")
#: Seconds between reading and measuring the memory at rest.
REST_SECONDS = 10.0


def main() -> None:
    """Measure every program that was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folders of sessions, one per repository")
    parser.add_argument("--bench", type=Path, required=True, help="folder with code/questions.jsonl and the gold sets")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH", help="an installed program")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only these programs (default: all given)"
    )
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--work", type=Path, help="keep the machines and the answers here")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N questions and prompts, to try it")
    parser.add_argument("--reading", type=Path, metavar="DIR", help="only the questions of a reading, and no prompts")
    given = parser.parse_args()
    programs = {name: Path(path).absolute() for name, _, path in (one.partition("=") for one in given.program)}
    questions, prompts = read_questions(given.bench / "code"), read_prompts(given.bench / "code")
    if given.reading:
        key = json.loads((given.reading / "key.json").read_text(encoding="utf-8"))
        ids = {question["id"] for question in key["questions"]}
        questions, prompts = [question for question in questions if question.id in ids], []
    wanted = {uuid for one in (*questions, *prompts) for uuid in one.evidence}
    corpus = read_corpus(given.corpus, wanted)
    given.into.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        machines: dict[str, tuple[Machine, dict[str, Any]]] = {}
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rivals-")))
        for module, class_name in DRIVERS:
            driver_class: type[Driver] = getattr(import_module(module), class_name)
            name = driver_class.name
            if (given.only and name not in given.only) or (
                driver_class.program_name and driver_class.program_name not in programs
            ):
                continue
            file = name.lower().replace(",", "").replace(" ", "-")
            with (given.into / f"{file}.log").open("w", encoding="utf-8") as log:

                def say(line: str, log: Any = log, name: str = name) -> None:
                    print(f"{datetime.now(UTC):%H:%M:%S} {name}: {line}", file=log, flush=True)
                    print(f"{name}: {line}", file=sys.stderr)

                say(" ".join(map(shlex.quote, ["python", *sys.argv])))
                try:
                    if driver_class.asks:
                        machine, read = machines[driver_class.asks]
                    else:
                        program = programs.get(driver_class.program_name)
                        given_home = program / "home" if program is not None else None
                        machine, read = prepare_machine(work / file, given.corpus, given_home), None
                    driver = driver_class(machine, programs.get(driver_class.program_name, Path()))
                    result = measure(driver, questions[: given.first], prompts[: given.first], corpus, say, read)
                    machines[name] = machine, result
                except Exception as error:  # noqa: BLE001 - the other programs are measured all the same
                    say(f"failed: {error!r}\n{traceback.format_exc()}")
                    continue
                (given.into / f"{file}.json").write_text(as_json(result), encoding="utf-8")


def measure(
    driver: Driver,
    questions: list[Question],
    prompts: list[Prompt],
    corpus: Corpus,
    say: Callable[[str], None],
    read: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return all results of a program; ``read`` is an earlier result, if its machine has already been filled."""
    machine = driver.machine
    transcripts = list((machine.claude / "projects").rglob("*.jsonl"))
    load = os.getloadavg()[0]
    result: dict[str, Any] = {
        "name": driver.name,
        "version": driver.version(),
        "configuration": driver.configuration,
        "unfair": list(driver.unfair),
        "agents": driver.agents,
        "systems": driver.systems,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": command_line(),
        "commit": commit(),
        "machine": f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, load {load:.0f}",
        "transcripts": len(transcripts),
        "transcripts_mb": folder_mb(*transcripts),
        "installed_mb": folder_mb(*driver.installed()),
    }
    say(f"version {result['version']}")
    try:
        if read is None:
            with machine.measured() as cost:
                driver.read()
            result |= {
                "read_processor_seconds": cost.processor_seconds,
                "read_seconds": cost.seconds,
                "read_peak_mb": cost.peak_mb,
                "stored_mb": folder_mb(*driver.stored()),
            }
            say(f"read: {cost}, {result['stored_mb']} MB stored")
        else:
            result |= {name: read[name] for name in READING}
        driver.open()
        time.sleep(REST_SECONDS)
        result["rest_mb"] = round(machine.resident_mb())
        with answers_file(machine) as keep:
            result |= ask_questions(driver, questions, corpus, keep)
            say(f"asked {len(questions)} questions")
            result["session_mb"] = round(machine.resident_mb())
            if driver.server():
                tools = driver.session(next(iter(machine.projects.values()))).tools()
                result["tools"] = len(tools)
                result["tools_characters"] = len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))
            driver.close_sessions()
            if driver.has_hook and prompts:
                result |= ask_prompts(driver, prompts, corpus, keep)
                say(f"typed {len(prompts)} prompts")
    finally:
        driver.close_sessions()
        machine.stop()
    return result


def ask_questions(
    driver: Driver, questions: list[Question], corpus: Corpus, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Ask every question in the folder of its project; the first answer includes the start of the session."""
    lines, took = [], []
    for question in questions:
        start = time.monotonic()
        text = driver.answer(question.text, driver.machine.projects[question.project])
        took.append(time.monotonic() - start)
        keep({"question": question.id, "answer": text})
        line: dict[str, Any] = {"id": question.id, "words": len(text.split())}
        if question.evidence:
            for words in WORDS:
                line[f"evidence in {words}"] = round(evidence_share(text, question.evidence, corpus, words), 3)
            line["session"] = names_session(text, question.evidence, corpus, WORDS[-1])
            share = reference_share(text, question.text, question.reference, WORDS[-1])
            line["reference"] = round(share, 3)
        lines.append(line)
    return {
        "first_answer_seconds": round(took[0], 2),
        "answer_seconds": round(statistics.median(took), 3),
        "questions": lines,
    }


def ask_prompts(
    driver: Driver, prompts: list[Prompt], corpus: Corpus, keep: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Type every prompt in a new session."""
    lines, took = [], []
    for number, prompt in enumerate(prompts):
        session_id = f"{number:08d}-0000-4000-8000-000000000000"
        start = time.monotonic()
        text = driver.prompt(prompt.text, driver.machine.projects[prompt.project], session_id)
        took.append(time.monotonic() - start)
        keep({"prompt": prompt.id, "answer": text})
        line: dict[str, Any] = {"id": prompt.id, "kind": prompt.kind, "words": len(text.split())}
        if prompt.kind == "fits":
            shown = " ".join(text.split()[:PROMPT_WORDS])
            line["tells"] = bool(shown) and tells_memory(shown, prompt.summaries, prompt.evidence, corpus)
        lines.append(line)
    return {"prompt_seconds": round(statistics.median(took), 3), "prompts": lines}


@contextlib.contextmanager
def answers_file(machine: Machine) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Open the file next to the machine's home that stores every answer; it is not part of the results."""
    with (machine.folder / "answers.jsonl").open("a", encoding="utf-8") as file:
        yield lambda line: print(json.dumps(line, ensure_ascii=False), file=file, flush=True)


def as_json(result: dict[str, Any]) -> str:
    """Return a result with a line for each question and prompt."""
    lists = {name: value for name, value in result.items() if name in ("questions", "prompts")}
    figures = {name: value for name, value in result.items() if name not in lists}
    head = json.dumps(figures, indent=1, ensure_ascii=False)
    for name, lines in lists.items():
        inner = ",\n  ".join(json.dumps(line, ensure_ascii=False) for line in lines)
        head = head.rstrip("\n}") + f',\n "{name}": [\n  {inner}\n ]\n}}'
    return head + "\n"


def command_line() -> str:
    """Return the command line without this machine's folders."""
    words = [word.partition("=")[0] + "=PATH" if "=" in word else word for word in sys.argv[1:]]
    hidden = {"--corpus": "DIR", "--bench": "DIR", "--into": "DIR", "--work": "DIR", "--reading": "DIR"}
    shown = [hidden.get(words[place - 1], word) if place else word for place, word in enumerate(words)]
    return " ".join(["python benchmarks/rivals/run.py", *map(shlex.quote, shown)])


def commit() -> str:
    """Return the commit of this checkout."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
