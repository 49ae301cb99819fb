"""Selects the bites that a session gets for a prompt or a tool call."""

from __future__ import annotations

from dataclasses import dataclass

from engram.models.injections import AT_START
from engram.recollection.choose import Bite, InjectionRequest, Thresholds
from engram.recollection.ledger import Ledger
from engram.recollection.prompts import AskedPrompt, belongs_to
from engram.recollection.recall import bites_for, bites_for_tool_call
from engram.recollection.render import shown_words
from engram.recollection.scope import SessionScope
from engram.recollection.searching import Searcher
from engram.recollection.tool_context import ToolCall
from engram.settings import Settings
from engram.transcripts.git_head import read_branch


@dataclass(frozen=True, slots=True)
class BiteSelector:
    """Joins what a session was shown to the choice of bites. Any thread may call it."""

    searcher: Searcher
    settings: Settings
    ledger: Ledger
    scope: SessionScope
    thresholds: Thresholds

    def select(self, session_id: str, prompt: AskedPrompt, call: ToolCall | None = None) -> list[Bite]:
        """Choose bites for a prompt or one of its tool calls, as many as the prompt has left.

        What waits for the session counts as not shown.
        """
        injections = self.ledger.of_session(session_id)
        shown = [injection for injection in injections if injection.state == "shown"]
        shown_ids = {injection.episode_id for injection in shown}
        given_ids = {
            injection.episode_id
            for injection in shown
            if injection.channel != AT_START and belongs_to(prompt, injection.prompt_key, injection.at_ms)
        }
        remaining = self.settings.bites - len(given_ids)
        if remaining <= 0 or not self.scope.may_show(session_id, prompt.cwd):
            return []
        pending_ids = {injection.episode_id for injection in injections if injection.state == "pending"} - shown_ids
        told_ids = self.ledger.told(session_id) - pending_ids
        request = InjectionRequest(
            text=call.text if call else prompt.text,
            session_id=session_id,
            project_id=self.scope.project_id(session_id, prompt.cwd),
            shown=told_ids | given_ids | self.ledger.in_context(session_id),
            bites=remaining,
            now_ms=self.ledger.now_ms(),
            branch=read_branch(prompt.cwd),
        )
        if call:
            bites = bites_for_tool_call(self.searcher, request, call)
        else:
            bites = bites_for(self.searcher, request, self.thresholds)
        return [bite for bite, _ in shown_words(bites, self.settings.bite_tokens)]
