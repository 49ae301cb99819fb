"""``engram report``, ``cost`` and ``compare``: what memory did, what the model cost, and what a model would add."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import TimeSpan, agrees, confirm, json_command
from engram.cli.output import has_terminal, one_line, print_facts, print_json, print_table, say, say_wrapped
from engram.cli.workspace import Workspace, advise, restart_with_settings
from engram.config_file import set_value
from engram.enums import ComparisonAnswer
from engram.errors import BadRequest, Conflict, EngramError, NotFound, SettingsError
from engram.extraction.model.claude_provider import find_claude, seems_logged_out
from engram.extraction.model.compare_extractors import (
    SOURCE,
    CallPrice,
    Comparison,
    Offer,
    ShownMemory,
    answer_of,
    available_provider,
    compare,
    find_offer,
    keep,
    note_answer,
)
from engram.models.engine.transaction import Store
from engram.models.shown.usage import Usage
from engram.reports.engram_checks import find_missing
from engram.reports.use_report import (
    DEFAULT_SECONDS,
    REPORT_DAYS,
    CostReport,
    late_text,
    refused_text,
    report_costs,
    report_of_days,
)
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.trust.display import counted, number_of, span
from engram.vaults import config_home

if TYPE_CHECKING:
    from engram.extraction.model.model_extractor import ModelExtractor

#: The time whose costs are always printed, in seconds.
DAY_SECONDS = 86_400
#: The line that mentions the command.
HINT = "See one of your sessions as a language model would remember it: engram compare"


@click.command("compare")
@click.option("--yes", is_flag=True, help="Send the session without asking (default: show what will be sent, and ask).")
@json_command
def compare_command(workspace: Workspace, yes: bool, as_json: bool) -> None:
    """Show one of your sessions both ways: what Engram keeps without a language model, and what it would keep with one.

    It first shows which session would be sent, to whom, and what that costs. If you agree, it makes one call. The
    answer is not stored unless you then let the model write your memories.

    Example: engram compare
    """
    with workspace.store() as store:
        offer = _require_offer(workspace, store)
        if not as_json:
            _describe(workspace.settings, offer)
            note_answer(store, ComparisonAnswer.NO)
        confirm(yes, as_json, "Send it?")
        _show(workspace, store, offer, as_json=as_json, may_ask=not yes)


def offer_comparison(workspace: Workspace, store: Store, *, is_asked_for: bool = False) -> None:
    """Offer the comparison once, if someone can answer; later, only mention the command until a comparison was shown.

    Args:
        is_asked_for: the user has just chosen to see it.
    """
    answer = answer_of(store)
    if not is_asked_for and (answer is not None or not has_terminal()):
        if can_compare(workspace.settings) and answer in (None, ComparisonAnswer.NO):
            advise(f"\n{HINT}")
        return
    offer = _find_offer(store, workspace.settings)
    if offer is None:
        if is_asked_for:
            advise("\nNo session read so far is long enough to compare. Later: engram compare")
        return
    click.echo()
    _describe(workspace.settings, offer)
    # Whatever the answer is, the question is not asked again.
    note_answer(store, ComparisonAnswer.NO)
    if not _agrees("Send it?"):
        advise("Nothing was sent. If you change your mind: engram compare")
        return
    try:
        _show(workspace, store, offer, as_json=False, may_ask=True)
    except EngramError as error:
        advise(f"The comparison failed: {error}. To try again: engram compare", err=True)


def can_compare(settings: Settings) -> bool:
    """Return True if rules write the memories, but a language model could, now."""
    try:
        provider = available_provider(settings) if settings.extractor == "local" else ""
        return bool(provider) and not (provider == "claude" and seems_logged_out(settings))
    except SettingsError:
        # `engram doctor` and `engram compare` report what is wrong.
        return False


def _find_offer(store: Store, settings: Settings) -> Offer | None:
    """Return the offer; None if there is none, or if the key or the prices in the settings can't be read."""
    try:
        return find_offer(store, settings)
    except SettingsError:
        return None


def comparison_json(workspace: Workspace, store: Store) -> dict[str, Any] | None:
    """Return what can be compared, and what the user answered, for scripts; None if there is nothing to compare."""
    answer = answer_of(store)
    offer = _find_offer(store, workspace.settings)
    if offer is None:
        return None
    return {"command": "engram compare", "answer": answer, "offer": offer.to_json()}


