"""The whole plan of an installation: every step in order, and what an earlier installation did and must stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engram.earlier.find import EarlierEngram
from engram.earlier.plan import STEP_NAME, plan_retirement
from engram.install.changes import Step
from engram.install.choices import CODEX, GEMINI, OPENCODE, Choices
from engram.install.claude_code import ClaudeCode, plan_connection, replaced_names
from engram.install.codex import plan_codex
from engram.install.journal import Journal
from engram.install.json_agents import opencode_file, opencode_folder, plan_gemini, plan_opencode
from engram.install.kept_steps import with_former
from engram.paths import is_default_home
from engram.services.plan import plan_service
from engram.settings import Settings


def plan_installation(
    settings: Settings, choices: Choices, *, claude: ClaudeCode, earlier: EarlierEngram, journal: Journal | None
) -> list[Step]:
    """Return the steps: stop the earlier Engram, connect the agents, then start the service.

    Raises:
        InstallError: a file that must be changed can't be.
    """
    retirement = plan_retirement(earlier, settings) if earlier.is_active or earlier.databases else Step(STEP_NAME, "")
    former = journal.ledger.step(STEP_NAME) if journal is not None else None
    steps = [with_former(retirement, former)]
    for folder in settings.all_claude_folders:
        # The first folder's steps keep the names by which earlier installations know them.
        further = "" if folder == settings.claude_folder else f" {folder}"
        of_folder = replace(settings, claude_folder=folder)
        for step in plan_connection(of_folder, choices, claude, journal):
            steps.append(replace(step, name=f"{step.name}{further}"))
    steps += _plan_agents(settings, choices, journal)
    if choices.service:
        steps.append(plan_service(settings))
    return [step for step in steps if not step.is_empty or step.notes]


def _plan_agents(settings: Settings, choices: Choices, journal: Journal | None) -> list[Step]:
    """The steps of other agents."""
    home = None if is_default_home(settings.places) else settings.places
    planners: tuple[tuple[str, Callable[..., Step], Path, str], ...] = (
        (CODEX, plan_codex, settings.codex_folder, "config.toml"),
        (GEMINI, plan_gemini, settings.gemini_folder, "settings.json"),
        (OPENCODE, plan_opencode, opencode_folder(), opencode_file(opencode_folder()).name),
    )
    return [
        plan(folder, home, taken=replaced_names(journal, folder / file))
        for agent, plan, folder, file in planners
        if agent in choices.agents
    ]
