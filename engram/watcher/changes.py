"""Which sources may have changed: those that an event named, and those that a sweep found different."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from engram.models.transcripts import Seen, is_changed
from engram.settings import Settings
from engram.transcripts import registry
from engram.transcripts.source import Place, Source


class Changes:
    """Collects sources to read. Only ``add_path`` may be called from other threads."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._paths: set[Path] = set()
        self._sources: dict[Place, Source] = {}
        #: Sources that must not be read: their stamp, and the pauses, at that time.
        self._passed_over: dict[Place, tuple[str, frozenset[str]]] = {}

    def __bool__(self) -> bool:
        """True if there is something to read."""
        return bool(self._paths or self._sources)

    def add_path(self, path: Path) -> None:
        """Add a file that an event named."""
        self._paths.add(path)

    def add_source(self, source: Source) -> None:
        """Add a source."""
        self._sources[source.place] = source

    def take(self, settings: Settings, load_seen: Callable[[], Mapping[Place, Seen]]) -> Source | Path | None:
        """Take out the next source to read; a path if it holds no source; None if there is nothing.

        A file that is one session is read whenever an event names it. Of a file that holds several, only the sessions
        with another stamp than when they were read.
        """
        while self._paths and not self._sources:
            path = self._paths.pop()
            sources = registry.sources_at(path, settings)
            if not sources:
                return path
            seen = load_seen() if any(source.part for source in sources) else {}
            for source in sources:
                if not source.part or is_changed(source, seen.get(source.place)):
                    self.add_source(source)
        if not self._sources:
            return None
        return self._sources.pop(next(iter(self._sources)))

    def pass_over(self, source: Source, paused: frozenset[str]) -> None:
        """Leave a source alone until it changes or a pause ends."""
        self._passed_over[source.place] = (source.stamp, paused)

    def compare(self, sources: Iterable[Source], seen: Mapping[Place, Seen], paused: frozenset[str]) -> int:
        """Add every source that is not as it was when it was read; returns how many there are."""
        count = 0
        for source in sources:
            if is_changed(source, seen.get(source.place)) and self._passed_over.get(source.place) != (
                source.stamp,
                paused,
            ):
                self.add_source(source)
                count += 1
        return count
