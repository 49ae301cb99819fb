"""The provider that runs the user's own Claude Code in print mode, without extra key, tools, hooks or session files.

The first section builds the command line, and the second reads the output.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engram.extraction.model.bounded_command import Finished, run_bounded
from engram.extraction.model.provider import (
    MAX_CALL_DOLLARS,
    UNAVAILABLE_SECONDS,
    BrokenOff,
    ModelReply,
    ModelRequest,
    NotServed,
    Price,
    Unfit,
    reason_line,
)
from engram.paths import claude_user_file, default_claude_folder
from engram.settings import Settings
from engram.system.atomic import make_private_folder, read_regular
from engram.system.lazy_regex import lazy_regex

# -- Build the command line of a call to Claude Code in print mode: the command, its environment and its flags.
#
# The flags are those of Claude Code 2.1.197 and 2.1.330.

#: Prefixes of the variables that determine how Claude Code logs in and where its configuration is. Other variables of
#: Claude Code may belong to a session that started the worker, and are dropped.
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


def call_environment(command: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a call, without the variables of Engram or of a session that may have started it."""
    environ = os.environ if environ is None else environ
    kept = {name: value for name, value in drop_session(environ).items() if not name.startswith("ENGRAM_")}
    kept["ENGRAM_DISABLE"] = "1"
    # A service has a short PATH. If npm installed the command, its interpreter is in the same folder.
    kept["PATH"] = os.pathsep.join([*_absolute_folders(environ), str(Path(command).parent)])
    return kept


#: Variables that take precedence over a login in Claude Code's print mode.
_KEY_NAMES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


def billed_key(environ: Mapping[str, str] | None = None) -> str:
    """Return the name of the variable with the key to which Claude Code bills calls; "" if none is set."""
    environ = os.environ if environ is None else environ
    return next((name for name in _KEY_NAMES if environ.get(name)), "")


def who_pays(environ: Mapping[str, str] | None = None) -> str:
    """Return a sentence on what calls are billed to: a key from the environment, or nothing with a subscription."""
    if name := billed_key(environ):
        return f"{name} is set here: Claude Code bills each call to that key, not to a subscription."
    return "With a subscription nothing is billed: the tokens count against its limits."


#: Maximum number of bytes to search for a login in each of Claude Code's files.
_MAX_SEARCHED_BYTES = 20_000_000
#: Variables with which Claude Code needs no login.
_LOGIN_NAMES = (
    *_KEY_NAMES,
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
)


def seems_logged_out(settings: Settings, environ: Mapping[str, str] | None = None) -> bool:
    """Return True if there is no trace of a login to Claude Code. Only names are examined, and no request is made."""
    environ = os.environ if environ is None else environ
    return not any(environ.get(name) for name in _LOGIN_NAMES) and not _has_stored_login(settings, environ)


