"""The programs called ``engram`` on PATH: this installation's, another installation's, another program's."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engram.doctor.machine import Machine
from engram.reports.checks import Check, State

#: How much of a program is read to see what it is, in bytes.
_HEAD_BYTES = 4096
#: What every script of this program's installations says.
_MARK = b"engram.cli.main"
_INTERPRETER = re.compile(rb"(/[^\s'\"]*/python[0-9.]*)")


@dataclass(frozen=True, slots=True)
class Program:
    """A file called ``engram`` on PATH."""

    path: Path
    #: The interpreter of an installation of Engram; None for another program.
    interpreter: Path | None

    @property
    def is_current(self) -> bool:
        """True if it belongs to this installation."""
        return self.interpreter is not None and _same_folder(self.interpreter.parent, Path(sys.executable).parent)


def find_programs(environ: Mapping[str, str]) -> list[Program]:
    """Every program called ``engram``, in the order of PATH; a file that several links lead to counts once."""
    programs: dict[Path, Program] = {}
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = Path(folder) / "engram"
        if os.path.isabs(folder) and path.is_file() and os.access(path, os.X_OK):
            programs.setdefault(path.resolve(), Program(path, _interpreter_of(path)))
    return list(programs.values())


def check_programs(machine: Machine) -> Iterator[Check]:
    """Check that ``engram`` in a shell is this installation, and the only one."""
    programs = find_programs(machine.environ)
    first_is_current = bool(programs) and programs[0].is_current
    for program in programs:
        if program.interpreter is None:
            yield _other_program(program, is_first=program is programs[0])
        elif not program.is_current:
            yield _other_installation(program, program.interpreter)
    if first_is_current:
        yield Check("command", State.OK, str(programs[0].path), public="this installation")


def _other_program(program: Program, *, is_first: bool) -> Check:
    if not is_first:
        return Check(
            "other program", State.OK, f"{program.path} is another program; yours comes first", public="comes later"
        )
    return Check(
        "other program",
        State.WARN,
        f"`engram` in a shell runs {program.path}, which is another program",
        "use the other name of this one, which is the same: engram-recall doctor",
        command="engram-recall doctor",
        public="comes first",
    )


def _other_installation(program: Program, interpreter: Path) -> Check:
    command = _uninstall_command(interpreter)
    return Check(
        "two installations",
        State.WARN,
        f"{program.path} is another installation of Engram, and this one runs with {sys.executable}",
        f"keep one of them. To remove the other, run: {command}",
        command=command,
        public="another installation of Engram",
    )


def _uninstall_command(interpreter: Path) -> str:
    """The command that removes the installation of an interpreter, by the tool that made it."""
    if "/uv/tools/" in str(interpreter):
        return "uv tool uninstall engram-recall"
    if "/pipx/" in str(interpreter):
        return "pipx uninstall engram-recall"
    return f"{shlex.quote(str(interpreter))} -m pip uninstall engram-recall"


def _interpreter_of(path: Path) -> Path | None:
    """The interpreter that a script of Engram names; None for another program."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    found = _INTERPRETER.search(head) if _MARK in head else None
    return Path(os.fsdecode(found[1])) if found else None


def _same_folder(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other
