"""Text of a fixed shape (SQL, test results, commits, requirements, scenarios, talks) is pasted, up to its end."""

from __future__ import annotations

from engram.extraction.user_rules import rules
from engram.trust.voice import typed_text
from tests.each_case import each_case


@each_case(
    ("prompt", "typed"),
    [
        ("EXPLAIN SELECT port FROM ships;\nNever scan that table here.", "Never scan that table here."),
        (
            "EXPLAIN ANALYZE SELECT * FROM ships;\n Seq Scan on ships  (cost=0.0)\n   Never removed: 3\nwhy?",
            "why?",
        ),
        ("UPDATE harbour\nSET motto = 'always moor'\nWHERE id = 2;\nis it safe?", "is it safe?"),
        ("SELECT *\nFROM ships\nWHERE note = 'never sail'\n\nwhy is it slow?", "why is it slow?"),
        ("SELECT * FROM ships WHERE note = 'it is never at sea';\nwhy is it slow?", "why is it slow?"),
        ("FAIL src/mast.test.ts\nlook at that one", "look at that one"),
        ("PASS src/hull.test.ts\nFAIL src/mast.test.ts (3.1 s)\nmend it", "mend it"),
        ("--- FAIL: TestMast (0.00s)\n    mast_test.go:9: never bend\n\nwhy", "why"),
        (
            "3f2c1d9 always moor at the quay\n77ab01c never sail by night\nwhich of them broke it?",
            "which of them broke it?",
        ),
        ("SHIP-1: The mast shall always bend.\nSHIP-2: The hull shall never leak.\ndo the first", "do the first"),
        (
            "Scenario: mooring\n  Given a ship\n  When it always sinks\n  Then never moor\nwrite the steps",
            "write the steps",
        ),
        ('Exception in thread "deck" java.lang.IllegalStateException: Always moor first\n\nWhat is it?', "What is it?"),
        ("Unhandled exception. System.Exception: Never moor twice\n\nWhat is it?", "What is it?"),
        ("Warning  BackOff  3m  kubelet  always back off\n\nWhat is it?", "What is it?"),
        ("<Mast onBend={bend}>\nNever moor.\n\nI name handlers onX here.", "I name handlers onX here."),
        ("<div>\n  Always moor.\n\nMy handlers are called onX.", "My handlers are called onX."),
    ],
)
def test_the_shape_is_not_typed_and_what_follows_is(prompt: str, typed: str) -> None:
    assert typed_text(prompt).strip() == typed


@each_case(
    "prompt",
    [
        "FAIL tests must always be mended first here.",
        "<div> never closes in the header.",
        "3f2c1d9 broke the mast, revert it.",
        "SHIP-12 is done, take SHIP-13 next.",
        "UPDATE README please, and never mention masts in it.",
        "Explain the mast. Always draw it.",
        "Select the first ship from the list and never the last one.",
        "Feature: I want a mast.\nIt must bend.",
        "DROP TABLE is never allowed in migrations.\nAlways write the way back.",
        "SELECT * FROM anything is never allowed, always list the columns.",
        "TRUNCATE TABLE must never be in a migration.\nAlways use pnpm.",
        "CREATE INDEX statements run alone here.",
        "GRANT access ON request only, never by default.",
        "UTF-8 in all files.\nISO-8601 in all dates.",
        "ok mast.py",
        "Masts: always of oak.\nSails: never of silk.\nResume the work on the hull.",
        "Backend: we always use Flask\nFrontend: we never use jQuery\n\nset up the skeleton",
    ],
)
def test_a_sentence_that_begins_alike_is_typed(prompt: str) -> None:
    assert typed_text(prompt) == prompt


@each_case(
    "prompt",
    [
        "Ulla: always moor at night\nHein: never in a storm\nwho is right?",
        "Ulla: immer nachts anlegen\nHein: nie bei Sturm\nfass das zusammen",
        "Ulla : toujours amarrer de nuit\nHein : jamais par gros temps\nqu'en penses-tu ?",
        "Ulla: hay que amarrar siempre de noche\nHein: nunca con tormenta\n¿qué opinas?",
        "Ulla: ormeggia sempre di notte\nHein: mai con la burrasca\nche ne pensi?",
        "Ulla: altijd 's nachts aanleggen\nHein: nooit bij storm\nvat dit samen",
        "佐藤: 必ず夜に係留してください\n加藤: 嵐では絶対にしないで\nどう思う?",
        "王明：永远不要在夜里出海\n李强：好的\n你怎么看？",
        "Sum it up:\n\nUlla: always moor at night\nHein: never in a storm",
    ],
)
def test_a_talk_in_which_each_speaks_once_is_not_typed_where_the_user_asks_about_it(prompt: str) -> None:
    assert not any(name in typed_text(prompt) for name in ("Ulla", "Hein", "佐藤", "王明"))
    assert rules(typed_text(prompt)) == []


@each_case(
    ("prompt", "typed"),
    [
        ("what does this say: From: Bob\nAlways sail on Fridays.", "what does this say:"),
        ("explain this error: mast missing\nNever sail without one.", "explain this error:"),
        ("please review this plan: We never moor.\nAlways sail twice.", "please review this plan:"),
        ("Was heißt das: Immer zuerst ankern.\nNie segeln.", "Was heißt das:"),
        ("peux-tu traduire ? explique ceci : Toujours amarrer.\nJamais.", None),
        (
            "translate this to German: Always moor.\nNever sail.\n\nI want it in one line.",
            "translate this to German:\n\nI want it in one line.",
        ),
        ("Remember this: always moor.\nNever sail.", None),
        ("What I want is this: always moor.\nNever sail.", None),
        ("Change the description: always moor.\nNever sail.", None),
        ("Rules for these ships: always moor.\nNever sail.", None),
        ("translate this to German: Always moor.", None),
    ],
)
def test_a_text_may_begin_on_the_line_that_asks_about_it(prompt: str, typed: str | None) -> None:
    assert typed_text(prompt) == (prompt if typed is None else typed)