def _has_stored_login(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Return True if Claude Code's files mention a login."""
    # A service passes Engram's setting to Claude Code; a command leaves it the folder from the environment.
    for folder in dict.fromkeys([settings.claude_folder, default_claude_folder(environ)]):
        marks = {claude_user_file(folder, environ): b'"oauthAccount"', folder / "settings.json": b'"apiKeyHelper"'}
        if os.path.exists(folder / ".credentials.json") or any(
            mark in (read_regular(path, _MAX_SEARCHED_BYTES) or b"") for path, mark in marks.items()
        ):
            return True
    return False


def drop_keys_beside_login(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without a key if Claude Code has a login that serves instead.

    The key belongs to the session that starts a background process, and would be billed for the requests of all other
    sessions. Nothing is dropped if the environment names a gateway or a cloud provider, which may need it.
    """
    is_needed = any(environ.get(name) for name in _LOGIN_NAMES if name not in _KEY_NAMES)
    if is_needed or not _has_stored_login(settings, environ):
        return dict(environ)
    return {name: value for name, value in environ.items() if name not in _KEY_NAMES}


def drop_session(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of the Claude Code session that may have started this process."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_KEPT_PREFIXES) or not name.startswith("CLAUDE")
    }


def find_claude(settings: Settings, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the absolute path of the command named in the settings; None if it can't be run.

    The current folder is never searched, because it may be a checkout by anyone.
    """
    command = os.path.expanduser(settings.claude_command)
    if os.path.dirname(command) and not os.path.isabs(command):
        return None
    folders = _absolute_folders(os.environ if environ is None else environ)
    return shutil.which(command, path=os.pathsep.join(folders) or os.devnull)


def find_moved_claude(settings: Settings) -> str | None:
    """Return the current location of a command that is missing from its path in the settings.

    Return None if it is not missing. A version manager deletes the folder of an old Node, and Claude Code's own
    installer replaces npm's command.
    """
    named = replace(settings, claude_command=os.path.basename(settings.claude_command))
    return find_claude(named) if os.path.isabs(settings.claude_command) and find_claude(settings) is None else None


def _absolute_folders(environ: Mapping[str, str]) -> list[str]:
    return [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def print_mode_arguments(settings: Settings, request: ModelRequest) -> list[str]:
    """Return the arguments of a call: no tools, no hooks, no MCP servers, no session file; the answer as JSON."""
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


# -- Read the output of Claude Code in print mode: the answer with its cost, or the reason why there is none.
#
# The answers and error texts are those of Claude Code 2.1.197 and 2.1.330.

logger = logging.getLogger(__name__)

#: Texts in a result without a valid login, in lower case.
_LOGIN_TEXTS = ("not logged in", "/login", "invalid api key", "oauth token", "authentication_error", "credit balance")
#: Texts in a result at a limit of the subscription or the server, where waiting helps, in lower case. The kinds of
#: limits change with the version ("your session limit", "weekly limit reached"), and some suggest /login.
_LIMIT = lazy_regex(
    r"\b(?:hit|reached|exceeded|exceeds?)\b[^.!?\n]{0,40}\blimit|\blimit (?:was )?(?:reached|hit|exceeded)\b|"
    r"\b(?:usage|rate|spend(?:ing)?)[ _]limit|\bout of (?:extra |your )?(?:usage|credits)\b|overloaded"
)
#: Error texts of a command that is too old to support a flag, in lower case.
_FLAG_TEXTS = ("unknown option", "unknown argument", "unrecognized option")
#: HTTP status codes for which a smaller request may succeed.
_UNFIT_STATES = (400, 413, 422)
#: HTTP status codes for a wrong login or a wrong model name.
_HOPELESS_STATES = (401, 402, 403, 404)
#: Part of the subtype of a result if the model never followed the schema (``error_max_structured_…``).
_WITHOUT_FORM = "structured_output"


def read_result(finished: Finished, settings: Settings) -> ModelReply:
    """Read what the command printed.

    Raises:
        Unfit, NotServed, BrokenOff, ValueError: see ``Provider.complete``.
    """
    if finished.has_overflowed:
        raise BrokenOff("claude wrote more than 8 MB")
    # If a command answered but then did not exit, its answer still counts, because it has been paid for.
    result = _result_object(finished.output)
    if result is None and finished.has_timed_out:
        raise BrokenOff(f"claude did not answer within {settings.claude_timeout_seconds:g} s")
    if result is None:
        raise _without_result(finished)
    has_failed = bool(result.get("is_error")) or (finished.exit_code != 0 and not finished.has_timed_out)
    if (has_failed or _is_notice(result)) and not _dollars(result):
        raise _refusal(result)
    return _reply(result, settings)


def _result_object(output: bytes) -> Mapping[str, Any] | None:
    """Return the result, which is the whole output or, if other text was printed before it, the last line."""
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


def _is_notice(result: Mapping[str, Any]) -> bool:
    """Return True for a notice about a limit that was returned as if it were an answer."""
    told = result.get("result")
    return (
        not result.get("structured_output") and isinstance(told, str) and bool(_LIMIT.search(reason_line(told).lower()))
    )


def _without_result(finished: Finished) -> Exception:
    """Return the error for a command that printed no result."""
    reason = reason_line(
        finished.errors.decode("utf-8", errors="replace") or finished.output[:1000].decode("utf-8", "replace")
    )
    if any(text in reason.lower() for text in _FLAG_TEXTS):
        return NotServed(
            f"this claude is too old for print mode as Engram uses it ({reason}): update Claude Code", is_passing=False
        )
    if _LIMIT.search(reason.lower()):
        return NotServed(f"claude: {reason}", wait_seconds=UNAVAILABLE_SECONDS)
    if any(text in reason.lower() for text in _LOGIN_TEXTS):
        return _not_logged_in(reason)
    if finished.exit_code in (126, 127):
        return NotServed(f"claude can't be started: {reason}", is_passing=False)
    return BrokenOff(f"claude ended with exit code {finished.exit_code} and no result{': ' + reason if reason else ''}")


def _refusal(result: Mapping[str, Any]) -> Exception:
    errors = result.get("errors")
    told = result.get("result") or (errors[0] if isinstance(errors, list) and errors else "") or result.get("subtype")
    reason = reason_line(str(told or "no reason given"))
    state = result.get("api_error_status")
    lowered = reason.lower()
    if _LIMIT.search(lowered) or state == 429:
        return NotServed(f"claude: {reason}", wait_seconds=UNAVAILABLE_SECONDS)
    if any(text in lowered for text in _LOGIN_TEXTS) or state == 401:
        return _not_logged_in(reason)
    if state in _HOPELESS_STATES:
        return NotServed(f"claude: {reason}", is_passing=False)
    if state in _UNFIT_STATES or "prompt is too long" in lowered:
        return Unfit(f"claude: {reason}")
    if isinstance(state, int):
        return NotServed(f"claude: {reason}")
    return BrokenOff(f"claude: {reason}")


def _not_logged_in(reason: str) -> NotServed:
    return NotServed(f"claude is not logged in ({reason}): run `claude` and log in with /login", is_passing=False)


def _reply(result: Mapping[str, Any], settings: Settings) -> ModelReply:
    """Return the answer with its cost. An error that was paid for is returned as a reply without text.

    If the cost is not a valid amount, the maximum possible cost of the call is assumed.
    """
    answer = result.get("structured_output")
    if result.get("is_error"):
        text = ""
        logger.warning("action=ask_claude failed=%s", reason_line(str(result.get("subtype") or result.get("result"))))
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
        is_prose=bool(result.get("is_error")) and _WITHOUT_FORM in str(result.get("subtype")),
    )


def _dollars(result: Mapping[str, Any]) -> float | None:
    """Return the cost of the call at list price; None if the result does not report it."""
    cost = result.get("total_cost_usd")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= MAX_CALL_DOLLARS:
        return None
    return float(cost)


def _answering_model(result: Mapping[str, Any]) -> str:
    usage = result.get("modelUsage")
    return str(next(iter(usage))) if isinstance(usage, dict) and usage else ""


def _tokens(result: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the input and output tokens of all models of the call, including cached ones; None if not reported."""
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


#: The variable that sets the effort of a reasoning model in Claude Code, and the effort of a call.
EFFORT_VARIABLE, EFFORT = "CLAUDE_CODE_EFFORT_LEVEL", "low"
#: Reason given for a call that was cancelled.
_STOPPING = "the worker is stopping"


@dataclass(frozen=True, slots=True)
class CeilingPrice(Price):
    """A price that is known only after the call. The call is reserved at a ceiling, which the command enforces."""

    #: Maximum cost of a call, in dollars.
    ceiling: float = 0.0

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """Return the ceiling; 0 for a call that was not served."""
        return self.ceiling if input_tokens or output_tokens else 0.0


class ClaudeProvider:
    """Runs the user's own ``claude``, one call at a time."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str] | None = None) -> None:
        """Prepare the provider; nothing is started before the first call.

        Args:
            settings: command, model, time limit and maximum cost of a call.
            environ: the environment of the call; this process's own by default.
        """
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._cancelled = threading.Event()

    @property
    def model(self) -> str:
        return f"claude:{self._settings.claude_model}"

    @property
    def price(self) -> Price:
        """See ``Provider.price``. This is the maximum cost of a call; the answer reports the actual cost."""
        return CeilingPrice(0.0, 0.0, self._settings.llm_dollars_per_call)

    def simplify(self) -> bool:
        """See ``Provider.simplify``. There is no simpler way."""
        return False

    def close(self) -> None:
        """End a running call and refuse further ones; may be called from any thread."""
        self._cancelled.set()

    def complete(self, request: ModelRequest) -> ModelReply:
        if self._cancelled.is_set():
            raise NotServed(_STOPPING)
        command = self._find_command()
        folder = self._settings.places.call_folder
        environment = call_environment(command, self._environ)
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_output_tokens)
        # Thinking is paid for as output, and may be many times as long as the answer. Older models respect the first
        # variable; newer models can't turn thinking off, but respect the second one.
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
            )
        return command
