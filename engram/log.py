"""Write and read the logs in ENGRAM_HOME/logs: one redacted, rotated, private file for each kind of process."""

from __future__ import annotations

import contextlib
import itertools
import logging
import logging.handlers
import os
import sys
from collections.abc import Callable, Iterator
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from engram.system.atomic import FILE_MODE, explain_error
from engram.system.lazy_regex import lazy_regex

#: Kinds of processes that write a log. Each writes to a file with that name.
LogKind: TypeAlias = Literal["worker", "watcher", "supervisor", "hook", "cli", "mcp", "page"]
LOG_KINDS: tuple[LogKind, ...] = get_args(LogKind)
#: Size at which a log file is rotated, in bytes.
LOG_BYTES = 5_000_000
#: Number of rotated files that are kept.
LOG_FILES = 4
#: Format of every record; ``read_records`` parses its beginning.
RECORD_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s %(message)s"
_RECORD_START = lazy_regex(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (?P<level>[A-Z]+) ")
_PROBLEM_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})


class Record(NamedTuple):
    """One record of a log file."""

    #: Local time as written, with milliseconds.
    time: str
    #: Kind of the process that wrote it, which is also the file's name.
    kind: str
    #: The whole record, including its traceback.
    text: str
    level: str

    @property
    def is_problem(self) -> bool:
        return self.level in _PROBLEM_LEVELS


class _PrivateFileHandler(logging.handlers.RotatingFileHandler):
    """A rotating file handler whose files all have mode 0600. A record that can't be written is dropped.

    The first such failure is reported on standard error, unless that is a terminal.
    """

    _has_failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if self._has_failed or error is None:
            return
        self._has_failed = True
        # Only the operating system's message is safe: another error may quote the record, which is not redacted.
        path = Path(self.baseFilename)
        reason = explain_error(error, path) if isinstance(error, OSError) else f"{path}: {type(error).__name__}"
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if not sys.stderr.isatty():
                print(f"engram: the log can't be written: {reason}", file=sys.stderr, flush=True)

    def shouldRollover(self, record: logging.LogRecord) -> int:
        """Reopen the file if it was deleted or moved; then decide as the base class does."""
        if self.stream is not None and not self._is_in_place(self.stream.fileno()):
            # If the folder is gone, keep the file that is open.
            with contextlib.suppress(OSError):
                former, self.stream = self.stream, self._open()
                former.close()
        return super().shouldRollover(record)

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.baseFilename), os.fstat(descriptor))
        except OSError:
            return False

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self.baseFilename, flags, FILE_MODE)
        # Unbuffered: a buffer would keep the data that a full disk refused, and raise an error when it is closed.
        raw = FileIO(descriptor, "a")
        return TextIOWrapper(raw, encoding=self.encoding, errors="replace", write_through=True)


class _RedactingFormatter(logging.Formatter):
    """Redacts complete records, including tracebacks."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(RECORD_FORMAT)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


def start_logging(folder: Path, kind: LogKind, level: str, redact: Callable[[str], str]) -> None:
    """Send this process's log to ``folder/kind.log`` and nothing to the terminal.

    Args:
        kind: kind of this process. Hooks use ``append_warning`` instead.
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
    # At debug level, libraries log SQL statements with their values, so forgotten text would stay in the log.
    root.setLevel(max(wanted, logging.INFO))
    logging.getLogger("engram").setLevel(wanted)


def log_warnings(folder: Path, kind: LogKind, redact: Callable[[str], str]) -> None:
    """Send this process's warnings to ``folder/kind.log``, unless it already has a log. The first one opens the file.

    Without this, Python would print warnings to the terminal, between the lines of a command's output.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = _PrivateFileHandler(folder / f"{kind}.log", encoding="utf-8", delay=True)
    handler.setFormatter(_RedactingFormatter(redact))
    root.addHandler(handler)


def append_warning(folder: Path, kind: LogKind, message: str) -> None:
    """Append a warning to ``folder/kind.log`` without setting up logging, for hooks; a failure is ignored.

    The message is not redacted, so it must not include text that could contain a secret.
    """
    record = logging.LogRecord(f"engram.{kind}", logging.WARNING, "", 0, message, (), None)
    line = logging.Formatter(RECORD_FORMAT).format(record) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / f"{kind}.log", flags, FILE_MODE)
        try:
            os.write(descriptor, line.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)


def read_records(folder: Path, kind: LogKind) -> Iterator[Record]:
    """Yield the records of ``folder/kind.log`` and its latest rotated file, oldest first.

    Lines that don't start a record, such as tracebacks, belong to the record above them.
    """
    lines: list[str] = []
    for part in (folder / f"{kind}.log.1", folder / f"{kind}.log"):
        with contextlib.suppress(OSError):
            # A pipe, for example, would never end.
            lines += part.read_text(encoding="utf-8", errors="replace").splitlines() if part.is_file() else []
    starts = [number for number, line in enumerate(lines) if _RECORD_START.match(line)]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        if head := _RECORD_START.match(lines[start]):
            yield Record(time=head["time"], kind=kind, text="\n".join(lines[start:end]), level=head["level"])


def has_problems(folder: Path) -> bool:
    """Return True if any log in the folder contains a warning or an error."""
    return any(record.is_problem for kind in LOG_KINDS for record in read_records(folder, kind))
