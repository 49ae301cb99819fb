"""A rule ends when the user says that something else has taken its place, in any of the languages."""

from __future__ import annotations

import pytest
from branch_sessions import Workshop

from engram.enums import Actor, Status, Voice
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.rule_endings import takings_back
from engram.extraction.user_rules import RuleRefusal, judge, rules
from engram.memories.save import pin_memory
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import all_memories
from engram.models.memories.memory_undo import undo_change
from engram.trust.voice import typed_text


def after_both(workshop: Workshop, rule: str, said: str) -> dict[str, Status]:
    """Return the status of what is kept of the user's after a session with a rule and another one, by summary."""
    for session, prompt in (("one", rule), ("two", said)):
        workshop.work("main", prompt, session=session)
        after = extracted(workshop, session)
    return after


def extracted(workshop: Workshop, session: str) -> dict[str, Status]:
    """Extract a session and return the status of what is kept of the user's, by summary."""
    extract_session(
        workshop.store,
        workshop.sessions[session],
        extractor=LocalExtractor(),
        embedder=None,
        settings=workshop.settings,
    )
    return {memory.summary: memory.status for memory in all_memories(workshop.store) if memory.voice is Voice.USER}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("In this repo we always use npm.", "we moved from npm to pnpm last week, so use pnpm from now on"),
        ("we use npm here", "moving to pnpm: from now on we use pnpm here instead of npm"),
        ("we always use jest for tests", "we switched from jest to vitest yesterday"),
        ("we always use Redux for state", "we've just replaced Redux with Zustand"),
        ("wir verwenden immer jest für die Tests", "wir sind von jest auf vitest umgestiegen"),
        ("ab jetzt immer Tabs statt Leerzeichen verwenden", "das mit den Tabs gilt nicht mehr, wir nehmen Leerzeichen"),
        ("мы всегда используем yarn", "мы перешли с yarn на pnpm"),
        ("we use Docker Compose for local runs", "btw, we've just moved from Docker Compose to Tilt, so use that"),
        ("we always use npm here", "use pnpm instead of npm from now on"),
        ("we use black for formatting, always", "ok we moved to ruff format, black is gone"),
        ("we always use lodash", "we got rid of lodash yesterday"),
        ("we always use lodash", "lodash is no longer used"),
        ("we use poetry here", "poetry is gone, so use uv"),
        ("Always lint with flake8 before pushing.", "we're on ruff now, flake8 is gone"),
        ("Always lint with flake8 before pushing.", "flake8 is gone, we're using ruff now"),
        ("Always lint with flake8 before pushing.", "we moved from flake8 to ruff"),
        ("wir verwenden immer npm", "wir sind jetzt bei pnpm, npm ist raus"),
        ("Always use underscore for array helpers.", "no more underscore please, plain js from now on"),
        ("Always use underscore for array helpers.", "from now on no more underscore"),
        ("wir verwenden immer npm", "ab jetzt bitte kein npm mehr"),
        ("Always use moment.js for dates.", "stop using moment, use date-fns for all dates from now on"),
        ("wir verwenden immer npm", "wir nutzen kein npm mehr"),
        ("wir verwenden immer npm", "wir verwenden npm nicht mehr"),
        ("utilise toujours Redis", "on n'utilise plus Redis"),
        ("en este proyecto usamos siempre yarn", "ya no usamos yarn"),
        ("usiamo sempre yarn", "non usiamo più yarn"),
        ("we gebruiken altijd yarn", "we gebruiken geen yarn meer"),
        ("今後は必ず jest を使ってください", "jest はもう使わない"),
        ("wir verwenden immer npm", "ab jetzt nehmen wir pnpm statt npm"),
        ("usiamo sempre yarn", "adesso usiamo pnpm invece di yarn"),
        ("zawsze używamy yarn", "przeszliśmy z yarn na pnpm"),
        ("必ず TypeScript で書いてください。", "その TypeScript のルールはもう要らない"),
        ("必ず TypeScript で書いてください。", "TypeScriptのルールはもう不要です。"),
        ("항상 TypeScript로 작성하세요.", "그 TypeScript 규칙은 이제 필요 없어요"),
        ("항상 TypeScript로 작성하세요.", "TypeScript 규칙은 더 이상 적용하지 마."),
        # The old thing is not named.
        ("we always use npm here", "switch everything to pnpm"),
        ("we always use npm here", "please migrate the whole project to pnpm, so use that"),
        ("we always use npm here", "from now on we use pnpm"),
        ("always use npm in this project", "from now on we use pnpm"),
        ("always use npm to install packages", "we use pnpm now"),
        ("we always use npm here", "stop using npm, use pnpm"),
        ("wir verwenden immer npm", "stell bitte alles auf pnpm um"),
        ("utilise toujours jest", "passe tout sur vitest"),
        ("必ず npm を使ってください。", "全部pnpmに切り替えてください"),
    ],
)
def test_a_rule_in_favour_of_what_was_left_is_over(workshop: Workshop, rule: str, said: str) -> None:
    assert after_both(workshop, rule, said)[rule] == Status.ARCHIVED


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("we use pnpm instead of npm", "from now on we use pnpm here instead of npm"),
        ("Never use npm here.", "we moved from npm to pnpm"),
        ("we always use jest for tests", "what if we switched from jest to vitest"),
        ("we always use jest for tests", "we almost moved from jest to vitest"),
        ("we always use jest for tests", "Bob says we moved from jest to vitest"),
        ("we always use jest for tests", "should we have moved from jest to vitest?"),
        ("we always use jest for tests", "for now we use vitest instead of jest on this branch"),
        ("always use axios for http calls", "we moved the docs from gitbook to docusaurus"),
        ("never deploy on fridays", "we moved from monday to friday"),
        ("always use the staging db", "we use the new db now, not the old"),
        ("never use lodash", "we got rid of lodash yesterday"),
        ("always use axios for http calls", "the error with axios is gone"),
        ("we always use lodash", "is lodash gone?"),
        ("we always use redis for caching", "redis is gone, so the tests fail"),
        ("we always use docker for local runs", "hey, docker is gone"),
        ("we always use docker for local runs", "docker is gone, we're on a plane now"),
        ("Always lint with flake8 before pushing.", "Tom says we're on ruff now, flake8 is gone"),
        ("Always lint with flake8 before pushing.", "we're on ruff now in the docs, flake8 is gone there"),
        ("Always use underscore for array helpers.", "no more underscore errors from now on"),
        ("Always use underscore for array helpers.", "no more underscore in the docs from now on"),
        ("we always ship with tests", "no more tests, let's ship"),
        ("wir verwenden immer npm", "heute kein npm mehr"),
        ("wir verwenden immer npm", "jetzt kein npm mehr"),
        ("Always use moment.js for dates.", "stop using moment for a moment, use the debugger"),
        ("Always use moment.js for dates.", "stop using moment, use the debugger"),
        ("we always use lodash", "we got rid of lodash in the docs"),
        ("wir verwenden immer npm", "Ben sagt, wir nutzen kein npm mehr"),
        ("en este proyecto usamos siempre yarn", "ya no usamos yarn en el frontend"),
        ("we always use redis for caching", "We're now on vacation now, redis is out"),
        ("we always use redis for caching", "we're on call now, redis is gone"),
        ("wir verwenden immer redis", "wir sind jetzt auf Dienstreise, redis ist weg"),
        ("we always use npm here", "switch everything to dark mode"),
        ("we always use npm here", "switch everything to pnpm?"),
        ("we always use npm here", "switch everything in the docs to pnpm"),
        ("we always use npm here", "use pnpm now"),
        ("we always use jest for tests", "use vitest for new tests from now on"),
        # The rule is about another thing of the same name, or for one place or purpose.
        ("always use black for the borders of charts", "from now on we use yapf"),
        ("always use requests in chunks of 50", "from now on we use httpx"),
        ("always use spaces in prefixes of commit messages", "from now on we use tabs"),
        ("always use javascript for config files", "we use typescript now"),
        ("always use sqlite for tests", "we use postgres now"),
        ("always use pylint for types only", "we use ruff now"),
        ("we always use npm here", "stop using npm for this one, use pnpm"),
        ("we always use npm here", "stop using npm, use pnpm for the docs"),
        # Only one place, somebody else, or undone since.
        ("we always use npm here", "in the other repo we moved from npm to pnpm"),
        ("we always use npm here", "we've switched from npm to pnpm for the frontend"),
        ("we always use npm here", "I replaced npm with yarn in one example of the docs"),
        ("we always use npm here", "we switched from npm to pnpm in 2021 and back again in 2023"),
        ("we always use npm here", "I thought we moved from npm to pnpm, but no"),
        ("we always use npm here", "write a blog post about how we moved from npm to pnpm"),
        ("we always use npm here", "on the branch spike/pnpm we use pnpm now instead of npm"),
        ("we always use npm here", "add a flag so users can use pnpm instead of npm from now on"),
        ("wir verwenden immer npm", "wir sind nicht von npm auf pnpm umgestiegen"),
        ("wir verwenden immer npm", "im Frontend verwenden wir jetzt pnpm statt npm"),
        ("usiamo sempre yarn", "nel progetto di Luca siamo passati da yarn a pnpm"),
        ("we gebruiken altijd yarn", "we zijn niet van yarn naar pnpm overgestapt"),
        ("zawsze używamy yarn", "nie przeszliśmy z yarn na pnpm"),
        ("мы всегда используем yarn", "мы не перешли с yarn на pnpm"),
        # Another thing by that name, another side of it, or another rule with the same article.
        ("always run npm audit before a release", "we moved from npm to pnpm"),
        ("never publish to npm without asking", "we moved from npm to pnpm"),
        ("always ask before deleting files", "we replaced the files with symlinks"),
        ("always use react query for fetching", "we moved from react to preact"),
        ("we always use GitHub Actions", "we moved from GitHub to GitLab"),
        ("immer den Linter vor dem Commit laufen lassen", "das mit den Farben gilt nicht mehr"),
        ("必ず TypeScript で書いてください。", "Python のルールはもう要らない"),
        ("必ず TypeScript で書いてください。", "TypeScript のルールは必要ですか"),
        ("항상 TypeScript로 작성하세요.", "Python 규칙은 이제 필요 없어요"),
        ("항상 TypeScript로 작성하세요.", "TypeScript 규칙을 잊어버리지 마"),
        ("항상 TypeScript로 작성하세요.", "TypeScript 규칙을 취소하지 마세요"),
        ("항상 TypeScript로 작성하세요.", "TypeScript 규칙은 폐기하지 말아줘"),
        ("항상 TypeScript로 작성하세요.", "TypeScript 규칙을 취소하면 안돼"),
        # What this project left is still used in the others.
        ("In all my projects always use npm.", "we moved from npm to pnpm"),
        # Sorry for something else.
        ("never push to main", "sorry, my bad, continue"),
    ],
)
def test_a_rule_stays_where_nothing_has_taken_its_place(workshop: Workshop, rule: str, said: str) -> None:
    assert after_both(workshop, rule, said)[rule] == Status.ACTIVE


