"""Recognise pasted emails, chats and tickets that lack headers by their greetings, sign-offs and speakers' names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engram.system.lazy_regex import lazy_regex

#: Maximum length of a line that is a greeting, a sign-off or a name, in characters.
_MAX_GREETING_CHARS = 70
#: The writer's name is at most this many lines below the sign-off.
_NAME_LINES = 3

_GREETING = (
    r"hi|hello|hey|hiya|howdy|dear|greetings|good (?:morning|afternoon|evening|day)|morning|"
    r"hallo|moin|servus|guten (?:tag|morgen|abend)|liebe[rs]?|sehr geehrte[rs]?|werte[rs]?|"
    r"hola|buen[oa]s (?:d[ií]as|tardes|noches)|estimad[oa]s?|querid[oa]s?|apreciad[oa]s?|"
    r"bonjour|bonsoir|salut|coucou|ch(?:er|ère)s?|"
    r"ciao|salve|buongiorno|buonasera|gentil[ei]|car[oaie]|egregi[oa]|"
    r"ol[áa]|oi|bom dia|boa (?:tarde|noite)|prezad[oa]s?|car[oa]s|"
    r"hoi|dag|beste|geachte|goede(?:morgen|middag)|hej|hei|hejsan|kære|bästa|"
    r"cześć|witam|witajcie|dzień dobry|szanown[iay]|drog[iaoe]|ahoj|dobrý den|"
    r"здравствуйте|привет|уважаем\w+|добр\w+ (?:день|утро|вечер)|дорог\w+|merhaba|sayın|sevgili"
)
#: A greeting to someone by name, on a separate line or followed by text.
_SALUTATION = lazy_regex(rf"(?i)\s*(?:{_GREETING})\s+(?P<name>[^\s,:;!.?]+(?: [^\s,:;!?]+){{0,5}})[,:;!.—–-]*\s*$")
_SALUTATION_BEFORE_TEXT = lazy_regex(r"\s*(?:Hi|Hello|Hey|Dear|Hallo|Hola|Bonjour|Ciao) (?P<name>[A-Z]\w+), \S")
#: A form of address alone ("team,"), or a greeting in Chinese, Japanese or Korean.
_ADDRESS = lazy_regex(
    r"(?i)\s*(?:(?:team|all|everyone|everybody|folks|colleagues|guys|prezados|kollegen|equipo|chers "
    r"tous)\s*[,:—–-]+\s*$)|.{0,12}(?:您好|你好|各位\w{0,4}|尊敬的.{0,12})[：:，,！!]?\s*$|\s*\w{1,8}(?:さん|様|殿|先生)[、,]?\s*$|"
    r"안녕하세요.{0,6}$|\s*(?:お疲れ様です|いつもお世話)"
)
_CLAUDE = lazy_regex(
    r"(?i)(?:there|again|claude|agent|assistant|ai|bot|buddy|friend|opus|sonnet|haiku|mate|god|lord)\b"
)
#: The closing words of a letter before the name, as a pattern.
ENDING = (
    r"best|(?:all the|my) best|(?:with )?(?:best|kind|warm|many)?\s*(?:regards|wishes)|many thanks|thanks|thank you|"
    r"thx|ty|cheers|(?:yours )?(?:sincerely|faithfully|truly)|yours|take care|respectfully|br|"
    r"(?:viele|beste|liebe|herzliche|freundliche|schöne)n? grü(?:ß|ss)en?|mit (?:freundlich|best|lieb|viel)\w* "
    r"grü(?:ß|ss)en|gru(?:ß|ss)|grüße|lg|vg|mfg|danke|"
    r"(?:un )?(?:cordial )?saludos?(?: cordial(?:es)?)?|un abrazo|atentamente|gracias|"
    r"(?:bien )?cordialement|bien à (?:vous|toi)|amicalement|merci|à bientôt|"
    r"(?:cordiali |distinti )?saluti|a presto|grazie|"
    r"atenciosamente|abraços?|cumprimentos|obrigad[oa]|"
    r"(?:met )?(?:vriendelijke )?groet(?:en|jes)?|med vänlig\w* hälsning\w*|mvh|hälsningar|"
    r"pozdrawiam|z poważaniem|с уважением|всего доброго|спасибо|saygılarımla|"
    r"此致|敬礼|谢谢|祝好|敬具|(?:以上、)?よろしくお願い\w*|감사합니다"
)
_END_LINE = lazy_regex(rf"(?i)\s*(?:{ENDING})[\s,.!。]*$")
_END_WITH_NAME = lazy_regex(
    rf"\s*(?i:{ENDING})[,!.]?\s+(?P<name>[^\W\d_a-z][\w.'-]*(?: [^\W\d_a-z][\w.'-]*){{0,3}})\s*$"
)
_DASHED_NAME = lazy_regex(r"\s*[-–—]{1,2}\s*[A-Z][\w.'-]+(?: [A-Z][\w.'-]+)?\s*$")
_NAME = lazy_regex(r"\s*(?:[^\W\d_a-z][\w.'’-]*)(?: (?:[^\W\d_][\w.'’-]*)){0,4}\s*$")

_CLOCK = r"\d{1,2}[:.]\d\d(?:[:.]\d\d)?(?:\s?[AaPp]\.?[Mm]\.?)?"
_DAY = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
#: A line that begins or ends with the time at which someone spoke.
_SPOKEN_AT = lazy_regex(
    rf"\s*[\[(]?(?:{_DAY},?\s+)?{_CLOCK}[\])]?\s*(?:[-–—]\s*)?<?@?[\w.'-]+(?: [\w.'-]+){{0,3}}>?:\s"
)
_SPEAKER_AT = lazy_regex(
    r"(?i)\s*@?[^\W\d_][\w.'-]*(?: [\w.'-]+){0,3}(?: \(\w{1,5}/\w{1,5}\))?(?: :\w{1,30}:)?,?\s+(?:[-–—|]\s*)?[\[(]?"
    rf"(?:(?:today|yesterday|heute|gestern) (?:at|um) |{_DAY},?\s+)?{_CLOCK}[\])]?(?: uhr)?(?:\s*$|:\s+\S)"
)
#: A name and how long ago that person spoke; a name in angle brackets after the time; the time below a name.
_SPEAKER_AGO = lazy_regex(
    r"(?i)\s*@?[^\W\d_][\w.'-]*(?: @?[\w.'-]+){0,3}\s*[·•|,–—-]?\s*\d{1,3}\s?(?:m|mins?|minutes?|h|hrs?|hours?|d|days?|"
    r"w|weeks?|months?|y|years?) ago(?: \|.*)?\s*$|\s*(?:[^\W\d_][\w.'-]*(?: [\w.'-]+){0,3} )?@[\w.-]+\s*[·•|]\s*"
    r"\d{1,3}\s?[a-z]{1,3}\s*$"
)
_NICK_AT = lazy_regex(rf"\s*[\[(]?{_CLOCK}[\])]?\s*<[@+~&%]?[\w\[\]\\`^{{}}|-]+>\s")
_MINUTES = r"s|secs?|seconds?|m|mins?|minutes?"
_AGO = rf"\d{{1,3}}\s?(?:{_MINUTES}|h|hrs?|hours?|d|days?|w|wks?|weeks?|mo|months?|y|yrs?|years?)\.?"
_TIME_ALONE = lazy_regex(
    rf"(?i)\s*(?::\w{{1,30}}:\s*)?(?:(?:(?:today|yesterday|\w{{3,10}}day)(?: at)? )?{_CLOCK}(?: (?:today|yesterday))?|"
    rf"{_AGO}(?: ago)?)\s*$"
)
#: A time that is often the value of a setting named on the line above: "Timeout", "30 s".
_SHORT_TIME = lazy_regex(rf"(?i)\s*\d{{1,3}}\s?(?:{_MINUTES})\.?\s*$")
#: A user name on a line of its own, and a separator line between it and the time.
_HANDLE = lazy_regex(r"\s*(?:@|u/)[\w.-]+\s*$")
_DOT = lazy_regex(r"\s*[·•|]\s*$")
#: A time in brackets, possibly with a day, before a name: "[Tuesday 9:12 AM] Bob Lee".
_TIME_THEN_NAME = lazy_regex(
    rf"\s*\[(?:\w{{3,12}},? )?(?:{_DAY},? )?{_CLOCK}\]\s*[^\W\d_a-z][\w.'-]*(?:,? [\w.'-]+){{0,3}}(?:\s*$|:\s)"
)
#: The heading of a part of a ticket, on its own line.
_TICKET_PART = lazy_regex(
    r"(?i)\s*(?:[#*_]{1,4}\s*)?(?:acceptance criteria|definition of done|steps to reproduce|(?:expected|actual) "
    r"(?:results?|behaviou?r)|user story|description|akzeptanzkriterien|schritte zum reproduzieren|beschreibung|"
    r"critères d['’]acceptation|criterios de aceptación|descripción|criteri di accettazione|descrizione|"
    r"critérios de aceita(?:ção|cao)|descrição)\s*[*_]{0,2}\s*:?\s*[*_]{0,2}\s*$"
)
_TICKET_KEY = lazy_regex(r"\s*\[?[A-Z][A-Z\d]{1,9}-\d{1,6}\b")
#: A key that begins a paragraph, and the title of its ticket below. A sentence below is the user's: "PORT-12, fix it."
_TICKET_HEAD = lazy_regex(r"\s*\[?[A-Z][A-Z\d]{1,9}-\d{1,6}\]?[ \t]*\n[ \t]*[A-Z][^\n]*[^\s.!?:;,][ \t]*\n\s*\S")
#: A field that occurs only in tickets.
_TICKET_FIELD = lazy_regex(
    r"\s*(?:Reporter|Reported by|Assignee|Assigned to|Story [Pp]oints|Affects [Vv]ersions?|Fix [Vv]ersions?|Sprint|"
    r"Melder|Bearbeiter|Rapporteur|Responsable|Informador|Assegnatario|Relator)\s*:?\s+\S.{0,60}$|"
    # Minutes of a meeting.
    r"\s*(?:Attendees|Participants|Present|Teilnehmer|Anwesend|Présents|Asistentes|Participantes|Presenti|"
    r"Partecipanti|Aanwezig|Obecni|Присутствовали)\s*:\s*\S"
)
#: Text that mail programs append to a letter.
_MAIL_FOOTER = lazy_regex(
    r"(?i)\s*(?:sent from my \w|get outlook for \w|reply to this email directly|"
    r"improve this (?:answer|question)\b|"
    r"(?:von meinem \w+ gesendet|gesendet von mein)|envoyé de mon \w|enviado desde mi \w|inviato da \w)"
)
_SIGNATURE_MARK = lazy_regex(r"--\s*$")
#: "Anna: …" is a conversation if a name occurs twice; words that serve as headings are not names.
_SPEAKER = lazy_regex(r"\s*@?(?P<name>[^\W\d_a-z][\w.'-]{0,20}(?: [^\W\d_a-z][\w.'-]{1,20})?)\s?(?::\s+|：\s*)\S")
#: A request about what several people said, next to a conversation in which each of them speaks only once.
_ABOUT_TALK = lazy_regex(
    r"(?i).{0,60}(?:\b(?:summari[sz]e|sum (?:\w+ )?up|tl;?dr|who(?:['’]s| is| are) right|what do you (?:think|say)|"
    r"agree\?|your (?:take|opinion|view)|what \w+ said|(?:discussion|conversation|chat)\W*$|"
    r"fass\w*\b.*\bzusammen|was (?:meinst|sagst|hältst) du|wer hat recht|deine meinung|"
    r"résum\w+|qu['’]en penses|qui a raison|ton avis|"
    r"resum(?!ing\b|e[sd]?\b(?! [ei]st[aeo]))\w+|qué (?:opinas|piensas|te parece)|quién tiene razón|riassum\w+|"
    r"(?:che|cosa) ne pensi|chi ha ragione|o que (?:achas|você acha)|quem tem razão|"
    r"vat\b.*\bsamen|wat vind je|wie heeft gelijk|podsumuj|co (?:sądzisz|myślisz)|kto ma rację|"
    r"подытож\w*|резюмируй|обобщи|что (?:скажешь|думаешь)|кто прав)(?!\w)|要約|まとめて|どう思|总结|怎么看|"
    r"你觉得|谁对|요약|어떻게 생각)"
)
#: The same with names in any case, as in chats with nicknames.
_NAMED = lazy_regex(r"@?(?P<name>[^\W\d_][\w.-]{1,20}):\s+\S")
_LABEL = lazy_regex(
    r"(?i)note|notes|todo|fixme|example|rule|important|warning|goal|question|answer|bug|fix|step|context|file|path|"
    r"url|option|idea|problem|issue|expected|actual|tests?|error|always|never|before|after|input|output|given|when|then|"
    r"and|old|new|good|bad|pros?|cons?|default|source|target|front-?end|back-?end|api|db|database|ui|cli|ci|docs|prod|"
    r"staging"
)
_COMMENTED = lazy_regex(
    r"(?i)\s*(?!(?:you|we|i|it|they|this|that)\b)[*_]{0,2}@?[\w.-]+(?: [\w.-]+)?[*_]{0,2}\s+(?:\(\w+\)\s+)?(?:"
    r"(?:commented|opened this|left a comment|added a comment|requested changes)\b|(?:replied|reviewed|wrote|reported|"
    r"created)\b(?=\W*$| (?:on|in|at|to|this|an issue|yesterday|today|last|\d)\b))(?:[^.!?]|\.(?=\w)){0,60}$"
)
_MONTH = (
    r"jan|ene|gen|feb|f[ée]v|m[aä]r|apr|abr|avr|ma[iyjg]|jun|juin|giu|jul|juil|lug|aug|ago|ao[uû]t|sep|set|o[ck]t|out|"
    r"ott|nov|de[cz]|dic"
)
#: A note on who wrote a page, and when: "Last updated by Ola on 3 March".
_AUTHORED = lazy_regex(
    r"(?i)\s*(?:(?:(?:merge|pull) request|issue|ticket|[pm]r|bug|story|card)?\s?[!#]?[\w-]{0,12}\s)?(?:(?:last|zuletzt|"
    r"dernière|última) )?(?:updated|edited|modified|changed|created|posted|published|added|asked|opened|submitted|"
    r"written|bearbeitet|geändert|erstellt|modifi\w+|mise? à jour|editad[oa]|publicad[oa])(?: \S+){0,4} (?:by|von|par|"
    r"por|da) (?:@\w|(?-i:[^\W\d_a-z]|u/))(?:[^.!?\n]|(?<=\d)\.){0,50}(?:\d{4}|\d\d?[./-]\d\d?|\d\d?:\d\d|\d\s?\w+ ago|"
    r"(?:vor|hace|il y a|há) \d+ \w+|\d\.? (?:de )?(?:"
    + _MONTH
    + r")\w*|(?:"
    + _MONTH
    + r")\w* \d)(?:[^.!?\n]|(?<=\d)\.){0,30}$"
)
_FIELD = lazy_regex(
    r"(?i)\s*(?:status|assignee|assigned to|reporter|reported by|priority|severity|labels?|sprint|story points|type|"
    r"component|affects version|fix version|due(?: date)?|epic|milestone|resolution|created|updated|environment|"
    r"from|sent|to|subject|date|cc|von|gesendet|an|betreff|de|envoyé|à|objet|da|inviato|oggetto|enviad[oa]|para|asunto|assunto|van|verzonden|aan|"
    r"onderwerp)\s*:\s*\S"
)
_FORWARDED = lazy_regex(
    r"(?i)\s*[-_]{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht|weitergeleitete nachricht|"
    r"mensaje (?:original|reenviado)|message (?:original|transféré)|messaggio (?:originale|inoltrato))"
)
_WROTE = lazy_regex(
    r"(?i)[^\n]{0,120}\b(?:wrote|schrieb|a écrit|escribió|ha scritto|escreveu|schreef|napisał\w?|пишет|"
    r"написал\w?)\b[^\n]{0,60}:\s*$"
)
#: The user's announcement of a message that they received.
_RECEIVED = lazy_regex(
    r"(?i)(?=.*\b(?:e-?mail|mail|message|dm|nachricht|correo|mensaje|courriel|messaggio|mensagem|e-mailt?je|bericht|"
    r"письмо|сообщение|slack|thread)\b)(?=.*\b(?:got|received|came in|sent|forwarded|bekommen|erhalten|kam|geschickt|"
    r"recibí|recibido|llegó|reçu|ricevuto|recebi|ontvangen|dostałem|получил\w?|look at)\b)"
)
_LOG = lazy_regex(
    r"\s*(?:[IWEF]\d{4} \d\d:\d\d|(?:[\w.]+=(?:\"[^\"]*\"|\S+)\s+){2}|\d{1,3}(?:\.\d{1,3}){3} |"
    r"[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d |\[(?![Ii]mage|[Pp]asted)[a-z]+[-/.:]?[\w-]*\] \S)"
)


def letter_spans(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of lines ``(start, stop)`` that someone else wrote: letters, chats, tickets, log lines."""
    start = _beginning(lines)
    if start is not None:
        yield start, len(lines)
    end = _ending(lines)
    # If a letter begins above the ending, the text above it is the user's, unless the beginning only introduces a
    # quotation in the letter ("Anna wrote:").
    if end is not None and (start is None or end <= start or _WROTE.match(lines[start])):
        yield 0, end
    for number, line in enumerate(lines):
        if _LOG.match(line):
            yield number, number + 1


