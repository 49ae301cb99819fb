"""A few words of six languages besides English: no rule is lost."""

from __future__ import annotations

import pytest
from made_turns import Make

from engram.enums import Kind, Scope, Status, Voice
from engram.extraction.candidate import ExtractionContext
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.user_rules import RuleRefusal, judge, lays_down_for_all_projects, rules, scope_of
from engram.text.languages import sentences_of, word_count
from tests.each_case import each_case

#: Language → prompt with a directive, and the rule in it.
SESSIONS = {
    "de": (
        "Die Tests schlagen fehl, bitte reparieren. Ab jetzt verwenden wir in diesem Projekt immer pnpm statt npm.",
        "Ab jetzt verwenden wir in diesem Projekt immer pnpm statt npm.",
    ),
    "es": (
        "Los tests fallan, arréglalos. A partir de ahora usamos siempre pnpm en este proyecto, nunca npm.",
        "A partir de ahora usamos siempre pnpm en este proyecto, nunca npm.",
    ),
    "fr": (
        "Les tests échouent, corrige-les. Désormais on utilise toujours pnpm dans ce projet, jamais npm.",
        "Désormais on utilise toujours pnpm dans ce projet, jamais npm.",
    ),
    "ja": (
        "テストが失敗しています。直してください。今後このプロジェクトでは必ずpnpmを使って、npmは使わないでください。",
        "今後このプロジェクトでは必ずpnpmを使って、npmは使わないでください。",
    ),
}


@pytest.mark.parametrize("language", SESSIONS)
def test_a_directive_is_kept_word_for_word_as_the_users(language: str, make: type[Make]) -> None:
    prompt, rule = SESSIONS[language]

    (found,) = LocalExtractor().propose([make.turn(prompt, "OK.")], ExtractionContext(project="demo"))

    assert found.summary == rule
    assert (found.voice, found.scope, found.status) == (Voice.USER, Scope.PROJECT, Status.ACTIVE)
    assert found.kind in (Kind.PREFERENCE, Kind.DECISION)


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
    assert [found.refusal for found in judge(sentence)] == [RuleRefusal.ORDER]


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


@pytest.mark.parametrize(
    "rule",
    [
        "In allen Projekten dieses Repos immer den Linter laufen lassen.",
        "Wir verwenden in allen Projekten unserer Werft immer Tabs.",
        "En todos los proyectos de este repositorio usa siempre tabuladores.",
        "Dans tous les projets de ce dépôt, utilise toujours des tabulations.",
        "In tutti i progetti di questo repo usa sempre i tab.",
        "Em todos os projetos deste repositório usa sempre tabs.",
        "In alle projecten van deze repo altijd tabs gebruiken.",
        "W każdym projekcie tego repo zawsze używaj tabulatorów.",
        "Во всех проектах этого репозитория всегда используй табы.",
        "このリポジトリのすべてのプロジェクトで必ずタブを使ってください。",
        "이 저장소의 모든 프로젝트에서 항상 탭을 사용해.",
        "在这个仓库的所有项目中，今后一律使用制表符，不要用空格。",
    ],
)
def test_a_rule_for_every_project_of_one_place_is_not(rule: str) -> None:
    assert scope_of(rule, "demo") == Scope.PROJECT
    assert not lays_down_for_all_projects(rule, rule, "demo")


def test_a_script_without_spaces_has_words_and_sentences() -> None:
    assert word_count("テストを書く") == 3
    assert word_count("write the test") == 3
    assert sentences_of("直してください。必ずpnpmを使って。") == ["直してください。", "必ずpnpmを使って。"]


