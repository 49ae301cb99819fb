"""What doctor and status say of the language model: can it be asked, and is there one that was never chosen?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from engram.cli.checks import Check, State
from engram.extraction.bounded_command import run_bounded
from engram.extraction.claude_provider import call_environment, find_claude
from engram.models.meta import get_meta, put_meta
from engram.models.store import Store
from engram.settings import Settings
from engram.tasks.api_key import find_api_key

#: Flags of print mode that an old Claude Code lacks.
_NEEDED_FLAGS = ("--safe-mode", "--json-schema", "--no-session-persistence", "--strict-mcp-config", "--max-budget-usd")
#: Longest time that ``claude --help`` may take, in seconds.
_HELP_SECONDS = 20.0
_OFFER_KEY = "offered_claude_extractor"
_OFFER = (
    "Memories are picked by rules now. Your Claude Code can write them instead, on your own login: about twice as many "
    "prompts get a memory that helps. Redacted text of your sessions then goes to Anthropic, within the caps that "
    "`engram cost` shows. To turn it on: engram config set extractor claude"
)


def check_language_model(settings: Settings) -> Iterator[Check]:
    """Check that the language model of the settings can be asked; nothing is sent."""
    if settings.extractor == "claude":
        yield _check_claude(settings)
    elif settings.extractor == "openai":
        has_key = bool(find_api_key(settings.places.env_file)) or bool(settings.llm_base_url)
        server = settings.llm_base_url or "OpenAI"
        if has_key:
            yield Check("language model", State.OK, f"{settings.llm_model} at {server}")
        else:
            yield Check(
                "language model",
                State.BAD,
                "extractor = openai, but there is no OPENAI_API_KEY: the local extractor serves",
                f"write OPENAI_API_KEY=… into {settings.places.env_file} (mode 0600)",
            )


def _check_claude(settings: Settings) -> Check:
    command = find_claude(settings)
    if command is None:
        return Check(
            "language model",
            State.BAD,
            f"extractor = claude, but {settings.claude_command!r} can't be found: the local extractor serves",
            "install Claude Code, or: engram config set claude_command /path/to/claude",
        )
    told = _help_text(command)
    missing = [flag for flag in _NEEDED_FLAGS if flag not in told]
    if missing:
        return Check(
            "language model",
            State.BAD,
            f"{command} doesn't know {', '.join(missing)}: the local extractor serves",
            "update Claude Code: claude update",
        )
    return Check("language model", State.OK, f"{settings.claude_model} by {command}")


def _help_text(command: str) -> str:
    try:
        with tempfile.TemporaryDirectory() as folder:
            finished = run_bounded(
                [command, "--help"],
                b"",
                folder=Path(folder),
                environment=call_environment(command),
                seconds=_HELP_SECONDS,
            )
    except OSError:
        return ""
    return (finished.output + finished.errors).decode("utf-8", errors="replace")


def offer_claude(store: Store, settings: Settings) -> str:
    """Say once in the life of a memory what Claude as the extractor would bring; "" after that."""
    if settings.extractor != "local" or find_claude(settings) is None or get_meta(store, _OFFER_KEY):
        return ""
    with store.transaction() as tx:
        if get_meta(store, _OFFER_KEY):
            return ""
        put_meta(tx, _OFFER_KEY, str(store.now_ms()))
    return _OFFER
