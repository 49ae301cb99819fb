"""Carry out a run: execute the agent's command in a fresh workspace with a time limit, and leave no process behind."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.tasks.runs import Run
from engram.errors import BadRequest
from engram.extraction.model.bounded_command import run_bounded
from engram.system.atomic import write_atomic

#: Prefixes of environment variables that point to the caller's own memory or session.
_OWN_PREFIXES = ("ENGRAM_", "CLAUDE_CODE_", "CLAUDE_PROJECT_")
_OWN_NAMES = ("CLAUDECODE", "CLAUDE_CONFIG_DIR", "CLAUDE_PID")
#: Keys of the token usage that Claude Code and other agents report.
_TOKEN_KEYS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens and time that a run used."""

    #: None if the agent did not report it.
    tokens: int | None = None
    #: None if it was not measured.
    seconds: float | None = None
    has_timed_out: bool = False


def run_agent(run: Run, command: str, *, seconds: float, keeps_home: bool) -> Usage:
    """Run the agent's command in the workspace; its standard input is the prompt.

    Args:
        run: a prepared run.
        command: run without a shell; ``{prompt_file}`` and ``{workspace}`` are replaced.
        seconds: after this time, the agent and all processes that it started are killed.
        keeps_home: leave HOME and CLAUDE_CONFIG_DIR as they are, for an agent that keeps its login there.

    Raises:
        BadRequest: the command can't be parsed or is empty.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadRequest(f"--agent {command!r} can't be parsed: {error}") from error
    if not words:
        raise BadRequest("--agent is empty")
    values = {"{prompt_file}": str(run.prompt), "{workspace}": str(run.workspace)}
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    start = time.monotonic()
    finished = run_bounded(
        words,
        run.prompt.read_bytes(),
        folder=run.workspace,
        environment=agent_environment(run, keeps_home=keeps_home),
        seconds=seconds,
    )
    took = time.monotonic() - start
    (run.folder / "agent.out").write_bytes(finished.output)
    (run.folder / "agent.err").write_bytes(finished.errors)
    usage = Usage(
        tokens=read_usage(run).tokens or reported_tokens(finished.output.decode(errors="replace")),
        seconds=round(took, 1),
        has_timed_out=finished.has_timed_out,
    )
    write_atomic(
        run.usage,
        json.dumps({"tokens": usage.tokens, "seconds": usage.seconds, "timed_out": usage.has_timed_out}).encode(),
    )
    return usage


def agent_environment(run: Run, *, keeps_home: bool) -> dict[str, str]:
    """Return the caller's environment with the run's folders, and without variables that point to its own memory."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OWN_PREFIXES) and (name not in _OWN_NAMES or keeps_home)
    }
    environment |= {
        "PATH": f"{run.commands}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ENGRAM_HOME": str(run.memory),
        "ENGRAM_BENCH_USAGE": str(run.usage),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if not keeps_home:
        environment |= {"HOME": str(run.home), "CLAUDE_CONFIG_DIR": str(run.home / ".claude")}
    return environment


def read_usage(run: Run) -> Usage:
    """Return the content of the run's usage.json, or an empty ``Usage`` if there is none."""
    try:
        record = json.loads(run.usage.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Usage()
    if not isinstance(record, dict):
        return Usage()
    tokens, seconds = record.get("tokens"), record.get("seconds")
    return Usage(
        tokens=int(tokens) if isinstance(tokens, int | float) else None,
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        has_timed_out=record.get("timed_out") is True,
    )


def reported_tokens(output: str) -> int | None:
    """Return the tokens of the last JSON object with a ``usage`` in an agent's output, or None if there is none.

    In print mode, Claude Code writes such an object with ``--output-format json``, and as its last line with
    ``stream-json``.
    """
    for text in (output, *reversed(output.splitlines())):
        try:
            record: Any = json.loads(text)
        except ValueError:
            continue
        usage = record.get("usage") if isinstance(record, dict) else None
        if isinstance(usage, Mapping):
            counts = [usage.get(key, 0) for key in _TOKEN_KEYS]
            return sum(int(count) for count in counts if isinstance(count, int | float))
    return None
