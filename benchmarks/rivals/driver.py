"""The interface of a driver: what the benchmark requires of any memory program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from machine import Machine, McpClient


class Driver(ABC):
    """One program on one machine. A driver gets the path of the installed program, but never reads its code."""

    #: The program's name in the tables.
    name: ClassVar[str]
    #: Its NAME in ``--program NAME=PATH``; "" if Engram's checkout contains it.
    program_name: ClassVar[str] = ""
    #: How it was set up, and which parts are not available without a network or an account.
    configuration: ClassVar[str]
    #: Which programs the measurement favours, and how.
    unfair: ClassVar[Sequence[str]] = ()
    #: Number of agents whose history it reads, and the systems on which it runs, according to its documentation.
    agents: ClassVar[int | str]
    systems: ClassVar[str]
    #: Another driver whose machine this one queries in a different way, without reading again; "" for its own machine.
    asks: ClassVar[str] = ""
    #: True if it adds something to a prompt automatically.
    has_hook: ClassVar[bool] = True

    def __init__(self, machine: Machine, program: Path) -> None:
        """Use the program at its path, or in the folder into which it was installed."""
        self.machine = machine
        self.program = program
        self.sessions: dict[Path, McpClient] = {}

    @abstractmethod
    def version(self) -> str:
        """Return the version that the program prints."""

    @abstractmethod
    def installed(self) -> Sequence[Path]:
        """Return the files and folders that it needs on disk, without the system's interpreter."""

    @abstractmethod
    def stored(self) -> Sequence[Path]:
        """Return the files and folders that it has made from the transcripts."""

    @abstractmethod
    def read(self) -> None:
        """Read all transcripts from scratch, until questions can be asked."""

    def open(self) -> None:  # noqa: B027
        """Start the processes that a user of the program has running."""

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
        """Return what is shown to the model when a person types a prompt; "" if nothing is."""
        raise NotImplementedError(f"{self.name} has no hook; {prompt[:20]!r}, {folder}, {session_id}")
