"""Ask a command of Engram for what takes long or needs much memory: the page itself stays small and quick."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from engram.errors import EngramError
from engram.extraction.bounded_command import run_bounded
from engram.settings import Settings
from engram.vaults import own_vault

#: Longest time that a command is waited for, in seconds: less than the page's script waits.
MAX_SECONDS = 25.0


def ask_command(settings: Settings, *arguments: str, seconds: float = MAX_SECONDS) -> dict[str, Any]:
    """Run ``engram … --json`` over the same memory and return what it prints; it and all it starts end with it.

    Raises:
        EngramError: it took too long, or printed no JSON.
    """
    vault = own_vault(settings.places)
    # A vault's settings are those of the memory folder around it.
    home = settings.home if vault is None else vault.around
    folders = ["--home", str(home), "--claude-folder", str(settings.claude_folder)]
    folders += [] if vault is None else ["--vault", vault.identities[0]]
    command = [sys.executable, "-P", "-m", "engram.cli.main", *folders, *arguments, "--json"]
    done = run_bounded(command, b"", folder=settings.home, environment=os.environ, seconds=seconds)
    name = "engram " + " ".join(arguments)
    if done.has_timed_out:
        raise EngramError(f"`{name}` took longer than {seconds:.0f} s; run it in a terminal")
    try:
        answer = json.loads(done.output)
    except ValueError:
        lines = done.errors.decode("utf-8", "replace").strip().splitlines()
        raise EngramError(f"`{name}` failed: {lines[-1] if lines else 'it said nothing'}") from None
    if not isinstance(answer, dict):
        raise EngramError(f"`{name}` printed no object")
    return answer
