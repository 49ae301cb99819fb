"""Logs: one rotated file a process kind under ENGRAM_HOME/logs, readable by the owner alone, text redacted."""

from __future__ import annotations

import logging
import logging.handlers
import os
from collections.abc import Callable
from pathlib import Path

from engram.atomic import FILE_MODE

#: A log file grows to this many bytes before it is rotated.
LOG_BYTES = 5_000_000
#: Rotated files kept beside the current one.
LOG_FILES = 4


class _PrivateFileHandler(logging.handlers.RotatingFileHandler):
    """A rotating file whose every part has mode 0600."""

    def _open(self):  # type: ignore[no-untyped-def]
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        return os.fdopen(descriptor, self.mode, encoding=self.encoding, errors="replace")


class _RedactingFormatter(logging.Formatter):
    """Redacts the finished line, traceback included, and keeps it on one record."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(process)d %(name)s %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        """The finished line without secrets."""
        return self._redact(super().format(record))


def start_logging(folder: Path, kind: str, level: str, redact: Callable[[str], str]) -> None:
    """Send the log of this process to ``folder/kind.log``; nothing goes to the terminal.

    Args:
        folder: ENGRAM_HOME/logs.
        kind: watcher, worker, hook or cli.
        level: debug, info, warning or error.
        redact: takes secrets out of every line.
    """
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    handler: logging.Handler
    try:
        handler = _PrivateFileHandler(
            folder / f"{kind}.log", maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8"
        )
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(_RedactingFormatter(redact))
    root.addHandler(handler)
    wanted = logging.getLevelNamesMapping()[level.upper()]
    # Libraries at debug tell every statement with its values: what was forgotten would stay in the log.
    root.setLevel(max(wanted, logging.INFO))
    logging.getLogger("engram").setLevel(wanted)
