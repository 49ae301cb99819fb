"""Basic Memory: notes in Markdown, an index, and MCP tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from driver import Driver
from machine import READ_SECONDS
from notes import read_exchanges, session_files

#: Notes that are read after a search; their words are counted, those of the list are not.
_NOTES = 2


class BasicMemory(Driver):
    """``search_notes``, over a note for each exchange of the transcripts."""

    name = "basic-memory"
    program_name = "basic-memory"
    configuration = (
        "text search; the weights of its default model (bge-small-en-v1.5) can't be had offline here. It reads no "
        "transcripts: each exchange was written as a note, word for word, in a project for each repository"
    )
    unfair = (
        "against it: its search by meaning is off",
        "for it: nobody writes every exchange as a note; usually the agent decides what is noted",
        "for it: the list of titles that a search gives is not counted among the words, only the best two notes",
    )
    agents = 0
    systems = "Linux, macOS, Windows"
    has_hook = False

    @property
    def _command(self) -> Path:
        return self.program / "venv" / "bin" / "basic-memory"

    @property
    def _notes(self) -> Path:
        return self.machine.home / "notes"

    def variables(self) -> dict[str, str]:
        """No search by meaning, and no question whether to send anything."""
        return {
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "BASIC_MEMORY_NO_PROMOS": "1",
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "BASIC_MEMORY_LOG_LEVEL": "ERROR",
        }

    def version(self) -> str:
        """As it prints it."""
        return self.machine.run([self._command, "--version"], more=self.variables()).stdout.split()[-1]

    def installed(self) -> Sequence[Path]:
        """Its virtual environment."""
        return [self.program / "venv"]

    def stored(self) -> Sequence[Path]:
        """Notes and index."""
        return [self._notes, self.machine.home / ".basic-memory", self.machine.home / ".config"]

    def read(self) -> None:
        """Write the notes and index them."""
        slugs = {self.machine.slug(folder): folder.name for folder in self.machine.projects.values()}
        number = 0
        for slug, path in session_files(self.machine.claude / "projects"):
            for exchange in read_exchanges(path):
                number += 1
                folder = self._notes / slugs[slug]
                folder.mkdir(parents=True, exist_ok=True)
                title = f"{exchange.at[:10]} {exchange.session} {number}"
                head = f"---\ntitle: {title}\ntype: note\n---\n\n# {title}\n\n"
                (folder / f"{title}.md").write_text(head + exchange.text, encoding="utf-8")
        for folder in sorted(self._notes.iterdir()):
            done = self.machine.run(
                [self._command, "project", "add", folder.name, folder], more=self.variables(), seconds=READ_SECONDS
            )
            if done.code:
                raise RuntimeError(done.stderr[-1000:] + done.stdout[-1000:])

    def server(self) -> Sequence[str | Path]:
        """The MCP server."""
        return [self._command, "mcp"]

    def answer(self, question: str, folder: Path) -> str:
        """``search_notes``, which lists titles, then ``read_note`` of the best, as an agent goes on."""
        session = self.session(folder)
        found = session.call("search_notes", {"query": question, "project": folder.name})
        names = re.findall(r"^- permalink: (\S+)", found, re.M)[:_NOTES]
        return "\n\n".join(session.call("read_note", {"identifier": name, "project": folder.name}) for name in names)