def extractor_settings(workspace: Workspace, extractor: str | None, command: str | None) -> dict[str, str]:
    """Return the settings for config.toml that specify who makes the memories, and with which command.

    Args:
        extractor: the new value; None leaves it unchanged.
        command: the absolute path of Claude Code; None if it was not found.
    """
    sources, wanted = workspace.loaded.sources, {}
    if extractor is not None and (extractor != "local" or sources["extractor"] != "default"):
        wanted["extractor"] = extractor
    if (
        (extractor or workspace.settings.extractor) == "claude"
        and command is not None
        and sources["claude_command"] in ("default", "config.toml")
    ):
        # The path must be absolute, because a service has a short PATH.
        wanted["claude_command"] = command
    return wanted


def store_settings(workspace: Workspace, wanted: Mapping[str, str]) -> None:
    """Write settings to config.toml, and use them.

    Raises:
        SettingsError: config.toml is not valid.
        EngramError: config.toml can't be written.
    """
    for name, value in wanted.items():
        set_value(config_home(workspace.settings.home), name, value)
    workspace.reload()


def _require_offer(workspace: Workspace, store: Store) -> Offer:
    """Return the offer. If there is none, raise BadRequest or NotFound, which says what to do."""
    settings = workspace.settings
    if settings.extractor in MODEL_EXTRACTORS:
        raise BadRequest(f"{_writer(settings.extractor)} already writes your memories: `engram config show extractor`")
    if settings.extractor != "local":
        raise BadRequest("no memories are being made: run `engram config set extractor local`")
    if not available_provider(settings):
        raise BadRequest(
            "no language model was found. Install Claude Code; or, for a server of your own, run: "
            f"engram config set llm_base_url URL; or write OPENAI_API_KEY=… into {settings.places.env_file} (mode 0600)"
        )
    offer = find_offer(store, settings)
    if offer is None:
        raise NotFound("no session read so far is long enough to compare; continue working, and try again later")
    return offer


def _describe(settings: Settings, offer: Offer) -> None:
    """Print what would be sent, to whom, what it costs, and what is kept."""
    say_wrapped("See one of your sessions both ways: what Engram keeps by rules, and what a language model would keep.")
    place = ", ".join(filter(None, (offer.day, offer.project)))
    prompts = f"{'its' if offer.is_whole else 'its first'} {offer.prompts} prompts"
    rows = {
        "Session": f"“{offer.title}” ({place}), {prompts} with their answers",
        "Sent": f"once, to {receiver(settings, offer.provider)}: what was said there, with secrets masked; the "
        "commands, with how they ended and the first line of an error; and sentences of similar memories. No files.",
        "Price": price_text(settings, offer),
        "Kept": "nothing, unless you then let the model write your memories.",
    }
    if offer.provider == "claude" and seems_logged_out(settings):
        rows["Login"] = "none was found: run `claude` and type /login first, or nothing can be sent."
    for name, text in rows.items():
        say_wrapped(text, first=f"  {name:<9}", rest=" " * 11)


def price_text(settings: Settings, offer: Offer) -> str:
    """Return what the one call would cost, in words."""
    price = offer.price
    tokens = (
        f"one call, about {price.input_tokens:,} tokens in and {price.output_tokens:,} to "
        f"{price.max_output_tokens:,} out"
    )
    if offer.provider == "openai":
        return f"{tokens}: {_openai_dollars(settings, price)}"
    dollars = f"at most ${price.reserved_dollars:.2f}, where Claude Code stops it"
    if price.low_dollars is not None and price.high_dollars is not None:
        dollars = f"about {_range(price.low_dollars, price.high_dollars)} at {SOURCE}, {dollars}"
    from engram.extraction.model.claude_provider import who_pays  # most commands of this module don't need it

    return f"{tokens}: {dollars}. {who_pays()}"


def _openai_dollars(settings: Settings, price: CallPrice) -> str:
    if price.reserved_dollars == 0:
        return "nothing, on your own server."
    most = f"at most ${price.reserved_dollars:.3f}"
    if price.low_dollars is None or price.high_dollars is None:
        return f"{most}, at the price that is assumed for an unknown model (setting llm_prices)."
    return f"{_range(price.low_dollars, price.high_dollars)} for {settings.llm_model}, {most}."


def _range(low: float, high: float) -> str:
    return f"${low:.3f} to ${high:.3f}" if f"{low:.3f}" != f"{high:.3f}" else f"${low:.3f}"


