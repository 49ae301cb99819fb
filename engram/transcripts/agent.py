"""The small interface behind which the files of each agent are read; Claude Code's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from engram.transcripts.claude_code.discover import TranscriptFile, find_transcripts, identify
from engram.transcripts.claude_code.entry import BadLine, Entry, parse_line
from engram.transcripts.claude_code.turn import AGENT, TurnBuilder, keys_to_resume
from engram.transcripts.record import Turn
from engram.transcripts.tail import Line


class Agent(Protocol):
    """Knows where an agent keeps its transcripts and how to read them."""

    name: str

    def find(self, config: Path, *, with_subagents: bool = False) -> Iterator[TranscriptFile]:
        """Every transcript below the agent's configuration folder."""

    def identify(self, path: Path, projects: Path, *, with_subagents: bool = False) -> TranscriptFile | None:
        """What a path is; None where it is no transcript of this agent, or in a place where tools may write."""

    def parse(self, line: Line) -> Entry | BadLine | None:
        """One line; None where it does not count."""

    def keys_to_resume(self, state: Mapping[str, Any]) -> tuple[str, ...]:
        """Keys of the stored turns needed to go on from a state."""

    def builder(
        self,
        session_id: str,
        *,
        state: Mapping[str, Any] | None = None,
        resume: Mapping[str, Turn] | None = None,
        owner: Callable[[str], str | None] = lambda uuid: None,
        is_subagent: bool = False,
        see_environment: Callable[[str], None] = lambda text: None,
    ) -> TurnBuilder:
        """A builder for one transcript."""


class ClaudeCode:
    """Reads the transcripts of Claude Code."""

    name = AGENT

    def find(self, config: Path, *, with_subagents: bool = False) -> Iterator[TranscriptFile]:
        """Every transcript below a Claude configuration folder."""
        return find_transcripts(config, with_subagents=with_subagents)

    def identify(self, path: Path, projects: Path, *, with_subagents: bool = False) -> TranscriptFile | None:
        """What a path is; None where it is no transcript."""
        return identify(path, projects, with_subagents=with_subagents)

    def parse(self, line: Line) -> Entry | BadLine | None:
        """One line; None where it does not count."""
        return parse_line(line)

    def keys_to_resume(self, state: Mapping[str, Any]) -> tuple[str, ...]:
        """Keys of the stored turns needed to go on from a state."""
        return keys_to_resume(state)

    def builder(
        self,
        session_id: str,
        *,
        state: Mapping[str, Any] | None = None,
        resume: Mapping[str, Turn] | None = None,
        owner: Callable[[str], str | None] = lambda uuid: None,
        is_subagent: bool = False,
        see_environment: Callable[[str], None] = lambda text: None,
    ) -> TurnBuilder:
        """A builder for one transcript."""
        return TurnBuilder(
            session_id,
            state=state,
            resume=resume,
            owner=owner,
            is_subagent=is_subagent,
            see_environment=see_environment,
        )


CLAUDE_CODE = ClaudeCode()
