"""A rule that the next sentence limits, or that holds for a stretch of time, is not meant to last."""

from __future__ import annotations

from engram.enums import Scope
from engram.extraction.user_rules import rules
from tests.each_case import each_case


def kept(prompt: str) -> list[str]:
    return [rule.sentence for rule in rules(prompt)]


@each_case(
    "prompt",
    [
        "Never open the valves. At least until the audit is over.",
        "Always print in colour. Just for this script though.",
        "Always use mocks. But only in the first step.",
        "Never close the valves. Only for now.",
        "Immer mit Tabs einrücken. Nur in dieser Datei.",
        "Utilise toujours des tabulations. Seulement pour ce script.",
        "Usa siempre tabuladores. Solo en este archivo.",
        "Usa sempre i tab. Solo in questo file.",
        "Usa sempre tabs. Só neste ficheiro.",
        "Gebruik altijd tabs. Alleen in dit bestand.",
        "必ずタブを使ってください。このファイルだけです。",
        "For the next two hours always ask me first.",
        "Never call the network in the next 30 minutes.",
        "In den nächsten zwei Stunden nie die Pumpe neu starten.",
        "Durante las próximas dos horas nunca reinicies la bomba.",
        "From now on we use Bun. Or Deno. What do you prefer?",
        "Сегодня никогда не перезапускай насос.",
        "Aujourd'hui, ne touche jamais à la pompe.",
        "Hoy nunca reinicies la bomba.",
        "Oggi non toccare mai la pompa.",
        "Hoje nunca reinicies a bomba.",
        "Vandaag nooit de pomp herstarten.",
        "今日は絶対にポンプを再起動しないでください。",
        "今天永远不要重启水泵。",
        "Never in my life have I seen such a pump.",
        "Never have I used such a pump.",
    ],
)
def test_a_limited_rule_is_not_kept(prompt: str) -> None:
    assert kept(prompt) == []


def test_the_next_prompt_may_limit_a_rule() -> None:
    assert rules("Always use tabs.", following="Only in this file, I mean.") == []
    assert rules("Always use tabs.", following="Only the tests are left.") != []


@each_case(
    ("prompt", "rule"),
    [
        ("Never open the valves by hand. Just run the script.", "Never open the valves by hand."),
        ("Always use tabs. Only Anna may use spaces.", "Always use tabs."),
        (
            "Always use double quotes, and not only for these files.",
            "Always use double quotes, and not only for these files.",
        ),
        ("Always make a backup first. Just in case.", "Always make a backup first."),
        ("Always lint before a commit. Just for consistency.", "Always lint before a commit."),
        ("Immer erst ein Backup machen. Nur für den Fall.", "Immer erst ein Backup machen."),
        ("Usa siempre tabuladores. Solo por si acaso.", "Usa siempre tabuladores."),
        ("Gebruik altijd tabs. Alleen voor de zekerheid.", "Gebruik altijd tabs."),
        ("Always use tabs. Of course.", "Always use tabs."),
        ("Usa sempre tabs. Ou seja, nunca espaços.", "Usa sempre tabs."),
        ("Never let the tests have it.", "Never let the tests have it."),
        ("Never push code you have not had it reviewed.", "Never push code you have not had it reviewed."),
        ("If the build is red, never merge. Remember that.", "If the build is red, never merge."),
        ("A partir de hoy usa siempre pnpm.", "A partir de hoy usa siempre pnpm."),
        ("À partir d'aujourd'hui, utilise toujours pnpm.", "À partir d'aujourd'hui, utilise toujours pnpm."),
        ("这个仓库里永远不要用 eval。", "这个仓库里永远不要用 eval。"),
    ],
)
def test_a_rule_with_another_sentence_behind_it_is_kept(prompt: str, rule: str) -> None:
    assert kept(prompt) == [rule]


@each_case(
    "prompt",
    [
        "Never use var. Unless it's in the old folder.",
        "Niemals den Cache leeren. Außer nach einem Release.",
        "N'utilise jamais var. Sauf dans le vieux dossier.",
        "Nunca uses var. Salvo en la carpeta vieja.",
    ],
)
def test_a_rule_is_kept_with_its_exception(prompt: str) -> None:
    assert kept(prompt) == [prompt]


@each_case(
    "prompt",
    [
        "Our convention is camelCase for all helpers incl. the old ones.",
        "Always start scripts with `set -e; set -u;` and a comment.",
        "Immer mit Tests abgeben, mind. einer pro Funktion.",
    ],
)
def test_a_rule_is_not_cut_at_an_abbreviation_or_within_code(prompt: str) -> None:
    assert kept(prompt) == [prompt]


def test_a_rule_for_all_my_projects_is_global_in_german_too() -> None:
    (rule,) = rules("Für alle meine Projekte gilt: niemals Tabs verwenden.")

    assert rule.scope is Scope.GLOBAL
