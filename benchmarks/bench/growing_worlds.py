"""Memories with N sessions, projects, turns, memories, rules, tasks or prompts, and what is asked of each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from bench.growing_lab import Lab, words
from bench.growing_texts import each, rule, turn
from engram.enums import Kind, Scope, Source
from engram.models.rescue.backup import make_backup
from engram_mcp.access import access_for
from engram_mcp.catalog import TOOLS
from tests.page.serving import serve_page

WORLDS: Mapping[str, Callable[[Lab, int], object]] = {
    "sessions": lambda lab, n: lab.sessions(n, turn).read().drain(),
    "projects": lambda lab, n: lab.sessions(n, turn, projects=n).read().drain(),
    "turns of a session": lambda lab, n: (each(turn)(lab.session(), n), lab.read().drain()),
    "memories": lambda lab, n: (turn(lab.session(), 1), lab.read(), lab.memories(6 * n)),
    "rules": lambda lab, n: (
        turn(lab.session(), 1),
        lab.read(),
        lab.memories(3 * n, rule, kind=Kind.PREFERENCE, scope=Scope.GLOBAL, source=Source.MANUAL, is_pinned=True),
    ),
    "due sessions": lambda lab, n: lab.sessions(n, turn).read(),
    "prompts": lambda lab, n: (
        each(turn)(lab.session(), 5),
        lab.read().drain(),
        [lab.hook("UserPromptSubmit", words(k % 5)) for k in range(3 * n)],
    ),
}
#: What is asked of a memory on the command line, and which views of the page are opened.
COMMANDS = (
    "sessions; timeline; timeline --json; where; report; report --days 900; doctor; status; status --json; review; "
    "search because; recall because; why; why SESSION; why ID; why --prompt because; expand ID --why; "
    "sessions SESSION; fix error; how make; blame a.py; projects; tasks; propose; cost; consolidate --dry-run; "
    "forget ID --dry-run; restore --list; export --output FOLDER/out; "
    "export --format markdown --output FOLDER/markdown"
)
VIEWS = (
    "; m; m?q=because; m/ID; m/ID/forget; s; s/SESSION; projects; projects/1; decide; decide/files; gone; "
    "gone/purge; health; health/checks; tasks; costs; settings; briefing"
)
#: What changes a memory, and is done once, after all questions.
CHANGES = (
    "purge --superseded 1 --archived 1 --yes; forget ID --yes; forget SESSION --also-source --yes; "
    "projects forget boats --yes"
)


def asked_of(lab: Lab) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what is asked of a memory: commands, views of the page, tools, hooks; at the end, what changes it."""
    of_boats = "FROM episode e JOIN project p ON p.id = e.project_id WHERE p.name = 'boats' ORDER BY e.id LIMIT 1"
    episode_id = lab.store.value(f"SELECT episode_id {of_boats}")
    session_id = lab.store.value("SELECT session_id FROM session ORDER BY id LIMIT 1")

    def known(questions: str) -> Iterator[tuple[str, str]]:
        """Yield questions as they are printed and as they are asked; leave out those about what isn't there."""
        for question in questions.split("; "):
            if episode_id or "ID" not in question.replace("/", " ").split():
                filled = question.replace("SESSION", session_id).replace("ID", str(episode_id))
                yield question, filled.replace("FOLDER", str(lab.folder))

    for question, arguments in known(COMMANDS):
        yield f"engram {question}", partial(lab.run, *arguments.split())
    yield "backup", partial(make_backup, lab.store, lab.settings.places.backups)
    with serve_page(lab.settings) as page:
        for question, path in known(VIEWS):
            yield f"page /{question}", partial(page.ask, f"{page.access.root}/{path}")
    access = access_for({**os.environ, "CLAUDE_PROJECT_DIR": str(lab.project)})
    given = {"recall": {"query": "because"}, "search": {"query": "because"}, "expand": {"id": episode_id}}
    for name in ("recall", "search", "expand", "status", "timeline", "context"):
        if episode_id or name != "expand":
            yield f"tool {name}", partial(TOOLS[f"memory_{name}"].work, access, **given.get(name, {}))
    start = {"hook_event_name": "SessionStart", "session_id": "new", "cwd": str(lab.project), "source": "startup"}
    yield "hook SessionStart", lambda: lab.runtime.recollection.answer_hook(start)
    yield "hook UserPromptSubmit", partial(lab.hook, "UserPromptSubmit", words(4))
    for question, arguments in known(CHANGES):
        yield f"engram {question}", partial(lab.run, *arguments.split())
