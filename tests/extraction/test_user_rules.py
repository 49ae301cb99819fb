"""The user's own rules are kept; weaker, withdrawn, other people's and momentary ones are not, with the reason."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace

import pytest
from branch_sessions import Workshop
from made_turns import Make

from engram.enums import Importance, Kind, Scope, Status, Voice
from engram.extraction.candidate import ExtractionContext, NearMemory
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.rule_words import ENUMERATION
from engram.extraction.user_rules import (
    RuleRefusal,
    is_rule,
    is_same_order,
    judge,
    lays_down_for_all_projects,
    orders,
    rules,
    scope_of,
    typed_texts,
)
from engram.models.memories.memory_records import all_memories
from engram.models.sessions.sessions import find_session
from engram.recollection.why import why_session
from engram.transcripts.turns import BEHIND, UNSENT, standing_turns
from engram.trust.voice import typed_text
from tests.each_case import each_case

RULES = [
    "Always run the linter before you commit.",
    "Never push to main yourself.",
    "Never, ever push to main.",
    "From now on write the test first.",
    "In future, ask before you delete anything.",
    "We use pnpm here.",
    "We decided to use Postgres instead of MySQL.",
    "We never squash merges.",
    "I prefer small commits over large ones.",
    "I always want type hints.",
    "今后请始终使用pnpm。",
    "I don't like abbreviations in variable names.",
    "I merge the pull requests myself.",
    "Commits should never mention the ticket.",
    "For every new endpoint always add an integration test.",
    "In every component never use inline styles.",
    "With each new table always add an index.",
    "Always write docstrings for those functions that are public.",
    "Never use mocks in those tests which cover the database.",
    # A statement before it says what "it" is.
    "remember: the staging db is shared, so never truncate it",
    "Our cache is tiny, never fill it.",
    "The prod database is frozen, so never migrate it.",
    "You must never edit the generated files.",
    "Our convention is that branch names begin with the ticket number.",
    "My rule: always add a changelog line.",
    "Remember that we deploy on Fridays.",
    "Never merge until CI is green.",
    "Before every commit, run the linter.",
    "Whenever you touch the schema, write a migration.",
    "No, always use pnpm.",
    "Please always answer in English.",
    "always use early returns. and never nest more than two ifs",
    "Don't wrap long lines in Markdown, as that breaks the rendering.",
    "Nie direkt auf main pushen.",
    "Wir benutzen uv für alles.",
    "A partir de ahora responde en español.",
    "絶対にmainに直接pushしないでください。",
    # In French, with and without accents.
    "Utilise toujours pnpm, jamais npm.",
    "À partir de maintenant, réponds en français.",
    "Desormais, pas de commit sans test.",
    "Toujours écrire un test pour chaque nouvelle fonctionnalité.",
    "On utilise Postgres pour tout.",
    # In Italian and Portuguese.
    "Non usare mai i float per il denaro.",
    "D'ora in poi scrivi prima il test.",
    "Usa sempre pnpm, per favore.",
    "A partir de agora escreve os comentários em português.",
    "Usa sempre o fuso UTC.",
    "Usamos pnpm em vez de npm neste projeto.",
    # Until something is green holds later, too.
    "Nie mergen, bis die CI grün ist.",
    "Nunca hagas merge hasta que pasen los tests.",
    "Ne fusionne jamais jusqu'à ce que les tests passent.",
    # With slips and shorthand in the words that make a rule.
    "Alwasy run the linter before you commit.",
    "pls never use any, ever",
    "from now on dont use mocks",
    # A noun behind a word for a moment makes it a kind that lasts.
    "From now on always use clang for the release build.",
    "Always write the release notes for the release branch in English.",
    "Never use real names for the demo account.",
    "Always take the checklist for the meeting notes.",
    "Never log the password of the current user.",
    "Always compare with the state of the next item.",
    # What a rule speaks of may look like a moment, a person or a choice.
    "Always put the license at the top of the file.",
    "Always name the ticket in the PR description.",
    "Some rules for you: never push to main.",
    "For the docs: always use American English.",
    "Always keep the user report next to its form.",
    "Nie force pushen oder rebasen.",
    "Die Tests zuerst immer mit pytest starten.",
    "Denk dran: keine Emojis in Commits.",
    "I never want to see console.log in merged code.",
    "Make it a habit to update the changelog with each feature.",
    "On n'utilise pas Redux dans ce projet.",
    "Never, under any circumstances, delete migrations.",
    # In Dutch, Polish, Russian and Chinese.
    "Vanaf nu schrijven we commits in het Engels.",
    "Vraag altijd eerst voordat je een bestand verwijdert.",
    "We gebruiken pnpm, geen npm.",
    "Od teraz piszemy commity po angielsku.",
    "Nigdy nie używaj zmiennych globalnych.",
    "Pamiętaj, że ceny są w groszach.",
    "Никогда не используй глобальные переменные.",
    "Запомни, что цены хранятся в копейках.",
    "Мы решили использовать GitLab вместо GitHub.",
    "永远不要使用全局变量。",
    "从现在开始,提交信息用英文写。",
    "我们使用 pnpm,不用 npm。",
    # In Korean.
    "앞으로는 pnpm을 사용해줘.",
    "절대 main에 직접 푸시하지 마.",
    "커밋 메시지는 반드시 영어로 작성해.",
    "우리는 npm 대신 pnpm을 사용하기로 했다.",
    # What begins like a requirement, a part to play or an amount.
    "As a rule, always squash.",
    "Errors: always wrap them with context.",
    "You are free to refactor, but never touch the generated files.",
    "You're doing great. Always keep the commits small.",
    "We use more than one cache, so never clear only Redis.",
    "Make sure you always update the changelog.",
    # What names another project, a text or earlier times only beside the rule.
    "Unlike in the other repo, we use tabs here.",
    "In the other repo we squash, but here we never squash.",
    "Always use tabs, in this repo and in the other one.",
    "In my other project we always use tabs, so always use tabs here too.",
    "Immer Tabs, wie im anderen Projekt.",
    "Im anderen Projekt nutzen wir Tabs, hier immer Leerzeichen.",
    "Dans un autre projet on utilise npm, mais ici toujours pnpm.",
    "В другом проекте мы используем npm, а здесь всегда pnpm.",
    "別のプロジェクトでも常にタブを使います。",
    "Please add a rule: never use eval.",
    "Put this in your memory: always use pnpm.",
    "Always add a changelog entry: one line, imperative.",
    "We used to use npm, but now we always use pnpm.",
    "Never merge until the checks are green.",
    "/remember always use pnpm in this repo",
    "Never on Fridays deploy to production.",
    "Always for new code write a test first.",
    # After what is withdrawn, or called across a word of surprise, stands what is laid down instead.
    "Scratch that, always use pnpm.",
    "I changed my mind: from now on weigh in kilograms.",
    "I was wrong about yarn, from now on we use pnpm.",
    "Actually always use single quotes.",
    "Sorry, but never use any again.",
    "Oh and always add a changelog line.",
    "Hold on, always check the branch before you commit.",
    "Looks good, but from now on please keep the crates in alphabetical order.",
    "You must always ask me before you install a package.",
    "Remember that the weighing port is 8422.",
    # The same words withdraw something elsewhere.
    "Never use npm - no, not even for global tools.",
    "Zawsze używaj pnpm, a nie npm.",
    "W każdym projekcie, nieważne jakim, zawsze pisz testy.",
    "npmじゃなくて、必ずpnpmを使ってください。",
    "Nunca uses any, mejor no arriesgar.",
    "以后还是用 pnpm,不要用 npm。",
    # Marked as people mark what is to be remembered.
    "# Never merge without two approvals.",
    "#always weigh the crates twice",
]

REFUSED = {
    "a question": [
        "Why don't we always use the cache?",
        "Should we never retry?",
        "could we always fall back to polling",
        "Is it true that we never retry?",
        "Waarom geeft hij altijd leeg terug?",
        "Нужно ли всегда делать squash?",
        "为什么它总是返回空?",
    ],
    "put to the question": [
        "Never merge without two approvals. Is that a good rule?",
        "Never merge without two approvals.\n\nGood rule or bad rule?",
        "Is this a sensible convention? Always squash the merges.",
        "We always deploy with ansible. Not sure though.",
        "Never merge on Fridays. What do you think about that?",
        "Always keep a lockfile. Agree?",
        "Always keep a lockfile. Is that a good practice for a small team?",
        "Always keep a lockfile. Not sure whether that's a good rule.",
        "What do you think about this rule? Always keep a lockfile.",
        "We always deploy with ansible I guess.",
        "iirc we never merge without two approvals",
    ],
    "a point of a list": [
        "Implement the dialog:\n\n1. Always ask before it closes.\n2. Never close twice.",
        "Which one?\n\n- we always retry\n- we never retry",
        "Options: 1. Always ask the user. 2. Never ask.",
        "- [ ] always weigh the crates twice\n- [x] never ship without a label",
        "Next:\n1. [ ] Never ship without a label.",
    ],
    "someone else's opinion": [
        "My boss thinks we should never use ORMs.",
        "Anna wants us to always rebase.",
        "Some people say never use goto.",
        "According to the docs, always call close.",
        "Never trust the cache, says Bob.",
        "Mi jefe dice que nunca usemos ORMs.",
        "Anna sagt, wir sollen nie rebasen.",
        "Mon chef dit de ne jamais rebaser.",
        "My boss: never push on Fridays.",
        "The reviewer used to say never use goto.",
        "Never rebase is their motto.",
        "Mon collègue préfère toujours les espaces.",
        "Mi compañera repite que nunca usemos ORMs.",
        "Il mio capo dice di non usare mai yarn.",
        "O meu colega acha que devemos usar sempre tabs.",
        "Mein Team bevorzugt immer Tabs.",
        "Jonas reckons we should never use threads.",
        "Nie rebasen, sagt Peter.",
        "Ne jamais rebaser, dit Pierre.",
        "Nunca rebase, diz o João.",
        "Mijn collega zegt dat je altijd moet locken.",
        "Volgens Jan moet je nooit eval gebruiken.",
        "Zdaniem Marka nigdy nie używaj eval.",
        "Mój kolega mówi, żeby zawsze blokować.",
        "По словам Ивана, никогда не используй eval.",
        "Мой начальник хочет, чтобы мы всегда писали комментарии.",
        "小王说永远不要使用 eval。",
        "Tom from ops insists that we never restart on Mondays.",
        "Sara in design wants us to always use rem.",
        "Le guide dit de toujours utiliser des points-virgules.",
        "Le linter recommande de ne jamais utiliser any.",
        "Ana dice que siempre usemos tabs.",
        "Luca dice di non usare mai any.",
        "O João diz que nunca usemos any.",
        "老板要求我们永远不要加班部署。",
        "팀장님이 항상 rebase하라고 했어요.",
        "always use tabs <- that's what Bob wrote in the review",
        "Never mock the database, this is how Jonas put it.",
    ],
    "taken back": [
        "Never use floats for money. Actually scratch that, floats are fine here.",
        "We use Redis for the queue. Sorry, I meant Postgres.",
        "From now on commit without running the tests. Just kidding, always run them.",
        "Always log the token. That was sarcasm.",
        "Never rebase; I take that back.",
        "Always squash merges. On second thought, merge.",
        "The team should never rebase. I disagree with that.",
        "never use semicolons, wait, no, do use them",
        "Immer Tabs verwenden. Quatsch, Leerzeichen.",
        "Nunca uses floats. No, espera, úsalos.",
        "常にタブを使って。やっぱりスペースで。",
        "Toujours des tabulations. Non, attends, des espaces.",
        "Always deploy with ansible. Oops, wrong window.",
        "Never touch the billing tables. Sorry, that was for the other chat.",
        "Immer mit Ansible deployen. Falsches Fenster.",
        "Always round up. Hmm, on reflection rounding down is fairer.",
        "Never cache it in Redis. Come to think of it, Redis is fine.",
        "Immer Tabs nehmen. Wenn ich es mir recht überlege, Leerzeichen.",
        "Usa siempre tabs. Pensándolo bien, espacios.",
        "Usa sempre i tab. Ripensandoci, gli spazi.",
        "Usa sempre tabs. Pensando bem, espaços.",
        "Always use yarn, that wasn't meant for you.",
        "Always deploy on Mondays. That was what the old team did.",
        "Never use any. (That's what my old boss said.)",
        "Utilise toujours des tabs. Non, oublie.",
        "Use sempre tabs. Não, esquece.",
        "Altijd locken bij updates. O nee, toch niet.",
        "Zawsze blokuj. A nie, jednak nie.",
        "Всегда используй табы. Нет, забудь.",
        "始终使用制表符。算了,忘了吧。",
        "항상 캐시를 써. 아니다, 취소.",
        "From now on skip the tests. Psych!",
        "Always use tabs... nah, just messing with you",
        "Never review my commits. Only teasing.",
        "Never mind the merge rule. Now fix the login.",
        "ok, never mind the failing lint",
        "~~Never merge without two approvals.~~",
        "that merge rule no longer applies",
    ],
    "a moment, place or task": [
        "Please don't change the migration, just explain it.",
        "For this PR, never touch the tests.",
        "In this branch only, never run the formatter.",
        "Always use double quotes for these files only.",
        "Only in these two modules, never use a global.",
        "Prefer the second option.",
        "Always pick option B.",
        "Always use tabs in this file.",
        "Always use the blue button for this screenshot only.",
        "In this run, never restart the worker.",
        "Never run migrations tonight.",
        "While we're debugging, always print the state.",
        "Until Monday never deploy.",
        "For issue #12 never touch the API.",
        "just always return true",
        "In this session always answer in German.",
        "In diesem PR nie die Tests anfassen.",
        "Por ahora nunca hagas push.",
        "今回は絶対にpushしないで。",
        "Pour l'instant, ne jamais pousser.",
        "Never write tests for the spike.",
        "In the demo, never show real names.",
        "For the release, always use the old compiler.",
        "Never rename anything for the ticket.",
        "Bis die Messe vorbei ist, deploye bitte nie vor Mittag.",
        "Nie mergen, bis wir umgezogen sind.",
        "Per oggi non toccare mai il branch.",
        "Enquanto durar a auditoria, nunca apague os registros.",
        "Voor deze branch altijd squashen.",
        "Zolang de test draait, nooit herstarten.",
        "Na tej gałęzi zawsze rób squash.",
        "Dopóki test trwa, nigdy nie restartuj.",
        "В этой ветке всегда делай squash.",
        "Сегодня никогда не пушь.",
        "在这个分支上始终使用 squash。",
        "今天永远不要推送。",
        "Für den Hotfix nie die Tests anfassen.",
        "Para el hotfix nunca toques los tests.",
        "이번에는 항상 이렇게 해.",
        "Act as a senior engineer. Always think step by step.",
        "You are an expert reviewer. Never apologize for a finding.",
        "I want you to act as a linter. Always answer with the line number.",
        "Always answer with yes or no to the following questions.",
        "Remember that you still have to push.",
        "Eventually we want to always use vite.",
        "From now on until Friday never deploy.",
        "Never deploy until the next release.",
        "Always use the mock until the demo.",
        "Act as QA. Always ask before you test.",
        "Respond like Yoda. Always invert the sentence.",
        "Let's do a mock interview. From now on you ask me and never give the answer away.",
        "Let's play a game. Always answer with a number.",
        "Create a subagent with this prompt: You review code. Always be critical. Never approve without tests.",
        "Write the system prompt: Always answer in verse.",
        "during the freeze we never merge to main",
        "During our audit never delete a log.",
        "in your next answer always use bullet points",
        "For the following task, always use metric units.",
    ],
    "what a slash command is to do": [
        "/code-review never comment on the style of names",
        "/init Always mention pnpm in CLAUDE.md",
        "/compact\nNever drop the file paths from the summary.",
        "/crates:weigh We always use kilograms in this repo.",
        "/release-notes never mention the weights",
        "/mcp__harbor__rules Always use kilograms.",
        "$weigh Always use kilograms.",
        "@agent-weigher never comment on the labels",
    ],
    "about another project": [
        "We use Redis in the other repo, not here.",
        "In my other project we never squash.",
        "For another client: never use their logo.",
        "We always rebase at the other company.",
        "In my other project we always weigh in pounds, odd that here it is kilos.",
        "In meinem anderen Projekt nutzen wir immer Tabs.",
        "Dans mon autre projet on utilise toujours des tabulations.",
        "En mi otro proyecto siempre usamos tabulaciones.",
        "Nell'altro progetto usiamo sempre i tab.",
        "No meu outro projeto usamos sempre tabs.",
        "In mijn andere project gebruiken we altijd tabs.",
        "W innym projekcie nigdy nie robimy squash.",
        "В другом проекте мы всегда используем табы.",
        "別のプロジェクトでは常にタブを使います。",
    ],
    "part of a text that is asked for": [
        "Write a linter rule: never import from internal.",
        "Translate to French: Never push to main.",
        "Rephrase this for the handbook: Never share your password.",
        "Add a banner to the page: Never send us your PIN.",
        "Rate this slogan from 1 to 10: Never ship without a label.",
        "Convert these cursor rules to eslint: always use named exports",
        "Change the checkbox label to Always ask before deleting files",
        "Set the title to Never ship without a label",
        "`Never merge without two approvals.`",
    ],
    "a supposition": [
        "Maybe we should always use tabs.",
        "My understanding is that we never delete rows.",
        "If I understand correctly we always use UTC.",
        "Correct me if I'm wrong, but we never log in prod.",
        "I think we should never use ORMs here.",
        "Suppose we never cached.",
        "Either always log or never log.",
        "If it were up to me, we would never use Angular.",
        "In an ideal world we always review in pairs.",
    ],
    "irony": [
        "Yeah right, always commit straight to main.",
        "Always skip the tests, that worked out so well last week.",
        "From now on never read the logs. Great idea.",
        "never write docs, lol",
        "always deploy on Friday 🙄",
        "Ja klar, nie wieder Tests schreiben.",
        "Toujours pousser sans tests. Bonne idée.",
        "Always log in as root. (sarcasm, please don't)",
        "Immer freitags deployen (Scherz).",
    ],
    "part of a task": [
        "Write a function that always returns a list.",
        "Add to CLAUDE.md that agents must never push.",
        "Make the header always visible.",
        "Schreib eine Funktion, die immer leer zurückgibt.",
        "Écris une fonction qui retourne toujours vide.",
        "Escribe una función que siempre devuelva vacío.",
        "Napisz funkcję, która zawsze zwraca pustą listę.",
        "Напиши функцию, которая всегда возвращает пустой список.",
        "写一个总是返回空列表的函数。",
        "항상 리스트를 반환하는 함수를 작성해줘.",
        "As a user I always want to see my name",
        "As an admin of a shop, I can always undo, and never lose an order.",
        "Given a cart, when it is empty, then never show the total",
        "TODO: always close the file",
        "Expected: always sorted by name, never by date",
        "Bug (mobile): never retry the upload twice",
    ],
    "how something is": [
        "Claude always forgets the imports, check them",
        "the server always restarts twice",
        "my editor never saves",
        "la función siempre devuelve null, arréglalo",
        "la fonction renvoie toujours null",
        "la funzione restituisce sempre null",
        "a função sempre retorna null",
        "It always fails on Windows.",
        "The helper is defined but never called.",
        "You always forget the tests.",
        "We use the wrong key in the cache.",
        "Every time I run it, it crashes.",
        "If there is an error, always exit with 1.",
        "Der Test schlägt immer fehl.",
        "Siempre falla en Windows.",
        "Le build plante toujours sous Windows.",
        "Der Import bricht unter Windows immer ab.",
        "Das geht immer.",
        "Il test fallisce sempre su Windows.",
        "O build falha sempre no Windows.",
        "Whenever I open the page it crashes.",
        "The rule used to be: never touch main.",
        "We always used to deploy on Fridays.",
        "Our policy used to be: never squash.",
        "I heard that you should never use floats for money.",
        "I've read people never test their backups.",
        "We always get a 500 here.",
        "Never say never.",
        "Always happy to help.",
        "We use three different loggers, clean that up.",
        "Die Verbindung wird nie geschlossen.",
        "La conexión nunca se cierra.",
        "La connessione non viene mai chiusa.",
        "De verbinding wordt nooit gesloten.",
        "Он никогда не закрывает соединение.",
        "它从不关闭连接。",
        "Besser spät als nie.",
        "Comme toujours, merci.",
        "Jak zawsze, dzięki.",
        "Я никогда не любил этот дизайн.",
        "테스트가 항상 실패해요.",
    ],
    "unclear alone": [
        "Never do that again.",
        "Always use it.",
        "We never use it.",
        "They always read this.",
        "Never on Fridays.",
        "and never in the home folder",
        "But always before the release notes.",
    ],
    "an order": [
        "Stop apologizing and fix the test.",
        "Please don't wrap long lines in Markdown.",
        "and use tabs instead of spaces",
        "I'd prefer a map.",
    ],
}


#: What the team always does, what the user asks to remember of what they always want, and "from now on".
PLAIN_ELSEWHERE = [
    "usamos siempre yarn",
    "usamos sempre yarn aqui",
    "onthoud dat ik altijd tabs wil",
    "lembre que eu sempre quero testes em jest",
    "これからは必ず jest を使ってください",
]


@each_case("sentence", [*RULES, *PLAIN_ELSEWHERE])
def test_an_unmistakable_form_is_a_rule(sentence: str) -> None:
    assert all(found.refusal is None for found in judge(sentence))
    assert rules(sentence)


@each_case("prompt", [text for texts in REFUSED.values() for text in texts])
def test_whatever_is_less_is_not_a_rule(prompt: str) -> None:
    assert rules(prompt) == []


@pytest.mark.parametrize(
    ("refusal", "prompt"),
    [
        (RuleRefusal.QUESTION, "Should we never push to main from a laptop?"),
        (RuleRefusal.LIST, "Which one?\n\n- always run the linter before a commit\n- never run it"),
        (RuleRefusal.TAKEN_BACK, "Never push to main. Scratch that, you may."),
        (RuleRefusal.PART, "Act as a reviewer. Never push to main."),
        (RuleRefusal.LENGTH, "Never push to main, " * 15 + "please."),
        (RuleRefusal.ORDER, "Don't push to main."),
        (RuleRefusal.MOMENT, "Never touch the tests for now."),
        (RuleRefusal.ELSEWHERE, "We always squash in the other repo."),
        (RuleRefusal.TEXT, "Write on the sign: never push to main."),
        (RuleRefusal.DANGLING, "Always do it like that."),
        (RuleRefusal.JOKE, "Never push to main lol"),
        (RuleRefusal.UNWORDED, "We build with bazel and nothing else."),
        (RuleRefusal.UNSURE, "I always get a 403 on logout."),
        (
            RuleRefusal.UNSURE,
            "Say why. Like agent A -> git stash -> agent B starts (but never commits) -> git stash pop",
        ),
    ],
)
def test_a_sentence_that_sounds_like_a_rule_is_told_why_it_is_none(refusal: RuleRefusal, prompt: str) -> None:
    assert refusal in [found.refusal for found in judge(prompt)]


@pytest.mark.parametrize(
    "sentence", ["use pnpm please", "We build with bazel and nothing else.", "Don't push to main."]
)
def test_with_the_words_that_a_refusal_advises_a_sentence_becomes_a_rule(sentence: str) -> None:
    (found,) = judge(sentence)

    assert found.refusal in (RuleRefusal.ORDER, RuleRefusal.UNWORDED)
    assert "“from now on”" in found.refusal
    assert rules(f"From now on, {sentence[0].lower()}{sentence[1:]}")


@pytest.mark.parametrize(
    "prompt",
    [
        "Fix the parser.",
        "I don't know what it does.",
        "01:12:38 access granted",
        "go on",
    ],
)
def test_what_does_not_sound_like_a_rule_is_not_judged(prompt: str) -> None:
    assert judge(prompt) == []


@each_case(
    ("rule", "following"),
    [
        ("Always squash the merges.", "Forget what I said about squashing, we rebase."),
        ("Never push on Fridays.", "I take back the rule about Fridays, push whenever you like."),
        ("Always use tabs.", "scratch that"),
        ("Always use tabs.", "No wait, spaces."),
        ("Never use mocks.", "Sorry, I meant stubs."),
        ("Never deploy on Friday.", "never mind, Friday is fine"),
        ("Wir nutzen immer Tabs.", "vergiss das"),
        ("Nunca uses tabs.", "olvida eso"),
        ("Toujours des tabulations.", "oublie ça"),
        ("Usa sempre i tab.", "lascia perdere"),
        ("Usa sempre tabs.", "esquece isso"),
        ("Always use tabs.", "oops, wrong terminal"),
        ("Immer Tabs nehmen.", "sorry, falscher Chat"),
        ("Always use tabs.", "wrong window, sorry"),
        ("Never squash merges.", "that's for the other repo, sorry"),
        ("Never squash merges.", "oops, that was meant for another session"),
        ("Never squash merges.", "only for this branch I mean"),
        ("Always use tabs.", "I mean just in this file, sorry"),
        ("Always use tabs.", "cancel that"),
        ("Always use tabs.", "Don't remember that please."),
        ("Never squash merges.", "please don't save that as a rule"),
        ("Never squash merges.", "that's not a rule"),
        ("Never squash merges.", "It wasn't meant as a general rule."),
        ("Never squash merges.", "delete that memory"),
        ("Always squash the merges.", "Remove the rule about squashing."),
        ("Never squash merges.", "lol just testing you"),
        ("Never squash merges.", "no, don't do that"),
        ("Never deploy on Fridays.", "Scrap the Friday thing."),
        ("Always squash merges.", "ok forget the squash thing"),
        ("From now on reply in French.", "stop replying in French"),
        ("Never touch vendor files.", "actually you may touch vendor"),
        ("Never rebase feature branches.", "that rule only for today btw"),
        ("Always lint first.", "nah, skip that rule"),
        ("From now on answer in German.", "Back to English please."),
        ("Wir nutzen immer yarn.", "Korrektur: npm"),
        ("Gebruik altijd yarn hier.", "laat maar, npm mag"),
        ("Nigdy nie wdrażaj w piątek.", "cofam to, piątek jest ok"),
        ("Никогда не деплой в пятницу.", "Забудь про пятницу, можно."),
        ("永远不要在周五部署。", "算了,周五也可以"),
        ("Never use ORMs here.", "ok I was too harsh, ORMs are fine"),
        ("Never touch the legacy folder.", "ok you can touch the legacy folder after all"),
        ("Always use tabs for indentation.", "hm, spaces for indentation were better"),
        ("We use yarn here.", "wait sorry wrong project, here it's npm"),
        ("Always write commit messages in German.", "actually english please"),
        ("Always run the slow tests.", "no don't, they take an hour"),
        ("Usa siempre yarn.", "mejor npm, olvida lo anterior"),
        ("Always use tabs for indentation.", "spaces are better than tabs"),
        ("From now on label every crate.", "that was a stupid idea, undo it"),
        ("Never write raw SQL.", "The report is too slow, so raw SQL is fine after all."),
    ],
)
def test_the_next_prompt_withdraws_a_rule(rule: str, following: str) -> None:
    assert rules(rule)
    assert rules(rule, following=following) == []


@each_case(
    ("rule", "following"),
    [
        ("Always squash the merges.", "Now fix the parser, no wait, the lexer first."),
        ("From now on use uv. Then fix the parser bug.", "Wait, not the parser, the lexer."),
        ("Always use tabs.", "Don't forget that the tests need fixing."),
        ("Always use tabs.", "Never mind the failing lint, go on."),
        ("Always use tabs.", "Now back to the parser."),
        ("Always use tabs.", "Stop apologizing."),
        ("Always use tabs.", "Delete that test file, it is empty."),
        ("Always use tabs.", "I don't remember that."),
        ("Always use tabs.", "Cancel the running build."),
        ("Always use tabs.", "Mend it in the other window of the app, too."),
        ("Always use tabs.", "Is the cache only for this session?"),
        ("Always use tabs.", "No tests yet? Write some."),
        ("Always use tabs.", "Don't save it to the disk, keep it in memory."),
        ("Always use tabs.", "Actually you may start with the parser."),
        ("Always use tabs.", "Forget the parser thing, do the lexer."),
        ("Nooit deployen op vrijdag.", "Vergeet dat niet en ga door met de parser."),
        ("Zawsze używaj Decimal.", "Nie zapomnij o testach parsera."),
        ("Всегда используй Decimal.", "Не забудь про тесты парсера."),
        ("Zawsze używaj Decimal.", "Powinno działać, a nie działa."),
        ("Always use tabs.", "The lexer is fine, fix the parser."),
        ("Nooit deployen op vrijdag.", "Laat maar weten of het werkt."),
        ("항상 pnpm을 써.", "취소 버튼이 안 보여, 고쳐줘."),
        ("Never rebase a branch.", "The wrong project file is loaded, see why."),
        ("Never ship without weighing the crates.", "Crates are ok now, ship them."),
        ("Never leave prints in the parser.", "The parser is fine, commit it."),
        ("Always weigh the crates before you ship.", "crates are fine, thanks"),
        ("We use uv for installs.", "uv is better, go on"),
        ("Always use uv instead of pip.", "right, uv is better than pip"),
        ("We use yarn here. The other repo, harbor, uses npm.", "go on"),
        ("Always use tabs. The other thread, the weighing one, hangs.", "see why"),
        ("Never rebase a branch.", "Another tab, another crash: mend the menu."),
        ("Never rebase a branch.", "The wrong tab, it is grey."),
    ],
)
def test_a_next_prompt_about_something_else_withdraws_nothing(rule: str, following: str) -> None:
    assert rules(rule, following=following)


@pytest.mark.parametrize(
    "prompt",
    [
        "Is that the right port? From now on always bind to localhost.",
        "What do you think about the new lexer? Never merge on Fridays.",
        "Not sure what breaks the menu. Never merge on Fridays without asking.",
        "Never merge on Fridays. Is it a good idea to cache the weights?",
        "Never merge on Fridays. Is this the best branch?",
        "Always use tabs. How would you feel about a second harbor?",
        "Always use tabs. Any thoughts on the lexer?",
        "Always use tabs. Not sure if the build works.",
        # A remark in parentheses makes no question of a rule.
        "Never print a password (as in the handbook, right?).",
        # What is said beside a dictated text is none of it.
        "Write a prompt for the weigher: round every weight. Also from now on never use floats here.",
    ],
)
def test_a_question_or_a_text_beside_a_rule_is_not_about_it(prompt: str) -> None:
    assert len(rules(prompt)) == 1


@pytest.mark.parametrize(
    ("prompt", "following"),
    [
        ("Always use uv. Never ship on Fridays. Forget all that.", ""),
        ("Always use uv. Never ship on Fridays.", "Forget everything I told you."),
        ("Always use uv. Never ship on Fridays.", "ok scratch all of it"),
        ("Always use uv. Never ship on Fridays.", "only kidding, ignore both rules"),
    ],
)
def test_every_rule_is_withdrawn_where_all_are_meant(prompt: str, following: str) -> None:
    assert [found.refusal for found in judge(prompt, following=following)] == [RuleRefusal.TAKEN_BACK] * 2


def test_all_of_something_else_withdraws_the_last_rule_alone() -> None:
    prompt = "Always use uv. Never ship on Fridays. Forget it, run all the checks."

    assert [found.sentence for found in rules(prompt)] == ["Always use uv."]


def test_no_sentence_runs_across_what_was_pasted() -> None:
    prompt = "here's the error:\n\nTypeError: x is undefined\n\nI want you to never use var in this repo."

    assert [found.sentence for found in rules(typed_text(prompt))] == [prompt.splitlines()[-1]]


def test_lines_without_a_full_stop_are_sentences() -> None:
    prompt = "mend the lexer\nAlways use uv\nNever ship on Fridays\nthanks a lot"
    listed = "Rules:\nAlways weigh in kilograms\nNever ship on Fridays\nWe use uv"

    assert [found.sentence for found in rules(prompt)] == ["Always use uv.", "Never ship on Fridays thanks a lot"]
    assert [found.sentence for found in rules(listed)] == [
        "Rules: Always weigh in kilograms.",
        "Never ship on Fridays.",
        "We use uv",
    ]


def test_only_the_rule_that_is_meant_is_withdrawn() -> None:
    prompt = "Always use pnpm. Never push to main. Scratch that last one."

    assert [found.sentence for found in rules(prompt)] == ["Always use pnpm."]


def test_a_list_under_a_heading_of_rules_is_a_list_of_rules() -> None:
    prompt = "Our conventions:\n\n- Never push to main.\n- We use pnpm."

    assert [found.sentence for found in rules(prompt)] == ["Never push to main.", "We use pnpm."]


@each_case(
    ("heading", "rule"),
    [
        ("Regeln für dieses Projekt:", "nie direkt auf main pushen"),
        ("Règles du projet :", "toujours utiliser pnpm"),
        ("Reglas de este proyecto:", "usar siempre pnpm"),
        ("Regras do projeto:", "usar sempre pnpm"),
        ("Regole del progetto:", "usare sempre pnpm"),
        ("Regels voor dit project:", "gebruik altijd pnpm"),
    ],
)
def test_a_heading_of_rules_is_known_in_other_languages_and_is_no_rule(heading: str, rule: str) -> None:
    assert [found.sentence for found in rules(f"{heading}\n- {rule}")] == [rule]


def test_an_order_becomes_a_rule_when_it_was_said_before() -> None:
    order = "Please don't wrap long lines in Markdown."

    (found,) = rules(order, said_before=frozenset(orders(order)))

    assert (found.sentence, found.is_lasting) == (order, False)
    assert is_same_order(order, "don't wrap the long lines in markdown")
    assert not is_same_order(order, "Please wrap long lines in Markdown.")
    assert is_rule(order)


def test_an_order_of_the_moment_stays_one_however_often_it_is_said() -> None:
    order = "For this PR, never touch the tests."

    assert rules(order, said_before=frozenset([order])) == []


def test_behind_a_command_the_first_sentence_waits_and_what_follows_is_judged() -> None:
    prompt = "/weigh Always use kilograms. From now on never round up the weights."

    assert [(found.sentence, found.refusal) for found in judge(prompt)] == [
        ("Always use kilograms.", RuleRefusal.ORDER),
        ("From now on never round up the weights.", None),
    ]
    assert [found.sentence for found in rules(prompt, said_before=frozenset(orders(prompt)))] == [
        "Always use kilograms.",
        "From now on never round up the weights.",
    ]


def test_what_the_team_uses_is_a_decision() -> None:
    assert rules("We use pnpm, not npm.")[0].kind is Kind.DECISION
    assert rules("Always use pnpm.")[0].kind is Kind.PREFERENCE


@each_case(
    "sentence",
    [
        "In every project of mine, use `pnpm` instead of npm.",
        "In any of my repositories commits must be signed.",
        "Always use pnpm in all my projects.",
        "For each of my projects, please use conventional commit subjects.",
        "Never use npm, no matter which project.",
        "Use pnpm in all of my repos.",
        "I prefer tabs wherever I work.",
        "In this and every other repo of mine we use pnpm.",
        "From now on use uv in every repo I work on.",
        "Everywhere I work, use metric units.",
        "Never use emojis in anything I write, in all my work.",
        "In everything I build, always use strict types.",
        "Globally: always answer in English.",
        "Dans tous mes projets, toujours écrire le test d'abord.",
        "In tutti i miei progetti scrivi sempre prima il test.",
        "Em todos os meus projetos usa sempre tabs.",
        "Every one of my tools must have a `--json` option.",
        "All of my websites must work without JavaScript.",
        "Always use camelCase in all our codebases.",
        "In all my projects, always name columns in snake_case.",
        "Across all projects, not just here, always use tabs.",
        "Not only for the boats: all my programs have to exit with 2 on wrong arguments.",
    ],
)
def test_what_is_said_of_every_project_is_global_and_for_good(sentence: str) -> None:
    (found,) = rules(sentence, project="harbor")

    assert (found.scope, found.is_lasting) == (Scope.GLOBAL, True)


@pytest.mark.parametrize(
    "sentence",
    [
        "Always write the failing test before the fix.",
        "Always explain your plan before you edit.",
        "Never use emojis in commit messages.",
        "I prefer pnpm everywhere.",
        "In every project of mine, never edit src/app.py by hand.",
        "Always call getUserToken() in all my projects.",
        "Always use pnpm in Harbor, as in every project of mine.",
        "In every module, always use the new logger.",
        "In the whole project, always use pnpm.",
        "Always use pnpm in this project.",
        "Never use var in all projects of this workspace.",
        "In every project under ~/work always use tabs.",
        "In all our projects at Acme we always use tabs.",
        "For all my projects in src/ always use tabs.",
    ],
)
def test_no_other_rule_is_global(sentence: str) -> None:
    assert [found.scope for found in judge(sentence, project="harbor")] == [Scope.PROJECT]


def test_a_rule_for_all_that_its_neighbours_explain_is_kept_in_a_models_words_alone() -> None:
    said = "Not reachable: exit 93. From now on all of my programs should behave like that."

    assert rules(said, project="beehive") == []
    assert lays_down_for_all_projects(
        said, "The user's programs exit with 93 if the other side isn't reachable", "beehive"
    )
    assert not lays_down_for_all_projects(said, "Weights are read at noon", "beehive")
    assert not lays_down_for_all_projects("Exit with 93 here.", "The user's programs exit with 93", "beehive")


@pytest.mark.parametrize(
    "sentence",
    [
        "I saw the same error in all my projects.",
        "In every project of mine I found this file.",
        "Rename foo to bar everywhere.",
        "Use the new helper everywhere.",
        "Does this happen in any of my repositories?",
        "Every one of my programs must be updated to Python 3.13.",
        "All my apps should be working by now.",
        "Not all my scripts should log to stderr.",
        "Should all my apps use dark mode?",
        "Peter says all my programs should use tabs.",
        "Format all my scripts with black.",
    ],
)
def test_tales_and_orders_of_the_moment_about_many_projects_are_not_rules(sentence: str) -> None:
    assert rules(sentence) == []


def test_the_local_extractor_keeps_rules_of_the_user_and_nothing_else_that_they_said(make: type[Make]) -> None:
    turn = make.turn("I want a red button. Please add one instead of the link. Never use inline styles.", "Done.")

    found = [one for one in LocalExtractor().propose([turn], ExtractionContext()) if one.voice is Voice.USER]

    assert [(one.summary, one.importance) for one in found] == [("Never use inline styles.", Importance.HIGH)]


def test_a_prompt_that_was_never_sent_lays_nothing_down(make: type[Make]) -> None:
    unsent = replace(make.turn("Never use inline styles.", key="t1"), extra={UNSENT: "yes"})
    sent = make.turn("Never nest more than two ifs.", "Understood.", key="t2")

    found = LocalExtractor().propose([unsent, sent], ExtractionContext())

    assert [one.summary for one in found] == ["Never nest more than two ifs."]
    assert typed_texts(unsent) == []


def test_a_later_prompt_of_the_session_withdraws_a_rule(make: type[Make]) -> None:
    turns = [
        make.turn("Always squash the merges.", "Understood.", key="t1"),
        make.turn("Fix the parser.", "Fixed.", key="t2"),
        make.turn("Forget what I said about squashing.", "Forgotten.", key="t3"),
    ]

    found = LocalExtractor().propose(turns, ExtractionContext())

    assert not [one for one in found if one.voice is Voice.USER]


def test_a_rule_of_another_session_is_withdrawn_by_name(make: type[Make]) -> None:
    squash = NearMemory("Always squash the merges.", "ep_000000000001", Kind.PREFERENCE, is_users_rule=True)
    tabs = NearMemory("Always use tabs.", "ep_000000000002", Kind.PREFERENCE, is_users_rule=True)
    told = NearMemory("Merges are squashed by the bot.", "ep_000000000003", Kind.DECISION)
    turn = make.turn("I take back the rule about squashing.", "Understood.")

    found = LocalExtractor().propose([turn], ExtractionContext(near=(squash, tabs, told)))

    assert [(one.action, one.target, one.rests_on_user) for one in found] == [("retracts", "ep_000000000001", True)]


def extract(workshop: Workshop, session: str) -> None:
    extract_session(
        workshop.store,
        workshop.sessions[session],
        extractor=LocalExtractor(),
        embedder=None,
        settings=workshop.settings,
    )


def rules_kept(workshop: Workshop) -> list[tuple[str, Status]]:
    kept = [one for one in all_memories(workshop.store) if one.voice is Voice.USER]
    return [(one.summary, one.status) for one in kept]


def test_an_order_is_kept_when_another_session_of_the_project_says_it_again(workshop: Workshop) -> None:
    workshop.work("main", "Please don't wrap long lines in Markdown.", session="one")
    extract(workshop, "one")
    assert rules_kept(workshop) == []

    workshop.work("main", "don't wrap the long lines in Markdown", session="two")
    workshop.work("main", "Please don't touch the cache.", session="two")
    extract(workshop, "two")

    assert rules_kept(workshop) == [("don't wrap the long lines in Markdown", Status.ACTIVE)]


def test_a_rule_is_gone_that_the_user_went_back_from(workshop: Workshop) -> None:
    workshop.work("main", "Never push to main.", behind="a1")
    workshop.work("main", "Always use npm for the shop.", behind="a2")
    workshop.work("main", "Always sort the imports.", behind="a3")
    extract(workshop, "one")
    workshop.work("main", "Always use pnpm for the shop.", behind="a2")
    extract(workshop, "one")

    assert sorted(rules_kept(workshop)) == [
        ("Always sort the imports.", Status.ARCHIVED),
        ("Always use npm for the shop.", Status.ARCHIVED),
        ("Always use pnpm for the shop.", Status.ACTIVE),
        ("Never push to main.", Status.ACTIVE),
    ]


@pytest.mark.parametrize(
    ("stopped", "sent", "kept"),
    [
        ("Always use npm for the shop.", "Always use pnpm for the shop, sorry.", 1),
        ("Never push to main or next.", "Never push to main or stable.", 1),
        ("Always use npm.", "Always use pnpm.", 1),
        ("Never round up here.", "Never round down here.", 1),
        ("Always use npm for the shop.", "Always sort the imports.", 2),
        ("Never push to main.", "Always push the branch before a break.", 2),
    ],
)
def test_a_prompt_that_was_stopped_and_sent_again_counts_once(
    make: type[Make], stopped: str, sent: str, kept: int
) -> None:
    turns = [replace(make.turn(stopped, key="t1"), is_interrupted=True), make.turn(sent, "ok", key="t2")]

    found = [one.summary for one in LocalExtractor().propose(turns, ExtractionContext()) if one.voice is Voice.USER]

    assert len(found) == kept
    assert found[-1].startswith(sent[:20])


@pytest.mark.parametrize(
    ("behind", "standing"),
    [
        (("", "", ""), "012"),
        (("a", "b", "c"), "012"),
        (("a", "a", "b"), "12"),
        (("a", "b", "b"), "02"),
        (("a", "b", "a", "b"), "23"),
        (("a", "b", "c", "b", "c"), "034"),
        (("a", "", "a"), "2"),
    ],
)
def test_a_prompt_in_the_place_of_another_ends_what_followed_that(
    make: type[Make], behind: tuple[str, ...], standing: str
) -> None:
    turns = [
        replace(make.turn(f"prompt {n}", key=str(n)), extra={BEHIND: entry} if entry else {})
        for n, entry in enumerate(behind)
    ]

    assert "".join(turn.key for turn in standing_turns(turns)) == standing


def test_a_copy_of_a_session_says_nothing_again(workshop: Workshop) -> None:
    workshop.work("main", "Please don't wrap long lines in Markdown.", session="one")
    path = next(workshop.settings.projects_folder.glob("*/*.jsonl"))
    names: dict[str, str] = {}
    copied = re.sub(
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        lambda found: names.setdefault(found[0], str(uuid.uuid4())),
        path.read_text(),
    )
    workshop.sessions["copy"] = names[path.stem]
    copy = path.with_name(f"{names[path.stem]}.jsonl")
    copy.write_text(copied)
    workshop.work("main", "Fix the parser.", session="copy")

    for session in ("one", "copy"):
        extract(workshop, session)

    assert rules_kept(workshop) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always use npm for the shop.", "Always use pnpm for the shop."),
        ("Always run the linter before a commit.", "Always run the tests before a commit."),
        ("Remember that the port of the page is 7411.", "Remember that the port of the page is 7500."),
        ("Always squash merges.", "Never squash merges."),
    ],
)
def test_a_rule_that_differs_in_a_word_is_another_one(make: type[Make], first: str, second: str) -> None:
    turns = [make.turn(first, "ok", key="t1"), make.turn("Fix it.", "ok", key="t2"), make.turn(second, "ok", key="t3")]

    found = LocalExtractor().propose(turns, ExtractionContext())

    assert [one.summary for one in found if one.voice is Voice.USER] == [first, second]


def test_a_rule_in_other_words_is_kept_once(make: type[Make]) -> None:
    first, second = "Always run the linter before a commit.", "always run the linter before you commit!"

    found = LocalExtractor().propose([make.turn(first, "ok"), make.turn(second, "ok", key="t2")], ExtractionContext())

    assert [one.summary for one in found if one.voice is Voice.USER] == [first]


def test_a_rule_ends_when_a_later_session_withdraws_it(workshop: Workshop) -> None:
    workshop.work("main", "Always squash the merges. Never push on Fridays.", session="one")
    extract(workshop, "one")
    workshop.work("main", "Forget what I said about squashing, we rebase.", session="two")
    extract(workshop, "two")

    assert sorted(rules_kept(workshop)) == [
        ("Always squash the merges.", Status.ARCHIVED),
        ("Never push on Fridays.", Status.ACTIVE),
    ]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        # One word of the rule's is enough where it is taken back by name.
        ("Always run the linter before a commit.", "Forget what I said about the linter."),
        ("We use Redis for the queue.", "We no longer use Redis for the queue."),
        ("We use Redis for the queue.", "We stopped using Redis for the queue, we have Postgres now."),
        ("Always run the linter before a commit.", "You don't need to run the linter before a commit any more."),
        ("Never push to main.", "You may push to main again."),
        ("Never merge without two approvals.", "We no longer need two approvals to merge."),
        ("Never merge without two approvals.", "We dropped the two approvals rule."),
        ("Never merge without two approvals.", "The merge rule is gone."),
        ("Never merge without two approvals.", "Ignore my merge rule."),
        ("Always squash the merges.", "That squash rule no longer applies."),
        # Whether it demands or forbids does not matter where it is called a rule.
        ("Never deploy on Fridays.", "We dropped the no-deploy-on-Fridays rule."),
        ("Never deploy on Fridays.", "The Friday deploy policy is gone."),
        ("Never push on Fridays.", "Actually, pushing on Fridays is fine now."),
        ("Never push on Fridays.", "From now on pushing on Fridays is allowed."),
        ("Never merge on Fridays.", "Merging on Fridays is okay again."),
        ("Never edit the generated files.", "You can edit the generated files from now on."),
        ("Ab jetzt immer alle Commits squashen.", "Vergiss bitte, was ich über das Squashen gesagt habe."),
        ("À partir de maintenant, utilise toujours Redis pour la file.", "Oublie ce que j'ai dit sur Redis."),
        ("D'ora in poi usa sempre i mock di Kafka.", "Dimentica ciò che ho detto sui mock di Kafka."),
        ("A partir de agora, nunca faça deploy na sexta.", "Esquece o que eu disse sobre o deploy na sexta."),
        ("Vanaf nu altijd de tests in Docker draaien.", "Vergeet wat ik zei over de tests in Docker."),
        ("Od teraz zawsze używaj tabulatorów.", "Zapomnij o tym, co mówiłem o tabulatorach."),
        ("С этого момента всегда используй табы.", "Забудь о том, что я говорил про табы."),
    ],
)
def test_a_rule_that_is_over_ends_in_another_session(workshop: Workshop, rule: str, said: str) -> None:
    workshop.work("main", rule, session="one")
    extract(workshop, "one")
    workshop.work("main", said, session="two")
    extract(workshop, "two")

    assert rules_kept(workshop) == [(rule, Status.ARCHIVED)]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("From now on we use pnpm instead of npm.", "We no longer use npm."),
        ("We use Redis for the queue.", "Why do we no longer use Redis for the queue?"),
        ("We use Redis for the queue.", "We dropped the queue of the rule engine."),
        ("We use Redis for the queue.", "I dropped the Redis queue from the proxy policy."),
        ("Always use the weights logger.", "The no-weights rule is off."),
        ("Always squash the merges.", "The eslint rule for squash merges is over-eager."),
        ("We use Redis for the queue.", "Bob says we no longer use Redis for the queue."),
        ("We use Redis for the queue.", "For now we no longer use Redis for the queue."),
        ("We use Redis for the queue.", "I no longer get the timeout with Redis and the tests."),
        ("Always run the linter before a commit.", "You may run the linter before a commit again."),
        ("Never touch the pipeline by hand.", "The pipeline is fine again."),
        ("Never push to main.", "CI is green, so pushing to main is fine now."),
        ("Never push on Fridays.", "Can we push on Fridays from now on?"),
        ("Always run the tests in Docker.", "Ignore that, go over the tests again."),
        # An article is not what is withdrawn.
        ("De ahora en adelante usa siempre los mocks.", "Olvida lo que dije sobre los viernes."),
        ("Ab jetzt immer das Formular prüfen.", "Vergiss, was ich über das Squashen gesagt habe."),
        ("A partir de agora, nunca faça deploy na sexta.", "Esquece o que eu disse sobre os testes na nuvem."),
    ],
)
def test_what_says_something_else_ends_no_rule(workshop: Workshop, rule: str, said: str) -> None:
    workshop.work("main", rule, session="one")
    extract(workshop, "one")
    workshop.work("main", said, session="two")
    extract(workshop, "two")

    assert (rule, Status.ACTIVE) in rules_kept(workshop)


def test_of_several_rules_those_end_that_are_named_most(workshop: Workshop) -> None:
    workshop.work("main", "Always squash the merges of features. Never merge on Fridays.", session="one")
    extract(workshop, "one")
    workshop.work("main", "Forget what I said about squashing merges.", session="two")
    extract(workshop, "two")

    assert sorted(rules_kept(workshop)) == [
        ("Always squash the merges of features.", Status.ARCHIVED),
        ("Never merge on Fridays.", Status.ACTIVE),
    ]


@pytest.mark.parametrize("project", ["ui", "test", "Lat"])
def test_letters_of_a_project_s_name_in_another_word_are_not_its_name(project: str) -> None:
    rule = "In all my projects, require a build with the latest linter."

    assert scope_of(rule, project) == Scope.GLOBAL
    assert scope_of(f"{rule[:-1]} as in {project.upper()}.", project) == Scope.PROJECT
    assert scope_of(f"{rule[:-1]} of {project}_client.", project) == Scope.PROJECT


def test_a_name_in_a_script_without_spaces_may_touch_other_letters() -> None:
    rule = "在所有项目中，永远不要修改港口的表。"

    assert (scope_of(rule, "港口"), scope_of(rule, "灯塔")) == (Scope.PROJECT, Scope.GLOBAL)


def test_why_says_which_sentences_are_not_rules(workshop: Workshop) -> None:
    prompt = "Never push to main. Never touch the tests for now. Fix the parser."
    session_id = workshop.work("main", prompt)
    extract(workshop, "one")

    (moment,) = why_session(workshop.store, session_id, find_session(workshop.store, session_id)).moments

    assert moment.to_json({})["no_rules"] == [
        {"sentence": "Never touch the tests for now.", "why": RuleRefusal.MOMENT.value}
    ]


def test_a_long_prompt_with_one_letter_again_and_again_is_searched_for_an_enumeration_only_once() -> None:
    again = "(a) " * 300_000

    assert ENUMERATION.search(again) is None
    assert ENUMERATION.search(f"{again}or (b) the other.")


@pytest.mark.parametrize("prompt", ["commit", "always", "Never."])
def test_why_says_nothing_of_a_prompt_that_nobody_takes_for_a_rule(workshop: Workshop, prompt: str) -> None:
    session_id = workshop.work("main", prompt)
    extract(workshop, "one")

    (moment,) = why_session(workshop.store, session_id, find_session(workshop.store, session_id)).moments

    assert moment.no_rules == ()


@pytest.mark.parametrize(
    "prompt",
    [
        "From now on the server returns 404 for deleted users instead of 410.",
        "ok from now on the login page redirects to /home and not to /dashboard",
        "The cache must never hold more than a thousand entries.",
        "It should always keep the last five checkpoints.",
        "The bot that we are building must never delete a file.",
    ],
)
def test_what_a_program_must_do_is_not_a_rule(prompt: str) -> None:
    assert rules(prompt) == []


@pytest.mark.parametrize(
    "prompt",
    [
        "Best practices\n- Always use prepared statements\n- Never concatenate SQL\nwhich of these do we break",
        "Rank these guidelines:\n- never use globals\n- always sort the imports",
        "prompt for the subagent: you are a reviewer. never edit files. always answer with json.",
        "always retry or never retry, pick one",
        "put a line in the readme that we use pnpm and never npm",
    ],
)
def test_a_text_or_a_choice_is_not_a_rule(prompt: str) -> None:
    assert rules(prompt) == []


def test_a_next_prompt_that_objects_leaves_no_rule() -> None:
    assert rules("remember that our default branch is develop.", following="sorry, mixed that up, go on") == []


@pytest.mark.parametrize(
    "prompt",
    [
        "from now on it says permission denied, no idea why",
        "Never do it as the README says, that broke twice.",
        "From now on always use the schema that the API docs require.",
        "Always use the header their guide recommends.",
    ],
)
def test_the_beginning_of_a_sentence_that_relays_the_rest_is_not_a_rule(prompt: str) -> None:
    assert not rules(typed_text(prompt))


def test_a_rule_with_a_verb_that_may_also_relay_is_kept_whole() -> None:
    rule = "From now on every animation goes through our useMotion hook, never through the library itself."

    assert [found.sentence for found in rules(typed_text(rule))] == [rule]


@pytest.mark.parametrize(
    "rule",
    [
        "in all my projects: always answer me in german",
        "in all my projects always answer me in german",
        "For every project of mine, never add a co-author.",
        "Across all my repos - never answer with emojis",
        "In allen meinen Projekten: immer auf Deutsch antworten",
    ],
)
def test_what_follows_words_for_all_projects_is_judged_like_any_rule(rule: str) -> None:
    assert [(found.sentence, found.scope) for found in rules(rule)] == [(rule, Scope.GLOBAL)]