def test_a_rule_stays_where_the_next_prompt_undoes_the_switch(workshop: Workshop) -> None:
    workshop.work("main", "we always use npm here", session="one")
    extracted(workshop, "one")
    for prompt in ("switch everything to pnpm", "no, wait, leave it as it is"):
        workshop.work("main", prompt, session="two")

    assert extracted(workshop, "two")["we always use npm here"] == Status.ACTIVE


@pytest.mark.parametrize("order", ["stop using npm, use pnpm", "stop using lodash, use plain functions"])
def test_an_order_to_use_another_thing_is_no_rule_and_says_why(order: str) -> None:
    assert [found.refusal for found in judge(order)] == [RuleRefusal.ORDER]
    assert [found.refusal for found in judge(f"{order} from now on")] == [None]


def test_a_rule_that_a_person_pinned_stays(workshop: Workshop) -> None:
    after_both(workshop, "we always use npm here", "Fine.")
    (kept,) = [memory for memory in all_memories(workshop.store) if memory.summary == "we always use npm here"]
    pin_memory(workshop.store, kept.episode_id, actor=Actor.USER)

    assert after_both(workshop, "Go on.", "we moved from npm to pnpm")[kept.summary] == Status.ACTIVE


def test_a_withdrawal_that_is_read_again_ends_no_other_rule(workshop: Workshop) -> None:
    slow, fast = "Always run the slow browser tests before you push.", "Always run the fast unit tests."
    after_both(workshop, slow, "Fine.")
    after_both(workshop, fast, "Forget the rule that you run the slow browser tests.")

    assert after_both(workshop, "Go on.", "Now mend the parser.") == {slow: Status.ARCHIVED, fast: Status.ACTIVE}