def _show(workspace: Workspace, store: Store, offer: Offer, *, as_json: bool, may_ask: bool) -> None:
    """Make the call, print what each way keeps, and offer to switch.

    Raises:
        EngramError: nothing was shown; the message says why.
    """
    settings = workspace.settings
    extractor = _model_extractor(settings, store, offer.provider)
    if not as_json:
        click.echo("Asking the model. This can take a minute.")
    comparison = compare(store, extractor, offer)
    note_answer(store, ComparisonAnswer.SHOWN)
    if as_json:
        print_json(comparison.to_json())
        return
    _print_memories("Without a model", comparison.without, "Search finds everything that was said, either way.")
    _print_memories(f"With {comparison.offer.model}", comparison.by_model, "It found nothing worth keeping.")
    advise(f"\nThe call cost ${comparison.dollars:.4f}; `engram cost` lists it.")
    writer = _writer(offer.provider)
    switch = f"engram config set extractor {offer.provider}"
    if not may_ask:
        advise(f"None of it was stored. To let {writer} write your memories: {switch}")
        return
    cap = f"at most ${settings.llm_dollars_per_day:.2f} a day"
    these = ", and keep these" if comparison.by_model else ""
    if not _agrees(f"Let {writer} write your memories from now on ({cap}){these}?"):
        advise(f"None of it was stored. To switch later: {switch}")
        return
    _switch(workspace, store, extractor, comparison)


def _agrees(question: str) -> bool:
    """Ask; Ctrl-C counts as no, and so does the lack of a terminal."""
    try:
        return agrees(question)
    except click.Abort:
        click.echo()
        return False


def _print_memories(heading: str, memories: Sequence[ShownMemory], if_none: str) -> None:
    number = counted(len(memories), "memory") or "nothing"
    click.echo()
    say_wrapped(f"{heading}: {number}")
    if not memories:
        say_wrapped(if_none, first="  ", rest="  ")
    for memory in memories:
        say_wrapped(f"{memory.title} ({memory.kind})", first="  • ", rest="    ")
        if memory.title != memory.sentence.rstrip("."):
            say_wrapped(memory.sentence, first="    ", rest="    ")


def _switch(workspace: Workspace, store: Store, extractor: ModelExtractor, comparison: Comparison) -> None:
    """Let the model write the memories from now on, and keep those that it made for the comparison."""
    provider = comparison.offer.provider
    is_overridden = workspace.loaded.sources["extractor"] in ("flag", "environment")
    store_settings(workspace, extractor_settings(workspace, provider, find_claude(workspace.settings)))
    note_answer(store, ComparisonAnswer.SWITCHED)
    try:
        kept = keep(store, workspace.settings, extractor, comparison)
        what = f"kept from this session: {number_of(kept.new, 'memory')}"
    except Conflict:
        what = "this session has grown in the meantime, so its memories are written when memories are next consolidated"
    advise(
        f"{_writer(provider)} writes your memories from now on; {what}. To go back: engram config set extractor local"
    )
    if is_overridden:
        say("Note: a flag or a variable also sets extractor and overrides config.toml.", err=True)
    restart_with_settings(workspace)


def _model_extractor(settings: Settings, store: Store, provider: str) -> ModelExtractor:
    from engram.extraction.model.model_extractor import ModelExtractor
    from engram.tasks.runtime import make_extractor

    extractor, _ = make_extractor(replace(settings, extractor=provider), store)
    if not isinstance(extractor, ModelExtractor):
        raise BadRequest(f"the language model of `extractor = {provider}` is not available: see `engram doctor`")
    return extractor


def _writer(provider: str) -> str:
    return "Claude" if provider == "claude" else "the language model"


def receiver(settings: Settings, provider: str) -> str:
    """Return to whom a provider sends the words of sessions."""
    if provider == "claude":
        return f"Anthropic, by your own Claude Code with your login (model {settings.claude_model})"
    return f"{settings.llm_base_url or 'OpenAI, with your key'} (model {settings.llm_model})"


# -- ``engram report`` and ``engram cost``: what memory did in recent days, and what the language model cost.


@click.command("report")
@click.option(
    "--days", type=click.IntRange(1, 3650), default=REPORT_DAYS, metavar="N", help="The number of days (default: 7)."
)
@json_command
def report(workspace: Workspace, days: int, as_json: bool) -> None:
    """Show what memory did in the last few days: what was said, kept, shown and opened, and the most used memory.

    Sessions and prompts are counted by when they took place, so a history that has just been read appears under "before
    that". Memories are counted by when they were made.

    Once, it also offers to show one of your sessions as a language model would remember it: see `engram compare`.

    Example: engram report --days 30
    """
    with workspace.store() as store:
        usage = report_of_days(store, days)
        costs = report_costs(store, workspace.settings, days * DAY_SECONDS)
        if as_json:
            facts = {"days": days, **dataclasses.asdict(usage), "model_calls": costs.calls, "dollars": costs.dollars}
            print_json({**facts, "comparison": comparison_json(workspace, store)})
            return
        _print(usage, costs, days, store.now_ms())
        offer_comparison(workspace, store)