def _beginning(lines: Sequence[str]) -> int | None:
    """Return the first line at which someone else begins to speak."""
    speakers = _speakers(lines)
    fields = {number for number, line in enumerate(lines) if _FIELD.match(line)}
    last = max((number for number, line in enumerate(lines) if line.strip()), default=0)
    for number, line in enumerate(lines):
        if len(line) > _MAX_GREETING_CHARS * 2:
            continue
        has_more = number < last
        if _TIME_THEN_NAME.match(line) or (has_more and (_TICKET_PART.match(line) or _TICKET_FIELD.match(line))):
            return _paragraph(lines, number)
        is_first = number == 0 or not lines[number - 1].strip()
        if is_first and has_more and _TICKET_HEAD.match("".join(lines[number : number + 4])):
            return number
        if has_more and _AUTHORED.match(line):
            return _paragraph(lines, number)
        if _SPOKEN_AT.match(line) or number in speakers or _FORWARDED.match(line) or _WROTE.match(line):
            return number
        if has_more and (_greets(line) or any(form.match(line) for form in (_SPEAKER_AT, _SPEAKER_AGO, _COMMENTED))):
            return number
        if _NICK_AT.match(line):
            return number
        if has_more and _TIME_ALONE.match(line) and (name := _name_above(lines, number)) is not None:
            return name
        if number in fields and len(fields) > 1:
            return max(0, number - 1)
        if _RECEIVED.match(line) and number + 1 < len(lines) and not lines[number + 1].strip():
            return number + 1
    return None