def test_a_withdrawal_of_a_pinned_rule_ends_no_other_rule(workshop: Workshop) -> None:
    slow, fast = "Always run the slow browser tests before you push.", "Always run the fast unit tests."
    after_both(workshop, slow, "Fine.")
    after_both(workshop, fast, "Fine.")
    pinned = next(memory for memory in all_memories(workshop.store) if memory.summary == slow)
    pin_memory(workshop.store, pinned.episode_id, actor=Actor.USER)

    kept = after_both(workshop, "Go on.", "Forget the rule that you run the slow browser tests.")

    assert kept == {slow: Status.ACTIVE, fast: Status.ACTIVE}


def test_a_withdrawal_means_no_rule_that_was_given_later(workshop: Workshop) -> None:
    workshop.work("main", "Always run the unit tests.", session="one")
    workshop.work("main", "Forget the rule that you run the slow browser tests.", session="two")
    workshop.work("main", "Always run the slow browser tests before you push.", session="three")

    after = [extracted(workshop, session) for session in ("three", "one", "two")][-1]

    assert after["Always run the unit tests."] == Status.ARCHIVED
    assert after["Always run the slow browser tests before you push."] == Status.ACTIVE


def test_a_rule_that_ended_so_can_be_brought_back(workshop: Workshop) -> None:
    after_both(workshop, "we always use npm here", "we moved from npm to pnpm")
    (kept,) = [memory for memory in all_memories(workshop.store) if memory.summary == "we always use npm here"]
    ending = history_of(workshop.store, kept.episode_id)[-1]
    assert kept.status == Status.ARCHIVED

    with workshop.store.transaction() as tx:
        undo_change(tx, ending, actor=Actor.USER)

    assert workshop.stored(kept).status == Status.ACTIVE


