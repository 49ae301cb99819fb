"""A few words of six languages besides English: no rule and no fix is lost."""

from __future__ import annotations

import pytest
from made_turns import Make

from engram.enums import Kind, Scope, Status, Voice
from engram.extraction.candidate import Candidate, ExtractionContext
from engram.extraction.languages import sentences_of, word_count
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.user_rules import Refusal, judge, rules

#: Language → prompt with a directive, the rule in it, the reply that explains a fix, and words of its bite.
SESSIONS = {
    "de": (
        "Die Tests schlagen fehl, bitte reparieren. Ab jetzt verwenden wir in diesem Projekt immer pnpm statt npm.",
        "Ab jetzt verwenden wir in diesem Projekt immer pnpm statt npm.",
        "Behoben: der Test schlug fehl, weil `CacheKey` den Namen des Zweigs nicht enthielt und zwei Zweige denselben "
        "Eintrag in `cache.py` lasen.",
        "weil `CacheKey` den Namen",
    ),
    "es": (
        "Los tests fallan, arréglalos. A partir de ahora usamos siempre pnpm en este proyecto, nunca npm.",
        "A partir de ahora usamos siempre pnpm en este proyecto, nunca npm.",
        "Corregido: el test fallaba porque `CacheKey` no contenía el nombre de la rama y dos ramas leían la misma "
        "entrada en `cache.py`.",
        "porque `CacheKey` no contenía",
    ),
    "fr": (
        "Les tests échouent, corrige-les. Désormais on utilise toujours pnpm dans ce projet, jamais npm.",
        "Désormais on utilise toujours pnpm dans ce projet, jamais npm.",
        "Corrigé : le test plantait parce que `CacheKey` ne contenait pas le nom de la branche et que deux branches "
        "lisaient la même entrée de `cache.py`.",
        "parce que `CacheKey` ne contenait",
    ),
    "ja": (
        "テストが失敗しています。直してください。今後このプロジェクトでは必ずpnpmを使って、npmは使わないでください。",
        "今後このプロジェクトでは必ずpnpmを使って、npmは使わないでください。",
        "修正しました。原因は`CacheKey`にブランチ名が含まれていなかったため、二つのブランチが`cache.py`の同じ項目を読んでいたことです。",
        "原因は`CacheKey`",
    ),
}


def kept(language: str, make: type[Make]) -> list[Candidate]:
    prompt, _, reply, _ = SESSIONS[language]
    turn = make.turn(
        prompt,
        make.run("pytest", fails="E  KeyError: 'branch'", uuid="u1"),
        make.edit("cache.py", uuid="u2"),
        make.run("pytest", uuid="u3"),
        reply,
    )
    return LocalExtractor().propose([turn], ExtractionContext(project="demo"))


@pytest.mark.parametrize("language", SESSIONS)
def test_a_directive_is_kept_word_for_word_as_the_users(language: str, make: type[Make]) -> None:
    rule = SESSIONS[language][1]

    (found,) = [
        candidate for candidate in kept(language, make) if candidate.voice is Voice.USER and "pnpm" in candidate.summary
    ]

    assert found.summary == rule
    assert (found.scope, found.status) == (Scope.PROJECT, Status.ACTIVE)
    assert found.kind in (Kind.PREFERENCE, Kind.DECISION)


@pytest.mark.parametrize("language", SESSIONS)
def test_a_fix_is_kept_with_its_cause_command_and_error(language: str, make: type[Make]) -> None:
    told = SESSIONS[language][3]

    (fix,) = [candidate for candidate in kept(language, make) if candidate.kind is Kind.FIX]

    assert told in fix.summary
    assert fix.facts[:2] == ("E KeyError: 'branch'", "pytest")


@pytest.mark.parametrize(
    "sentence",
    [
        "Bitte keine Emojis in Commits.",
        "Verwende Tabs statt Leerzeichen.",
        "No uses emojis aquí.",
        "Usa tabuladores en vez de espacios.",
        "コミットに絵文字を使わないでください。",
        "N'utilise pas d'emojis dans les commits.",
        "Utilise des tabulations au lieu d'espaces.",
    ],
)
def test_orders_in_other_languages_are_known_and_alone_make_no_rule(sentence: str) -> None:
    assert [found.refusal for found in judge(sentence)] == [Refusal.ORDER]


@pytest.mark.parametrize(
    "sentence",
    [
        "Warum schlägt der Test immer fehl?",
        "Das lassen wir vorerst immer so.",
        "¿Por qué siempre falla?",
        "Por ahora no uses la caché.",
        "今回は使わないでください。",
        "なぜいつも失敗しますか？",
        "Pourquoi le test échoue toujours ?",
        "Pour le moment, ne touche pas au cache.",
    ],
)
def test_questions_and_passing_orders_in_other_languages_are_not(sentence: str) -> None:
    assert rules(sentence) == []


def test_a_rule_for_every_project_is_global_in_other_languages() -> None:
    for rule in (
        "In allen meinen Projekten immer zuerst den Test schreiben.",
        "En todos mis proyectos escribe siempre primero el test.",
        "すべてのプロジェクトで必ずテストを先に書くようにしてください。",
    ):
        assert [found.scope for found in rules(rule, project="demo")] == [Scope.GLOBAL], rule


def test_a_script_without_spaces_has_words_and_sentences() -> None:
    assert word_count("テストを書く") == 3
    assert word_count("write the test") == 3
    assert sentences_of("直してください。必ずpnpmを使って。") == ["直してください。", "必ずpnpmを使って。"]
