"""Run git in a repository that is not trusted: nothing that it or the user configured is run, and time is bounded."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

#: Maximum duration of a call of git, in seconds.
MAX_GIT_SECONDS = 10.0
#: Maximum size of git's output that is used, in bytes.
MAX_OUTPUT_BYTES = 20_000_000
#: Maximum number of configured filters that are switched off; with more of them git is not asked.
MAX_FILTERS = 50
#: Variables of the environment that git gets; ``GIT_*`` could point it to another repository or program.
_PASSED_ON = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR")
#: No questions, no network, no replaced objects, English messages.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
#: No hooks, monitors, pagers, signature programs and locks. A filter needs ``without_filters`` too.
_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "protocol.allow=never",
)


def run_git(root: str | Path, *arguments: str, seconds: float = MAX_GIT_SECONDS) -> str | None:
    """Return what git prints; None if it is missing, slow or fails.

    Args:
        root: the folder to run it in.
        arguments: a command that reads only. One that compares files with the index needs ``filter_options`` first.
        seconds: maximum duration.
    """
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _ENVIRONMENT
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *_OPTIONS, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            env=environment,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return None if done.returncode else done.stdout[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")


def filter_options(root: str | Path, *, seconds: float = MAX_GIT_SECONDS) -> list[str] | None:
    """Return the options that switch off every configured filter; None if that is not possible.

    A filter is a program that git runs on the content of a file, also to find out whether the file has changed. The
    configuration of the repository may name any program.
    """
    # --get-regexp fails if nothing matches, so all names are listed.
    names = run_git(root, "config", "--list", "--name-only", "-z", seconds=seconds)
    if names is None:
        return None
    drivers = _filters(names.split("\0"))
    if len(drivers) > MAX_FILTERS or any("\n" in driver or "=" in driver for driver in drivers):
        return None
    options: list[str] = []
    for driver in drivers:
        for key in ("clean", "smudge", "process"):
            options += ["-c", f"filter.{driver}.{key}="]
        options += ["-c", f"filter.{driver}.required=false"]
    return options


def _filters(names: Iterable[str]) -> list[str]:
    """Return the names of the filters among the names of settings, each once."""
    keys = [name for name in names if name.lower().startswith("filter.") and name.count(".") >= 2]
    return list(dict.fromkeys(key.partition(".")[2].rpartition(".")[0] for key in keys))
