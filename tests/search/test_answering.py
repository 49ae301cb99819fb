"""What is shown of a turn is what answers the question, not what repeats it."""

from __future__ import annotations

import pytest

from engram.search.hits import Part, are_barred
from engram.search.passages.answering import answering, complete_part, worth_of
from engram.search.passages.wanted import Wanted
from engram.search.question import coverage_of_words
from engram.text.splitting import end_of_list
from engram.transcripts.turns import Role, TextBlock
from tests.each_case import each_case

PROMPT = "The harbour bell counts up when a boat comes in, but the counter does not go down when one leaves."
LOOK = "Let me check how the bell counts boats before picking a fix."
CAUSE = (
    "The counter asks the gate in a child process, so the gate of the parent never hears that a boat has left, and "
    "every boat was counted forever."
)
REPAIR = "The bell now counts only boats that lie at the quay: `quay --present`."


def turn(*said: tuple[Role, str]) -> list[TextBlock]:
    return [TextBlock(uuid=f"u{place}", role=role, text=text) for place, (role, text) in enumerate(said)]


def parts_of(said: list[TextBlock], *texts: str) -> list[Part]:
    blocks = [next(block for block in said if text in block.text) for text in texts]
    return [Part(block.uuid, block.role, text) for block, text in zip(blocks, texts, strict=True)]


def shown(question: str, said: list[TextBlock], *found: str) -> str:
    wanted = Wanted.by(question, coverage_of_words(question))
    return "\n".join(part.text for part in answering(said, parts_of(said, *found), wanted))


def test_a_repair_that_follows_the_cause_in_the_same_message_is_shown() -> None:
    said = turn((Role.USER, PROMPT), (Role.ASSISTANT, LOOK), (Role.ASSISTANT, f"{CAUSE} {REPAIR}"))

    text = shown("how did we fix the bell counter that never went down", said, PROMPT, LOOK, CAUSE)

    assert REPAIR in text


def test_what_the_assistant_says_about_its_next_step_is_left_out() -> None:
    said = turn(
        (Role.ASSISTANT, f"{LOOK} {CAUSE} Now let me run the tests."), (Role.ASSISTANT, "I'll commit the bell.")
    )

    text = shown(
        "how does the bell count boats", said, f"{LOOK} {CAUSE} Now let me run the tests.", "I'll commit the bell."
    )

    assert text == CAUSE


def test_a_reason_in_another_message_is_shown_beside_what_repeats_the_question() -> None:
    reason = "The bell rang twice because both pilots hold a key to the bell tower."
    said = turn(
        (Role.USER, "Why did the bell ring twice? It rang twice at noon."),
        (Role.ASSISTANT, "The bell rang twice at noon."),
        (Role.ASSISTANT, f"I asked the pilots. {reason}"),
    )

    assert reason in shown("why did the bell ring twice", said, "The bell rang twice at noon.")
    assert reason not in shown("did the bell ring twice", said, "The bell rang twice at noon.")


def test_a_reason_that_follows_what_only_repeats_the_question_is_shown_with_it() -> None:
    repeats = "The second boat rings a new bell instead of the old one."
    cause = "The problem is in the quay list: it leaves out boats without a name."
    effect = "The pilots were paid for both bells."
    said = turn((Role.ASSISTANT, f"{repeats} {cause} {effect}"))

    assert shown("why did the second boat ring a new bell", said, repeats) == f"{repeats} {cause}"
    assert shown("did the second boat ring a new bell", said, repeats) == repeats


def test_a_cause_is_shown_after_a_sentence_that_gives_another_reason() -> None:
    because = "The rope was wet because the roof leaks above the tower stairs."
    said = turn((Role.ASSISTANT, f"The bell didn't ring at noon or in the evening. {because} The bell is old."))
    found = "The bell didn't ring at noon or in the evening."

    assert shown("why did the bell stay silent", said, found) == f"{found} {because}"


