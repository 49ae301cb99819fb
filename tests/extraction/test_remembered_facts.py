"""What the user asks to remember is kept if it is a fact; what a thing to build must do is no rule."""

from __future__ import annotations

import re

import pytest

from engram.extraction.rule_endings import takings_back
from engram.extraction.user_rules import is_rule, rules
from tests.each_case import each_case


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
def test_what_a_thing_to_make_must_do_is_not_a_rule(prompt: str) -> None:
    assert not rules(prompt)


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


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [],
)
def test_a_rule_of_how_to_work_is_kept_beside_a_task(prompt: str, rule: str) -> None:
    assert [found.sentence for found in rules(prompt)] == [rule]


@pytest.mark.parametrize(
    "prompt",
    [
        "Build the uploader.\n\nThank you.\n\nNever abbreviate variables.",
        "Open a ticket. Create a branch. Never abbreviate variables.",
        "Code review took long. Never abbreviate variables.",
        "Write clear names. Never abbreviate variables.",
        "The programme stopped. Never abbreviate variables.",
        "Fix the exporter.\n\n## Rules\n\n- Never abbreviate variables.",
    ],
)
def test_a_rule_is_kept_where_nothing_to_make_is_asked_for_in_its_paragraph(prompt: str) -> None:
    assert [found.sentence for found in rules(prompt)] == ["Never abbreviate variables."]


@pytest.mark.parametrize(
    "prompt",
    [
        "Never use emojis. Create a parser for invoices. Always trim the lines. Scratch that.",
        "Never use emojis. Implement the cache. Never store more than ten entries. Forget that.",
        "Never use emojis. Napisz importer. Nigdy nie nadpisuj plików. Zapomnij.",
    ],
)
def test_a_withdrawal_after_what_a_thing_must_do_means_that(prompt: str) -> None:
    assert [found.sentence for found in rules(prompt)] == ["Never use emojis."]


@pytest.mark.parametrize(
    "sentence",
    [
        "For later: rename the invoice table.",
        "Note for later, ask Dana about the tax ids.",
        "For later versions: add a dark mode to the page.",
        "Für später: benenne die Tabelle um.",
        "Remember that the build is red.",
        "Remember: the demo is on Thursday.",
        "The pipeline is broken, keep that in mind.",
        "They said the tests are slow, remember that.",
        "Vergiss nicht, dass die Pipeline gerade rot ist.",
        "Souviens-toi que le serveur est en panne.",
        "Pamiętaj, że serwer teraz nie działa.",
        "记住服务器现在挂了。",
        "In generale i test sono rossi.",
    ],
)
def test_a_task_for_later_and_news_of_the_moment_are_not_rules(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "For later: prod runs on Debian 12.",
        "For later: never use floats for money.",
        "Keep in mind that the server is down every Sunday.",
        "Remember that the staging server is in Frankfurt.",
        "Keep in mind that the team is still moving to Postgres.",
        "Always pin versions, we are still running Node 16.",
        "Never put screenshots in this issue template.",
        "Pamiętaj, żadnych emoji.",
        "Onthoud, geen emoji's in commits.",
        "记得每次都用 uv。",
    ],
)
def test_what_is_remembered_for_good_is_kept(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    ("sentence", "rules_meant"),
    [
        ("Forget that rule, the one about squashing merges.", ["Always squash merges."]),
        ("Forget the thing I said, about deploying on Fridays.", ["Never deploy on Fridays."]),
        ("I changed my mind about it: deploys on Fridays work.", ["Never deploy on Fridays."]),
        ("Take back what I said about, well, emojis.", ["Never use emojis."]),
        (
            "Forget what I said about emojis, Friday deploys and squashing merges.",
            ["Always squash merges.", "Never deploy on Fridays.", "Never use emojis."],
        ),
    ],
)
def test_a_withdrawal_names_its_subject_after_a_comma_or_colon(sentence: str, rules_meant: list[str]) -> None:
    known = ["Always squash merges.", "Never deploy on Fridays.", "Never use emojis.", "Always pin versions."]
    takings = takings_back(sentence)

    assert [rule for rule in known if any(taking.is_about(rule) for taking in takings)] == rules_meant


