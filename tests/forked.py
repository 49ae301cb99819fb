"""A child of the test that does some work, and may be killed in the middle of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable

from engram.cli.main import main
from engram.system import failpoint


def run_forked(work: Callable[[], object], crash: str = "") -> int:
    """Do work in a child and return its exit code, which is -9 if it was killed; 1 if the work raised an error.

    A child has its own state, as another start of the program would, without the second that a start takes. A memory
    that the work uses must be closed here: SQLite's locks don't survive a fork.

    Args:
        work: what the child does; the code of a ``SystemExit`` is its exit code.
        crash: the point at which it is killed, ``name`` or ``name:n``, as ``ENGRAM_CRASH``.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            name, _, count = crash.partition(":")
            failpoint._wanted, failpoint._left = name, int(count or 1)
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001 - the end of a process
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``engram …`` in a child, with streams of its own; nothing can be read there."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:

        def work() -> None:
            for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), error.fileno())):
                os.dup2(file, number)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
            try:
                main(arguments)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()

        code = run_forked(work)
        for stream in (out, error):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read().decode(), error.read().decode())