def test_a_part_that_adds_nothing_to_the_answer_is_left_out() -> None:
    cause = "The harbour bell rang twice because both pilots hold a key to the tower."
    aside = "The bell was painted on Friday by two sailors."
    about = "The counter at the quay showed one boat only."
    said = turn((Role.ASSISTANT, aside), (Role.ASSISTANT, cause), (Role.ASSISTANT, about))

    text = shown("why did the harbour bell ring twice when the counter showed one", said, aside, cause, about)

    assert cause in text
    assert about in text  # it has the counter
    assert aside not in text


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "why did the bells deadlock",
            "Running two bell ropes at once caused the deadlock, because both lock the tower.",
        ),
        ("why did the bells deadlock", "Waiting for the rope of both pilots caused the deadlock of the bells."),
        (
            "why does the bell's certificate expire",
            "Let's Encrypt certificates are valid for 90 days because of policy.",
        ),
        ("why did the bells deadlock", "I need to correct myself: the deadlock of the bells was caused by the rope."),
        ("why did the bells deadlock", "I should mention that the deadlock of the bells is caused by the rope."),
        ("why did the bells deadlock", "Right, I will not ring twice, because ringing twice caused the deadlock."),
        ("why did the bells deadlock", "Let me explain: the deadlock is caused by the rope of the second bell."),
        ("why did the bells deadlock", "Now the bells hold both locks, and the tower waits for the deadlock to end."),
        ("why did the bells deadlock", "Now remove one rope: the bells deadlock whenever both ropes are pulled."),
        ("did all tests of the bell pass", "All 31 tests pass."),
        ("is the bell fixed", "Fixed."),
    ],
)
def test_a_sentence_that_answers_is_shown_though_it_begins_like_the_next_step(question: str, answer: str) -> None:
    before = "I looked at the bells of the tower on Friday."
    said = turn((Role.ASSISTANT, f"{before} {answer}"))

    assert answer in shown(question, said, f"{before} {answer}")


@pytest.mark.parametrize(
    "step",
    [
        "Let's look at why the bells are missing.",
        "Running the tests of the bell again to make sure that nothing else broke.",
        "Waiting for the pilots…",
        "I need to add the bell that is missing to the tower.",
        "I should check the rope of the bell.",
        "Now add the bell that is missing to the tower.",
        "Good. Next, remove the rope that isn't used:",
        "All tests pass.",
        "Fixed.",
    ],
)
def test_what_only_says_a_step_is_left_out_of_a_reason(step: str) -> None:
    reason = "The bells were silent because both pilots held the rope."
    said = turn((Role.ASSISTANT, f"{reason} {step}"))

    assert shown("why were the bells silent", said, f"{reason} {step}") == reason


def test_the_answer_is_shown_where_only_the_step_before_it_was_found() -> None:
    step = "Let me check where the harbour bell keeps its list of boats."
    answer = "The harbour bell keeps the list of boats in `tower.go`, under the key quay."
    said = turn((Role.USER, PROMPT), (Role.ASSISTANT, step), (Role.ASSISTANT, f"I rang twice. {answer}"))

    assert shown("where does the harbour bell keep the list of boats", said, step) == answer
    assert shown("where does the harbour bell keep the list of boats", said[:2], step) == step


def test_a_sentence_with_the_words_of_the_question_is_shown_where_the_one_after_it_was_found() -> None:
    cause = "Renaming the bell as planned would silence the old tower of the lighthouse in every harbour."
    repair = "Fix: both names move into the tower file as part of the second step."
    said = turn((Role.USER, "Go on."), (Role.ASSISTANT, f"{cause} {repair}"))

    assert shown("why did renaming the bell silence the lighthouse", said, repair) == f"{cause} {repair}"
    assert shown("what is part of the second step of both names", said, repair) == repair


@pytest.mark.parametrize(
    "empty",
    [
        "Good catch.",
        "Test passes.",
        "Here's a summary of the changes:",
        "The subagent finished.",
        "Lint is clean.",
        "Now lint:",
        "There's the bug!",
        "Now I have the full context.",
    ],
)
def test_a_message_that_says_nothing_is_no_answer_for_which_the_words_of_the_user_are_cut(empty: str) -> None:
    asked = "The bell counts every boat twice. " * 8 + "It rings with no indication why."
    said = turn((Role.USER, asked), (Role.ASSISTANT, empty))

    assert shown("why does the bell ring", said, asked, empty) == asked


def test_the_words_of_the_user_end_with_a_sentence_where_one_fits() -> None:
    asked = "The bell rings when a boat comes in. " + "It-also-rings-at-noon-and-at-night-without-a-reason " * 4
    said = turn((Role.USER, asked), (Role.ASSISTANT, CAUSE))

    assert shown("why does the bell ring when a boat comes in", said, asked, CAUSE).startswith(
        "The bell rings when a boat comes in.\n"
    )


