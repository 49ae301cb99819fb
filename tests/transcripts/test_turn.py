"""Entries in file order become turns, wherever a read stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turn_memory import Memory, Script

from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.turns import Opening, Role, standing_turns


def only(memory: Memory) -> Any:
    (turn,) = memory.turns.values()
    return turn


def in_order(memory: Memory) -> list[Any]:
    return sorted(memory.turns.values(), key=lambda turn: turn.start_offset)


def test_a_turn_holds_the_prompt_the_reply_and_the_facts_up_to_the_next_prompt(memory: Memory, script: Script) -> None:
    first = script.user("fix the parser")
    script.says("Looking.", message="m1")
    script.calls("Edit", file_path="/p/a.py")
    script.result("ok")
    script.says("Fixed.", message="m2")
    second = script.user("thanks")

    memory.feed("s", script.entries)
    one, two = in_order(memory)

    assert (one.key, one.opening, one.prompt, one.reply) == (
        first,
        Opening.PROMPT,
        "fix the parser",
        "Looking.\n\nFixed.",
    )
    assert (one.files, one.has_edits, one.actions[0].is_error) == (("/p/a.py",), True, False)
    assert (one.is_closed, one.message_count, one.cwd, one.branch) == (True, 2, "/p", "main")
    assert (two.key, two.is_closed) == (second, False)
    assert memory.uuids == script.uuids


def test_one_message_in_several_lines_counts_once(memory: Memory, script: Script) -> None:
    script.user("go")
    script.says("one", message="m1")
    script.says("two", message="m1")

    memory.feed("s", script.entries)

    assert only(memory).message_count == 1
    assert [said.message_id for said in only(memory).said if said.role is Role.ASSISTANT] == ["m1", "m1"]


def test_each_text_knows_its_line_and_bytes(memory: Memory, script: Script) -> None:
    script.user("go")
    script.says("done")

    memory.feed("s", script.entries)
    reply = only(memory).said[1]

    assert (reply.uuid, reply.line, reply.offset) == (script.entries[1].uuid, 2, script.entries[1].offset)
    assert (only(memory).start_offset, only(memory).end_offset) == (0, reply.offset + reply.length)


def test_entries_before_the_first_prompt_belong_to_its_turn(memory: Memory, script: Script) -> None:
    script.system()
    script.user("<command-name>/clear</command-name>")
    memory.feed("s", script.entries)
    before = [turn.opening for turn in memory.turns.values()]
    prompt = script.user("go")
    memory.feed("s", script.entries[2:])

    assert before == [Opening.CONTINUATION]
    assert memory.partition == {prompt: frozenset(script.uuids)}


def test_an_assistant_before_any_prompt_makes_a_continuation(memory: Memory, script: Script) -> None:
    first = script.system()
    script.says("Going on.")
    script.user("stop")

    memory.feed("s", script.entries)

    assert [turn.opening for turn in in_order(memory)] == [Opening.CONTINUATION, Opening.PROMPT]
    assert in_order(memory)[0].key == f"c:{first}"
    assert memory.uuids == script.uuids


def test_silence_closes_and_growth_opens_again(memory: Memory, script: Script) -> None:
    script.user("go")
    memory.feed("s", script.entries, close=True)
    closed = only(memory).is_closed
    script.says("done")
    memory.feed("s", script.entries[1:])

    assert closed
    assert not only(memory).is_closed
    assert only(memory).reply == "done"


def test_a_result_is_found_though_the_read_stopped_in_between(memory: Memory, script: Script) -> None:
    script.user("go")
    script.calls("Bash", command="make")
    memory.feed("s", script.entries)
    script.result("Exit code 1\nerror: no rule", is_error=True)
    memory.feed("s", script.entries[2:])

    (action,) = only(memory).actions
    assert (action.exit_code, action.error_line, action.is_error) == (1, "error: no rule", True)


def test_errors_of_the_service_and_stand_ins_are_not_what_the_assistant_said(memory: Memory, script: Script) -> None:
    script.user("go")
    script.says("API Error: 529", isApiErrorMessage=True)
    script.add(
        {"type": "assistant", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "None"}]}}
    )

    memory.feed("s", script.entries)

    assert only(memory).reply == ""
    assert memory.uuids == script.uuids


def test_a_subagents_lines_belong_to_the_turn_but_say_nothing(memory: Memory, script: Script) -> None:
    script.user("go")
    script.user("look into it", isSidechain=True)
    script.says("found", isSidechain=True)

    memory.feed("s", script.entries)

    assert (only(memory).prompt, only(memory).reply) == ("go", "")
    assert memory.uuids == script.uuids


def test_an_interruption_is_noted(memory: Memory, script: Script) -> None:
    script.user("go")
    script.user([{"type": "text", "text": "[Request interrupted by user]"}])

    memory.feed("s", script.entries)

    assert only(memory).is_interrupted


def test_the_time_is_the_prompts_and_the_latest_though_lines_are_out_of_order(memory: Memory, script: Script) -> None:
    script.user("go", timestamp="2026-01-01T10:00:00Z")
    script.says("a", timestamp="2026-01-01T10:00:09Z")
    script.says("b", timestamp="2026-01-01T10:00:05Z")

    memory.feed("s", script.entries)

    assert only(memory).ended_at_ms - only(memory).started_at_ms == 9000


def test_a_prompt_without_a_uuid_is_kept(memory: Memory, script: Script) -> None:
    script.user("go", uuid=None)
    script.says("done", uuid="")

    memory.feed("s", script.entries)

    assert only(memory).key.startswith("n:")
    assert only(memory).reply == "done"


# -- two processes that resume one session


def test_two_processes_write_one_session(memory: Any, script: Any) -> None:
    script.user("Build the dam.", parentUuid=None)
    start = script.says("Built.", parentUuid=script.entries[-1].uuid)
    bank = script.user("Which bank?", parentUuid=start)
    lock = script.user("Which lock?", parentUuid=start)
    left = script.says("The left bank.", parentUuid=bank)
    memory.feed("s", script.entries)
    brass = script.says("The brass lock.", parentUuid=lock)
    block = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make bank"}}
    call = script.add({"type": "assistant", "message": {"id": "m", "content": [block]}, "parentUuid": left})
    script.says("Brass it is.", parentUuid=brass)
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "Exit code 2\nError: no sand", "is_error": True}
    script.user([failed], parentUuid=call)
    memory.feed("s", script.entries[5:])

    by_prompt = {turn.prompt: turn for turn in memory.turns.values()}
    assert by_prompt["Which bank?"].reply == "The left bank."
    assert [action.exit_code for action in by_prompt["Which bank?"].actions] == [2]
    assert by_prompt["Which lock?"].reply == "The brass lock.\n\nBrass it is."
    assert [turn.prompt for turn in standing_turns(list(memory.turns.values()))] == list(by_prompt)


def test_an_interruption_is_noted_at_the_prompt_of_its_process(memory: Any, script: Any) -> None:
    start = script.user("Build the dam.", parentUuid=None)
    bank = script.user("Which bank?", parentUuid=start)
    lock = script.user("Which lock?", parentUuid=start)
    left = script.says("The left", parentUuid=bank)
    brass = script.says("The brass lock.", parentUuid=lock)
    script.user("[Request interrupted by user]", parentUuid=left)
    memory.feed("s", script.entries)
    script.says("Or iron.", parentUuid=brass)
    script.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}], parentUuid=start)
    memory.feed("s", script.entries[6:])

    stopped = {turn.prompt: turn.is_interrupted for turn in memory.turns.values()}
    assert stopped == {"Build the dam.": True, "Which bank?": True, "Which lock?": False}


def test_only_what_this_read_has_not_seen_is_looked_up(memory: Any, script: Any) -> None:
    start = script.user("Build the dam.", parentUuid=None)
    script.says("Built.", parentUuid="of-a-line-that-is-not-read")
    asked: list[str] = []

    def holder(uuid: str) -> None:
        asked.append(uuid)

    builder = TurnBuilder(
        "s", holder=holder, ancestors=lambda entry: filter(None, (entry.data.get("parentUuid"), start))
    )
    for entry in script.entries:
        builder.add(entry)

    assert [update.turn.reply for update in builder.finish().updates] == ["Built."]
    assert asked == []


def test_an_answer_to_no_known_entry_follows_the_last_prompt(memory: Any, script: Any) -> None:
    script.user("Build the dam.", parentUuid=None)
    script.user("Which bank?", parentUuid=None)
    script.says("The left bank.", parentUuid="of-a-line-that-is-not-read")
    memory.feed("s", script.entries)

    assert [turn.reply for turn in memory.turns.values()] == ["", "The left bank."]


def test_a_queued_prompt_joins_the_turn_that_is_going_on(memory: Any, script: Any) -> None:
    start = script.user("Build the dam.", parentUuid=None)
    script.queue("enqueue", "Which bank?")
    script.queue("remove")
    script.says("The left bank.", parentUuid=start)
    memory.feed("s", script.entries)

    assert [turn.reply for turn in memory.turns.values()] == ["", "The left bank."]


def test_a_prompt_that_was_rewound_takes_no_answer_with_it(memory: Any, script: Any) -> None:
    start = script.user("Draw the dam.", parentUuid=None)
    build = script.user("Build it.", parentUuid=start)
    script.says("Built of clay.", parentUuid=build)
    again = script.user("Build it of stone.", parentUuid=start)
    script.says("Built of stone.", parentUuid=again)
    memory.feed("s", script.entries)

    assert [turn.reply for turn in standing_turns(list(memory.turns.values()))] == ["", "Built of stone."]


# -- forks and resumed copies


@pytest.mark.parametrize("order", ["parent first", "fork first"])
def test_a_copied_history_counts_once_and_what_follows_is_a_continuation(
    make_memory: Callable[[], Any], make_script: Callable[..., Any], order: str
) -> None:
    parent, fork = make_script(), make_script()
    for one in (parent, fork):
        one.user("go")
        one.says("step one")
    parent.says("parent goes on")
    fork._second = 500
    fork.says("fork goes on")
    fork.user("and now?")
    memory = make_memory()

    feeds = [("parent", parent), ("fork", fork)]
    for session, script in feeds if order == "parent first" else reversed(feeds):
        memory.feed(session, script.entries)

    assert memory.prompts == ["and now?", "go"]
    assert memory.uuids == parent.uuids | fork.uuids
    openings = sorted(turn.opening for turn in memory.turns.values())
    assert openings == [Opening.CONTINUATION, Opening.PROMPT, Opening.PROMPT]


def test_entries_written_twice_in_one_file_count_once(memory: Memory, script: Script) -> None:
    script.user("go")
    script.says("one")
    twice = list(script.entries)
    script.says("two")

    memory.feed("s", [*twice, *script.entries])

    assert memory.prompts == ["go"]
    assert only(memory).reply == "one\n\ntwo"


def test_a_rewritten_file_continues_with_its_last_turn(memory: Memory, script: Script) -> None:
    script.user("one")
    script.says("a")
    script.user("two")
    memory.feed("s", script.entries)
    memory.states["s"] = memory.states["s"].restarted()
    script.says("b")
    memory.feed("s", script.entries)

    assert [turn.reply for turn in in_order(memory)] == ["a", "b"]
    assert len(memory.turns) == 2


def test_a_forgotten_turn_is_not_made_again_when_the_file_grows(memory: Memory, script: Script) -> None:
    prompt = script.user("my secret plan")
    memory.feed("s", script.entries)
    del memory.turns[prompt]
    script.says("about it")
    memory.feed("s", script.entries[1:])

    assert memory.prompts == []


# -- the queue


def test_a_queued_prompt_that_is_handed_over_opens_a_turn_for_what_follows(memory: Memory, script: Script) -> None:
    script.user("go")
    script.calls("Bash", command="make")
    script.queue("enqueue", "and the tests")
    still = script.system()
    script.queue("remove")
    script.result("fine")
    after = script.says("Now the tests.")

    memory.feed("s", script.entries)
    first, second = in_order(memory)

    assert (second.opening, second.prompt, second.reply) == (Opening.QUEUED, "and the tests", "Now the tests.")
    assert second.key.startswith("q:")
    assert second.said[0].uuid == ""
    assert still in memory.partition[first.key]
    assert after in memory.partition[second.key]
    assert (first.actions, second.actions[0].exit_code) == ((), 0)


@pytest.mark.parametrize("operation", ["dequeue", "remove"])
def test_a_queued_prompt_that_a_user_line_shows_is_not_a_separate_turn(
    memory: Memory, script: Script, operation: str
) -> None:
    script.user("go")
    script.queue("enqueue", "and the tests")
    script.queue(operation)
    script.user("and the tests")
    script.says("Now the tests.")

    memory.feed("s", script.entries)

    assert memory.prompts == ["and the tests", "go"]
    assert memory.uuids == script.uuids


@pytest.mark.parametrize("is_first", [True, False])
def test_a_queued_prompt_that_an_attachment_shows_is_one_turn(memory: Memory, script: Script, is_first: bool) -> None:
    script.user("go")
    script.queue("enqueue", "and the tests")
    if is_first:
        script.queue("remove")
        script.handed("and the tests")
    else:
        script.handed("and the tests")
        script.queue("remove")
    script.says("Now the tests.")

    memory.feed("s", script.entries)

    assert memory.prompts == ["and the tests", "go"]
    assert in_order(memory)[1].reply == "Now the tests."
    assert memory.uuids == script.uuids


def test_several_queued_prompts_joined_in_one_line_are_that_line(memory: Memory, script: Script) -> None:
    script.user("go")
    script.queue("enqueue", "first\nthing")
    script.queue("enqueue", "second")
    script.queue("dequeue")
    script.user("first\nthing\nsecond")

    memory.feed("s", script.entries)

    assert memory.prompts == ["first\nthing\nsecond", "go"]


def test_a_prompt_still_waiting_at_the_end_counts_and_a_later_line_takes_its_place(
    memory: Memory, script: Script
) -> None:
    script.user("go")
    script.queue("enqueue", "yes")
    memory.feed("s", script.entries)
    waiting = memory.prompts
    script.queue("dequeue")
    shown = script.user("yes")
    memory.feed("s", script.entries[2:])

    assert waiting == memory.prompts == ["go", "yes"]
    assert shown in memory.turns
    assert not any(key.startswith("q:") for key in memory.turns)


def test_a_prompt_taken_back_counts_unless_it_is_sent_after_all(memory: Memory, script: Script) -> None:
    script.user("go")
    script.queue("enqueue", "is it running?")
    script.queue("enqueue", "??")
    script.queue("popAll", "is it running?")
    script.queue("popAll", "??")
    script.queue("remove")
    script.user("??")

    memory.feed("s", script.entries)

    assert memory.prompts == ["??", "go", "is it running?"]
    assert [turn.prompt for turn in in_order(memory) if turn.is_unsent] == ["is it running?"]
    assert [t.opening for t in in_order(memory) if t.prompt == "??"] == [Opening.PROMPT]


def test_an_older_line_with_the_same_words_does_not_show_a_queued_prompt(memory: Memory, script: Script) -> None:
    script.queue("enqueue", "yes")
    script.user("yes", timestamp="2025-01-01T00:00:00Z")

    memory.feed("s", script.entries)

    assert memory.prompts == ["yes", "yes"]


def test_a_queued_command_with_words_opens_its_turn_at_its_command_line(memory: Memory, script: Script) -> None:
    script.user("go")
    script.queue("enqueue", "/review the parser")
    script.queue("dequeue")
    line = script.user("<command-name>/review</command-name><command-args>the parser</command-args>")
    script.says("Reviewing.")

    memory.feed("s", script.entries)
    queued = in_order(memory)[1]

    assert (queued.prompt, queued.reply) == ("/review the parser", "Reviewing.")
    assert line in memory.partition[queued.key]


def test_notifications_and_bare_commands_in_the_queue_are_not_prompts(memory: Memory, script: Script) -> None:
    script.user("go")
    for text in ("<task-notification>x</task-notification>", '{"task_id":"b1"}', "/model", ""):
        script.queue("enqueue", text)
        script.queue("remove")

    memory.feed("s", script.entries)

    assert memory.prompts == ["go"]


def test_the_same_queued_prompt_twice_in_a_copied_file_counts_once(memory: Memory, script: Script) -> None:
    script.queue("enqueue", "typed once")

    memory.feed("s", [*script.entries, *script.entries])

    assert memory.prompts == ["typed once"]


def test_the_readers_state_holds_no_text(memory: Memory, script: Script) -> None:
    script.user("go")
    script.queue("enqueue", "my password is hunter2")
    memory.feed("s", script.entries)

    assert "hunter2" not in str(memory.states["s"])


def test_the_queue_is_bounded(memory: Memory, script: Script) -> None:
    for number in range(200):
        script.queue("enqueue", f"prompt {number}")

    memory.feed("s", script.entries)

    assert len(memory.states["s"].queue) == 64
    assert len(memory.prompts) == 200


# -- any line may be the last of a read

STEPS = st.lists(
    st.sampled_from(
        [
            "prompt",
            "again",
            "says",
            "calls",
            "result",
            "system",
            "command",
            "enqueue",
            "remove",
            "dequeue",
            "popAll",
            "shown",
            "handed",
            "sidechain",
            "interrupt",
            "nouuid",
            "prompt in A",
            "reply in A",
            "prompt in B",
            "reply in B",
        ]
    ),
    min_size=1,
    max_size=40,
)


def play(script: Script, steps: list[str]) -> None:
    typed = "typed 0"
    last: dict[str, str | None] = {"A": None, "B": None}
    for number, step in enumerate(steps):
        if step.endswith((" in A", " in B")):
            process, say = step[-1], script.user if step.startswith("prompt") else script.says
            last[process] = say(f"{step} {number}", parentUuid=last[process])
            continue
        if step == "enqueue":
            typed = f"typed {number % 5}"
        {
            "prompt": lambda n=number: script.user(f"prompt {n}"),
            "again": lambda: script.user("yes"),
            "says": lambda n=number: script.says(f"reply {n}"),
            "calls": lambda: script.calls("Bash", command="make"),
            "result": lambda: script.result("Exit code 1\nerror: x", is_error=True),
            "system": script.system,
            "command": lambda: script.user("<command-name>/clear</command-name>"),
            "enqueue": lambda t=typed: script.queue("enqueue", t),
            "remove": lambda: script.queue("remove"),
            "dequeue": lambda: script.queue("dequeue"),
            "popAll": lambda t=typed: script.queue("popAll", t),
            "shown": lambda t=typed: script.user(t),
            "handed": lambda t=typed: script.handed(t),
            "sidechain": lambda: script.says("aside", isSidechain=True),
            "interrupt": lambda: script.user("[Request interrupted by user]"),
            "nouuid": lambda n=number: script.user(f"no uuid {n}", uuid=""),
        }[step]()


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, cuts=st.sets(st.integers(0, 40)))
def test_cut_anywhere_and_continued_the_result_is_the_same(
    make_memory: Callable[[], Any], make_script: Callable[..., Any], steps: list[str], cuts: set[int]
) -> None:
    script = make_script()
    play(script, steps)
    whole, pieces = make_memory(), make_memory()

    whole.feed("s", script.entries)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
        pieces.feed("s", script.entries[start:stop])

    assert pieces.turns == whole.turns
    assert whole.uuids == script.uuids


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, more=STEPS, cut=st.integers(0, 40), fork_first=st.booleans())
def test_in_any_order_a_fork_gives_the_same_prompts_and_entries(
    make_memory: Callable[[], Any],
    make_script: Callable[..., Any],
    steps: list[str],
    more: list[str],
    cut: int,
    fork_first: bool,
) -> None:
    parent, tail = make_script(), make_script(start_seconds=1000)
    play(parent, [step for step in steps if step not in ("enqueue", "remove", "popAll", "nouuid")])
    play(tail, [step for step in more if step not in ("enqueue", "remove", "popAll", "nouuid")])
    fork = [*parent.entries[:cut], *tail.entries]
    memory = make_memory()

    feeds = [("parent", parent.entries), ("fork", fork)]
    for session, entries in reversed(feeds) if fork_first else feeds:
        memory.feed(session, entries)
        memory.feed(session, [])

    expected = make_memory()
    expected.feed("parent", parent.entries)
    expected.feed("tail", tail.entries)
    assert memory.prompts == expected.prompts
    assert memory.uuids == parent.uuids | tail.uuids
