"""What is an agent's own is known to its package alone."""

from __future__ import annotations

import ast
from pathlib import Path

from engram.transcripts import registry

PACKAGES = ("engram.transcripts.claude_code", "engram.transcripts.codex", "engram.transcripts.gemini")
ROOT = Path(registry.__file__).parents[1]
#: Who may import an agent's reader, and why.
ALLOWED = {
    "transcripts/registry.py": "registers them",
    "recollection/session_briefing.py": "tells once what was recovered from the prompt history of Claude Code",
    "cli/past_commands.py": "names the agent of a session where it is another one than Claude Code",
    "exchange/importing.py": "names the agent of memories that an early version exported",
    "exchange/other_programs.py": "names the agent that the earlier Engram read",
    "setup/installing/preflight.py": "counts what Claude Code's sessions would cost",
    "cli/results.py": "tells that only the prompt is known of a hit from the prompt history of Claude Code",
    "cli/up_once.py": "tells which sessions Claude Code is about to delete",
    "setup/doctor/machine_checks.py": "tells which sessions Claude Code is about to delete",
}


def test_ingest_watcher_and_commands_know_no_agent() -> None:
    importers = set()
    for path in ROOT.rglob("*.py"):
        name = str(path.relative_to(ROOT))
        if name.startswith(("transcripts/claude_code/", "transcripts/codex/", "transcripts/gemini/")):
            continue
        text = path.read_text(encoding="utf-8")
        if not any(package in text for package in PACKAGES):
            continue
        for node in ast.walk(ast.parse(text)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(module.startswith(PACKAGES) for module in modules):
                importers.add(name)

    assert importers == set(ALLOWED)


def test_the_agents_are_registered() -> None:
    titles = {agent.name: registry.title_of(agent.name) for agent in registry.all_agents()}

    assert titles == {
        "claude-code": "Claude Code",
        "codex": "Codex",
        "gemini": "Gemini CLI",
        "claude-code-history": "Claude Code's prompt history",
    }
    assert registry.title_of("unknown-agent") == "unknown-agent"