def _name_above(lines: Sequence[str], number: int) -> int | None:
    """Return the line above a time if it contains a name; otherwise None."""
    above = number - 1
    has_dot = above > 0 and _DOT.match(lines[above]) is not None
    above -= has_dot
    if above < 0:
        return None
    is_name = _NAME.match(lines[above]) and (has_dot or not _SHORT_TIME.match(lines[number]))
    return above if is_name or _HANDLE.match(lines[above]) else None


def _paragraph(lines: Sequence[str], number: int) -> int:
    """Return the first line of the paragraph with a given line, or of the one above if that is a ticket's key."""
    while number and lines[number - 1].strip():
        number -= 1
    if number > 1 and _TICKET_KEY.match(lines[number - 2]):
        return number - 2
    return number


def _greets(line: str) -> bool:
    """Return True for a greeting to someone other than Claude."""
    if _ADDRESS.match(line):
        return True
    match = _SALUTATION_BEFORE_TEXT.match(line)
    if match is None and len(line) <= _MAX_GREETING_CHARS:
        match = _SALUTATION.match(line)
    return match is not None and not _CLAUDE.match(match["name"])


def _speakers(lines: Sequence[str]) -> set[int]:
    """Return the lines of a conversation ("Anna: …") in which someone speaks more than once."""
    named = [(number, match["name"]) for number, line in enumerate(lines) if (match := _SPEAKER.match(line))]
    named = [(number, name) for number, name in named if not _LABEL.fullmatch(name)]
    names = [name for _, name in named]
    if len(set(names)) < len(names):
        return {number for number, _ in named}
    return _answered(lines) or _asked_about([number for number, _ in named], lines)


