"""What was pasted, quoted or relayed never counts as the user's own words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.transcripts.claude_code.entry import Entry, parse_line
from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.growing_file import Position, read_chunk
from engram.trust.voice import split_typed, typed_text
from tests.each_case import each_case


def test_no_payload_becomes_typed_however_it_is_pasted(red_team: ModuleType) -> None:
    leaks = [
        (name, payload)
        for payload in red_team.PAYLOADS
        for name, wrap in red_team.WRAPPERS.items()
        if any(line in typed_text(wrap(payload)) for line in payload.splitlines() if len(line) > 8)
    ]

    assert leaks == []


@pytest.mark.parametrize("part", ["SEEN", "UNSEEN", "LATER"])
def test_nothing_of_a_pasted_letter_chat_or_ticket_is_typed(pasted_letters: ModuleType, part: str) -> None:
    leaks = [
        prompt
        for prompt, order in getattr(pasted_letters, part)
        if order[:20] in typed_text(prompt) or order[-20:] in typed_text(prompt)
    ]

    assert leaks == []


def test_a_greeting_to_claude_and_a_word_of_thanks_make_no_letter(pasted_letters: ModuleType) -> None:
    for text in pasted_letters.TYPED:
        assert typed_text(text).split() == text.split()


def test_nothing_of_a_pasted_text_is_typed(pasted_texts: ModuleType) -> None:
    leaks = [
        (kind, prompt, order)
        for kind, prompts in pasted_texts.PASTED.items()
        for prompt, order in prompts
        if order in typed_text(prompt)
    ]

    assert leaks == []


def test_a_rule_of_the_users_own_keeps_its_voice(pasted_texts: ModuleType) -> None:
    assert [(prompt, rule) for prompt, rule in pasted_texts.TYPED if rule not in typed_text(prompt)] == []


@pytest.mark.parametrize(
    "lead_in",
    [
        "here is the ticket:",
        "The handbook has this paragraph:",
        "a colleague sent me this",
        "hier die Fehlermeldung:",
        "voici le message :",
        "aquí está el correo:",
        "ecco il messaggio:",
        "aqui está o erro:",
    ],
)
def test_after_a_lead_in_only_a_blank_line_and_the_first_person_are_typed(lead_in: str) -> None:
    pasted = "Always use npm.\n\nNever yarn.\nI mean it.\n\nPlease do."

    assert typed_text(f"{lead_in}\n\n{pasted}") == lead_in
    assert typed_text(f"{lead_in}\n\n{pasted}\n\nI want pnpm. Always.") == f"{lead_in}\n\nI want pnpm. Always."


@pytest.mark.parametrize(
    "heading",
    [
        "For the user manual:",
        "Rules for the handbook:",
        "When you write a chapter:",
        "If it takes more than five minutes:",
    ],
)
def test_rules_below_a_heading_of_ones_own_are_typed(heading: str) -> None:
    rules = f"{heading}\n\n- always weigh twice\n- never round up"

    assert typed_text(rules) == rules


@pytest.mark.parametrize(
    "mark",
    [
        "[Artifact comment sent to Claude]",
        "[Artifact comments sent to Claude]",
        "[Sent to Claude from an artifact's page]",
        "[Review comment context — scales.py, line 12]",
    ],
)
def test_what_a_page_or_a_comment_sends_is_not_typed(mark: str) -> None:
    assert typed_text(f"Look here.\n\n{mark}\nIda: fine\n\nAlways weigh twice.\n\nI mean it.") == "Look here."


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        ("--- Newly Discovered Project Context ---", "--- End Project Context ---"),
        ("=== scales.md ===", "=== END OF FILE ==="),
        ("***** rules of the port *****", "***** end *****"),
        ("--- Context from: notes/CLAUDE.md ---", ""),
    ],
)
def test_a_text_between_marks_of_its_beginning_and_end_is_not_typed(begins: str, ends: str) -> None:
    after = "Weigh the seal." if ends else ""

    assert typed_text(f"Look here.\n{begins}\n\nNever push.\n\nI mean it.\n{ends}\n{after}").split("\n\n") == [
        "Look here.",
        *filter(None, [after]),
    ]


@pytest.mark.parametrize("text", ["--- a dash and words", "Weigh it --- twice --- please", "---\nWeigh it.", "* * *"])
def test_dashes_alone_frame_nothing(text: str) -> None:
    assert "Weigh" not in text or "Weigh" in typed_text(text)


@pytest.mark.parametrize("opened", ["<a>", "<a>\n<a>\n</a>", "```", "<a>\n</a> x </a>\n<a>"])
def test_a_tag_or_fence_that_is_not_closed_takes_the_rest(opened: str) -> None:
    assert "always" not in typed_text(f"{opened}\nalways use npm\n\nnever yarn, always npm")


@pytest.mark.parametrize("who", ["nobody told us", "Nobody told me", "no one said", "none said"])
def test_that_nobody_said_it_relays_nothing(who: str) -> None:
    text = f"The app team took these codes, {who}, so ours begin at 700"

    assert typed_text(text) == text


def test_that_somebody_said_it_relays_it() -> None:
    assert "700" not in typed_text("The app team took these codes, Reto told us, ours begin at 700")


@pytest.mark.corpus
def test_real_prompts_keep_the_typed_voice(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = list(real_prompts(corpus))
    now = [typed_text(prompt) for prompt in prompts]
    monkeypatch.setattr("engram.trust.voice.letter_spans", lambda lines: ())
    changed = [prompt for prompt, typed in zip(prompts, now, strict=True) if typed != typed_text(prompt)]

    print(f"{len(changed)} of {len(prompts)} real prompts lose typed words to the rules for letters")
    assert len(prompts) >= 500
    assert len(changed) <= len(prompts) // 100


def real_prompts(corpus: Path) -> Iterator[str]:
    """Every prompt of the real sessions once."""
    seen: set[str] = set()
    for path in sorted(corpus.glob("*/projects/*/*.jsonl")):
        builder = TurnBuilder(path.stem, owner=lambda uuid: uuid if uuid in seen else None)
        position = Position()
        while (chunk := read_chunk(path, position)).lines:
            for entry in map(parse_line, chunk.lines):
                if isinstance(entry, Entry):
                    builder.add(entry)
            position = chunk.position
        for update in builder.finish().updates:
            seen.update(entry.uuid for entry in update.turn.entries)
            if update.turn.prompt:
                yield update.turn.prompt


def test_what_users_really_type_is_typed(red_team: ModuleType) -> None:
    for text in red_team.HARMLESS:
        assert typed_text(text) == text


@pytest.mark.parametrize(
    ("prompt", "typed"),
    [
        ("fix this\n```\nalways use tabs\n```\nnever touch api/", "fix this\n\nnever touch api/"),
        ("from now on:\n- use pnpm\n- write tests", "from now on:\n- use pnpm\n- write tests"),
        (
            "Rules for this repo:\n1. always use uv\n2. no emojis",
            "Rules for this repo:\n1. always use uv\n2. no emojis",
        ),
        ("I said always use spaces", "I said always use spaces"),
        ("> always use tabs\nno, we use spaces", "no, we use spaces"),
        ("the README says:\n> Always tare first.\n> Never tare twice.\n\nis that still true?", "is that still true?"),
        ("answer this for me\n\nFrom: Ola\nTo: dev\nSubject: Tare\n\nAlways tare.\nRegards\nOla", "answer this for me"),
        ("ERROR when I weigh, always since Monday", "ERROR when I weigh, always since Monday"),
        ("here is the mail from Ola:\n> floats?\n\nNever use floats.", "here is the mail from Ola:"),
        *(
            (text, text)
            for text in (
                "INFO messages always go to stdout",
                "DEBUG builds must always run the tests",
                "3 failed logins in 10 minutes always lock the account",
                "When you review it, run the tests\n---\nAlways tare first.",
                "I'll explain this below\n---\nAlways tare first.",
            )
        ),
        ("python: use uv\nnode: use pnpm\nrust: use cargo", "python: use uv\nnode: use pnpm\nrust: use cargo"),
        ("first part\n---\nalso use kilos from now on", "first part\n---\nalso use kilos from now on"),
        ('the linter prints "you must always use double quotes" here', "the linter prints\n\nhere"),
    ],
)
def test_typed_words_around_a_paste_stay_typed(prompt: str, typed: str) -> None:
    assert " ".join(typed_text(prompt).split()) == " ".join(typed.split())


def test_a_very_long_prompt_is_typed_at_its_ends_only() -> None:
    middle = "\n\n".join("always do what this paragraph says and nothing else" for _ in range(200))

    assert "always do" not in typed_text(f"look at this\n\n{middle}\n\nwhat now?")


@each_case(
    ("prompt", "typed"),
    [
        # The user begins or ends small and points at a text; what is written with capitals and full stops is pasted.
        ("add this to the port's manual\n\nAlways tare first. Never tare twice.", "add this to the port's manual"),
        ("tip of the harbour's bot\n\nAlways tare first.\n\nis it right?", "tip of the harbour's bot\n\nis it right?"),
        ("AGENTS.md of the quay\n\nTare.\nAlways tare first.\n\ntake it over", "AGENTS.md of the quay\n\ntake it over"),
        ("der Text fürs Plakat\n\nImmer gewogen!\n\nmach dies rot", "der Text fürs Plakat\n\nmach dies rot"),
        ("welche Regel ist besser?\n\nA: Wiege immer zweimal.\nB: Wiege nie.", "welche Regel ist besser?"),
        # What somebody said follows a line that ends with the verb, and a table is a program's.
        ("Copilot suggested\n\nAlways tare first.", ""),
        ("Gemini répond\n\nToujours tarer.", ""),
        ("der Chef hat geschrieben\n\nab jetzt immer tarieren", "der"),
        ("do as the master said\n\nalways tare first", "do as\n\nalways tare first"),
        ("lint fails\n  12:5  error  Always tare first   tare\ntare", "lint fails\ntare"),
        ("Segundo a documentação do cais:\n\nSempre tare.\n\nCerto?", ""),
        ("Weitergeleitet von unserem Hafen:\nimmer tarieren", "Weitergeleitet von unserem Hafen:"),
        ("PORT-12\nTare\nOpened by Ola\nNever tare twice.\n\nmend it", ""),
        ("mira este diff:\n\n- tara\n+ pesa\n\ncreo que falla", "mira este diff:\n\ncreo que falla"),
        ("hier is de mail:\n\nAltijd wegen.\n\nik vind het goed", "hier is de mail:\n\nik vind het goed"),
        ("## Tare\n\n1. Always tare first\n2. Never tare twice", ""),
    ],
)
def test_what_is_written_or_introduced_otherwise_is_not_typed(prompt: str, typed: str) -> None:
    assert typed_text(prompt).replace(" ⋯", "").split() == typed.split()


@each_case(
    "prompt",
    [
        "fix the weighing loop\n\nThe scales tare twice when they are wet. Never tare without a weight.",
        "make it tare twice\n\nThe scales are off. Never weigh before that.",
        "add a night mode\n\nUse dark weights. Never buy new ones.",
        "fix the weighing loop\n\nI think it tares twice. Please look.",
        "fix the scales\n\nthen tare. Always tare first. thanks",
        "two things to do\n\n1. Tare first.\n2. Weigh it.",
        "Fix the scales\n\nAlways tare first.",
        "hi claude\n\nThe scales are off. Please tare them.",
        "fix the scales, they are off.\n\nAlways tare first.",
        "for the harbour:\n\nAlways tare first.",
        "fix this\n\nThanks!",
        "you created two weights\nplease drop one. always ask first",
        "the script wrote the weights twice\nmend it",
        "Tests reviewed, all green\nnow weigh it",
        "Weigh it.  Then tare.  And sign.",
        # Names, paths and code begin small for everybody, and who adds a request or speaks to Claude is the user.
        "npm tare fails\n\nThe scales are off. Please tare first.",
        "src/scales.py is too long\n\nSplit the file. Never weigh twice.",
        "tare the scales\n\nFrom now on always tare first. Never weigh twice.",
        "Mend the tare\n\nThe scales are off. Always tare first.\n\nalso bump the version",
        "Mend the tare\n\nThe scales are off. Always tare first.\n\n`src/scales.py` is the file",
        "hey, quick one\n\nAlways tare first. Never twice.",
        # What only looks like a ticket's key, or is followed by the user's own words, and spaces in a single line.
        "use one encoding everywhere:\nUTF-8\nnever latin1",
        "we work on two tickets\nPORT-12\nPORT-13\nalways name the ticket",
        "PORT-12\n\nMend the scales. Always tare first.",
        "always tare   first   here",
    ],
)
def test_a_user_who_writes_in_one_way_keeps_their_voice(prompt: str) -> None:
    assert typed_text(prompt).split() == prompt.split()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.sampled_from(
                [
                    "```\n",
                    "\n",
                    "> ",
                    "<a>\n",
                    "</a>\n",
                    "here is the file:\n",
                    '"',
                    "@@ -1 +1 @@\n",
                    "    ",
                    "# T\n",
                    "The README says ",
                ]
            ),
        ),
        max_size=15,
    ).map("".join)
)
def test_the_segments_joined_are_the_prompt(prompt: str) -> None:
    segments = split_typed(prompt)

    assert "".join(segment for segment, _ in segments) == prompt
    assert all(a[1] != b[1] for a, b in pairwise(segments))


@each_case(
    "pasted",
    [
        "De README zegt: ORDER",
        "Volgens de handleiding ORDER",
        "W README jest napisane: ORDER",
        "В README написано: ORDER",
        "マニュアルによるとORDER",
        "文档里写着：ORDER",
        "Hier is het bericht van Jan:\nORDER",
        "Wiadomość od Anny:\nORDER",
        "Переслано от Анны:\nORDER",
        "転送されたメッセージ:\nORDER",
        "转发的消息：\nORDER",
        "Zitat: ORDER",
        "Citation : ORDER",
        "Cita: ORDER",
        "The error message reads: ORDER",
        "Copilot:\nORDER",
        "Anna Schmidt 14:05 Uhr\nORDER",
        # Whose words they are stands before or behind them.
        "From slack, Maria: ORDER",
        "via slack: ORDER",
        "per Anna: ORDER",
        "Anna's rule: ORDER",
        "Their naming policy: ORDER",
        "The vendor's contract: ORDER",
        "RFC 9110 section 4: ORDER",
        "tl;dr of the article: ORDER",
        "ORDER, said Bob.",
        "ORDER, insists Maria from Ops.",
        "ORDER. — Anna",
        "ORDER. -Anna from ops",
        "ORDER. — Thanks Anna",
        "anna's rule: ORDER",
        "Fix it. anna's naming convention: ORDER",
        "our Anna's rule: ORDER",
        "please follow anna's rule: ORDER",
        "my boss's policy: ORDER",
        "our main customers' rules: ORDER",
        "the library's manual: ORDER",
        "RFC section 4: ORDER",
        "PEP-8: ORDER",
        "OWASP: ORDER",
        # Comments of other languages, a diff that names no file, to-dos and answers of a screen.
        "-- ORDER\n-- in the query",
        "; ORDER\nkey=1",
        "root@pier:/# ORDER",
        "# ORDER\nsh: 1: we: not found",
        "% ORDER\n\\section{x}",
        "- We deploy by hand.\n+ ORDER",
        "+ ORDER\n- We deploy by hand.\n+ And sign it.",
        "☐ ORDER\n☒ done",
        "✦ I'd suggest:\n  ORDER",
        # Errors of languages with dotted names, and chats of nicknames.
        "java.lang.IllegalStateException: ORDER",
        "Stack Overflow:\nORDER",
        "bob: ORDER\nann: ok, agreed\nbob: great",
        # What a request is about.
        "translate to german\n\nORDER",
        "tldr?\n\nORDER",
        "please proofread this\nORDER",
        "please proofread this\nAlways note that ORDER",
        "translate to german\n\nAlways note that ORDER",
    ],
)
def test_what_others_say_is_not_typed_in_any_language(pasted: str) -> None:
    assert "deploy on Friday" not in typed_text(pasted.replace("ORDER", "we always deploy on Friday"))


@each_case(
    "typed",
    [
        "Volgens mij is het klaar. ORDER",
        "Mijn regels:\n- ORDER",
        "Moje zasady:\n- ORDER",
        "Мои правила:\n- ORDER",
        "私のルール：\n- ORDER",
        "我的规则：\n- ORDER",
        "Important: ORDER",
        "For the record: ORDER",
        "The team's rule: ORDER",
        "# ORDER",
        "our naming policy: ORDER",
        "- ORDER\n- and sign it",
        "+ ORDER\n+ and sign it",
        "translate the readme to german and note that ORDER",
        "Una volta per tutte: ORDER",
        "Fix it. - Tests too. ORDER",
        "Our app's convention: ORDER",
        "our new billing module's rules: ORDER",
        "This service's policy: ORDER",
        "The backend's standards: ORDER",
        "Backend's standards: ORDER",
        "my-crane's rules: ORDER",
        "ORDER. — Thanks",
        "ORDER. ~ Cheers",
        "ORDER. — Danke",
        "ORDER. — Please",
        "ORDER. –Merci Claude",
        "RFC: ORDER",
        "ISO: ORDER",
        "fix spelling\nFrom now on ORDER",
        "translate to german\n- always note that ORDER",
    ],
)
def test_what_the_user_introduces_as_their_own_is_typed(typed: str) -> None:
    assert "deploy on Friday" in typed_text(typed.replace("ORDER", "we always deploy on Friday"))


@each_case(
    ("first", "second"),
    [("Before", "After"), ("Given", "Then"), ("Input", "Output"), ("Old", "New"), ("API", "DB"), ("Pros", "Cons")],
)
def test_a_list_whose_labels_return_is_no_conversation(first: str, second: str) -> None:
    text = f"{first}: one\n{second}: two\n{first}: three\n{second}: four\nAlways keep this form."

    assert typed_text(text) == text
    assert typed_text(text.replace(first, "Anna").replace(second, "Bob")) == ""


@each_case(
    "sentence",
    [
        "From now on every payload goes through the validator first.",
        "Every user-facing string goes into messages.po, never into the code.",
        "This goes for every change from here on: the schema and its page belong together.",
        "From today, no flag goes into our docs unless you have seen it run.",
        "The JWT claims must always be verified before use.",
        "Always read the claims in the token before use.",
        "Always read the id claims from the session, never from the request.",
        "A 404 tells crawlers to come back, always use 410.",
        "This tells our new compiler to inline, always set it.",
        "The flag tells the compiler to inline, always set it.",
        "Never log what the user says to the bot.",
        "Always store everything the customer wrote as it is.",
    ],
)
def test_a_verb_of_saying_about_a_thing_relays_nothing(sentence: str) -> None:
    assert typed_text(sentence) == sentence


@each_case(
    "sentence",
    [
        "As the saying goes, we always deploy on Friday.",
        "The rule goes: we always deploy on Friday.",
        'The manual goes "we always deploy on Friday, whatever happens".',
        "My boss tells the team that we always deploy on Friday.",
        "The vendor claims that we always deploy on Friday.",
        "Do what the README says: we always deploy on Friday.",
        "That's what the reviewer says that we always deploy on Friday.",
        "My manager tells contractors that we always deploy on Friday.",
        "My lead tells the whole department: we always deploy on Friday.",
        "Our vendor tells every new customer to always deploy on Friday.",
        "The reviewer claims in his comment that we always deploy on Friday.",
        "Bob claims from experience: we always deploy on Friday.",
        "And then the lead goes never mind the tests, we always deploy on Friday.",
        "The old saying goes - we always deploy on Friday.",
        "The proverb goes that we always deploy on Friday.",
        "What my lead said is we always deploy on Friday.",
        "What the customer asked us to do: we always deploy on Friday.",
        "What Bob told me - we always deploy on Friday.",
        "Do what Bob told me to: we always deploy on Friday.",
    ],
)
def test_whoever_is_quoted_with_such_a_verb_is_not_the_user(sentence: str) -> None:
    assert "deploy on Friday" not in typed_text(sentence)


@each_case(
    "tagged",
    [
        "<Button/> is broken in Safari. ORDER",
        "<br /> looks bad here.\nORDER",
        '<Foo bar="1"/>\nORDER',
        '<img src="a.png"/> is too big, and ORDER',
    ],
)
def test_an_element_without_content_takes_no_words(tagged: str) -> None:
    assert "never use one" in typed_text(tagged.replace("ORDER", "never use one"))


@each_case(
    "head",
    [
        "**tom-miller** commented 2 hours ago",
        "_tom_ commented on Mar 3",
        "Tom Miller @tommiller · 2h",
        "Tom Miller @tom · 3 days ago",
        "Tom Miller @tom · 2 months ago\nMaintainer",
        "@tom · 5d",
    ],
)
def test_a_comment_below_a_name_and_its_age_is_not_typed(head: str) -> None:
    assert "deploy on Friday" not in typed_text(f"see here\n\n{head}\n\nAlways deploy on Friday.")
