"""Determine the project of a prompt, whether it is worth a search, and whether it was seen before."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from engram.embedding.embedder import Embedder
from engram.enums import Verdict
from engram.errors import EmbeddingError
from engram.ingest.session_project import places_of, scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.projects import projects
from engram.models.sessions import sessions
from engram.models.sessions.prompt_outcomes import Outcome
from engram.models.work import work
from engram.settings import Settings
from engram.system.lazy_regex import lazy_regex
from engram.text.words import MAX_QUERY_CHARS, overlap, stems, topic_words
from engram.transcripts.json_values import PICTURE
from engram.transcripts.message_elements import is_interruption, typed_words
from engram.transcripts.project import is_excluded
from engram.vaults import is_excluded_by_vault

if TYPE_CHECKING:
    from engram.embedding.embedder import Matrix


# -- The scope of a session.


@dataclass(frozen=True, slots=True)
class SessionScope:
    """Determines a session's project, and whether it may be shown anything, from memory.db and the settings."""

    store: Store
    settings: Settings

    def project_id(self, session_id: str, cwd: str) -> int | None:
        """Return the row id of the session's project; None for a root folder or an unknown folder."""
        session = sessions.find_session(self.store, session_id)
        if session is not None and session.is_settled:
            return self._project_at(session, cwd)
        project = scope_of_folder(self.store, self.settings, cwd).project
        return None if project is None else project.id

    def _project_at(self, session: sessions.SessionRow, cwd: str) -> int | None:
        """Return the row id of the project of a known session's turns in ``cwd``."""
        if cwd in ("", session.cwd):
            return session.project_id
        place = places_of(self.store, session, None, self.settings).project_at(cwd)
        if place is None:
            return session.project_id
        known = projects.find_or_await(self.store, place.identity, place.remote)
        return None if known is None or is_excluded_by_vault(self.settings.places, place.identity, cwd) else known.id

    def may_show(self, session_id: str, cwd: str) -> bool:
        """Return False for a session whose folder is excluded or whose project is paused."""
        return self.refusal(session_id, cwd) is None

    def refusal(self, session_id: str, cwd: str, project_id: int | None = None) -> Verdict | None:
        """Return EXCLUDED or PAUSED if a session must not be shown anything because of its folder or project; otherwise
        None.
        """
        session = sessions.find_session(self.store, session_id)
        folders = {cwd, session.cwd if session else ""} - {""}
        if any(is_excluded(folder, self.settings.exclude) for folder in folders):
            return Verdict.EXCLUDED
        if not work.current_pauses(self.store):
            return None
        project_id = self.project_id(session_id, cwd) if project_id is None else project_id
        project = None if project_id is None else projects.project_by_id(self.store, project_id)
        is_paused = work.is_paused(self.store, "" if project is None else project.identity)
        return Verdict.PAUSED if is_paused else None

    def complete(self, outcome: Outcome, cwd: str) -> Outcome:
        """Return an outcome with its project, or with the reason why the session must not be shown anything.

        Neither is looked up while a hook waits for an answer, unless the answer needs a search.
        """
        refusal = self.refusal(outcome.session_id, cwd, outcome.project_id)
        project_id = outcome.project_id
        if project_id is None:
            project_id = self.project_id(outcome.session_id, cwd)
        return replace(outcome, verdict=refusal or outcome.verdict, project_id=project_id)


# -- Recognise a prompt that arrives both through a hook and in the transcript, so that it is answered only once.

#: Maximum number of sessions for which the latest prompt is remembered.
MAX_SESSIONS = 500
#: A prompt in the transcript within this time of a hook's prompt is the same prompt, in milliseconds.
SAME_MOMENT_MS = 10_000

K = TypeVar("K")
T = TypeVar("T")

_PROMPT_ID = lazy_regex(r"[0-9A-Za-z_-]{1,128}")


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    #: The prompt's id, or the hash of its text if it has no id.
    key: str
    #: The hash of its text.
    digest: str
    #: The redacted text that is searched for; "" for none.
    text: str
    at_ms: int
    cwd: str = ""
    #: Row id of the project to ask in; None to derive it from the session and folder.
    project_id: int | None = None


class Claim(StrEnum):
    """Whether a prompt was seen before a hook asked about it."""

    NEW = "new"
    #: It was read from the transcript; no hook has asked about it.
    READ_BEFORE = "read before"
    #: Another hook has asked about it and will get the answer.
    ASKED_BEFORE = "asked before"


def digest_of(text: str) -> str:
    """Return a hash of a prompt's words, ignoring white space."""
    return "h-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:24]


def key_of(payload: Mapping[str, object], text: str) -> str:
    """Return the key of the prompt in a payload: its id, or the hash of its text if it has no id."""
    prompt_id = payload.get("prompt_id")
    return prompt_id if isinstance(prompt_id, str) and _PROMPT_ID.fullmatch(prompt_id) else digest_of(text)


def belongs_to(prompt: AskedPrompt, key: str, at_ms: int) -> bool:
    """Return True if a bite stored under ``key`` at ``at_ms`` belongs to this prompt.

    A prompt from a transcript has no id, so everything shown since it was sent belongs to it.
    """
    is_written = prompt.key == prompt.digest
    return key in (prompt.key, prompt.digest) or (is_written and at_ms >= prompt.at_ms - SAME_MOMENT_MS)


