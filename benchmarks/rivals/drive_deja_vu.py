"""deja-vu: one binary that indexes transcripts; no model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from driver import Driver
from machine import READ_SECONDS, context_of


class DejaVu(Driver):
    """``deja index``, the tool ``recall``, and the hook of a prompt, as ``deja install --auto`` connects them."""

    name = "deja-vu"
    program_name = "deja-vu"
    configuration = (
        "as `deja install --auto` sets it up; it needs neither a model nor an account. Its optional reranking by an "
        "embedding server is off, as it is by default"
    )
    agents = 20
    systems = "Linux, macOS, Windows"
    unfair = (
        "against it: its tool searches all projects, and its answer ends at 4 KB (about 600 words), by its design",
        "against it: its tool wants search terms, and is given the questions as they are asked",
    )

    def version(self) -> str:
        """Return the version as the program prints it."""
        return self.machine.run([self.program, "--version"]).stdout.split()[-1]

    def installed(self) -> Sequence[Path]:
        """Return the binary."""
        return [self.program]

    def stored(self) -> Sequence[Path]:
        """Return its cache."""
        return [self.machine.home / ".cache", self.machine.home / ".config", self.machine.home / ".local"]

    def read(self) -> None:
        """Index the transcripts."""
        self.machine.run([self.program, "index", "--rebuild"], seconds=READ_SECONDS)

    def server(self) -> Sequence[str | Path]:
        """Return the command of the MCP server."""
        return [self.program, "mcp"]

    def answer(self, question: str, folder: Path) -> str:
        """Call the tool ``recall``."""
        session = self.session(folder)
        names = [tool["name"] for tool in session.tools()]
        if "recall" in names:
            text = session.call("recall", {"query": question})
        else:
            text = session.call(names[0], {"mode": "recall", "query": question})
        return "" if text.lower().startswith("no match") else text

    def prompt(self, prompt: str, folder: Path, session_id: str) -> str:
        """Run the hook for a prompt."""
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": session_id,
            "prompt": prompt,
            "cwd": str(folder),
            "transcript_path": str(folder / f"{session_id}.jsonl"),
        }
        more = {"CLAUDE_PROJECT_DIR": str(folder)}
        done = self.machine.run([self.program, "hook-prompt"], given=json.dumps(payload), folder=folder, more=more)
        return context_of(done.stdout)
