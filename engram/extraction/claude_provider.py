"""The provider for the user's own Claude Code in print mode: no key of ours, no tools, no hooks, no session file.

See ``claude_command`` for the command line and ``claude_result`` for what it prints.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from engram.atomic import make_private_folder
from engram.extraction.bounded_command import run_bounded
from engram.extraction.breaker import UNAVAILABLE_SECONDS
from engram.extraction.budget import Price
from engram.extraction.claude_command import call_environment, find_claude, print_mode_arguments
from engram.extraction.claude_result import read_result
from engram.extraction.provider import BrokenOff, ModelReply, ModelRequest, NotServed
from engram.settings import Settings

#: The variable by which Claude Code takes the effort of a model that thinks, and the effort of a call.
EFFORT_VARIABLE, EFFORT = "CLAUDE_CODE_EFFORT_LEVEL", "low"
#: Reason of a call that was cancelled.
_STOPPING = "the worker is stopping"


@dataclass(frozen=True, slots=True)
class CeilingPrice(Price):
    """A price that is known only after the call: a call is reserved at a ceiling that the command enforces."""

    #: Maximum cost of a call, in dollars.
    ceiling: float = 0.0

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the ceiling; 0 for a call that was not served."""
        return self.ceiling if input_tokens or output_tokens else 0.0


class ClaudeProvider:
    """Asks the user's own ``claude``, one call at a time."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str] | None = None) -> None:
        """Prepare; nothing is started before the first call.

        Args:
            settings: command, model, time limit and maximum cost of a call.
            environ: the environment of the call; this process's own by default.
        """
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._cancelled = threading.Event()

    @property
    def model(self) -> str:
        """See ``Provider.model``."""
        return f"claude:{self._settings.claude_model}"

    @property
    def price(self) -> Price:
        """See ``Provider.price``: the maximum cost of a call; the answer names the actual cost."""
        return CeilingPrice(0.0, 0.0, self._settings.llm_dollars_per_call)

    def simplify(self) -> bool:
        """See ``Provider.simplify``: there is no simpler way."""
        return False

    def close(self) -> None:
        """End a running call and refuse further ones; from any thread."""
        self._cancelled.set()

    def complete(self, request: ModelRequest) -> ModelReply:
        """See ``Provider.complete``."""
        if self._cancelled.is_set():
            raise NotServed(_STOPPING)
        command = self._find_command()
        folder = self._settings.places.call_folder
        environment = call_environment(command, self._environ)
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_output_tokens)
        # Thinking is paid as output and may be many times as long as the answer. Older models obey the first variable;
        # newer ones refuse to be without thinking, and obey the second.
        environment.setdefault("MAX_THINKING_TOKENS", "0")
        environment[EFFORT_VARIABLE] = EFFORT
        try:
            make_private_folder(folder)
            finished = run_bounded(
                [command, *print_mode_arguments(self._settings, request)],
                request.user.encode("utf-8", errors="replace"),
                folder=folder,
                environment=environment,
                seconds=self._settings.claude_timeout_seconds,
                cancelled=self._cancelled,
            )
        except OSError as error:
            raise NotServed(f"claude can't be started now: {error.strerror or error}") from error
        if finished.has_timed_out and self._cancelled.is_set():
            raise BrokenOff(_STOPPING)
        return read_result(finished, self._settings)

    def _find_command(self) -> str:
        command = find_claude(self._settings, self._environ)
        if command is None:
            raise NotServed(
                f"{self._settings.claude_command!r} does not exist or can't be run: install Claude Code, or run "
                "`engram config set claude_command /path/to/claude`",
                is_passing=False,
                wait_seconds=UNAVAILABLE_SECONDS,
            )
        return command