def test_a_phrase_before_the_words_of_the_user_does_not_stand_for_them() -> None:
    asked = (
        "The harbourmaster's bell unintentionally rings twice whenever incoming sailing boats approach, because "
        "both lighthouse-keepers independently own separate keys."
    )
    said = turn((Role.USER, f"Sure. {asked}"), (Role.ASSISTANT, CAUSE))

    assert "bell unintentionally rings twice" in shown("why does the bell ring twice", said, f"Sure. {asked}", CAUSE)


def test_a_list_of_sources_is_no_answer_unless_a_page_is_asked_for() -> None:
    sources = "Sources:\n- [How a bell is hung](https://example.org/bell)"
    said = turn((Role.ASSISTANT, CAUSE), (Role.ASSISTANT, sources))

    assert shown("why does the bell count every boat", said, CAUSE, sources) == CAUSE
    assert "https://example.org/bell" in shown("which page shows how a bell is hung", said, CAUSE, sources)


def test_a_pasted_log_does_not_push_the_answer_off_the_screen() -> None:
    log = "\n".join(f"bell_tower_test.go:{line}: counter of boats at the quay is {line}" for line in range(40))
    said = turn((Role.USER, log), (Role.ASSISTANT, CAUSE))

    text = shown("why does the bell counter of boats grow", said, log, CAUSE)

    assert text.endswith(CAUSE)
    assert len(text) < len(CAUSE) + 200


def test_a_sentence_that_was_judged_wrong_is_not_added() -> None:
    said = turn((Role.ASSISTANT, f"{CAUSE} {REPAIR}"))
    question = "how did we fix the bell counter that never went down"
    wanted = Wanted.by(question, coverage_of_words(question), {REPAIR.casefold()})

    text = "\n".join(part.text for part in answering(said, parts_of(said, CAUSE), wanted))

    assert CAUSE in text
    assert REPAIR not in text


@pytest.mark.parametrize(
    ("sentences", "barred", "wrong"),
    [
        (["Use rope.", "It is the rule of the tower."], "we never use rope. use rope. no.", []),
        (["We never use rope.", "Use  rope.", "No."], "we never use rope. use rope. no.", [0, 1, 2]),
        (["Use rope.", "It is the rule of the tower."], "use rope.", [0]),
        (["Never use rope.", "It is the rule of the tower."], "use rope.", []),
        (["It said so.", "The rope of the tower is green."], "no. the rope of the tower is green. so.", [1]),
        (["Rope of the tower is green."], "the europe of the tower is green.", []),
    ],
)
def test_a_sentence_is_wrong_where_the_text_that_was_judged_so_stands_or_if_it_says_enough(
    sentences: list[str], barred: str, wrong: list[int]
) -> None:
    assert [place for place, is_wrong in enumerate(are_barred(sentences, {barred})) if is_wrong] == wrong


@pytest.mark.parametrize(
    ("question", "text", "is_answer"),
    [
        ("why did the bell ring twice", "The bell rang twice because both pilots have keys.", True),
        ("why did the bell ring twice", "The bell rang twice at noon.", False),
        ("why did the bell ring twice", "The bell printed `it was never rung`.", False),
        ("what was wrong with the bell", "The problem was that the bell had no clapper.", True),
        ("how did we fix the bell", "Fixed the bell by a new clapper.", True),
        ("how did we fix the bell", "The bell is broken.", False),
        ("wie wurde die Glocke repariert", "Die Glocke wurde ersetzt.", True),
        ("when did the bell ring", "Fixed the bell, because it rang.", False),
    ],
)
def test_an_answer_is_worth_something_if_it_has_the_form_that_is_asked_for(
    question: str, text: str, is_answer: bool
) -> None:
    wanted = Wanted.by(question, coverage_of_words(question))

    assert (worth_of([Part("u", Role.ASSISTANT, text)], wanted) > 0) is is_answer
    assert worth_of([Part("u", Role.USER, text)], wanted) == 0


HARBOUR = """All 4 berths of the inner harbour are taken:
1. Berth one: a ketch
2. Berth two: a sloop

3. Berth three: a tug
   with a tall funnel
4. Berth four: the pilot's cutter

The outer harbour is empty."""


def test_a_list_that_begins_is_shown_to_its_end() -> None:
    found = HARBOUR[: HARBOUR.index("\n\n3.")]
    said = turn((Role.ASSISTANT, HARBOUR))

    assert shown("what are the four berths of the inner harbour", said, found) == HARBOUR.rpartition("\n\n")[0]