#: Numbers of days that are suggested for a report of earlier sessions; the last is the largest that it takes.
_REACHES = (365, 1095, 3650)


def _print(usage: Usage, costs: CostReport, days: int, now_ms: int) -> None:
    used = usage.most_used
    earlier = (counted(usage.earlier_sessions, "session"), counted(usage.earlier_prompts, "prompt"))
    also = ", including earlier sessions" if usage.memories and usage.earlier_prompts else ""
    most = "none yet"
    if used is not None:
        where = f"{used.episode_id}, {one_line(used.project, 60) or 'no project'}, {number_of(used.uses, 'time')}"
        most = f"{one_line(used.summary, 120)} ({where})"
    click.secho(f"In the last {counted(days, 'day')}", bold=True)
    print_facts(
        [
            ("sessions", str(usage.sessions)),
            ("prompts", str(usage.prompts)),
            ("before that", ", ".join(filter(None, earlier))),
            ("memories kept", f"{usage.memories}{also}"),
            ("nothing kept in", ", ".join(f"“{one_line(name, 60)}”" for name in usage.projects_with_none)),
            ("shown to Claude", counted(usage.shown, "time") or "never"),
            ("opened", counted(usage.opened, "memory") or "no memory"),
            ("came too late", late_text(usage.late)),
            ("rejected from the model", refused_text(usage.refused)),
            ("spent on the model", f"${costs.dollars:.4f} in {counted(costs.calls, 'call')}" if costs.rows else ""),
            ("used most", most),
        ]
    )
    if not usage.sessions and usage.oldest_ms is not None:
        age_days = (now_ms - usage.oldest_ms) / (DAY_SECONDS * 1000)
        reach = next((reach for reach in _REACHES if reach >= max(age_days, days + 1)), _REACHES[-1])
        further = f" For earlier ones: engram report --days {reach}" if reach > days else ""
        advise(f"There were no sessions in that time.{further}")


@click.command("cost")
@click.option(
    "--since",
    "seconds",
    type=TimeSpan(),
    default=DEFAULT_SECONDS,
    metavar="TIME",
    help="How far back, such as 7d or 12h (default: 30d).",
)
@json_command
def cost(workspace: Workspace, seconds: float, as_json: bool) -> None:
    """Show what the language model cost, by day, model, task and project, and how close that is to the caps.

    Dollars are at list price. With a Claude subscription, nothing is billed: the tokens count against its limits. The
    rules on this machine cost nothing. If it is unknown how a call ended, the most that it could cost is counted.

    Example: engram cost --since 7d
    """
    with workspace.store() as store:
        report = report_costs(store, workspace.settings, seconds)
    if as_json:
        print_json(report.to_json())
        return
    period = f"in the last {span(seconds)}"
    print_table(
        ["day", "model", "task", "project", "calls#", "tokens in#", "tokens out#", "dollars#"],
        [
            (
                row.day,
                row.model,
                row.task,
                row.project,
                f"{row.calls:,}",
                f"{row.input_tokens:,}",
                f"{row.output_tokens:,}",
                f"{row.dollars:.4f}",
            )
            for row in report.rows
        ],
        empty=f"Nothing was spent {period}.",
    )
    if report.rows:
        part = " of it" if seconds >= DAY_SECONDS else ""
        say_wrapped(
            f"${report.dollars:.4f} at list price {period}, ${report.day_dollars:.4f}{part} in the last 24 hours."
        )
        if any(row.task == "reconcile" for row in report.rows):
            say_wrapped("extract: writing memories. reconcile: comparing two that may contradict each other.")
    say_wrapped(cost_from_now(workspace.settings))


def cost_from_now(settings: Settings) -> str:
    """Return who writes the memories from now on, and the most that this can cost."""
    if settings.extractor == "off":
        return "No memories are made (extractor = off)."
    if settings.extractor not in MODEL_EXTRACTORS:
        return "Rules on this machine write the memories (extractor = local), which costs nothing."
    hour = settings.llm_dollars_per_hour
    caps = f"at most ${settings.llm_dollars_per_day:.2f} in 24 hours and ${hour:.2f} in an hour"
    from engram.extraction.model.claude_provider import who_pays

    plan = f" {who_pays()}"
    who = f"{_writer(settings.extractor)} writes the memories, {caps} (llm_dollars_per_day, llm_dollars_per_hour)."
    missing = find_missing(settings)
    lack = f" But nothing is spent now: {missing.detail}; `engram doctor` says what to do." if missing else ""
    return who[0].upper() + who[1:] + (plan if settings.extractor == "claude" else "") + lack
