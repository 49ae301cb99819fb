"""The provider for the user's own Claude Code in print mode: no key of ours, no tools, no hooks, no session file.

Flags, answer and error texts were read off Claude Code 2.1.197 and 2.1.330.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.atomic import make_private_folder
from engram.extraction.bounded_command import Finished, run_bounded
from engram.extraction.breaker import UNAVAILABLE_SECONDS
from engram.extraction.budget import Price
from engram.extraction.provider import (
    MAX_CALL_DOLLARS,
    BrokenOff,
    ModelReply,
    ModelRequest,
    NotServed,
    Unfit,
)
from engram.redaction import one_line, redact
from engram.settings import Settings

logger = logging.getLogger(__name__)

#: Variables of Claude Code that say how to log in and where its configuration is; all others with its prefix belong
#: to a session that may have started the worker, and are dropped.
_KEPT_PREFIXES = (
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    "CLAUDE_CODE_CLIENT_",
    "CLAUDE_CODE_API_KEY_",
    "CLAUDE_CODE_HTTP",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)
#: What the result says where nobody is logged in, or the login is no longer valid (lower case).
_LOGIN_TEXTS = ("not logged in", "/login", "invalid api key", "oauth token", "authentication_error", "credit balance")
#: What it says at the limits of a subscription or of the server (lower case); waiting helps.
_LIMIT_TEXTS = ("usage limit", "rate limit", "limit reached", "hit your limit", "overloaded")
#: What the command says of a flag that it is too old to know (lower case).
_FLAG_TEXTS = ("unknown option", "unknown argument", "unrecognized option")
#: HTTP states that a smaller request may avoid.
_UNFIT_STATES = (400, 413, 422)
#: HTTP states that mean that the login or the model name is wrong.
_HOPELESS_STATES = (401, 402, 403, 404)
_STOPPING = "the worker is stopping"
#: Characters of an error text that are shown.
_MAX_REASON_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class CeilingPrice(Price):
    """A price that is only known afterwards: any call is reserved at its ceiling, which the command enforces."""

    #: Dollars that one call may cost.
    ceiling: float = 0.0

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """The ceiling; nothing for a call that was not served."""
        return self.ceiling if input_tokens or output_tokens else 0.0


class ClaudeProvider:
    """Asks the user's own ``claude``, one call at a time."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str] | None = None) -> None:
        """Prepare; nothing is started before the first call.

        Args:
            settings: command, model, time limit and the most that a call may cost.
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
        """See ``Provider.price``: the answer names the cost; before it, the most that the command may spend."""
        return CeilingPrice(0.0, 0.0, self._settings.llm_dollars_per_call)

    def simplify(self) -> bool:
        """See ``Provider.simplify``: there is no simpler way."""
        return False

    def close(self) -> None:
        """End a call that is under way and refuse further ones; from any thread."""
        self._cancelled.set()

    def complete(self, request: ModelRequest) -> ModelReply:
        """See ``Provider.complete``."""
        if self._cancelled.is_set():
            raise NotServed(_STOPPING)
        command = self._find_command()
        folder = self._settings.places.call_folder
        environment = call_environment(command, self._environ)
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_output_tokens)
        # Thinking is paid as output and may be many times the answer.
        environment.setdefault("MAX_THINKING_TOKENS", "0")
        try:
            make_private_folder(folder)
            finished = run_bounded(
                [command, *_arguments(self._settings, request)],
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
        return _read_result(finished, self._settings)

    def _find_command(self) -> str:
        command = find_claude(self._settings, self._environ)
        if command is None:
            raise NotServed(
                f"{self._settings.claude_command!r} is not there or can't be run: install Claude Code, or run "
                "`engram config set claude_command /path/to/claude`",
                is_passing=False,
                wait_seconds=UNAVAILABLE_SECONDS,
            )
        return command


def call_environment(command: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a call: nothing of Engram's, and nothing of a session that may have started this process."""
    environ = os.environ if environ is None else environ
    kept = {
        name: value
        for name, value in environ.items()
        if name.startswith(_KEPT_PREFIXES) or not name.startswith(("CLAUDE", "ENGRAM_"))
    }
    kept["ENGRAM_DISABLE"] = "1"
    # A service has a short PATH; where npm installed the command, the interpreter that runs it lies beside it.
    kept["PATH"] = os.pathsep.join([*_absolute_folders(environ), str(Path(command).parent)])
    return kept