def _asked_about(named: Sequence[int], lines: Sequence[str]) -> set[int]:
    """Return consecutive lines with a name each if the next line with text above or below them asks about them."""
    if len(named) < 2 or named[-1] - named[0] != len(named) - 1:
        return set()
    above = next((line for line in reversed(lines[: named[0]]) if line.strip()), "")
    below = next((line for line in lines[named[-1] + 1 :] if line.strip()), "")
    return set(named) if _ABOUT_TALK.match(above) or _ABOUT_TALK.match(below) else set()


def _answered(lines: Sequence[str]) -> set[int]:
    """Return the lines whose speaker speaks again two lines later, after somebody else; nicknames count, too."""
    names = [
        match["name"] if (match := _NAMED.match(line)) and not _LABEL.fullmatch(match["name"]) else "" for line in lines
    ]
    return {
        number
        for number, (first, second, third) in enumerate(zip(names, names[1:], names[2:], strict=False))
        if first and second and first == third != second
    }


def _ending(lines: Sequence[str]) -> int | None:
    """Return the line after a letter that ends with a footer, or with a sign-off or dash and a name; None for none."""
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if len(line) > _MAX_GREETING_CHARS:
            continue
        if number and any(form.match(line) for form in (_END_WITH_NAME, _DASHED_NAME, _MAIL_FOOTER)):
            return number + 1
        if not _END_LINE.match(line) and not _SIGNATURE_MARK.match(line):
            continue
        below = [later for later in lines[number + 1 : number + 1 + _NAME_LINES] if later.strip()]
        if below and _NAME.match(below[0]) and len(below[0]) <= _MAX_GREETING_CHARS:
            return len(lines)
    return None
