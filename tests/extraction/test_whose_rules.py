"""Whose rule a sentence is and what it is about: what stands before a colon, a text to be made, what a program must do,
what was so before, and what has taken the place of something.
"""

from __future__ import annotations

from engram.extraction.user_rules import rules
from tests.each_case import each_case


def kept(prompt: str) -> list[str]:
    return [rule.sentence for rule in rules(prompt)]


@each_case(
    "prompt",
    [
        "A guy on Hacker News: never use an ORM, always write SQL.",
        "Some influencer on LinkedIn: never write tests, always ship.",
        "My boss: never push on Fridays.",
        "The framework author on Mastodon: always colocate, never share.",
        "Le chef de projet répétait toujours : ne jamais livrer le vendredi.",
        "Un tipo en Twitter: nunca uses herencia.",
        "Ein Typ auf Reddit: nie wieder ORMs benutzen.",
        "A tip from a guy on Reddit: never use tabs.",
    ],
)
def test_what_follows_the_name_of_somebody_is_theirs(prompt: str) -> None:
    assert kept(prompt) == []


@each_case(
    "prompt",
    [
        "My one rule: never rewrite history on main.",
        "Bevor du loslegst: nie ohne Rückfrage Pakete installieren.",
        "One more thing: never bump versions yourself.",
        "Before you start: always read docs/adr first.",
        "Ok, another thing: never touch the lock files.",
        "For the docs: always use American English.",
        "My guideline: never commit generated files.",
        "A correction: use pnpm, never npm.",
        "A warning: never push to main.",
        "A hard requirement: always keep the public API stable.",
        "The process: always run the tests before you commit.",
        "Das Wichtigste: niemals direkt auf main pushen.",
        "Une remarque : utilise toujours pnpm.",
        "Una nota: usa siempre pnpm.",
    ],
)
def test_what_follows_an_opening_of_the_user_s_is_the_user_s(prompt: str) -> None:
    assert kept(prompt) == [prompt]


@each_case(
    "prompt",
    [
        "Translate into German: Never leave the machine unattended. Always wear gloves.",
        "Traduz para inglês: Nunca deixes a porta aberta. Usa sempre luvas.",
        "Traduce al inglés: Nunca abras la puerta. Siempre usa guantes.",
        "Write a mail to the tenants: From now on always lock the door. Never leave bikes in the hall.",
        "Mensagem do commit: usar sempre UTC nas datas",
    ],
)
def test_all_of_a_text_to_be_written_or_translated_is_that_text(prompt: str) -> None:
    assert kept(prompt) == []


def test_a_text_ends_with_its_paragraph() -> None:
    assert kept("Translate into German: Always wear gloves.\n\nNever commit without asking me.") == [
        "Never commit without asking me."
    ]


@each_case(
    "prompt",
    [
        "Eviction must be LRU. From now on evict the oldest entry when the map is full, then return the new one.",
        "The cache must be bounded. From now on drop the smallest key when it is full.",
        "The list should stay sorted. From now on always insert by binary search.",
        "Build a small validator: user names never start with a digit, passwords are never logged.",
        "Create a cache: it never holds more than ten entries and always drops the oldest.",
        "Write a parser for dates: it always returns UTC and never throws.",
    ],
)
def test_what_a_thing_to_be_made_must_do_is_not_a_rule(prompt: str) -> None:
    assert kept(prompt) == []


@each_case(
    ("prompt", "rule"),
    [
        (
            "The tests must be green. From now on run them before you commit.",
            "From now on run them before you commit.",
        ),
        ("Eviction must be LRU. From now on ask me before you merge.", "From now on ask me before you merge."),
        ("The page must load fast. Never push to main.", "Never push to main."),
        (
            "The build has to pass. From now on always run make check before committing.",
            "From now on always run make check before committing.",
        ),
        ("It should be fast. From now on, use uv instead of pip.", "From now on, use uv instead of pip."),
    ],
)
def test_a_rule_after_what_must_be_is_one_if_it_is_about_more(prompt: str, rule: str) -> None:
    assert kept(prompt) == [rule]


@each_case(
    "prompt",
    [
        "I never understood why people use tabs",
        "I never liked YAML",
        "I've always used tabs at home",
        "I always wanted to know how B-trees work",
    ],
)
def test_what_was_always_so_is_not_a_rule(prompt: str) -> None:
    assert kept(prompt) == []


@each_case(
    "prompt",
    [
        "we moved from npm to pnpm",
        "wir haben npm durch pnpm ersetzt",
        "Wir haben Jenkins durch Gitea ersetzt.",
        "Nous avons remplacé yarn par pnpm",
        "I always squash before I merge.",
        "I never embed fonts.",
        "N'ajoute jamais de dépendance sans me demander.",
        "Ne touche jamais au dossier legacy/.",
        "Ne commite jamais sans moi.",
        "De ahora en adelante escribe primero la prueba.",
        "D'ora in poi scrivi prima il test.",
        "Désormais demande avant de supprimer un fichier.",
    ],
)
def test_what_lasts_is_a_rule(prompt: str) -> None:
    assert kept(prompt) == [prompt]


@each_case(
    "prompt",
    ["D'ora in poi fai così.", "Désormais c'est le serveur qui plante."],
)
def test_how_something_is_from_now_on_is_not_a_rule(prompt: str) -> None:
    assert kept(prompt) == []
