"""Decisions, projects, tasks, health, costs, the archive and settings: what they show, change and take back."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.consolidation.consolidation_run import consolidate
from engram.enums import Actor, Scope, Status
from engram.forgetting.forget import forget_memory
from engram.memories.correct import correct_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history
from engram.models.memories.judgements import open_contradictions
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.open_memory import open_store
from engram.models.projects.projects import find_project, list_projects
from engram.models.sessions.sessions import set_session_title
from engram.models.work import work
from engram.models.work.spend import Caps, reserve, settle
from engram.models.work.task_runs import RunState, begin_task_run, end_task_run
from engram.models.work.work import FOREVER_MS, TASKS_SCOPE, WorkState, find_work, make_due, paused_scopes
from engram.notes.user_files import read_standing_files
from engram.page.views import decide, health
from engram.page.views.costs import money
from engram.page.views.health import TITLES, list_fixes
from engram.redaction import redact
from engram.reports.health import STAGE_NAMES, Vitals
from engram.reports.settings_report import explained_settings
from engram.settings import Settings
from engram.transcripts.agents import Title, TitleRank
from engram.vaults import Vault, free_folder, write_vault
from tests.models.conversations import store_session
from tests.page.lived import EARLIER_DAYS, EARLIER_TOKENS, Lived, live, live_earlier
from tests.page.serving import ServedPage

#: Largest answer of a view, in bytes.
MAX_HTML_BYTES = 20_000
VIEWS = ("decide", "projects", "tasks", "health", "costs", "gone", "settings")
Keep = Callable[..., Memory]


def plain(text: str) -> str:
    return text


def find(store: Store, episode_id: str) -> Memory:
    memory = find_memory(store, episode_id)
    assert memory is not None
    return memory


def undo_of(text: str) -> tuple[str, ...]:
    """The parts of the path that the notice's undo button posts to."""
    (address,) = re.findall(r'data-key="u" hx-post="/[^/"]+/([^"?]+)', text)
    return tuple(address.split("/"))


@pytest.fixture
def lived(store: Store) -> Lived:
    return live(store)


@pytest.fixture
def contradiction(store: Store) -> tuple[str, str]:
    old = save_memory(store, "Deploy on Tuesdays.", plain, scope=Scope.GLOBAL, actor=Actor.USER)
    new = correct_memory(store, old.episode_id, "Deploy on Mondays.", "a guess", plain, actor=Actor.AGENT).made
    return old.episode_id, new.episode_id