def find_claude(settings: Settings, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the absolute path of the command that the settings name, or None where it can't be run.

    Nothing is looked for relative to the current folder, which may be anybody's checkout.
    """
    command = os.path.expanduser(settings.claude_command)
    if os.path.dirname(command) and not os.path.isabs(command):
        return None
    folders = _absolute_folders(os.environ if environ is None else environ)
    return shutil.which(command, path=os.pathsep.join(folders) or os.devnull)


def _absolute_folders(environ: Mapping[str, str]) -> list[str]:
    """The folders of PATH without those that depend on the current folder."""
    return [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def _arguments(settings: Settings, request: ModelRequest) -> list[str]:
    return [
        "-p",
        *("--model", settings.claude_model),
        "--safe-mode",
        *("--tools", ""),
        "--strict-mcp-config",
        "--no-session-persistence",
        *("--system-prompt", request.system),
        *("--output-format", "json"),
        *("--json-schema", json.dumps(request.schema, separators=(",", ":"))),
        *("--max-budget-usd", f"{settings.llm_dollars_per_call:g}"),
    ]


def _read_result(finished: Finished, settings: Settings) -> ModelReply:
    """Read what the command printed.

    Raises:
        Unfit, NotServed, BrokenOff, ValueError: see ``Provider.complete``.
    """
    if finished.has_overflowed:
        raise BrokenOff("claude wrote more than 8 MB")
    # A command that answers and then does not end has answered, and the answer was paid for.
    result = _result_object(finished.output)
    if result is None and finished.has_timed_out:
        raise BrokenOff(f"claude did not answer within {settings.claude_timeout_seconds:g} s")
    if result is None:
        raise _without_result(finished)
    has_failed = bool(result.get("is_error")) or (finished.exit_code != 0 and not finished.has_timed_out)
    if has_failed and not _dollars(result):
        raise _refusal(result)
    return _reply(result, settings)


def _result_object(output: bytes) -> Mapping[str, Any] | None:
    """Return the result, which is the whole output or, where something was printed before it, the last line."""
    text = output.decode("utf-8", errors="replace").strip()
    for candidate in (text, text.rpartition("\n")[2]):
        try:
            parsed = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(parsed, list):
            parsed = parsed[-1] if parsed else None
        if isinstance(parsed, dict) and ("result" in parsed or "is_error" in parsed or "structured_output" in parsed):
            return parsed
    return None


def _without_result(finished: Finished) -> Exception:
    """Say why nothing that can be read was printed."""
    reason = _one_line(
        finished.errors.decode("utf-8", errors="replace") or finished.output[:1000].decode("utf-8", "replace")
    )
    if any(text in reason.lower() for text in _FLAG_TEXTS):
        return NotServed(
            f"this claude is too old for print mode as Engram uses it ({reason}): update Claude Code",
            is_passing=False,
            wait_seconds=UNAVAILABLE_SECONDS,
        )
    if any(text in reason.lower() for text in _LOGIN_TEXTS):
        return _not_logged_in(reason)
    if finished.exit_code in (126, 127):
        return NotServed(f"claude can't be started: {reason}", is_passing=False, wait_seconds=UNAVAILABLE_SECONDS)
    return BrokenOff(f"claude ended with exit code {finished.exit_code} and no result{': ' + reason if reason else ''}")


def _refusal(result: Mapping[str, Any]) -> Exception:
    """Say what a result that is an error means."""
    errors = result.get("errors")
    told = result.get("result") or (errors[0] if isinstance(errors, list) and errors else "") or result.get("subtype")
    reason = _one_line(str(told or "no reason given"))
    state = result.get("api_error_status")
    lowered = reason.lower()
    if any(text in lowered for text in _LIMIT_TEXTS) or state == 429:
        return NotServed(f"claude: {reason}", wait_seconds=UNAVAILABLE_SECONDS)
    if any(text in lowered for text in _LOGIN_TEXTS) or state == 401:
        return _not_logged_in(reason)
    if state in _HOPELESS_STATES:
        return NotServed(f"claude: {reason}", is_passing=False, wait_seconds=UNAVAILABLE_SECONDS)
    if state in _UNFIT_STATES or "prompt is too long" in lowered:
        return Unfit(f"claude: {reason}")
    if isinstance(state, int):
        return NotServed(f"claude: {reason}")
    return BrokenOff(f"claude: {reason}")


def _not_logged_in(reason: str) -> NotServed:
    return NotServed(
        f"claude is not logged in ({reason}): run `claude` and log in with /login",
        is_passing=False,
        wait_seconds=UNAVAILABLE_SECONDS,
    )


def _reply(result: Mapping[str, Any], settings: Settings) -> ModelReply:
    """Return the answer with what it cost; an error that was paid for is a reply without text.

    A cost that is no amount counts as the most that the call may have cost.
    """
    answer = result.get("structured_output")
    if result.get("is_error"):
        text = ""
        logger.warning("action=ask_claude failed=%s", _one_line(str(result.get("subtype") or result.get("result"))))
    elif isinstance(answer, dict):
        text = json.dumps(answer)
    else:
        told = result.get("result")
        text = told if isinstance(told, str) else ""
    read, written = _tokens(result)
    return ModelReply(
        text=text,
        model=_answering_model(result),
        input_tokens=read,
        output_tokens=written,
        dollars=settings.llm_dollars_per_call if (dollars := _dollars(result)) is None else dollars,
    )


def _dollars(result: Mapping[str, Any]) -> float | None:
    """What the call cost at list price; None where the result does not say."""
    cost = result.get("total_cost_usd")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= MAX_CALL_DOLLARS:
        return None
    return float(cost)


def _answering_model(result: Mapping[str, Any]) -> str:
    usage = result.get("modelUsage")
    return str(next(iter(usage))) if isinstance(usage, dict) and usage else ""


def _tokens(result: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Tokens (read, written) over all models of the call, cached ones included; None where the result does not say."""
    usage = result.get("modelUsage")
    if not isinstance(usage, dict) or not usage:
        return None, None
    parts = [part for part in usage.values() if isinstance(part, dict)]
    read = sum(
        _count(part.get(name))
        for part in parts
        for name in ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    )
    return read, sum(_count(part.get("outputTokens")) for part in parts)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _one_line(text: str) -> str:
    """One line of an error text, without control characters, links and secrets."""
    return one_line(redact(text), _MAX_REASON_CHARACTERS)
