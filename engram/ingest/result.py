"""What reading a source brought, as it is returned and summed up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Written:
    """What one transaction added."""

    new_turns: int = 0
    #: Turns that were known and have grown or were replaced.
    grown_turns: int = 0
    entries: int = 0
    messages: int = 0
    prompts: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What reading one source brought."""

    path: Path
    session_id: str = ""
    #: Why nothing was read: off, paused, excluded, gone, unreadable, "not a transcript"; "" if it was read.
    skipped: str = ""
    #: True if the cursor moved.
    has_read: bool = False
    #: Bytes of the source read now; 0 if the agent cannot tell.
    bytes_read: int = 0
    new_turns: int = 0
    #: Turns that were known and have grown or were replaced.
    grown_turns: int = 0
    #: Entries that were stored.
    entries: int = 0
    #: Prompts and assistant messages with text.
    messages: int = 0
    #: Parts of the source that could not be read, such as a damaged line.
    bad_lines: int = 0
    #: Keys of new turns that begin with a prompt, in order.
    prompts: tuple[str, ...] = ()
    #: Files and commands of new tool calls, in order, to find memories about them.
    calls: tuple[str, ...] = ()

    def plus(self, written: Written, *, bytes_read: int, bad_lines: int) -> IngestResult:
        """Return the sum of this and another portion of the source."""
        return replace(
            self,
            has_read=True,
            bytes_read=self.bytes_read + bytes_read,
            new_turns=self.new_turns + written.new_turns,
            grown_turns=self.grown_turns + written.grown_turns,
            entries=self.entries + written.entries,
            messages=self.messages + written.messages,
            bad_lines=self.bad_lines + bad_lines,
            prompts=self.prompts + written.prompts,
            calls=self.calls + written.calls,
        )