@each_case(
    "sentence",
    [
        "Remember that the queue is listening on 5672 now.",
        "Remember that staging is running Debian 12.",
        "Remember we deploy from the release branch now.",
        "Don't forget that we're using Vitest now.",
        "Bear in mind that the payments team owns this table now.",
        "Our API is running on port 4000, remember that.",
        "Remember that our CI is running on GitHub Actions.",
        "Remember that our test database is running on db-3.",
        "Keep in mind that the deploy server is running on port 8100.",
        "Denk dran: die Doku liegt jetzt im Ordner handbuch.",
        "Vergiss nicht, dass wir jetzt Vitest verwenden.",
        "Merk dir, dass die Queue jetzt auf dem Host mango läuft.",
        "Souviens-toi que maintenant on utilise bun.",
        "N'oublie pas que l'API tourne maintenant sur le port 4000.",
        "Recuerda que ahora el worker corre en fly.io.",
        "Ricorda che adesso usiamo bun.",
        "Lembre-se de que agora a API roda na porta 4000.",
        "Onthoud dat redis nu op poort 6380 draait.",
        "Pamiętaj, że teraz używamy bun.",
        "Помни, что redis теперь работает на порту 6380.",
        "覚えておいて、今はpnpmを使っています。",
        "记住，redis 现在运行在 6380 端口。",
    ],
)
def test_what_the_team_uses_now_and_where_something_runs_is_kept(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Remember that CI is now red.",
        "Remember that you're running in a sandbox.",
        "Remember that you are running as root.",
        "Remember that the migration is running on staging.",
        "Remember that the login works now.",
        "Remember that Anna is running late.",
        "Merk dir, dass die Migration jetzt auf dem Server läuft.",
        "Souviens-toi que la migration tourne maintenant sur le serveur.",
        "Keep in mind we're on the release branch now.",
        "Merk dir, dass wir momentan pnpm benutzen.",
        "Vergiss nicht, dass der Import jetzt läuft.",
        "Souviens-toi que les tests sont maintenant rouges.",
        "Recuerda que ahora estamos en la rama de release.",
        "记住，现在测试挂了。",
    ],
)
def test_what_is_so_only_now_is_not_kept(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    "prompt",
    [
        "Create login page. Always show the logo.",
        "Build checkout form. Never round the total.",
        "Design signup wizard. Never ask for a phone number.",
        "Add an export button. Never disable it.",
        "Make a settings dialog. Always remember the last tab.",
        "Build a coding tool. It must never push to main.",
        "Erstelle Anmeldeseite. Zeige immer das Logo.",
        "Ajoute un bouton. Affiche toujours une icône.",
        "Crea formulario de contacto. Muestra siempre el logo.",
    ],
)
def test_what_a_thing_must_do_that_is_asked_for_in_few_words_is_not_a_rule(prompt: str) -> None:
    assert not rules(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "The agent we are building must never delete files without asking.",
        "We are building a support agent. Never let it promise refunds.",
        "We're developing an onboarding assistant. Always greet the user by name.",
        "Build a coding agent. It must never push to main.\n\nIt should always run the tests.",
        "Write the prompt for the triage agent. Never close an issue without a reason. Always answer in English.",
        "I need instructions for the new agent. Never delete a file. Always ask first.",
        "Build a support bot. You must always reply in German.",
        "Schreibe einen Prompt für unseren Agenten. Er darf niemals auf main pushen.",
        "Entwickle einen Agenten für Mails. Antworte immer auf Englisch.",
        "Escribe un prompt para el agente. Nunca uses sudo.",
    ],
)
def test_what_an_agent_that_is_made_must_do_is_not_a_rule_for_this_one(prompt: str) -> None:
    assert not rules(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "Build a sales bot. Our sales bot must never promise a discount.",
        "I'm writing a trading bot. My trading bot should never buy on margin.",
        "Create an agent that answers mails. The agent should always sign with its name.",
        "Baue einen Support-Bot. Er darf niemals Rabatte versprechen.",
        "Développe un agent de support. L'agent ne doit jamais promettre de remise.",
        "Crea un bot de ventas. El bot nunca debe prometer descuentos.",
        "创建一个机器人。机器人绝不能承诺折扣。",
    ],
)
def test_what_an_agent_that_is_asked_for_must_do_is_not_what_this_one_must_do(prompt: str) -> None:
    assert not rules(prompt)


