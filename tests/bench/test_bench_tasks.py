"""``python -m bench tasks``: agents are shell scripts here; runs, checks, memories and processes are real."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from transcript_lines import say

from bench.commands.searches import bench as commands
from engram.cli.workspace import Workspace

REPO = Path(__file__).resolve().parents[2]

FACT = "The agreed answer for the sign at the harbour is 8417"
CHECK = """
import sys
from pathlib import Path
path = Path(sys.argv[1]) / "answer.txt"
answer = path.read_text().strip() if path.exists() else ""
print(f"the answer is {answer!r}")
sys.exit(0 if answer == "8417" else 3 if answer == "6666" else 1)
"""
#: Writes the number that the prompt tells as the agreed answer, and reports what it used.
READER = """
sed -n 's/.*answer for the sign at the harbour is \\([0-9]*\\).*/\\1/p' "$1" | head -1 > answer.txt
echo 'working'
echo '{"usage": {"input_tokens": 1200, "output_tokens": 34}}'
"""


class Bench:
    """A folder of tasks, and agents."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tasks = folder, folder / "tasks"

    def add_task(self, name: str = "sign", kind: str = "history", fact: str = FACT) -> None:
        task = self.tasks / name
        (task / "workspace").mkdir(parents=True)
        (task / "workspace" / "README.md").write_text("Signs.\n")
        (task / "task.json").write_text(json.dumps({"kind": kind, "cwd": "/work/signs"}))
        (task / "prompt.md").write_text("Write the agreed answer for the sign at the harbour into answer.txt.\n")
        (task / "check.py").write_text(CHECK)
        session = "00000000-2222-3333-4444-555555555555"
        path = task / "history" / "projects" / "-work-signs" / f"{session}.jsonl"
        say(path, "user", "What shall the sign at the harbour say?", cwd="/work/signs", at="2026-01-01T10:00:00Z")
        uuid = say(path, "assistant", f"{fact}, as you decided.", cwd="/work/signs", at="2026-01-01T10:01:00Z")
        gold = {"id": "g1", "session": session, "kind": "decision", "summary": fact, "evidence": [uuid]}
        (task / "gold.jsonl").write_text(json.dumps(gold) + "\n")
        (task / "auto_memory").mkdir()
        (task / "auto_memory" / "MEMORY.md").write_text(f"- [Sign](sign.md) — {fact}\n")

    def agent(self, script: str) -> str:
        path = self.folder / "agent.sh"
        path.write_text(script)
        return f"sh {shlex.quote(str(path))} {{prompt_file}}"

    def call(self, *arguments: str) -> Result:
        return CliRunner().invoke(commands, ["tasks", str(self.tasks), "--no-model", *arguments], obj=Workspace({}))

    def run(self, *arguments: str) -> dict[str, Any]:
        result = self.call("--json", *arguments)
        assert result.exit_code == 0, result.output
        return dict(json.loads(result.stdout))

    def prepare(self, *arguments: str) -> dict[tuple[str, str], Path]:
        """(Task, arm) → the folder of its only run."""
        runs = self.folder / "runs"
        self.run("--prepare", str(runs), "--runs", "1", *arguments)
        key = json.loads((runs / "key.json").read_text())
        return {(run["task"], run["arm"]): runs / run["run"] for run in key["runs"]}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.add_task()
    return bench


