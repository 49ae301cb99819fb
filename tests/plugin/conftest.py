"""The real Claude Code with the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from claude_binary import StandInServer
from claude_lab import Call, Lab, calling, open_lab

from engram.paths import Home
from engram_hooks.block import link_interpreter


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    home = Home(tmp_path / "home").prepare()
    link_interpreter(home)
    with open_lab(tmp_path, home) as opened:
        yield opened


@pytest.fixture
def model() -> Iterator[Callable[..., StandInServer]]:
    """Starts a model that makes the given calls in the main conversation and in that of a subagent."""
    servers: list[StandInServer] = []

    def start(calls: list[Call], of_subagent: list[Call] | None = None) -> StandInServer:
        servers.append(calling(calls, of_subagent))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
