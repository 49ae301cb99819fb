"""What the benchmark asks of a memory program, whichever it is: the interface of a driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from machine import Machine, McpClient


class Driver(ABC):
    """One program on one machine. It is given the path of the installed program and never reads its code."""

    #: Name in the tables.
    name: ClassVar[str]
    #: The program is told by ``--program NAME=PATH``; "" if Engram's checkout has it.
    program_name: ClassVar[str] = ""
    #: How it was set up, and what of it can't be had without a network or an account.
    configuration: ClassVar[str]
    #: In whose favour the measuring is uneven, and how.
    unfair: ClassVar[Sequence[str]] = ()
    #: Number of agents whose history it reads, and the systems it runs on, by its own documentation.
    agents: ClassVar[int | str]
    systems: ClassVar[str]
    #: Another driver whose machine this one asks in another way, without reading again; "" for one of its own.
    asks: ClassVar[str] = ""
    #: Whether it puts something before a prompt by itself.
    has_hook: ClassVar[bool] = True

    def __init__(self, machine: Machine, program: Path) -> None:
        """Take the program at its path, or the folder it was installed into."""
        self.machine = machine
        self.program = program
        self.sessions: dict[Path, McpClient] = {}

    @abstractmethod
    def version(self) -> str:
        """Return the version that the program prints."""

    @abstractmethod
    def installed(self) -> Sequence[Path]:
        """Return what lies on the disk to run it, without an interpreter of the system."""

    @abstractmethod
    def stored(self) -> Sequence[Path]:
        """Return what it has written of the transcripts."""

    @abstractmethod
    def read(self) -> None:
        """Read all transcripts, from nothing, to where questions can be asked."""

    def open(self) -> None:  # noqa: B027
        """Start what a user of the program has running."""

    def server(self) -> Sequence[str | Path]:
        """Return the command of the MCP server; () if there is none."""
        return ()

    def variables(self) -> dict[str, str]:
        """Return the variables that the program needs."""
        return {}

    def session(self, folder: Path) -> McpClient:
        """Return the MCP session of an agent that works in a folder; it stays open."""
        if folder not in self.sessions:
            self.sessions[folder] = McpClient(self.machine, self.server(), folder, self.variables())
        return self.sessions[folder]

    def close_sessions(self) -> None:
        """End the MCP sessions."""
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()

    @abstractmethod
    def answer(self, question: str, folder: Path) -> str:
        """Return what an agent in a folder gets for a question: the text of the tool; "" if it found nothing."""

    def prompt(self, prompt: str, folder: Path, session_id: str) -> str:
        """Return what stands before the model when a person types a prompt; "" if nothing does."""
        raise NotImplementedError(f"{self.name} has no hook; {prompt[:20]!r}, {folder}, {session_id}")
