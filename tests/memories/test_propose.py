"""Rules that kept being needed are proposed for CLAUDE.md as a diff; nothing is written unasked, and no byte lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from counted_calls import calls_of
from showing import show_and_use

from bench.storing import content_digest
from engram.cli.main import engram
from engram.enums import Importance, Kind, Scope, Source, Status, Verdict, Voice
from engram.errors import BadRequest
from engram.memories.propose import HEADING, add_to_section, apply_proposal, propose_lines
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Evidence, Memory, all_memories
from engram.models.projects.projects import ProjectRow, ensure_project
from engram.notes.standing import standing_text
from engram.notes.user_files import read_standing_files
from engram.recollection.choose_bites import InjectionRequest, Support, rate_hits
from engram.redaction import redact
from engram.search.hits import Hit
from engram.settings import Settings
from engram.text.words import content_words

Keep = Callable[..., Memory]
RULE = "Never deploy on Fridays, because nobody is there to repair it"


@pytest.fixture
def project(store: Store, tmp_path: Path) -> ProjectRow:
    folder = tmp_path / "harbor"
    folder.mkdir()
    with store.transaction() as tx:
        return ensure_project(tx, str(folder), "harbor", str(folder))


@pytest.fixture
def rule(store: Store, keep: Keep, project: ProjectRow) -> Callable[..., Memory]:
    """Keeps a rule of the user's that was said in three sessions."""

    def make(summary: str = RULE, *, sessions: int = 3, **fields: object) -> Memory:
        said = [Evidence(f"{summary} {number}", f"said-{number}") for number in range(sessions)]
        wanted = {"kind": Kind.PREFERENCE, "voice": Voice.USER, "scope": Scope.PROJECT, "project_id": project.id}
        return keep(summary, evidence=said, **wanted | fields)

    return make


@pytest.fixture
def run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("ENGRAM_HOME", str(settings.home))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(settings.claude_folder))

    def invoke(*arguments: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(engram, ["propose", "--project", "harbor", *arguments], input=stdin)
        assert result.exit_code == code, result.output
        return result

    return invoke


def lines_of(store: Store, settings: Settings, project: ProjectRow) -> list[str]:
    return [line.text for proposal in propose_lines(store, settings, project) for line in proposal.lines]


def test_what_was_said_or_used_in_three_sessions_is_proposed(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory]
) -> None:
    rule()
    used = rule("Run the linter before every commit", sessions=1)
    rule("Name branches after the ticket", sessions=2)
    assert lines_of(store, settings, project) == [RULE]

    show_and_use(store, used.episode_id, 5, used=2)

    assert lines_of(store, settings, project) == [RULE, "Run the linter before every commit"]


@pytest.mark.parametrize(
    "fields",
    [
        {"voice": Voice.ASSISTANT},
        {"voice": Voice.AGENT, "source": Source.MANUAL},
        {"kind": Kind.FACT},
        {"status": Status.PROVISIONAL},
        {"suspect": "orders"},
        {"is_lowered": True},
        {"stale_reason": "the file is gone"},
    ],
)
def test_only_rules_of_the_user_that_nothing_speaks_against_are_proposed(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], fields: dict[str, object]
) -> None:
    rule(importance=Importance.HIGH, **fields)

    assert lines_of(store, settings, project) == []


def test_a_rule_of_another_project_is_not_proposed_and_a_global_one_is_for_the_users_own_file(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory]
) -> None:
    with store.transaction() as tx:
        other = ensure_project(tx, "/gone/other", "other", "/gone/other")
    rule("Keep the other project tidy", project_id=other.id)
    rule("Answer in plain English", scope=Scope.GLOBAL, project_id=None)
    rule()

    proposals = propose_lines(store, settings, project)

    assert [(proposal.path, [line.text for line in proposal.lines]) for proposal in proposals] == [
        (Path(project.root) / "CLAUDE.md", [RULE]),
        (settings.claude_folder / "CLAUDE.md", ["Answer in plain English"]),
    ]


