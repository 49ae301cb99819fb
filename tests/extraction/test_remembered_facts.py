"""What the user asks to remember is kept if it is a fact; what a thing to build must do is no rule."""

from __future__ import annotations

import pytest

from engram.extraction.user_rules import Refusal, judge, rules


@pytest.mark.parametrize(
    "sentence",
    [
        "Keep in mind that the legacy importer still needs Python 3.9.",
        "keep in mind we share the sandbox account with two other teams",
        "Bear in mind the price table is owned by accounting and must match theirs.",
        "don't forget that the prod bucket is in eu-west-1",
        "Make a note that invoices before 2021 have no VAT id.",
        "Save this to memory: our design tokens live in packages/tokens.",
        "For future reference, Dana owns the billing service.",
        "just so you know for next time, the docs site deploys from the gh-pages branch",
        "FYI for all further sessions, the Windows build is made by hand.",
        "Our nightly export is read by the bank at four, remember that.",
        "our test data is reset every night, keep that in mind",
    ],
)
def test_a_fact_to_remember_is_kept(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Denk daran, dass die API der Bank nur werktags antwortet.",
        "Behalte im Kopf, dass wir zwei Mandanten haben.",
        "Für später: der Druckdienst läuft auf Port 9100.",
        "Note pour plus tard : les PDF sont générés par un service Java.",
        "Garde en tête que le client allemand a ses propres taux.",
        "Recuerda que el servidor de pruebas está detrás de la VPN.",
        "Ten presente que el campo fecha puede venir vacío.",
        "Tieni presente che gli ordini vecchi non hanno indirizzo.",
        "Tenha em mente que o relatório fiscal é enviado às seis.",
        "Vergeet niet dat de export naar de bank in ISO-8859-1 moet.",
        "Miej na uwadze, że baza raportowa jest tylko do odczytu.",
        "Учти, что у старых заказов нет адреса доставки.",
        "覚えておいて、ステージングのDBはポート5433です。",
        "请记住订单号不是唯一的",
        "로그 서버는 서울 리전에 있다는 거 기억해 줘",
    ],
)
def test_a_fact_to_remember_is_kept_in_other_languages(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Remember that for the future.",
        "Remember that the import is still running, so we have to wait with the restart.",
        "Ricordati di aggiornare il changelog.",
    ],
)
def test_what_states_no_fact_for_later_is_not_kept(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    "prompt",
    [
        "Implement a rate limiter for the API. It has to answer with 429. Never block the event loop.",
        "Build a tool that converts csv to parquet. Always infer the types from the first thousand rows.",
        "Please design a queue table. Always index by due date.",
        "I need a script that renames the photos. Never overwrite an existing file.",
        "Add a cache to the resolver.\n\n- never cache errors\n- always expire after five minutes",
        "Fix the exporter.\n\n- always write a header\n- never round amounts",
        "Escribe un script de copias. Siempre comprime el archivo antes de subirlo.",
    ],
)
def test_what_a_thing_to_make_must_do_is_no_rule(prompt: str) -> None:
    judged = judge(prompt)

    assert {found.refusal for found in judged if found.refusal is not Refusal.UNSURE} == {Refusal.MOMENT}


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [
        (
            "Write a parser. Never block the event loop. In this repo we always use tabs.",
            "In this repo we always use tabs.",
        ),
        (
            "Build an importer. Never overwrite an existing file. From now on never use print.",
            "From now on never use print.",
        ),
        (
            "Implement the parser. Never block the event loop. By the way: never push to main.",
            "By the way: never push to main.",
        ),
        (
            "Escribe un script. Siempre comprime el archivo antes de subirlo. De ahora en adelante nunca uses npm.",
            "De ahora en adelante nunca uses npm.",
        ),
    ],
)
def test_a_rule_beside_a_task_that_is_about_more_is_kept(prompt: str, rule: str) -> None:
    assert [found.sentence for found in rules(prompt)] == [rule]


def test_a_withdrawal_means_what_was_said_before_and_not_what_to_do_instead() -> None:
    assert not rules(
        "From now on write the tests with pytest.", following="no wait, forget that, leave them as they are"
    )
