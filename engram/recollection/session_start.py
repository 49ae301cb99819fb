"""Answer the start of a session with a briefing, or deliver a missed briefing with the next prompt."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeVar

from engram.models.engine.transaction import Store
from engram.models.projects.projects import ProjectRow
from engram.models.sessions import sessions
from engram.models.sessions.recent_work import calls_of_session
from engram.recollection.branch_state import Where, find_branch_state
from engram.recollection.hook_files import PendingBites
from engram.recollection.ledger import Ledger
from engram.recollection.prompts import AskedPrompt, SessionScope, Topics
from engram.recollection.render_bites import hook_output
from engram.recollection.session_briefing import build_briefing, recovered_key, recovered_line
from engram.settings import Settings
from engram.transcripts.git_files import read_branch

# -- Remember session starts and missed briefings, so that each session is briefed once.

K = TypeVar("K")
V = TypeVar("V")

#: Maximum number of sessions for which the start is remembered.
MAX_SESSIONS = 500
#: A session start repeated within this time, in milliseconds, comes from a hook that is registered twice.
SAME_START_MS = 10_000


class Starts:
    """Remembers the starts of sessions. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: (session, source) → when a hook asked about it, in milliseconds since 1970.
        self._claimed: OrderedDict[tuple[str, str], int] = OrderedDict()
        #: Session that missed its briefing → key of the prompt with which it is delivered; "" while it is still owed.
        self._missed: OrderedDict[str, str] = OrderedDict()
        #: Sessions that were resumed or forked before their transcript was read.
        self._replayed: OrderedDict[str, None] = OrderedDict()

    def claim(self, session_id: str, source: str, now_ms: int) -> bool:
        """Record a start; return False if another hook has just asked about the same start."""
        with self._lock:
            known_ms = self._claimed.get((session_id, source))
            if known_ms is not None and abs(now_ms - known_ms) < SAME_START_MS:
                return False
            self._claimed[session_id, source] = now_ms
            _limit(self._claimed)
            return True

    def note_missed(self, session_id: str) -> None:
        """Record that a hook exited before its briefing arrived. The answer to the next prompt delivers it."""
        with self._lock:
            for key in [key for key in self._claimed if key[0] == session_id]:
                del self._claimed[key]
            self._missed[session_id] = ""
            _limit(self._missed)

    def note_briefed(self, session_id: str) -> None:
        """Record that the session was briefed at a later start, so that it is no longer owed a briefing."""
        with self._lock:
            self._missed.pop(session_id, None)

    def take_missed(self, session_id: str, prompt_key: str) -> bool:
        """Return True if the answer to this prompt must deliver a missed briefing, which is then no longer owed."""
        with self._lock:
            if self._missed.get(session_id) != "":
                return False
            self._missed[session_id] = prompt_key
            return True

    def give_back(self, session_id: str, prompt_key: str) -> bool:
        """Record that the answer to this prompt arrived too late; return True if a briefing is owed again."""
        with self._lock:
            if self._missed.get(session_id) != prompt_key:
                return False
            self._missed[session_id] = ""
            return True

    def note_replay(self, session_id: str) -> None:
        """Record that the session was resumed or forked; its transcript shows from which session."""
        with self._lock:
            self._replayed[session_id] = None
            _limit(self._replayed)

    def is_replay(self, session_id: str) -> bool:
        """Return True for a session that was resumed or forked before its transcript was read."""
        with self._lock:
            return session_id in self._replayed

    def end_replay(self, session_id: str) -> None:
        with self._lock:
            self._replayed.pop(session_id, None)


def _limit(kept: OrderedDict[K, V]) -> None:
    while len(kept) > MAX_SESSIONS:
        kept.popitem(last=False)


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
        self._starts = Starts()

    def answer(self, session_id: str, cwd: str, source: str) -> bytes:
        """Return the output of the SessionStart hook; b"" if the session needs no briefing."""
        if source in REPLAYING_SOURCES:
            self._starts.note_replay(session_id)
            return b""
        if not self._starts.claim(session_id, source, self._store.now_ms()):
            return b""
        is_emptied = source in EMPTYING_SOURCES
        if is_emptied:
            self._forget_context(session_id)
            self._ledger.note_context_start(session_id)
        elif self._ledger.was_briefed(session_id):
            return b""
        self._starts.note_briefed(session_id)
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
        self._starts.note_missed(session_id)

    def missed_briefing(self, session_id: str, prompt: AskedPrompt) -> str:
        """Return the briefing that the session missed; "" if it missed none or another prompt has delivered it."""
        if not self._starts.take_missed(session_id, prompt.key):
            return ""
        self._pending.settle(session_id)
        text = self._briefing(session_id, prompt.cwd, is_late=True)
        if text:
            self._ledger.note_briefing(session_id, text, is_new_context=False)
        return text

    def give_back(self, session_id: str, prompt_key: str) -> None:
        """Record that the answer to a prompt arrived too late, so that a briefing in it is owed again."""
        if self._starts.give_back(session_id, prompt_key):
            self._ledger.take_back_briefing(session_id)

    def is_unread_replay(self, session_id: str) -> bool:
        """Return True while a resumed or forked session's context is unknown, because its transcript is unread."""
        if not self._starts.is_replay(session_id):
            return False
        is_read = sessions.find_session(self._store, session_id) or sessions.copied_history(self._store, session_id)
        if is_read or not self._settings.capture:
            self._starts.end_replay(session_id)
            return False
        return True

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

        One that ``is_late`` leaves out what the session was shown since its start.
        """
        if not self._scope.may_show(session_id, cwd):
            return ""
        project_id = self._scope.project_id(session_id, cwd)
        # A session that has worked already may itself have done what others left open, so only its branch is taken.
        has_worked = is_late and self._has_worked(session_id, project_id)
        where = (
            Where(branch=read_branch(cwd))
            if has_worked
            else find_branch_state(self._store, project_id, cwd, git_seconds=0, but_session=session_id)
        )
        shown = self._ledger.told_ids(session_id, self._ledger.of_session(session_id)) if is_late else set()
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
