"""Answer the start of a session with a briefing, or deliver a missed briefing with the next prompt."""

from __future__ import annotations

import threading
from collections import OrderedDict

from engram.models.engine.transaction import Store
from engram.models.projects.projects import ProjectRow
from engram.models.sessions import sessions
from engram.models.sessions.recent_work import calls_of_session
from engram.recollection.branch_state import Where, find_branch_state
from engram.recollection.hook_files import PendingBites
from engram.recollection.ledger import Ledger
from engram.recollection.prompts import AskedPrompt, SessionScope, Topics, remember
from engram.recollection.render_bites import hook_output
from engram.recollection.session_briefing import build_briefing, recovered_key, recovered_line
from engram.settings import Settings
from engram.transcripts.git_files import read_branch

#: A session start repeated within this time, in milliseconds, comes from a hook that is registered twice.
SAME_START_MS = 10_000
#: Start sources for which Claude Code replays the context, including injected text.
REPLAYING_SOURCES = ("resume", "fork")
#: Start sources for which the context was emptied.
EMPTYING_SOURCES = ("clear", "compact")


def preview_briefing(store: Store, settings: Settings, project: ProjectRow) -> str:
    """Return the briefing that a new session in a project's folder would get now. Record nothing."""
    where = find_branch_state(store, project.id, project.root, git_seconds=0)
    return build_briefing(store, settings, project_id=project.id, where=where, is_start=True)


class SessionStarts:
    """Decides and records the answers to session starts. Thread-safe."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        ledger: Ledger,
        pending: PendingBites,
        topics: Topics,
        scope: SessionScope,
    ) -> None:
        self._store = store
        self._settings = settings
        self._ledger = ledger
        self._pending = pending
        self._topics = topics
        self._scope = scope
        self._lock = threading.Lock()
        #: (session, source) → when a hook asked about it, in milliseconds since 1970.
        self._claimed: OrderedDict[tuple[str, str], int] = OrderedDict()
        #: Session that missed its briefing → key of the prompt with which it is delivered; "" while it is still owed.
        self._missed: OrderedDict[str, str] = OrderedDict()
        #: Sessions that were resumed or forked before their transcript was read.
        self._replayed: OrderedDict[str, None] = OrderedDict()

    def answer(self, session_id: str, cwd: str, source: str) -> bytes:
        """Return the output of the SessionStart hook; b"" if the session needs no briefing."""
        if source in REPLAYING_SOURCES:
            with self._lock:
                remember(self._replayed, session_id, None)
            return b""
        if not self._claim(session_id, source):
            return b""
        is_emptied = source in EMPTYING_SOURCES
        if is_emptied:
            self._forget_context(session_id)
            self._ledger.note_context_start(session_id)
        elif self._ledger.was_briefed(session_id):
            return b""
        with self._lock:
            self._missed.pop(session_id, None)
        text = self._briefing(session_id, cwd)
        if text or is_emptied:
            self._ledger.note_briefing(session_id, text, is_new_context=is_emptied)
        return hook_output("SessionStart", text)

    def note_missed(self, session_id: str, source: str) -> None:
        """Record that the hook exited before its briefing arrived. The answer to the next prompt delivers it."""
        if source in REPLAYING_SOURCES:
            return
        if source in EMPTYING_SOURCES:
            # The transcript shows when the context was emptied; the payload has no time and may be old.
            self._forget_context(session_id)
            self._ledger.note_briefing(session_id, "", is_new_context=True)
        with self._lock:
            for key in [key for key in self._claimed if key[0] == session_id]:
                del self._claimed[key]
            remember(self._missed, session_id, "")

    def missed_briefing(self, session_id: str, prompt: AskedPrompt) -> str:
        """Return the briefing that the session missed; "" if it missed none or another prompt has delivered it."""
        if not self._change_missed(session_id, "", prompt.key):
            return ""
        self._pending.settle(session_id)
        text = self._briefing(session_id, prompt.cwd, is_late=True)
        if text:
            self._ledger.note_briefing(session_id, text, is_new_context=False)
        return text

    def give_back(self, session_id: str, prompt_key: str) -> None:
        """Record that the answer to a prompt arrived too late, so that a briefing in it is owed again."""
        if self._change_missed(session_id, prompt_key, ""):
            self._ledger.take_back_briefing(session_id)

    def is_unread_replay(self, session_id: str) -> bool:
        """Return True while a resumed or forked session's context is unknown, because its transcript is unread."""
        with self._lock:
            if session_id not in self._replayed:
                return False
        is_read = sessions.find_session(self._store, session_id) or sessions.copied_history(self._store, session_id)
        if is_read or not self._settings.capture:
            with self._lock:
                self._replayed.pop(session_id, None)
            return False
        return True

    def _claim(self, session_id: str, source: str) -> bool:
        """Record a start; return False if another hook has just asked about the same start."""
        now_ms = self._store.now_ms()
        with self._lock:
            known_ms = self._claimed.get((session_id, source))
            if known_ms is not None and abs(now_ms - known_ms) < SAME_START_MS:
                return False
            remember(self._claimed, (session_id, source), now_ms)
            return True

    def _change_missed(self, session_id: str, old: str, new: str) -> bool:
        """Set the prompt that delivers a missed briefing, if it was ``old``; return whether it was."""
        with self._lock:
            was_old = self._missed.get(session_id) == old
            if was_old:
                self._missed[session_id] = new
            return was_old

    def _has_worked(self, session_id: str, project_id: int | None) -> bool:
        session = sessions.find_session(self._store, session_id)
        if session is None or project_id is None:
            return False
        return any(calls_of_session(self._store, session.id, project_id))

    def _forget_context(self, session_id: str) -> None:
        """Withdraw pending bites and forget the topic, because the session's context was emptied."""
        self._pending.withdraw(session_id)
        self._topics.forget(session_id)

    def _briefing(self, session_id: str, cwd: str, *, is_late: bool = False) -> str:
        """Return the briefing of a session; "" if there is none.

        Args:
            is_late: leave out everything that the session has been shown since its start.
        """
        if not self._scope.may_show(session_id, cwd):
            return ""
        project_id = self._scope.project_id(session_id, cwd)
        # A session that has already called tools may itself have finished what others left open, so only its branch
        # is used.
        has_worked = is_late and self._has_worked(session_id, project_id)
        where = (
            Where(branch=read_branch(cwd))
            if has_worked
            else find_branch_state(self._store, project_id, cwd, git_seconds=0, but_session=session_id)
        )
        shown = self._ledger.delivered_ids(session_id, self._ledger.of_session(session_id)) if is_late else set()
        recovered = recovered_line(self._store, project_id)
        text = build_briefing(
            self._store,
            self._settings,
            project_id=project_id,
            where=where,
            in_context=lambda: self._ledger.in_context(session_id).union(shown),
            is_start=True,
            but_session=session_id,
        )
        if project_id is not None and recovered and recovered[0] in text:
            self._ledger.note_one_time_notice(session_id, recovered_key(project_id))
        return text
