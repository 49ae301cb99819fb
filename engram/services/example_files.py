"""The example service files in the repository: those of a user called "you"."""

from __future__ import annotations

from pathlib import Path

from engram.services.definition import define_services
from engram.services.launchd_files import agent_files
from engram.services.systemd_files import unit_files
from engram.settings import Settings


def example_files() -> dict[str, bytes]:
    """Path in the repository → content."""
    files: dict[str, bytes] = {}
    for system, home in (("launchd", Path("/Users/you")), ("systemd", Path("/home/you"))):
        settings = Settings(home=home / ".claude-memory", claude_folder=home / ".claude", codex_folder=home / ".codex")
        services = define_services(
            settings, python=home / "engram" / ".venv" / "bin" / "python", environ={"HOME": str(home), "PATH": ""}
        )
        changes = agent_files(services, home) if system == "launchd" else unit_files(services, home)
        files |= {f"{system}/{change.path.name}": change.content for change in changes if change.content is not None}
    return files