def is_alive(pid: int) -> bool:
    """True for a process that runs; one that only waits to be reaped has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_an_agent_solves_what_its_arm_tells_and_its_tokens_are_counted(bench: Bench) -> None:
    arms = ("nothing", "own", "fts5", "gold")
    figures = bench.run(
        "--agent", bench.agent(READER), "--runs", "1", *[part for arm in arms for part in ("--arm", arm)]
    )

    solved = {arm: row["tasks solved"] for arm, row in figures["arms"].items()}
    assert solved == {"nothing": 0, "own": 1, "fts5": 1, "gold": 1}
    assert {row["mean tokens"] for row in figures["arms"].values()} == {1234}
    assert {run["outcome"] for run in figures["runs"] if run["arm"] == "nothing"} == {"unsolved"}
    assert figures["paired"]["gold to nothing"]["difference"] == 100


def test_an_agent_may_ask_the_memory_of_its_run(bench: Bench) -> None:
    ask = 'recall "what does the sign at the harbour say" > notes.txt || exit 1\n' + READER.replace('"$1"', "notes.txt")

    figures = bench.run("--agent", bench.agent(ask), "--runs", "1", "--arm", "gold", "--arm", "nothing")

    assert {arm: row["tasks solved"] for arm, row in figures["arms"].items()} == {"gold": 1, "nothing": 0}


def test_who_follows_a_misleading_history_is_counted_as_harmed(bench: Bench) -> None:
    bench.add_task("wrong", "misleading", FACT.replace("8417", "6666"))

    figures = bench.run("--agent", bench.agent(READER), "--runs", "1", "--arm", "own", "--arm", "nothing")

    own, nothing = figures["arms"]["own"], figures["arms"]["nothing"]
    assert (own["harmed"], own["tasks solved"], own["tasks"], own["misleading runs"]) == (1, 1, 1, 1)
    assert nothing["harmed"] == 0
    assert figures["tasks"]["wrong"]["own"] == ["harmed"]


def test_every_run_is_fresh_and_holds_neither_check_nor_gold(bench: Bench) -> None:
    mark = """
    for place in . "$HOME" "$ENGRAM_HOME"; do
        [ -e "$place/mark" ] && exit 1
        touch "$place/mark"
    done
    find .. | grep -E 'check.py|gold.jsonl|key.json|task.json' && exit 1
    env | grep -E '^(ENGRAM_SHARED|CLAUDE_CODE_SESSION_ID)=' && exit 1
    echo 8417 > answer.txt
    """

    figures = bench.run("--agent", bench.agent(mark), "--runs", "2", "--arm", "gold")

    assert figures["arms"]["gold"]["runs solved"] == 2


def test_an_agent_that_takes_too_long_is_ended_with_everything_it_started(bench: Bench) -> None:
    pids = bench.folder / "pids"
    slow = f"""
    sleep 600 & echo $! >> {pids}
    setsid sleep 600 & echo $! >> {pids}
    echo $$ >> {pids}
    wait
    """

    figures = bench.run("--agent", bench.agent(slow), "--runs", "1", "--arm", "nothing", "--timeout", "1")

    assert figures["arms"]["nothing"]["timed out"] == 1
    assert figures["runs"][0]["outcome"] == "unsolved"
    assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []


def test_what_an_agent_leaves_running_is_ended(bench: Bench) -> None:
    pids = bench.folder / "pids"
    leaving = f"(setsid sleep 600 & echo $! >> {pids}); echo 8417 > answer.txt"

    figures = bench.run("--agent", bench.agent(leaving), "--runs", "1", "--arm", "nothing")

    assert figures["arms"]["nothing"]["runs solved"] == 1
    assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []


def test_prepared_runs_are_carried_out_elsewhere_and_checked_afterwards(bench: Bench) -> None:
    runs = bench.prepare("--arm", "nothing", "--arm", "gold")

    gold, nothing = runs["sign", "gold"], runs["sign", "nothing"]
    assert FACT in (gold / "PROMPT.md").read_text()
    assert FACT not in (nothing / "PROMPT.md").read_text()
    assert str(gold / "workspace") in (gold / "PROMPT.md").read_text()
    assert (gold / "bin" / "recall").exists()
    assert not (nothing / "bin" / "recall").exists()
    assert not [path for path in gold.rglob("*") if path.name in ("check.py", "gold.jsonl", "key.json")]
    (gold / "workspace" / "answer.txt").write_text("8417")
    (gold / "usage.json").write_text(json.dumps({"tokens": 500, "seconds": 12.5}))

    figures = bench.run("--check", str(bench.folder / "runs"))

    assert (figures["arms"]["gold"]["tasks solved"], figures["arms"]["nothing"]["tasks solved"]) == (1, 0)
    assert (figures["arms"]["gold"]["mean tokens"], figures["arms"]["gold"]["mean seconds"]) == (500, 12.5)
    assert figures == bench.run("--check", str(bench.folder / "runs"))


def test_a_folder_with_runs_is_not_overwritten(bench: Bench) -> None:
    bench.prepare("--arm", "nothing")

    result = bench.call("--prepare", str(bench.folder / "runs"))

    assert result.exit_code == 1
    assert "already contains runs" in result.output


def test_requests_without_an_answer_are_written_and_answered_ones_make_memories(bench: Bench) -> None:
    answers = bench.folder / "answers"
    arguments = ("--agent", bench.agent(READER), "--runs", "1", "--arm", "scribe", "--answers", str(answers))

    first = bench.call(*arguments)
    assert first.exit_code == 1
    assert "no recorded answer" in first.output
    (request,) = (answers / "sign").glob("*.request.txt")
    assert FACT in request.read_text()
    memory = {"kind": "decision", "summary": FACT, "passages": [FACT], "evidence": ["e2", "e1"]}
    answer = {"memories": [memory], "rolling_summary": ""}
    request.with_name(request.name.replace(".request.txt", ".answer.json")).write_text(json.dumps(answer))
    ask = 'recall "the sign at the harbour" > notes.txt\n' + READER.replace('"$1"', "notes.txt")
    figures = bench.run("--agent", bench.agent(ask), *arguments[2:])

    assert figures["arms"]["scribe"]["tasks solved"] == 1


def test_a_task_without_recorded_answers_says_so(bench: Bench) -> None:
    result = bench.call("--agent", "true", "--arm", "scribe")

    assert result.exit_code == 1
    assert "have no recorded answers" in result.output


@pytest.mark.parametrize("arguments", [(), ("--agent", "true", "--check", ".")])
def test_one_of_the_three_ways_is_required(bench: Bench, arguments: tuple[str, ...]) -> None:
    assert bench.call(*arguments).exit_code == 2


@pytest.mark.parametrize(("arguments", "message"), [(("--task", "none"), "no task 'none'"), ((), "is empty")])
def test_bad_input_is_one_clear_line(bench: Bench, arguments: tuple[str, ...], message: str) -> None:
    result = bench.call("--agent", "", "--arm", "nothing", *arguments)

    assert result.exit_code == 1
    assert message in result.output


def test_a_memory_of_a_branch_that_was_never_merged_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tasks = REPO / "benchmarks" / "tasks"

    (run,) = bench.prepare("--arm", "scribe", "--task", "unmerged-branch").values()
    answer = subprocess.run([run / "bin" / "recall", "byte order"], capture_output=True, text=True, timeout=120)

    told = [*(run / "PROMPT.md").read_text().splitlines(), *answer.stdout.splitlines()]
    memories = [line for line in told if "[ep_" in line and "little endian" in line]
    assert memories
    assert [line for line in memories if "on branch try/little-endian, not merged" not in line] == []


def test_requests_name_no_folder_of_this_run(bench: Bench) -> None:
    path = next((bench.tasks / "sign" / "history").rglob("*.jsonl"))
    say(path, "user", "Look into /work/signs/harbour.txt please, it has the text", cwd="/work/signs")
    answers = bench.folder / "answers"

    bench.call("--agent", "true", "--arm", "scribe", "--answers", str(answers))

    (request,) = (answers / "sign").glob("*.request.txt")
    assert "/work/signs/harbour.txt" in request.read_text()
    assert "engram-" not in request.read_text()


@pytest.mark.soak
def test_the_tasks_of_the_repository_have_a_recorded_answer_to_every_request(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tasks = REPO / "benchmarks" / "tasks"

    runs = bench.prepare("--arm", "scribe")

    assert len(runs) == 30
