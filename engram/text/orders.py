"""How orders are given in other languages than English: always, from now on, perhaps, and what is to be remembered.

The cue words of each language are in ``languages.py``. A pattern sees one sentence of a certain length at most.
"""

from __future__ import annotations

import re

from engram.system.lazy_regex import lazy_regex
from engram.text.languages import LANGUAGES

#: How something is to be done, or before what.
MANNER = lazy_regex(
    r"(?:(?<!\w)(?:mit|vor|bevor|ohne|statt|avec|avant|sans|con|antes|sin|senza|prima|com|sem|met|voordat|zonder|przez|"
    r"przed|bez|через|перед|без)(?!\w)|"
    r"(?:で|使って|前に).{1,40}(?:ください|こと)\W*$|(?:로|전에) .{1,40}(?:줘|해|세요)\W*$|用|之前)",
    re.IGNORECASE,
)
#: An order to do something: how it begins, or the infinitive or the wish at its end.
ORDERS = lazy_regex(
    r"^\W*(?:(?:bitte|por favor|s['’]il te plaît|per favore|alsjeblieft|proszę|пожалуйста),? )?(?:(?:"
    r"(?:start|benutz|verwend|nutz|test|prüf|logg|formatier|commit|push|installier|dokumentier|kommentier|arbeit)e|"
    r"(?:schreib|mach|frag|zeig|führ|lauf|halt)e?|nimm|öffne|lies|lass|"
    r"(?:lanc|exécut|utilis|vérifi|test|format|montr|pass|gard|commit|pouss|install|document)(?:e|er|ez)|"
    r"(?:ouvr|écri|li|fai|met)(?:s|re|ez|ir|tre)|"
    r"(?:corr|ejecut|us|utili[cz]|abr|verific|comprueb|formate|escrib|pregunt|muestr|pas|guard|sub|instal|"
    r"document|lanz|rod|format|escrev|mostr)(?:a|e|ar|er|ir)|haz|pon|lee|faz|"
    r"(?:esegu|lanc|us|utilizz|apr|verific|controll|formatt|scriv|chied|mostr|pass|legg|install)(?:i|a|ia|are|"
    r"ire|ere)|fai|metti|"
    r"draai|gebruik|voer|(?-i:start|open|test)|controleer|formatteer|schrijf|doe|vraag|toon|laat|lees|installeer|zet|houd|"
    r"uruchamiaj|uruchom|używaj|użyj|sprawdzaj|sprawdź|otwieraj|testuj|formatuj|pisz|rób|pytaj|pokazuj|czytaj|stosuj|"
    r"(?:запускай|запусти|используй|проверяй|проверь|открывай|тестируй|форматируй|пиши|делай|спрашивай|показывай|"
    r"читай|применяй)(?:те)?)(?!\w)|(?!.*(?:bauen|bieten|fügen|gänzen|stützen|wickeln|planen|ziehen|voegen|bouwen)\W*$)"
    r"[^\W\d_]*+[ ].{0,200}"
    r"(?-i:(?<= )[a-zäöüß]{2,30}(?:en|ern|eln))\W*+$|"
    r".*(?:(?<!お待ち)ください|こと|줘|해|세요)\W*+$|.*[先请]|用(?![户途例]))",
    re.IGNORECASE,
)
#: Perhaps, in all the languages; and at the beginning of a sentence, where it makes a guess of it.
_PERHAPS = (
    r"(?:(?:maybe|perhaps|possibly|vielleicht|eventuell|evtl|peut-être|quizás?|tal vez|a lo mejor|forse|magari|talvez|"
    r"misschien|wellicht|być może|возможно|может быть)(?!\w)|たぶん|也许|或许)"
)
PERHAPS = lazy_regex(rf"^\W*{_PERHAPS}", re.IGNORECASE)
#: Words of a plan rather than an order: perhaps, it would be nice, add, and a thing with an indefinite article.
PLANS = lazy_regex(
    r"^\W*(?:an?|eine?[nmrs]?|une?|un[ao]?|uma?|een|add|füge?|ergänze?|ajoute|añade|agrega|aggiungi|adicion[ae]|voeg|"
    rf"dodaj|добавь)(?!\w)|(?<!\w){_PERHAPS}|(?<!\w)(?:might|could be|would be (?:nice|good|great|cool)|some ?day|"
    r"eventually|at some point)(?!\w)|かも|아마",
    re.IGNORECASE,
)
#: What always or never is to be done, in the infinitive: "Nie wieder ungefragt Dateien löschen!".
_INFINITIVE = (
    r"(?:immer|nie(?:mals)?|altijd|nooit)(?: (?:wieder|mehr|weer|meer)(?!\w))?"
    r"(?! (?:noch|wieder|mehr|nog|weer|muss\w*|soll\w*|darf\w*|kann\w*|will|moet\w*|wil)\b)"
    r"(?! (?:\S+ )?(?:du|ich|man|wir|er|ihr|je|ik|men|we|wij|hij)\b) "
    r"[^,;:.!?]{2,120}(?<= )(?-i:(?!ge)[a-zäöüß]{2,30}(?:en|ern|eln))"
    r"(?=\W*$|[,;]| (?:bevor|wenn|sobald|falls|voordat|als)\b)|"
    r"(?:ne )?(?:toujours|jamais) (?!(?:hier|premier|dernier|entier|plaisir)\b)[^\W\d_]{2,20}(?:er|ir|dre|ttre|ire)\b|"
    r"(?:siempre|nunca|jam[áa]s|sempre) (?!lugar\b|mejor\b|melhor\b)[^\W\d_]{1,20}[aei]r\b|"
    r"(?:(?:sempre|mai) [^\W\d_]{1,20}[aei]re\b|non [^\W\d_]{1,20}[aei]re mai\b)"
)
#: Does not say what is to be done: "always like that".
_DANGLING = lazy_regex(
    r"(?<!\w)(?:so|zo|assim|así|così|ainsi|comme (?:ça|cela)|tak(?: samo)?|так(?: же)?|"
    r"(?:in|de|da) (?:quel|est[ae]|essa|"
    r"dieser|diese) (?:modo|manera|forma|weise|art))(?= (?:wie|machen|tun|weiter|doen|come|como|jak|как)\b|\W*$)|"
    r"それ|そう|この(?:やり方|よう|方法)|그렇게|이렇게|[这那]样",
    re.IGNORECASE,
)
#: Somebody else's words, or irony.
DOUBTFUL = lazy_regex(
    r"(?<!\w)(?:sag(?:t|te)|meint\w*|schreibt|schrieb|laut|angeblich|dit|disait|selon|dice|dijo|según|secondo|diz|"
    r"disse|segundo|zegt|volgens|mówi|według|говорит|сказал\w*|(?:gute|tolle|super) idee|bonne idée|buena idea|buona "
    r"idea|boa ideia|goed idee|dobry pomysł|génial|genial)(?!\w)",
    re.IGNORECASE,
)
#: A rule in its plainest form, at the beginning of a sentence.
_ALWAYS_DO = lazy_regex(
    r"^\W*(?:(?:bitte|por favor|s['’]il te plaît|per favore|alsjeblieft),? )?"
    rf"(?:(?:ab (?:jetzt|sofort)|von jetzt an|künftig|in zukunft|vanaf nu|désormais) )?(?:{_INFINITIVE})",
    re.IGNORECASE,
)
#: The beginning of what is for always, if an order follows: "künftig immer", "今後は必ず".
_FROM_NOW_ALWAYS = lazy_regex(
    r"^\W*(?:(?:bitte|por favor|请)[, ]*)?(?:"
    + "|".join(
        rf"(?:{one.later})\W+(?:\w+\W+){{0,2}}?(?:{one.lasting})(?!\w)"
        if one.is_spaced
        else rf"(?:{one.later})(?=.{{0,60}}?(?:{one.lasting}|{one.order}))"
        for one in LANGUAGES.values()
    )
    + r"|(?:決して|絶対に?)(?=.{0,60}(?:ないで|ないこと)))",
    re.IGNORECASE,
)
#: Asks at the end of a statement to remember it.
REMINDED = lazy_regex(
    r"^(?!\W*(?:das|dies|es|ça|c['’]|eso|esto|questo|isso)\b)(?!.*[?？]).{12,400}[,;:–—.-]\s*"
    r"(?:(?:bitte|und|por favor|et)\s)?(?:merke? dir (?:das|es)|merk['’]?s dir|denke? dran|"
    r"(?:retiens|souviens-toi)(?:-le| de ça|[ -]ça)|souviens-t['’]en|recuérdalo|ricordatelo|tienilo a mente|"
    r"lembre-se disso|onthoud (?:dat|het)|zapamiętaj to|запомни(?: это)?)(?:,? bitte| stp| por favor)?\W*$",
    re.IGNORECASE,
)


def is_plain_rule(sentence: str) -> bool:
    """Return True for a rule in its plainest form that says what is to be done: always, never, from now on always."""
    if _DANGLING.search(sentence):
        return False
    from_now = _FROM_NOW_ALWAYS.match(sentence)
    return bool(_ALWAYS_DO.match(sentence) or (from_now and ORDERS.search(sentence[from_now.end() :])))
