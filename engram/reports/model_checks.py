"""The check of the language model, and the one offer to use Claude as the extractor."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from engram.extraction.api_key import find_api_key
from engram.extraction.bounded_command import run_bounded
from engram.extraction.claude_command import call_environment, find_claude
from engram.extraction.comparison import answer_of
from engram.models.meta import get_meta, put_meta
from engram.models.store import Store
from engram.reports.checks import Check, State
from engram.settings import Settings

#: Flags of print mode that an old Claude Code does not have.
_NEEDED_FLAGS = ("--safe-mode", "--json-schema", "--no-session-persistence", "--strict-mcp-config", "--max-budget-usd")
#: Longest time that ``claude --help`` may take, in seconds.
_HELP_SECONDS = 20.0
_OFFER_KEY = "offered_claude_extractor"
_OFFER = (
    "Memories are chosen by rules now. Your own Claude Code can write them instead, with your login: about twice as "
    "many prompts then get a memory that helps. Redacted text of your sessions goes to Anthropic, within the caps that "
    "`engram cost` shows. To see one of your sessions both ways first, run: engram compare. To turn it on, run: "
    "engram config set extractor claude"
)


def check_language_model(settings: Settings) -> Iterator[Check]:
    """Check that the configured language model can be used. Nothing is sent."""
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
                "extractor = openai, but OPENAI_API_KEY is not set: the local extractor is used",
                f"write OPENAI_API_KEY=… into {settings.places.env_file} (mode 0600)",
            )


def _check_claude(settings: Settings) -> Check:
    command = find_claude(settings)
    if command is None:
        return Check(
            "language model",
            State.BAD,
            f"extractor = claude, but {settings.claude_command!r} can't be found: the local extractor is used",
            "install Claude Code, or run: engram config set claude_command /path/to/claude",
        )
    help_text = _help_text(command)
    missing = [flag for flag in _NEEDED_FLAGS if flag not in help_text]
    if missing:
        return Check(
            "language model",
            State.BAD,
            f"{command} doesn't know {', '.join(missing)}: the local extractor is used",
            "update Claude Code: claude update",
            command="claude update",
            public="too old",
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
    """Return the offer to use Claude as the extractor, once for each memory folder; "" after that.

    Who answered the installer or `engram compare` is not asked again.
    """
    was_made = get_meta(store, _OFFER_KEY) or answer_of(store) is not None
    if settings.extractor != "local" or was_made or find_claude(settings) is None:
        return ""
    with store.transaction() as tx:
        if get_meta(store, _OFFER_KEY):
            return ""
        put_meta(tx, _OFFER_KEY, str(store.now_ms()))
    return _OFFER