@pytest.mark.parametrize("asked", ["what are the berths of the inner harbour", "which berths does the harbour have"])
def test_a_list_that_is_too_long_says_that_it_goes_on(asked: str) -> None:
    berths = [f"- Berth {number} of the inner harbour: {'a very long ketch ' * 4}" for number in range(12)]
    said = turn((Role.ASSISTANT, "The berths of the inner harbour:\n" + "\n".join(berths)))

    text = shown(asked, said, "The berths of the inner harbour:\n" + "\n".join(berths[:2]))

    assert text.splitlines()[-1].endswith(" …")
    assert "Berth 11" not in text


def test_a_list_that_ends_is_not_said_to_go_on() -> None:
    said = turn((Role.ASSISTANT, f"{HARBOUR}\n- Another list."))

    assert shown("what is in berth four", said, "4. Berth four: the pilot's cutter").endswith("cutter")


PIER = "To rotate the pier, do this:"
BOLLARDS = " ".join(f"bollard{number}" for number in range(30))


@pytest.mark.parametrize(
    "rest",
    [
        "1. Stop the crane:\n```sh\nlever pause\n```\n2. Turn the key.\n3. Start it again.",
        "1. Stop the crane.\n\n```sh\nlever pause\n```\n\n2. Turn the key.",
        "1. **Crane.** It stands.\n\nIt has never been moved.\n\n2. **Key.** It fits.\n3. **Lever.** It is free.",
        "1. Stop the crane.\n   **Important**\n2. Turn the key.\n3. Start it again.",
        "1. Stop the crane.\n   **Note:**\n   - slow\n2. Turn the key.",
        "- Stop the crane.\n\n  #### Why\n  It is old.\n- Turn the key.",
        "1. Stop the crane:\n   | a | b |\n   |---|---|\n   | 1 | 2 |\n2. Turn the key.",
        "1. Stop the crane.\n2. Turn the key.\n4. Start it again.\n5. Wait.",
        "3. Stop the crane.\n2. Turn the key.\n1. Start it again.",
        "0. Stop the crane.\n1. Turn the key.",
        "1. Stop the crane.\n\n---\n\n2. Turn the key.\n\n---\n\n3. Start it again.",
        "1. Stop the crane.\n\n**Then the key**\n\n2. Turn the key.\n3. Start it again.",
        "1. Stop the crane.\n~~2. Turn the key.~~\n3. Start it again.",
        "1. **Crane**\n- Stop it\n- Wait\n\n2. **Key**\n- Turn it",
        "1. Stop the crane.\n\n- now\n- at once\n\nThen wait.\n\n2. Turn the key.",
        "- Stop the crane, which\nstands at the quay.\n- Turn the key.",
        "- Stop the crane.\n- Turn the key, which\nhangs at the quay.",
    ],
)
def test_a_list_that_is_cut_says_so_whatever_stands_between_its_items(rest: str) -> None:
    whole = f"{PIER}\n\n{rest}"
    said = turn((Role.ASSISTANT, whole))
    last = whole.splitlines()[-1]

    assert last.lstrip("-12345. ") in shown("how to rotate the pier", said, PIER)
    assert shown("how to rotate the pier", said, PIER).endswith(last)
    assert shown("how to rotate the pier", turn((Role.ASSISTANT, f"{whole} {BOLLARDS}")), PIER).endswith(" …")


@pytest.mark.parametrize(
    "below",
    [
        "\n\n* Another list\n* Another still",
        "The crane is idle:\n- Another list",
        "The crane is idle.\n- Another list",
        "## Cranes\n\n- Another list",
        "**Cranes**\n\n- Another list",
        "---\n\n- Another list",
        "1. Another list\n2. Another still",
        "```\n- Another list\n```",
    ],
)
def test_another_list_is_not_part_of_the_one_above(below: str) -> None:
    text = f"The pier is old:\n- It leans\n- It creaks\n\n{below}"

    assert end_of_list(text, len("The pier is old:")).at == text.index("creaks") + len("creaks")
    assert end_of_list(text, text.index("creaks") + len("creaks")).at == text.index("creaks") + len("creaks")