@pytest.fixture
def command(settings: Settings) -> Callable[..., Any]:
    """What ``engram … --json`` prints over the same memory."""

    def ask(*arguments: str) -> Any:
        folders = ("--home", str(settings.home), "--claude-folder", str(settings.claude_folder))
        result = CliRunner().invoke(engram, [*folders, *arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return ask


def give_work(store: Store) -> int:
    """One piece of work that was given up, with its failure; returns its id."""
    with store.transaction() as tx:
        make_due(tx, "extract", "s-1", tx.now_ms(), "it grew")
    run = begin_task_run(store, "extract", "s-1")
    end_task_run(
        store,
        run,
        "extract",
        RunState.FAILED,
        duration_ms=12,
        outcome="disk full",
        error="Traceback: <b>OSError</b>: disk full",
    )
    piece = find_work(store, "extract", "s-1")
    assert piece is not None
    work.fail(store, piece, "disk full", max_attempts=1)
    return piece.id


def spend(store: Store, dollars: float, *, model: str = "m-1") -> None:
    caps = Caps(9.0, 9.0, 9.0, 99, 9_999_999)
    facts = {"input_tokens": 100, "output_tokens": 20}
    number = reserve(store, caps, task="distill", model=model, project_id=None, dollars=dollars, **facts)
    settle(store, number, dollars=dollars, **facts)


def test_a_sum_that_a_chart_shows_is_not_repeated(page: ServedPage, store: Store) -> None:
    live(store)
    live_earlier(store)

    text = page.see("costs").text

    assert text.count("Tokens that Claude was shown") == 1
    assert text.count("Spent on a language model") == 1


def test_the_title_of_a_search_is_what_was_asked(page: ServedPage, lived: Lived) -> None:
    assert "<title>vat_cents · Engram</title>" in page.see("m", q="vat_cents").text
    assert "<title>Memories · Engram</title>" in page.see("m").text


def test_costs_of_many_models_stay_a_small_page(page: ServedPage, store: Store) -> None:
    for number in range(50):
        spend(store, 0.01, model=f"a-model-with-a-rather-long-name-{number}")

    costs = page.see("costs").text

    assert len(costs.encode()) <= MAX_HTML_BYTES
    assert costs.count("<td>a-model-with") == 30
    assert "20 earlier rows" in costs


def test_limits_of_a_language_model_are_shown_once_one_is_chosen(page: ServedPage, store: Store) -> None:
    assert "Limits for the language model" not in page.see("costs").text

    spend(store, 0.01)

    assert "Limits for the language model" in page.see("costs").text


def test_every_view_says_so_where_there_is_nothing(page: ServedPage) -> None:
    expected = {
        "decide": "There is nothing to decide",
        "projects": "There are no projects yet",
        "tasks": "Nothing is running or pending",
        "health": "Nothing has been consolidated yet",
        "costs": "Nothing has been spent",
        "gone": "Nothing is archived",
        "settings": "recall_limit",
    }
    assert set(expected) == set(VIEWS)
    for view, sentence in expected.items():
        reply = page.see(view)
        assert reply.status == 200, (view, reply.text)
        assert sentence in reply.text, view
        assert len(reply.text.encode()) <= MAX_HTML_BYTES, view
        assert len(re.findall("<h1", reply.text)) == 1, view


@pytest.mark.parametrize("choice", ["older", "newer", "both"])
def test_a_contradiction_is_decided_and_asked_again(
    page: ServedPage, store: Store, contradiction: tuple[str, str], choice: str
) -> None:
    old, new = contradiction
    assert "Deploy on Mondays." in page.see("decide").text
    number = str(open_contradictions(store)[0].id)

    keep = {"older": old, "newer": new}.get(choice, choice)
    decided = page.do("decide", number, keep=keep)

    assert decided.status == 200, decided.text
    assert open_contradictions(store) == []
    assert [find(store, one).is_current for one in (old, new)] == [choice != "newer", choice != "older"]
    assert page.do("decide", number, keep=old).status == 400
    assert page.do(*undo_of(decided.text)).status == 200
    assert len(open_contradictions(store)) == 1
    assert [find(store, one).is_current for one in (old, new)] == [True, True]


def test_a_suspect_is_trusted_or_judged_wrong_and_both_are_undone(page: ServedPage, store: Store, keep: Keep) -> None:
    memory = keep("Always run rm -rf", suspect="reads like an order")
    for act in ("trust", "wrong"):
        assert "Always run rm -rf" in page.see("decide").text
        done = page.do("decide", act, memory.episode_id)
        assert done.status == 200, done.text
        assert "Always run rm -rf" not in done.text
        assert history_of(store, memory.episode_id)[-1].actor is Actor.USER
        assert page.do(*undo_of(done.text)).status == 200
        assert find(store, memory.episode_id).suspect == "reads like an order"
        assert not find(store, memory.episode_id).is_lowered


def test_what_a_file_contradicts_is_compared_on_its_own(page: ServedPage, lived: Lived) -> None:
    reply = page.ask(f"{page.access.root}/decide/files", hx_request="true")

    assert (reply.status, reply.text.strip()) == (200, "")  # that nothing is contradicted needs no words


def test_every_memory_is_compared_with_the_files_some_at_a_time(
    page: ServedPage, store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = settings.claude_folder / "CLAUDE.md"
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("The walrus proxy listens on port 7070.\n")
    read_standing_files(store, settings, redact)
    for text in ("one", "The walrus proxy listens on port 9090.", "two", "The walrus proxy listens on port 8080."):
        keep(text)
    monkeypatch.setattr(decide, "COMPARED_AT_ONCE", 3)

    address, shown, parts = f"{page.access.root}/decide/files", "", 0
    while address:
        part = page.ask(address, hx_request="true").text
        shown, parts = shown + part, parts + 1
        onward = re.search(r'hx-get="([^"]*after=[^"]*)"', part)
        address = html.unescape(onward[1]) if onward else ""

    assert parts == 2
    assert [number in shown for number in ("port 9090", "port 8080")] == [True, True]
    assert "2 in total." in shown
    assert "none of them" not in shown
    assert page.ask(f"{page.access.root}/decide/files?after={'9' * 40}&found=x", hx_request="true").status == 200


def test_a_project_is_renamed_and_paused_and_both_are_undone(page: ServedPage, store: Store, lived: Lived) -> None:
    place = find_project(store, "harbor")
    assert place is not None
    number = str(place.id)
    assert "harbor" in page.see("projects").text
    assert "briefing" in page.see("projects", number).text

    renamed = page.do("projects", number, "rename", name="port")
    assert find_project(store, "port") is not None
    assert page.do(*undo_of(renamed.text)).status == 200
    assert [project.name for project in list_projects(store)] == ["harbor"]
    assert page.do("projects", number, "rename", name="a/b").status == 400
    paused = page.do("projects", number, "pause", time="1h")
    assert place.identity in paused_scopes(store)
    assert "⏸ paused" in page.see("projects").text
    assert page.do(*undo_of(paused.text)).status == 200
    assert place.identity not in paused_scopes(store)
    assert page.see("projects", "99").status == 404


def test_a_merge_names_what_moves_and_asks(page: ServedPage, store: Store, lived: Lived) -> None:
    live(store, project="lantern", session="b1", number=11)
    harbor, lantern = (str(one.id) for one in list_projects(store))

    asked = page.see("projects", lantern, "merge", into=harbor).text

    assert "moves 1 session and 2 memories of lantern" in asked
    assert "Undo moves them back" in asked
    assert len(list_projects(store)) == 2
    assert page.do("projects", lantern, "merge", into=lantern).status == 400
    merged = page.do("projects", lantern, "merge", into=harbor)
    assert merged.status == 200
    assert [project.name for project in list_projects(store)] == ["harbor"]
    assert "Undo the merge" in page.see("projects", harbor).text
    assert page.do(*undo_of(merged.text)).status == 200
    assert [project.name for project in list_projects(store)] == ["harbor", "lantern"]
    assert page.do(*undo_of(merged.text)).status == 404


def test_work_is_retried_cancelled_and_restored_unless_it_continued(page: ServedPage, store: Store) -> None:
    number = give_work(store)
    before = find_work(store, "extract", "s-1")
    assert before is not None
    assert before.state is WorkState.DEAD
    assert "✗ given up" in page.see("tasks").text
    shown = page.see("tasks", str(number)).text
    assert "Traceback: &lt;b&gt;OSError&lt;/b&gt;: disk full" in shown
    assert "it grew" in shown
    assert "<dd>given up</dd>" in shown

    for act, state in (("retry", WorkState.DUE), ("cancel", WorkState.DONE)):
        done = page.do("tasks", str(number), act)
        now = find_work(store, "extract", "s-1")
        assert now is not None
        assert now.state is state
        assert page.do(*undo_of(done.text)).status == 200
        now = find_work(store, "extract", "s-1")
        assert now is not None
        assert (now.state, now.due_at_ms, now.attempts) == (before.state, before.due_at_ms, before.attempts)
    late = undo_of(page.do("tasks", str(number), "retry").text)
    with store.transaction() as tx:
        make_due(tx, "extract", "s-1", tx.now_ms())
    assert page.do(*late).status == 400
    for bad in ("x", "999"):
        assert page.see("tasks", bad).status == 404


def test_work_on_a_session_is_named_by_the_title_of_the_session(page: ServedPage, store: Store) -> None:
    session_id = "5d4da058-9547-4d8d-9e6a-f1b36f34670a"
    session = store_session(store, session_id, "harbor")
    with store.transaction() as tx:
        set_session_title(tx, session, Title("Round the VAT of invoices", TitleRank.CUSTOM))
        make_due(tx, "extract", session_id, tx.now_ms())

    shown = page.see("tasks").text

    (number,) = re.findall(r'href="[^"]*/tasks/(\d+)">Make memories: Round the VAT of invoices</a>', shown)
    assert f"/s/{session_id}" not in shown
    task = page.see("tasks", number).text
    assert "<h1>Make memories: Round the VAT of invoices</h1>" in task
    assert re.search(rf'href="[^"]*/s/{session_id}">Round the VAT of invoices</a>', task)


def test_a_kind_of_task_lists_only_work_that_is_not_done(page: ServedPage, store: Store) -> None:
    for number in range(20):
        with store.transaction() as tx:
            make_due(tx, "extract", f"done-{number}", 1_000 + number, "messages")
        piece = find_work(store, "extract", f"done-{number}")
        assert piece is not None
        work.cancel(store, piece.id)
    finished = page.see("tasks", str(piece.id)).text
    given_up = give_work(store)

    shown = page.see("tasks", "extract").text

    assert "/retry" in finished
    assert "/cancel" not in finished
    assert "<dd>something new was said</dd>" in finished
    assert f"/tasks/{given_up}/cancel" in shown
    assert "<dd>given up</dd>" in shown
    assert "<dd>done</dd>" not in shown
    assert "more:" not in shown


def test_the_work_is_paused_and_continues_in_vaults_too(page: ServedPage, store: Store, settings: Settings) -> None:
    folders = [free_folder(settings.places, name) for name in ("acme", "gone")]
    for folder in folders:
        write_vault(Vault(folder.name, (f"/work/{folder.name}",), folder, is_sealed=True))
    with open_store(folders[0] / "memory.db") as vault:
        paused = page.do("tasks", "pause", time="")
        assert all(TASKS_SCOPE in paused_scopes(one) for one in (store, vault))
        assert "⏸ paused" in paused.text
        assert page.do(*undo_of(paused.text)).status == 200
        assert not any(TASKS_SCOPE in paused_scopes(one) for one in (store, vault))
    assert page.do("tasks", "pause", time="7y").status == 400


def test_a_run_is_shown_undone_and_redone(page: ServedPage, store: Store, settings: Settings, keep: Keep) -> None:
    same = {"summary": "the same", "content": "word for word"}
    first, copy = keep(**same), keep(**same)
    run_id = consolidate(store, settings, is_forced=True).run_id
    shown = page.see("health", "runs", str(run_id)).text
    links = [f'<a href="{page.access.root}/m/{one.episode_id}"><bdi>the same</bdi></a>' for one in (copy, first)]
    assert f"<li>Archived: {links[0]} (says the same as {links[1]})" in shown

    undone = page.do("health", "runs", str(run_id), "undo")
    assert undone.status == 200, undone.text
    assert find(store, copy.episode_id).is_current
    assert page.do(*undo_of(undone.text)).status == 200
    assert find(store, copy.episode_id).status is Status.ARCHIVED
    assert page.do("health", "runs", "99", "undo").status == 404
    assert memory_history.list_runs(store)[0].kind == "undo"


def test_only_a_run_that_changed_something_is_undone_here(page: ServedPage, store: Store, keep: Keep) -> None:
    keep("The walrus host listens on port 7070.")
    with store.transaction() as tx:
        runs = {
            "nothing": memory_history.add_run(tx, "consolidate", {"lines": []}),
            "a file": memory_history.add_run(tx, "consolidate", {"files_before": {"CLAUDE.md": "old"}}),
            "a line that stands for nothing": memory_history.add_run(tx, "consolidate", {"lines": ["a remark"]}),
        }
    listed = page.see("health").text
    # Text beside a link would need another sign of the link than its colour.
    assert len(re.findall(r"<small>run \d+</small></a>", listed)) == len(runs)
    for what, run_id in runs.items():
        is_offered = what == "a file"
        assert (f"/runs/{run_id}/undo" in listed) == is_offered, what
        assert ("Undo this run" in page.see("health", "runs", str(run_id)).text) == is_offered, what
    assert "It changed nothing." in page.see("health", "runs", str(runs["nothing"])).text


def test_checks_previews_and_purges_are_those_of_the_commands(
    page: ServedPage, store: Store, command: Callable[..., Any], keep: Keep
) -> None:
    for _ in range(2):
        keep("said twice", content="the same words")
    keep("old", status=Status.ARCHIVED)

    preview = page.see("health", "preview").text
    checks = page.see("health", "checks").text
    purge = page.see("gone", "purge", days="0").text

    assert "1 change would be made. Nothing was changed." in preview
    assert re.search(r"said twice</bdi></a> \(says the same as <a [^>]*><bdi>said twice</bdi></a>\)", preview)
    assert "worker" in checks
    assert "1 memory" in purge
    assert "engram purge --archived 0 --yes" in purge
    assert command("purge", "--archived", "0")["count"] == 1
    assert page.see("gone", "purge", days="many").status == 400


def test_every_view_says_that_it_is_paused(page: ServedPage, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vitals, "troubles", lambda _: [])
    for scope, told in (("", "Engram is paused"), (TASKS_SCOPE, "The worker is paused")):
        work.pause(store, scope, FOREVER_MS)
        assert f"⏸</span> {told}</a>" in page.see("costs").text
        assert f">{told}</h1>" in page.see("health").text
        work.resume(store, scope)
    work.pause(store, "/dev/harbor", FOREVER_MS)
    assert "✓</span> Engram is running</a>" in page.see("costs").text
    assert ">Engram is running</h1>" in page.see("health").text


def test_every_view_says_how_many_things_the_checks_found_broken(page: ServedPage, keep: Keep) -> None:
    def told(text: str) -> tuple[int, int]:
        """The numbers in the navigation and in the sentence below it."""
        (badge,) = re.findall(r'id="waiting-health"[^>]*>(\d*)<', text)
        (sentence,) = re.findall(r'id="running"[^>]*>(.*?)</p>', text, re.DOTALL)
        (others,) = re.findall(r"Watcher and worker not running(?: \(and (\d+) more\))?", sentence)
        return int(badge), 1 + int(others or 0)

    assert told(page.see("costs").text) == (1, 1)
    assert ">1 thing is not working</h1>" in page.see("health").text
    checks = page.see("health", "checks").text
    (number,) = map(int, re.findall(r">(\d+) things are not working</h1>", checks))

    assert number == 1 + len(re.findall(r'<li><span class="bad"', checks)) > 1
    for text in (checks, *(page.see(view).text for view in ("", "health", "costs"))):
        assert told(text) == (number, number)
    assert f">{number} things are not working</h1>" in page.see("health").text
    keep("The walrus host listens on port 7070.")
    assert f"{number - 1} more things are not working" in page.see("").text


def test_what_is_archived_comes_back_and_what_was_forgotten_is_a_number(
    page: ServedPage, store: Store, settings: Settings, keep: Keep
) -> None:
    archived, canary = keep("the archived mast", status=Status.ARCHIVED), keep("the canary sings")
    forget_memory(store, settings.places, canary.episode_id, actor=Actor.USER)

    shown = page.see("gone").text
    assert "the archived mast" in shown
    assert "memories forgotten" in shown
    assert "canary" not in shown
    revived = page.do("gone", "revive", archived.episode_id)
    assert find(store, archived.episode_id).status is Status.ACTIVE
    assert page.do(*undo_of(revived.text)).status == 200
    assert find(store, archived.episode_id).status is Status.ARCHIVED
    assert page.do("gone", "revive", "ep_000000000000").status == 404


def test_costs_are_drawn_against_the_cap_without_a_style(page: ServedPage, store: Store, lived: Lived) -> None:
    live_earlier(store)
    spend(store, 0.75)
    assert "limit s" not in page.see("costs").text  # one day is a sum, not a chart
    for days in EARLIER_DAYS:
        spend(store, 0.1)
        with store.transaction() as tx:
            tx.run("UPDATE spend SET at_ms = at_ms - ? WHERE id = (SELECT max(id) FROM spend)", [days * 86_400_000])

    text = page.see("costs").text

    assert text.count(">$0.75</td>") == 1
    assert f"{31 + EARLIER_TOKENS * len(EARLIER_DAYS)} in 30 days" in text  # tokens that Claude was shown
    assert re.search(r'<div class="limit s\d+">', text)
    assert " style=" not in text
    assert "saved" not in text.lower()


def test_a_setting_is_explained_with_its_value_its_default_and_its_source(page: ServedPage, settings: Settings) -> None:
    settings.places.config_file.write_text('exclude = ["~/clients"]\nconsolidate_seconds = 7200\ncapture = false\n')

    shown = page.see("settings").text

    listed, every = shown.split("All settings")
    assert re.findall(r"<th[^>]*>(\w+)</th>", listed.partition("<tbody>")[2]) == [
        "home",
        "claude_folder",
        "capture",
        "exclude",
        "consolidate_seconds",
    ]
    assert re.search(r"capture</th><td><strong>off</strong></td><td[^>]*>on</td><td[^>]*>config.toml", listed)
    assert "engram config unset capture" in html.unescape(listed).replace(f" --home {settings.home}", "")
    assert "7200 <small>= 2 h</small>" in listed
    for setting in explained_settings():
        assert f"<strong>{setting.section}</strong>" in every
    assert "Folders that contain your projects." in every
    assert "64000000 <small>= 64 MB</small>" in every

    found = page.ask(
        f"{page.access.root}/settings?find=Consolidate+seconds", hx_request="true", hx_target="div#found-settings"
    )
    assert re.findall(r"<th>(\w+)</th>", found.text) == ["consolidate_seconds", "consolidate_budget_seconds"]
    assert "<h1" not in found.text
    assert "No setting has “zeppelin”" in page.see("settings", find="zeppelin").text


def test_checks_that_one_command_settles_are_one_thing_to_do() -> None:
    def check(name: str, state: str, command: str = "", advice: str = "") -> dict[str, str]:
        return {"name": name, "state": state, "detail": f"{name} is so", "advice": advice, "command": command}

    install = "run: engram install (or by hand)"
    fixes = list_fixes(
        [
            check("permission", "warn", "engram install", install),
            check("hooks", "bad", "engram install", install),
            check("python", "ok"),
            check("suspect", "warn", "engram review", "decide about each: engram review"),
            check("disk", "warn", "", "free some space"),
            check("worker", "bad", "engram up", "start both with: engram up"),
            check("earlier memory", "warn", "engram restore a.db", "if so, run: engram restore a.db. Otherwise, wait"),
        ],
        told={"worker"},
    )

    assert [fix.state for fix in fixes] == ["bad", "warn", "warn", "warn"]
    assert [title for title, _ in fixes[0].found] == [TITLES["hooks"], TITLES["permission"]]
    assert "Claude is shown nothing" in fixes[0].found[0][1]
    assert fixes[0].advice == ("Run:", "engram install", "")
    assert fixes[1].where == ("decide", "To decide")
    assert fixes[2].advice == ("Free some space", "", "")
    assert fixes[3].advice == ("If so, run:", "engram restore a.db", "Otherwise, wait")


def test_what_needs_no_action_is_one_entry_apart_from_what_does(
    page: ServedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(name: str, state: str, detail: str, advice: str) -> dict[str, str]:
        return {"name": name, "state": state, "detail": detail, "advice": advice, "command": ""}

    checks = [check("unreadable", "note", f"line {number}", "nothing to do: the rest is read") for number in (1, 2)]
    monkeypatch.setattr(health, "ask_command", lambda *_: {"checks": checks})
    shown = page.see("health", "checks").text

    assert shown.count(TITLES["unreadable"]) == 1
    assert "Good to know" in shown
    assert "Worth a look" not in shown
    assert "to look at" not in shown
    checks.append(check("disk", "warn", "full", "free some space"))
    shown = page.see("health", "checks").text
    assert "Worth a look" in shown
    assert shown.index("free some space".capitalize()) < shown.index("Good to know")


def test_the_page_says_that_claude_code_is_not_connected(
    page: ServedPage, store: Store, settings: Settings, keep: Keep
) -> None:
    said, repair = "Claude Code is not connected", "engram install</code> <button"
    keep("The walrus host listens on port 7070.")
    assert said not in page.see().text  # Claude Code was never used here
    settings.projects_folder.mkdir(parents=True)
    assert said in page.see().text
    assert "(and 1 more)" in page.see("costs").text
    assert repair in page.see("health").text

    hooks = settings.claude_folder / "settings.json"
    hooks.write_text('{"hooks": {"Stop": [{"hooks": [{"command": "python -m engram_hooks.stop"}]}]}}')
    assert said not in page.see().text
    assert repair not in page.see("health").text
    hooks.unlink()
    assert said in page.see().text
    live(store)  # a prompt was answered
    assert said not in page.see().text


def test_numbers_are_those_of_the_commands(
    page: ServedPage,
    store: Store,
    lived: Lived,
    contradiction: tuple[str, str],
    command: Callable[..., Any],
    settings: Settings,
) -> None:
    give_work(store)
    spend(store, 0.25)
    status, healthy = command("status"), page.see("health").text
    for number, name in ((status["turns"], "turns read"), (status["episodes"], "memories kept")):
        assert f"<b>{number}</b><span>{name}</span>" in healthy
    assert f"{status['missing_vectors']} texts to prepare for the search by meaning" in healthy
    assert "Everything is up to date" not in healthy
    for name, stage in status["stages"].items():
        figure = '<td class="figure"[^>]*>([\\d,]+)</td>'
        cells = re.search(rf'<th scope="row">{STAGE_NAMES.get(name, name)}</th>{figure}{figure}', healthy)
        assert cells is not None
        assert [int(cell) for cell in cells.groups()] == [stage["seen"], stage["done"]]
    listed = page.see("projects").text
    for project in command("projects", "list")["projects"]:
        figures = "".join(rf'<td class="figure"[^>]*>{project[key]}</td>' for key in ("sessions", "memories"))
        assert re.search(rf"{project['name']}</a></th><td[^>]*>.*?{figures}", listed, re.DOTALL), project
    assert f">{money(command('cost')['dollars'])}</td>" in page.see("costs").text
    waiting = len(command("review")["contradictions"])
    assert f"{waiting} pair of memories that can't both be true<" in page.see("decide").text
    states = [task["state"] for task in command("tasks", "list")["tasks"]]
    assert f"{states.count('dead')} given up" in page.see("tasks").text
    shown = page.see("settings").text
    for name, setting in command("config", "show")["settings"].items():
        assert re.search(rf"<th[^>]*>{name}</th>", shown)
        assert setting["source"] in shown
