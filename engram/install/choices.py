"""What the user chose; a later installation keeps it unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

#: OpenAI's Codex CLI.
CODEX = "codex"
#: Google's Gemini CLI.
GEMINI = "gemini"
#: OpenCode. Its sessions are not read.
OPENCODE = "opencode"
#: Agents that can get the memory tools besides Claude Code, which is always connected.
AGENTS = (CODEX, GEMINI, OPENCODE)


@dataclass(frozen=True, slots=True)
class Choices:
    """The parts of an installation that a user can leave out or add."""

    #: Start worker and watcher at login.
    service: bool = True
    #: Connect Claude Code by a plugin; False for its settings files.
    plugin: bool = True
    #: Let Claude use the memory tools without asking.
    permissions: bool = True
    #: Show in Claude Code's status line what Engram does.
    statusline: bool = False
    #: Agents that get the memory tools, besides Claude Code.
    agents: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The choices as they stand in the journal."""
        return asdict(self)


def choose(stored: Mapping[str, Any] | None, **given: Any) -> Choices:
    """The choices of now: what is given (None: nothing), else what the installation before stored, else defaults."""
    choices = Choices()
    known = {name: value for name, value in (stored or {}).items() if hasattr(choices, name)}
    if "agents" in known:
        known["agents"] = tuple(agent for agent in known["agents"] if agent in AGENTS)
    known |= {name: value for name, value in given.items() if value is not None}
    return replace(choices, **known)