@pytest.mark.parametrize(
    ("rest", "first"),
    [
        ("- Crane.\n- Key.\n\nThe following is forbidden.\n\n- Never smoke.", "- Crane.\n- Key."),
        ("- Crane.\n\nIt has never been moved.\n\n```\nlever\n```\n\n- Key.", "- Crane."),
        ("- Crane, which\nstands.\n\nIt has never been moved.\n\n- Key.", "- Crane, which\nstands."),
        ("- Crane.\n\n---\n\n- Key.", "- Crane."),
        ("- Crane.\n---\n- Key.", "- Crane."),
        ("- Crane.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- Key.", "- Crane."),
        ("1. Crane.\n\nIt is old.\n\n1. Key.", "1. Crane."),
        ("3. Crane.\n\nIt is old.\n\n2. Key.", "3. Crane."),
        ("1. Crane.\n\n## The key\n\n2. Turn it.", "1. Crane."),
        ("1. Crane.\n\n- slow\n- old", "1. Crane."),
    ],
)
def test_a_list_is_cut_with_a_mark_in_front_of_what_may_be_part_of_it(rest: str, first: str) -> None:
    said = turn((Role.ASSISTANT, f"{PIER}\n\n{rest}"))

    assert shown("how to rotate the pier", said, PIER) == f"{PIER}\n\n{first} …"
    assert end_of_list(rest, rest.index("Crane")).may_go_on
    assert not end_of_list(first, first.index("Crane")).may_go_on


@pytest.mark.parametrize(
    "below",
    [
        "The crane is idle.\n\n1. Another list\n2. Another still",
        "The crane is idle:\n\n1. Another list",
        "**Cranes**\n1. Another list",
        "## Cranes\n\n1. Another list",
        "## Cranes\n\n- Another list",
    ],
)
def test_a_list_with_numbers_of_its_own_is_another(below: str) -> None:
    text = f"1. It leans\n2. It creaks\n\n{below}"

    assert end_of_list(text, 5).at == text.index("creaks") + len("creaks")
    assert not end_of_list(text, 5).may_go_on


@pytest.mark.parametrize("text", [f"The pier is closed to {BOLLARDS * 4}.", f"The pier is closed:\n- {BOLLARDS * 4}"])
def test_a_text_that_is_whole_is_not_said_to_go_on(text: str) -> None:
    assert shown("what of the pier", turn((Role.ASSISTANT, text)), text) == text


def completed(part: str, *said: str) -> str:
    """Return what a hit shows of a turn whose assistant said this, of which the search found ``part``."""
    blocks = turn(*((Role.ASSISTANT, text) for text in said))
    (found,) = parts_of(blocks, part)
    question = "why did the bell ring twice"
    wanted = Wanted.by(question, coverage_of_words(question))
    return complete_part(found, blocks, wanted).text


@each_case(
    ("part", "message", "shown_text"),
    [
        (
            "The bell rang twice because:",
            "The bell rang twice because:\n\n1. Both pilots hold a key.\n2. The rope is worn.",
            "The bell rang twice because:\n1. Both pilots hold a key.\n2. The rope is worn.",
        ),
        (
            "It rang at noon. **The reasons are as follows:**",
            "It rang at noon. **The reasons are as follows:**\n```sh\nring --twice\n```\n",
            "It rang at noon. **The reasons are as follows:**\nring --twice",
        ),
        (
            "The bell rang.\n\n## Reasons",
            "The bell rang.\n\n## Reasons\n\nWind.",
            "The bell rang.\n\n## Reasons\nWind.",
        ),
        ("The bell rang twice.\nHere is why:", "The bell rang twice.\nHere is why:", "The bell rang twice."),
        ("The bell rang.\nThe cause:", "The bell rang.\nThe cause:\nLet me look.", "The bell rang."),
        ("Here is why:", "Here is why:", ""),
        ("Good point.\nLet me add a rope:", "Good point.\nLet me add a rope:", ""),
        ("It rang.\n\n4. **`bell.c`**:", "It rang.\n\n4. **`bell.c`**:", "It rang."),
        (
            "The worn clapper has to be removed:",
            "The worn clapper has to be removed:",
            "The worn clapper has to be removed:",
        ),
        (
            "The causes:",
            "The causes:\n\n**B. Wind** (`gust.c`): It blew. It turned.\n\n**C. Rain** (`wet.c`): It fell.",
            "The causes:\n**B. Wind** (`gust.c`): It blew. It turned.\n\n**C. Rain** (`wet.c`): It fell.",
        ),
    ],
)
def test_no_part_ends_at_an_introduction(part: str, message: str, shown_text: str) -> None:
    assert completed(part, message) == shown_text


def test_only_the_beginning_of_a_long_text_that_is_introduced_is_shown() -> None:
    text = completed("The reason is this:", f"The reason is this:\n\n{'wind and rain ' * 40}")

    assert text.startswith("The reason is this:\nwind and rain")
    assert text.endswith(" …")
    assert len(text.split()) < 50