@pytest.mark.parametrize("name", ["CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md", ".claude/rules/deploy/days.md"])
def test_what_a_standing_file_says_already_is_not_proposed(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], name: str
) -> None:
    rule()
    path = Path(project.root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# Ours\n\n* **Never** deploy on Fridays: nobody is there\n  to repair it.\n")

    assert lines_of(store, settings, project) == []


def test_nothing_is_written_unasked_and_a_diff_is_shown_that_patch_applies(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], run: Callable[..., Result]
) -> None:
    rule()
    path = Path(project.root) / "CLAUDE.md"
    path.write_text("# Ours\n\nmy own line without an end")
    before, memories = path.read_bytes(), content_digest(store)

    shown = run().stdout
    run("--apply", code=1, stdin="n\n")
    run("--apply", "--json", code=1)

    assert path.read_bytes() == before
    assert list(settings.claude_folder.glob("CLAUDE.md")) == []
    assert "Nothing was written." in shown
    diff = shown[: shown.index("Nothing was written.")]
    copy = Path(project.root) / "copy.md"
    copy.write_bytes(before)
    subprocess.run(["patch", "-s", str(copy)], input=diff, text=True, check=True)
    run("--apply", "--yes")
    assert copy.read_bytes() == path.read_bytes() == before + f"\n\n{HEADING}\n\n- {RULE}\n".encode()
    assert content_digest(store) == memories


def test_what_was_applied_is_not_proposed_again(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], run: Callable[..., Result]
) -> None:
    rule()
    facts = json.loads(run("--apply", "--yes", "--json").stdout)
    assert facts["applied"] is True
    assert [line["said_sessions"] for line in facts["proposals"][0]["lines"]] == [3]
    assert "Nothing to propose" in run().stdout

    rule("Run the linter before every commit")
    run("--apply", stdin="y\n")

    text = (Path(project.root) / "CLAUDE.md").read_text()
    assert text == f"{HEADING}\n\n- {RULE}\n- Run the linter before every commit\n"


def test_what_was_adopted_is_recognized_as_said_and_so_no_longer_injected(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], run: Callable[..., Result]
) -> None:
    adopted, everywhere = rule(), rule("Answer in plain English and short words", scope=Scope.GLOBAL, project_id=None)
    run("--apply", "--yes")

    read_standing_files(store, settings, redact)

    said = standing_text(store, project.id)
    assert [said.file_saying(memory.summary) for memory in (adopted, everywhere)] == [
        "CLAUDE.md",
        "~/.claude/CLAUDE.md",
    ]
    request = InjectionRequest(f"{RULE}?", project_id=project.id, file_saying=said.file_saying)
    hit = Hit(adopted.episode_id, "preference", RULE, 1.0, {"text": 0.4}, memory=adopted, cosine=0.6, turn_id=1)
    (now,) = rate_hits([hit], request, Support(by_source={1: 1.0}, by_turn={1: 0.6}))
    (before,) = rate_hits(
        [hit], replace(request, file_saying=lambda text: ""), Support(by_source={1: 1.0}, by_turn={1: 0.6})
    )
    assert (now.verdict, before.verdict) == (Verdict.STANDS_IN_FILE, Verdict.SHOWN)


def test_the_mode_a_link_and_foreign_bytes_stay(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], tmp_path: Path
) -> None:
    rule()
    real, link = tmp_path / "dotfiles.md", Path(project.root) / "CLAUDE.md"
    foreign = (
        b"\xef\xbb\xbf# Ours\r\n\r\n\xff\xfe caf\xe9 \x00\r\n" + HEADING.encode() + b"\r\n\r\n- one\r\n\r\n## Next\r\n"
    )
    real.write_bytes(foreign)
    real.chmod(0o640)
    link.symlink_to(real)

    (proposal,) = propose_lines(store, settings, project)
    apply_proposal(proposal)

    assert link.is_symlink()
    assert real.read_bytes() == foreign.replace(b"- one\r\n", b"- one\r\n- " + RULE.encode() + b"\r\n")
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.glob(".*.tmp")) == []