class LatestPrompts:
    """The latest prompt of each active session. Thread-safe.

    Each prompt is answered once, even if a hook is registered twice and asks twice at the same time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: OrderedDict[str, AskedPrompt] = OrderedDict()
        self._calls: OrderedDict[str, str] = OrderedDict()
        #: Session → digest of the latest tool call for which nothing was shown, although a memory mentions its subject.
        self._silences: OrderedDict[str, str] = OrderedDict()
        #: Session → key of the latest prompt that a hook asked about.
        self._asked: OrderedDict[str, str] = OrderedDict()

    def find(self, session_id: str) -> AskedPrompt | None:
        """Return the latest prompt of a session; None if this process has seen none."""
        with self._lock:
            return self._latest.get(session_id)

    def claim(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Record a prompt that a hook asks about, unless another hook has already asked about it."""
        with self._lock:
            claim = self._check(session_id, prompt)
            if claim is not Claim.ASKED_BEFORE:
                remember(self._asked, session_id, prompt.key)
                remember(self._latest, session_id, prompt)
            return claim

    def check(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Return what ``claim`` would return, without recording anything."""
        with self._lock:
            return self._check(session_id, prompt)

    def _check(self, session_id: str, prompt: AskedPrompt) -> Claim:
        if self._asked.get(session_id) == prompt.key:
            return Claim.ASKED_BEFORE
        known = self._latest.get(session_id)
        return Claim.READ_BEFORE if known is not None and known.key in (prompt.key, prompt.digest) else Claim.NEW

    def claim_written(self, session_id: str, prompt: AskedPrompt) -> bool:
        """Record a prompt from a transcript; return False if it is already known."""
        with self._lock:
            known = self._latest.get(session_id)
            if known is not None and (known.digest == prompt.digest or known.at_ms >= prompt.at_ms - SAME_MOMENT_MS):
                return False
            remember(self._latest, session_id, prompt)
            return True

    def is_new_call(self, session_id: str, call: str) -> bool:
        """Return True the first time a tool call is seen; ``call`` is its turn and its number within the turn."""
        return self._is_new(self._calls, session_id, call)

    def is_new_silence(self, session_id: str, digest: str) -> bool:
        """Return True the first time that nothing is shown for the tool call with this digest."""
        return self._is_new(self._silences, session_id, digest)

    def _is_new(self, kept: OrderedDict[str, str], session_id: str, value: str) -> bool:
        with self._lock:
            if kept.get(session_id) == value:
                return False
            remember(kept, session_id, value)
            return True


def remember(kept: OrderedDict[K, T], key: K, value: T, most: int = MAX_SESSIONS) -> None:
    """Set a value, and drop the least recently set ones beyond the limit."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


# -- Decide whether a prompt is worth a search. Pure.

#: Minimum number of topic words of a prompt worth a search.
MIN_WORDS = 2

_NAME = lazy_regex(r"[a-z][A-Z]|\w[._/:#-]\w|\w_\w|\d{2,}")
_COMMAND = lazy_regex(r"/[\w:.-]+\s*")


@dataclass(frozen=True, slots=True)
class FilteredPrompt:
    #: "" if there is nothing to search for.
    text: str
    #: Why there is nothing to search for; None if there is.
    verdict: Verdict | None = None


def filter_prompt(prompt: object) -> FilteredPrompt:
    """Return the part of a prompt to search for, or why there is none.

    There is nothing to search for in text that a program wrote (notifications, command output), in bare commands,
    agreement, thanks and requests to continue, and in prompts with fewer than two topic words.
    """
    typed = typed_words(prompt) if isinstance(prompt, str) else ""
    if not typed or typed == PICTURE or is_interruption(typed):
        is_command = isinstance(prompt, str) and _COMMAND.match(prompt.strip())
        return FilteredPrompt("", Verdict.TOO_SHORT if is_command else Verdict.NOT_TYPED)
    command = _COMMAND.match(typed)
    text = typed[command.end() :] if command else typed
    text = text[:MAX_QUERY_CHARS].strip()
    return FilteredPrompt(text) if is_telling(text) else FilteredPrompt("", Verdict.TOO_SHORT)


def is_telling(text: str) -> bool:
    """Return True if the text mentions a topic."""
    words = topic_words(text)
    if len(words) >= MIN_WORDS:
        return True
    return any(_NAME.search(word) or (not word.isascii() and len(word) > 3) for word in words)


# -- Recognise a prompt on the same topic as the last one that was answered with bites; it gets no new bites.

#: Minimum share of common words at which two prompts are taken to have the same topic.
SAME_WORDS = 0.8


@dataclass(slots=True)
class _Topic:
    text: str
    words: frozenset[str]
    #: Computed at the first comparison.
    vector: Matrix | None = None


class Topics:
    """Remembers, for each session, the topic of the last prompt that was answered with bites. Thread-safe."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        """Create an empty record; without an embedder, prompts are compared only by their common words."""
        self._embedder = embedder
        self._lock = threading.Lock()
        self._topics: OrderedDict[str, _Topic] = OrderedDict()

    def is_same(self, session_id: str, text: str) -> bool:
        """Return True if the session's last prompt with bites was on the same topic."""
        with self._lock:
            last = self._topics.get(session_id)
        if last is None:
            return False
        if len(last.words) > 3 and overlap(stems(topic_words(text)), last.words) >= SAME_WORDS:
            return True
        if self._embedder is None:
            return False
        try:
            if last.vector is None:
                last.vector = self._embedder.embed_query(last.text)
            return float(self._embedder.embed_query(text) @ last.vector) > self._embedder.thresholds.same_topic
        except EmbeddingError:
            return False

    def note(self, session_id: str, text: str) -> None:
        """Record that a prompt was answered with bites."""
        with self._lock:
            remember(self._topics, session_id, _Topic(text, stems(topic_words(text))))

    def forget(self, session_id: str) -> None:
        with self._lock:
            self._topics.pop(session_id, None)