def test_what_shall_not_be_used_any_more_is_over() -> None:
    (taken,) = takings_back("don't use axios any more, always use fetch")

    assert taken.is_about("Always use axios.")
    assert not taken.is_about("Always use fetch.")
    assert not taken.is_about("Never use axios.")
    assert not takings_back("don't use axios for the upload, use fetch")


def test_what_was_left_is_over_within_a_session_too() -> None:
    (taken,) = takings_back("we moved from npm to pnpm")

    assert taken.is_about("We always use npm.")
    assert not taken.is_about("We use pnpm, not npm.")


@pytest.mark.parametrize(
    "prompt",
    [
        "pls never ever commit to main directly ok? open a PR instead",
        "never ever edit the lockfile by hand, okay?",
        "Can you please never push without asking me?",
        "Don't ever run the prod seed script again!!!",
        "Bitte nie wieder ungefragt Dateien löschen!",
        "niemals den legacy Ordner anfassen",
        "ne jamais supprimer les migrations",
        "siempre ejecutar los tests antes",
        "The staging db is on port 5544. Remember that please.",
        "/commit from now on never mention the ticket number in the subject",
    ],
)
def test_a_plain_rule_or_fact_is_kept(prompt: str) -> None:
    assert len(rules(prompt)) == 1


@pytest.mark.parametrize(
    "prompt",
    [
        "For the future: perhaps we use Redis.",
        "Für die Zukunft: vielleicht immer Redis nehmen",
        "Maybe always use tabs",
        "we decided nothing yet",
        "can you always trust the cache?",
        "we always use tabs, right?",
        "Immer musst du alles kaputt machen",
        "Immer noch dieselben Fehler bei den Modulen, bitte fixen",
        "ab sofort schlägt immer der Build fehl",
        "ab jetzt immer so wie gerade",
        "これからはずっとこのやり方でお願いします。",
        "从现在开始总是报错",
        "toujours premier dans la liste",
        "nunca termina de cargar",
        "we're on step 3 now",
        "we're on the login page now and it fails",
        "We're on Friday now",
        "we're using React now and it still fails",
        "Fix the parser. Remember that.",
        "The server is down. Remember that.",
        "Is the db on 5544? Remember that?",
        "/review never comment on style",
        "Don't ever merge with failing lint, is what our bot keeps posting.",
        '"Don\'t ever share your password" is the text of the banner, please centre it',
        "Don't ever see this error on my laptop, only in CI",
        "Could you make sure to always run the tests before you finish this one?",
        "Can you please always show the newest comment on top?",
        "Can you make sure to never return null from parse()?",
        "We had this bug last year and it took days. Remember that?",
        "从现在开始用户总是看到旧数据",
        "we're on Zoom now",
        "we're now on Staging",
    ],
)
def test_what_only_resembles_one_is_not(prompt: str) -> None:
    assert rules(prompt) == []


def test_a_guess_says_why_it_is_not_a_rule() -> None:
    assert [found.refusal for found in judge("For the future: perhaps we use Redis.")] == [RuleRefusal.UNSURE]


def test_a_withdrawal_is_kept_in_the_words_that_were_said() -> None:
    (taken,) = takings_back(typed_text("Actually scratch the rule about pnpm our boss recommended"))

    assert taken.sentence == "Actually scratch the rule about pnpm"