@pytest.mark.parametrize(
    "sentence",
    [],
)
def test_an_order_that_is_led_in_as_one_for_the_future_is_a_rule(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@each_case(
    "sentence",
    [
        "For the future: add a search with filters.",
        "For the future, a dark mode would be nice.",
        "Für die Zukunft: baue eine Suche mit Filtern ein.",
        "Für die Zukunft: benenne die Tabelle um.",
        "In Zukunft: vielleicht eine Suche mit Filtern.",
        "Para el futuro: quizás un modo oscuro con temas.",
        "Pour l'avenir : ajoute une recherche avec filtres.",
        "Para el futuro: añade una búsqueda con filtros.",
        "Per il futuro: aggiungi una ricerca con filtri.",
        "Voor de toekomst: voeg een zoekfunctie met filters toe.",
        "Für die Zukunft: eine App mit mehr Sprachen.",
        "Für die Zukunft: zweite Version mit Karten.",
        "Für die Zukunft: Start mit zwei Servern.",
        "Für die Zukunft: Umstieg auf Postgres mit Replikation geplant.",
        "Pour la suite : la page avec les filtres.",
        "Para el futuro: una tienda con pagos en línea.",
        "Para o futuro: um painel com gráficos.",
        "For the future: maybe support more languages with plugins.",
        "For the future: perhaps a mobile app.",
        "今後、アプリを使って予約できるようにするのでお待ちください。",
    ],
)
def test_a_plan_for_the_future_is_not_a_rule(sentence: str) -> None:
    assert not rules(sentence)


@each_case(
    "prompt",
    [
        "House rules for this repo:\n- no barrel files\n- snapshots live next to the code\n\nNow add the cart.",
        "Project rules:\n* no barrel files\n* snapshots live next to the code",
        "Regeln für dieses Projekt:\n1. Keine Barrel-Dateien hier\n2. Datumsangaben nur als ISO 8601",
        "Règles de ce projet :\n- pas de jQuery ici\n- les identifiants en anglais",
        "Reglas de este proyecto:\n- nada de jQuery aquí\n- los nombres en inglés",
        "プロジェクトのルール:\n- コミットメッセージは英語で書く\n- 日付は ISO 8601 で書く",
        "このプロジェクトのルール：\n・コミットメッセージは英語で書く\n・日付は ISO 8601 で書く",
        "项目规则：\n- 提交信息用英文\n- 日期只用 ISO 8601 格式",
        "本项目的规范：\n1、提交信息用英文\n2、日期只用 ISO 8601 格式",
        "프로젝트 규칙:\n- 커밋 메시지는 영어로 작성\n- 날짜는 ISO 8601 형식으로 작성",
        "Conventions for this codebase:\n- errors are wrapped, not swallowed\n- tests sit beside the code",
        "Implement the cart page.\n\nRules for this repo:\n- no barrel files\n- snapshots live next to the code",
    ],
)
def test_every_point_below_a_heading_for_the_rules_of_the_project_is_one(prompt: str) -> None:
    assert len(rules(prompt)) == 2


@each_case(
    "prompt",
    [
        "implement the house rules\n\nHouse rules:\n- A player may not move twice\n- Always draw before discarding",
        "Build a dice game for two.\n\nHouse rules:\n- Never roll more than three dice\n- Always start with the oldest",
        "House rules:\n- Never roll more than three dice\n- Always start with the oldest\n\nNow implement these.",
        "Implementiere das Würfelspiel.\n\nRegeln:\n- Ein Spieler darf nie zweimal würfeln\n- Immer beginnt der Alte",
        "Project rules:\n- A member may never vote twice\n- Always ask for a quorum\n\nImplement the project rules.",
        "我们来做一个纸牌游戏。请实现游戏。\n\n规则：\n- 玩家永远不能出两次牌\n- 每次必须先抽牌",
    ],
)
def test_the_rules_of_a_thing_to_make_are_not_the_users(prompt: str) -> None:
    assert not rules(prompt)


@each_case(
    "prompt",
    [
        "Review these rules for this repo:\n- no barrel files\n- snapshots live next to the code",
        "Write rules for this repo:\n- no barrel files\n- snapshots live next to the code",
        "Tom's rules for this repo:\n- no barrel files\n- snapshots live next to the code",
        "These are the rules of the linter:\n- no barrel files\n- snapshots live next to the code",
        "Rules for this ticket:\n- no barrel files\n- snapshots live next to the code",
        "Are these good rules for this project?\n- no barrel files\n- snapshots live next to the code",
        "Build a card game. Rules:\n- each player gets seven cards\n- the highest card wins",
    ],
)
def test_points_below_any_other_heading_are_not(prompt: str) -> None:
    assert not rules(prompt)


@pytest.mark.parametrize(
    "sentence",
    [
        "don't edit the lockfile, EVER",
        "do not deploy from a laptop ever",
        "Don't rewrite published commits, ever again.",
        "frag mich immer vorher, bevor du etwas verschiebst",
        "Wenn du eine neue Tabelle brauchst, frag mich immer vorher.",
        "demande-moi toujours avant de supprimer une table",
        "vraag me altijd eerst of het mag",
    ],
)
def test_ever_and_always_may_follow_the_verb_and_a_pronoun(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@each_case(
    "sentence",
    [
        "I don't think it worked, ever",
        "don't you test, ever?",
        "nervt mich immer, wenn der Build bricht",
        "Warum fragst du mich immer vorher?",
        "Zeig mir immer noch den Fehler",
        "Zeig mir heute immer den Plan",
        "Tom fragt mich immer vorher",
    ],
)
def test_ever_and_always_in_other_sentences_make_no_rule(sentence: str) -> None:
    assert not rules(sentence)


@each_case(
    "sentence",
    [
        "I'm wondering if from now on we always squash commits",
        "we haven't decided yet whether we never use barrel files",
        "Ich überlege, ob wir künftig immer Biome nehmen.",
        "Aktuell erwägen wir, ab sofort immer Tabs zu verwenden",
        "keine Ahnung, ob wir ab jetzt immer Cypress nehmen",
        "Je réfléchis à toujours utiliser yarn dans ce dépôt.",
        "on ne sait pas si désormais on utilise toujours Biome",
        "Estamos valorando usar siempre Cypress a partir de ahora.",
        "no sé si de ahora en adelante usamos siempre espacios",
        "Sto pensando se d'ora in poi usare sempre yarn.",
        "ainda estou a pensar: não sei se a partir de agora usamos sempre yarn",
        "We denken erover na om vanaf nu altijd yarn te gebruiken",
        "Zastanawiam się, czy od teraz zawsze używać spacji.",
        "Мы думаем о том, чтобы всегда использовать Biome",
        "今後は常にyarnを使うか検討中です。",
        "我在考虑以后要不要一直用yarn",
        "앞으로 항상 yarn을 쓸지 고민하고 있어요",
        "I'm not sure if you should always run the linter before a commit.",
    ],
)
def test_what_is_only_considered_is_not_a_rule(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "From now on always ask me when you are wondering whether a test is needed.",
        "Keine Ahnung, ob du das weißt, aber wir verwenden hier immer pnpm.",
        "Ich überlege nicht lange: ab jetzt immer pnpm verwenden.",
        "I'm not sure about CI but from now on always run ruff before committing.",
        "Wir denken noch darüber nach aber ab jetzt immer pnpm verwenden.",
        "I don't know if you know this: always use pnpm in this repo.",
        "I'm not sure you know: never push to main.",
        "Désormais, demande-moi toujours si tu ne sais pas si un test est utile.",
        "Réfléchis toujours avant de modifier une migration.",
        "A partir de ahora pregunta siempre si no sabes qué versión usar.",
        "Pensa sempre ai test prima di fare commit.",
        "今後は必ず考えてから実装してください。",
    ],
)
def test_a_rule_about_considering_is_one(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "You should always ask me before dropping a table.",
        "You have to always warn me about breaking changes.",
        "You must always, without exception, tell me first.",
        "Siempre debes preguntarme antes de borrar una tabla.",
        "Je moet me altijd vragen voordat je iets verwijdert.",
    ],
)
def test_whoever_always_wants_to_be_asked_has_a_rule(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "You should not always ask me.",
        "Du musst mich nicht immer fragen.",
        "Warum fragst du mich immer, bevor du etwas tust?",
        "Mein Chef will mich immer fragen, bevor er was tut.",
        "Frag mich heute immer, bevor du etwas löschst.",
        "我现在在开会，会议结束之前每次都先问我。",
        "Immer musst du mich fragen, lass das bitte.",
        "Immer muss man mich fragen, das nervt.",
        "Devi sempre chiedermi tutto, basta così.",
        "Toujours me demander, c'est pénible.",
        "Altijd moet je me iets vragen, stop daarmee.",
    ],
)
def test_whoever_does_not_always_want_to_be_asked_has_none(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "vorerst immer den alten Endpunkt benutzen",
        "fürs Erste nie auf main pushen",
        "Bis auf Weiteres nie auf main pushen",
        "bis zum Release nie auf main mergen",
        "bis Freitag nie auf main mergen",
        "Heute nie auf main pushen",
        "Für diesen PR nie die neue API benutzen",
        "Pour l'instant, ne jamais pousser sur main",
        "Jusqu'à vendredi, ne jamais pousser sur main",
        "Dans ce fichier, toujours utiliser des tabulations",
        "Por ahora usar siempre la API vieja",
        "Hasta el viernes nunca hacer merge en main",
        "Fino a venerdì mai fare merge su main",
        "Per ora usare sempre la vecchia API",
        "Por enquanto usar sempre a API antiga",
        "Nesta branch nunca usar o servidor",
        "Voorlopig nooit naar main pushen",
        "Na razie zawsze używaj starego API",
        "Пока всегда используй старый API",
        "当面は必ず古いAPIを使ってください",
        "目前一律使用旧接口",
        "Until further notice never merge to main.",
        "For the moment never merge to main.",
    ],
)
def test_what_holds_only_for_the_moment_is_not_a_rule_in_any_language(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Ab heute nie auf main pushen",
        "Von heute an immer auf Deutsch antworten",
        "Immer erst die Tests laufen lassen, bevor du committest",
        "Ne jamais pousser sur main sans test",
        "Siempre usar la API nueva",
    ],
)
def test_what_begins_today_or_comes_first_lasts(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Nie bis zum Release warten, immer sofort mergen.",
        "Ne jamais attendre jusqu'à la release pour écrire le changelog.",
        "Mai aspettare fino al rilascio per scrivere le note.",
        "Wacht nooit tot vrijdag met mergen.",
        "Immer nur Montag bis Donnerstag deployen.",
        'Nie "vorerst" oder "vorläufig" in Commit-Nachrichten schreiben.',
        "Niemals das Wort „vorläufig“ in der Doku benutzen.",
        'Never use the word "currently" in docs.',
        "Greife nie auf dieses Ticket-System zu.",
        "Nunca toques este archivo.",
    ],
)
def test_a_day_or_a_word_for_the_moment_may_stand_in_a_lasting_rule(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]