def test_a_file_that_changed_since_it_was_read_is_left_alone(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory]
) -> None:
    rule()
    (proposal,) = propose_lines(store, settings, project)
    path = Path(project.root) / "CLAUDE.md"
    path.write_text("written meanwhile\n")

    with pytest.raises(BadRequest, match="changed in the meantime"):
        apply_proposal(proposal)

    assert path.read_text() == "written meanwhile\n"


def test_what_is_not_a_regular_file_is_refused_at_once(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory], run: Callable[..., Result]
) -> None:
    rule()
    os.mkfifo(Path(project.root) / "CLAUDE.md")

    assert "is not a regular file" in run(code=1).stderr


def test_without_rules_none_is_said_to_be_in_the_files(project: ProjectRow, run: Callable[..., Result]) -> None:
    assert "no rule that was said or used in 3 sessions is missing from your files" in " ".join(run().stdout.split())


def test_a_rules_file_can_be_named(
    store: Store, project: ProjectRow, rule: Callable[..., Memory], run: Callable[..., Result]
) -> None:
    rule()
    target = Path(project.root) / ".claude" / "rules" / "learned.md"

    run("--to", str(target), "--apply", "--yes")

    assert target.read_text() == f"{HEADING}\n\n- {RULE}\n"
    assert not (Path(project.root) / "CLAUDE.md").exists()
    assert "Nothing to propose" in run().stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", "H\n\n- new\n"),
        (b"one", "one\n\nH\n\n- new\n"),
        (b"one\n\n", "one\n\nH\n\n- new\n"),
        (b"H\n\n- old\n\n\n# Next\n", "H\n\n- old\n- new\n\n\n# Next\n"),
        (b"H\n\n- old", "H\n\n- old\n- new\n"),
        (b"H\n### deeper\n- old\n", "H\n### deeper\n- old\n- new\n"),
        (b"### H no\n", "### H no\n\nH\n\n- new\n"),
    ],
)
def test_lines_go_to_the_end_of_their_section(before: bytes, after: str) -> None:
    before = before.replace(b"H", HEADING.encode()) if not before.startswith(b"###") else before
    wanted = after.replace("H", HEADING) if not after.startswith("###") else after[:8] + after[8:].replace("H", HEADING)

    assert add_to_section(before, ["- new"]).decode() == wanted


def test_a_rule_given_in_two_projects_is_offered_for_all_of_them_and_stays_where_it_is(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory]
) -> None:
    with store.transaction() as tx:
        other = ensure_project(tx, "/dev/lab/lantern", "lantern", "/dev/lab/lantern")
    first = rule("Never deploy on Fridays.", sessions=1)
    rule("Never deploy on a Friday", sessions=1, project_id=other.id)
    rule("Always squash merges.", sessions=1)
    rule("Deploy on Fridays.", sessions=1, project_id=other.id)

    proposals = propose_lines(store, settings, project)

    assert [(one.path, [line.text for line in one.lines]) for one in proposals] == [
        (settings.claude_folder / "CLAUDE.md", ["Never deploy on Fridays."])
    ]
    assert {memory.scope for memory in all_memories(store)} == {Scope.PROJECT}
    assert proposals[0].lines[0].episode_id == first.episode_id


def test_a_rule_is_split_into_words_once_however_many_it_is_compared_with(
    store: Store, settings: Settings, project: ProjectRow, rule: Callable[..., Memory]
) -> None:
    for number in range(30):
        rule(f"Never paint hull{number} in harbor{number} with paint{number}")

    compared = calls_of(lambda: propose_lines(store, settings, project), content_words.__code__)

    assert 0 < compared < 100
