"""Register the agents. Adding an agent takes one package and one line here; see docs/agents.md."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from engram.settings import Settings
from engram.system.atomic import is_missing
from engram.transcripts.agents import Agent, Place, Source
from engram.transcripts.claude_code.agent import ClaudeCode
from engram.transcripts.claude_code.history import PromptHistory
from engram.transcripts.codex.agent import Codex
from engram.transcripts.gemini.agent import Gemini
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped

_agents: dict[str, Agent] = {}


def register(agent: Agent) -> None:
    """Add an agent whose sessions are to be read. Raises ValueError if another agent has the same name."""
    if agent.name in _agents:
        raise ValueError(f"there is already an agent {agent.name!r}")
    _agents[agent.name] = agent


def all_agents() -> tuple[Agent, ...]:
    """Return every registered agent, in the order of registration."""
    return tuple(_agents.values())


def agent_of(source: Source) -> Agent:
    return _agents[source.agent]


def title_of(name: str) -> str:
    """Return an agent's display name; for an unknown agent, the given name."""
    agent = _agents.get(name)
    return name if agent is None else agent.title


def assistant_of(name: str) -> str:
    """Return the name of the assistant that answers in an agent's sessions."""
    return "Claude" if name in ("", ClaudeCode.name, PromptHistory.name) else title_of(name)


def has_answers(name: str) -> bool:
    """Return False for an agent with sessions that consist only of prompts, from which nothing can be concluded."""
    return name != PromptHistory.name


def resume_command(agent_name: str, session_id: str, path: Path | None = None) -> str:
    """Return the command that resumes a session; "" for an unknown agent, or if it can't be resumed."""
    agent = _agents.get(agent_name)
    return "" if agent is None else agent.resume_command(session_id, path)


def speaker_at(agent_name: str, path: Path, offset: int, length: int) -> Speaker:
    """Return who wrote the prompt at a byte offset; a person for an unknown agent."""
    agent = _agents.get(agent_name)
    return Speaker.PERSON if agent is None else agent.speaker_at(path, offset, length)


def discover(settings: Settings) -> Iterator[Source]:
    for agent in _agents.values():
        yield from agent.discover(settings)


def skipped(settings: Settings) -> list[Skipped]:
    """Return the files in the agents' session folders that are not read."""
    return [file for agent in _agents.values() for file in agent.skipped(settings)]


def present_folders(settings: Settings) -> list[tuple[Agent, Path]]:
    """Return the existing session folders, each with its agent."""
    return [
        (agent, folder) for agent in _agents.values() for folder in agent.folders(settings) if not is_missing(folder)
    ]


def sources_at(path: Path, settings: Settings) -> list[Source]:
    """Return the sources in a file or folder, from any agent.

    A file in an agent's own folder is that agent's or nobody's. Elsewhere, Claude Code accepts any JSONL file as a
    transcript; agents registered later recognise their own. Subagents are left out last, so that no other agent takes
    a subagent's file.
    """
    path = Path(os.path.abspath(path))
    folders = [(folder, agent.name) for agent in _agents.values() for folder in agent.folders(settings)]
    claimed: dict[Place, Source] = {}
    for agent in _agents.values():
        for source in agent.sources_at(path, settings):
            owners = {name for folder, name in folders if source.path.is_relative_to(folder)}
            if not owners or agent.name in owners:
                claimed[source.place] = source
    return [source for source in claimed.values() if settings.subagents or not source.is_subagent]


register(ClaudeCode())
register(Codex())
register(Gemini())
register(PromptHistory())