@pytest.mark.parametrize(
    "sentence",
    [
        "Every agent must always use uv instead of pip.",
        "Our agents must never edit generated files.",
        "Our AI assistant should never write commit messages in German.",
        "The assistant must never use em dashes in my texts.",
        "L'agent doit toujours lancer les tests avant de commiter.",
    ],
)
def test_the_agent_is_this_one_unless_the_prompt_asks_for_another(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]
    assert is_rule(sentence)
    assert [found.sentence for found in rules(f"Build a bot for mails.\n\n{sentence}")] == [sentence]


@pytest.mark.parametrize(
    "prompt",
    [
        "We're building an agent for support. Our tests must never call the network.",
        "We're building an agent for support. My variable names must always be in English.",
        "Build a bot. Our agents must never commit to main.",
        "Baue einen Bot. Wir verwenden immer pnpm.",
        "Define a skill for releases. Always write the changelog before tagging.",
        "Implement the prompt cache.\n\nNever push to main.",
        "Write a prompt for the bot.\n\nNever push to main without asking.",
        "Make the shell prompt shorter.\n\nNever use emojis in commit messages.",
        "Implementiere den Prompt-Cache.\n\nBitte nie direkt auf main pushen.",
    ],
)
def test_a_request_for_an_agent_or_a_prompt_takes_only_what_is_about_it(prompt: str) -> None:
    task, rule = re.split(r"(?<=\.)\s+", prompt, maxsplit=1)

    assert not rules(task)
    assert [found.sentence for found in rules(prompt)] == [rule]


@pytest.mark.parametrize(
    "prompt",
    [
        "Add a docstring to this function. Always document the arguments.",
        "Add a type annotation. Always annotate return types.",
        "Add an index. Always name indexes after their columns.",
        "Add a retry to the client. Always log retries at warning level.",
        "Add a script for the seed data. Always write scripts in bash.",
        "Make tool calls in parallel. Always batch independent reads.",
        "Make every function pure. Never mutate arguments.",
        "Write function names in snake_case. Never abbreviate variable names.",
        "Erstelle Migrationen mit alembic. Ändere nie alte Migrationen.",
    ],
)
def test_a_small_change_or_a_style_is_not_a_thing_with_requirements(prompt: str) -> None:
    assert [found.sentence for found in rules(prompt)] == [prompt.split(". ", 1)[1]]


@pytest.mark.parametrize(
    "sentence",
    [
        "Remember that you're running on Windows, so use backslashes in paths.",
        "Keep in mind that our tests run on Node 20 now.",
        "Remember that the pipeline lives in Jenkins now.",
        "Remember that the e2e tests run against port 3001 now.",
        "Denk daran, dass das Feld Datum eventuell leer ist.",
        "Souviens-toi que le champ date est peut-être vide.",
        "请记住日期也许是空的。",
    ],
)
def test_what_is_so_in_general_or_perhaps_is_kept(sentence: str) -> None:
    assert [found.sentence for found in rules(sentence)] == [sentence]


@pytest.mark.parametrize(
    "sentence",
    [
        "Keep in mind that the import of the old customers is running on db-2.",
        "Remember that the load test against staging is running with 500 users.",
        "Remember that a full scan is running on the replica.",
        "Remember that the copy of the archive is running on nas-2.",
        "Remember that Dana owns the demo slot now.",
        "Remember that staging belongs to the QA team now.",
        "Merk dir, dass jetzt die Indizierung auf es-2 läuft.",
        "Souviens-toi que la réindexation tourne maintenant sur es-2.",
        "Recuerda que la copia de seguridad corre ahora en nas-2.",
    ],
)
def test_work_that_ends_by_itself_is_news_wherever_it_is_named(sentence: str) -> None:
    assert not rules(sentence)


@pytest.mark.parametrize(
    ("prompt", "rule"),
    [
        ("We are building a support agent. Always use pnpm in this repo.", "Always use pnpm in this repo."),
        (
            "Write a prompt for our bot. From now on we keep prompts in prompts/.",
            "From now on we keep prompts in prompts/.",
        ),
        ("Build a bot. Always ask me before you delete a file.", "Always ask me before you delete a file."),
        ("Never let dependabot merge on its own.", "Never let dependabot merge on its own."),
        ("Build is red. Never push when it is red.", "Never push when it is red."),
    ],
)
def test_a_rule_of_how_to_work_is_kept_beside_an_agent(prompt: str, rule: str) -> None:
    assert [found.sentence for found in rules(prompt)] == [rule]
