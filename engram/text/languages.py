"""Patterns of the cue words in languages other than English, which are in ``language_cues.py``."""

from __future__ import annotations

import re
from collections.abc import Callable

from engram.system.lazy_regex import any_case, lazy_regex
from engram.text.language_cues import LANGUAGES, Language

#: Number of letters that are counted as one word in a script without spaces.
LETTERS_PER_WORD = 2

_UNSPACED = lazy_regex(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
#: The end of a sentence in a script without spaces.
_FULL_STOP = lazy_regex(r"(?<=[。！？])\s*+(?=\S)")


def pattern(
    choose: Callable[[Language], str],
    before: str = "",
    after: str = "",
    flags: int = re.IGNORECASE,
    *,
    is_led_by_letter: bool = False,
) -> re.Pattern[str]:
    """Return a pattern for one kind of cue in every language, between the patterns ``before`` and ``after``.

    Args:
        is_led_by_letter: every cue begins with a letter of its script. Then no cue of the languages that don't separate
            words is tried at an ASCII character, which saves a third of the time for most texts.
    """
    # Check for the beginning of a word only once for all languages that separate words.
    cues = "|".join(
        ("" if is_spaced or not is_led_by_letter else r"(?=[^\x00-\x7f])")
        + _words(is_spaced, "|".join(choose(each) for each in LANGUAGES.values() if each.is_spaced is is_spaced))
        for is_spaced in (True, False)
    )
    return lazy_regex(f"{before}(?:{cues}){after}" if before or after else cues, flags)


def pattern_of(language: Language, cues: str, after: str = "") -> re.Pattern[str]:
    """Return a pattern for the cues of one language, before the pattern ``after``."""
    return lazy_regex(f"{_words(language.is_spaced, cues)}{after}", re.IGNORECASE)


def _words(is_spaced: bool, cues: str) -> str:
    return rf"(?<!\w)(?:{cues})(?!\w)" if is_spaced else f"(?:{cues})"


#: What may precede an order in any of the languages: please, now, then.
_PLEASE = (
    r"^\W*(?:(?:bitte|jetzt|nun|dann|por favor|ahora|luego|s['’]il te plaît|maintenant|ensuite|per favore|ora|poi|"
    r"agora|depois|alsjeblieft|nu|dan|proszę|teraz|potem|пожалуйста|теперь|потом|сейчас|ok(?:ay)?)[,:]? )?"
)
#: Results of an order that have no requirements of their own, because they are steps of the work.
NOT_MADE = (
    r"(?!\W+(?:[\w-]+ ){0,2}?(?:commits?|branch\w*|(?:pull|merge)[ -]requests?|prs?|mrs?|issues?|tickets?|tags?|"
    r"releases?|rama|ramo|ветк\w|gałąź|коммит\w*)(?!\w))"
)
#: Phrases that tell the person addressed what they must do.
_YOU_MUST = (
    r"(?:du (?:sollst|solltest|musst|darfst)|tu (?:dois|devrais|devi|dovresti|deves)|devi|dovresti|deves|você deve|"
    r"(?:tú )?(?:debes|deberías|tienes que)|je moet|musisz|powin(?:ieneś|naś)|ты должн?[ае]н?|你(?:必须|应该|要))\W*"
)
#: Words such as "in general", which introduce a rule, but also a report: "in general the tests fail".
_GENERALLY = r"en g[ée]n[ée]ral|in generale|em geral|in het algemeen|ogólnie|вообще"
#: "In this project" in scripts without spaces, and the beginning of a sentence with a lasting word.
_HERE = (
    r"在?(?:这个|本|该|我们(?:的)?)(?:项目|仓库|代码库)[里中内]?[，,]?|この(?:プロジェクト|リポジトリ)では?[、,]?|"
    r"이 ?(?:프로젝트|저장소)에서는? "
)
_BEGINS = rf"^\W*(?:\w+[,:]? |{_HERE})?"
UNMISTAKABLE = pattern(
    lambda language: f"{language.later}|{language.lasting}", rf"(?:{_BEGINS}|^\W*{_YOU_MUST}(?:\w+ )?)"
)
#: The beginning of a sentence that says how the team does something, rather than complains.
_FAULTY = (
    r"(?:mauvais|faux|fausse|vieux|vieille|falsch|alte|sbagliat|vecchi|equivocad|viej|errad|velh|verkeerd|oude|"
    r"zł[aey]|star[aey]|неправильн|стар)"
)
TEAM = pattern(
    lambda language: language.decides,
    rf"^\W*(?:(?:hier|ici|aquí|qui|aqui|noi|nós|nosotros|тут|здесь),? )?(?!wir haben uns)(?!.*(?<!\w){_FAULTY})",
)
LASTING = pattern(lambda language: f"{language.later}|{language.lasting}")
#: The beginning of an order to make something, and words of a sentence that is about more than that thing.
BUILDS = pattern(lambda language: language.builds, _PLEASE, NOT_MADE)
WIDER = pattern(
    lambda language: "|".join((language.later, language.local, language.decides, language.universal, _GENERALLY))
)
ORDER = pattern(lambda language: language.order)
DECIDES = pattern(lambda language: language.decides)
#: What follows an order to remember: a colon or a conjunction, and a statement. What "I" and "you" do is only
#: momentary.
_KINDLY = (
    r"(?: (?:bitte|aussi|bien|también|anche|também|ook|też|(?:für|in|pour|per|para|por|voor|na|на)\b[^,:.?]{1,30}))?"
)
_STATES = (
    rf"{_KINDLY}(?:\s?:|,? (?:(?:dass|que|che|dat|że|что)\b|qu['’])(?!\s+(?:ich|du|tu|je|yo|io|eu|ik|я|ты|voor|tienes|"
    r"tengo|hai|ho|tens|tenho|muszę|musisz|надо)\b))\s*\w+"
)
#: Verbs of a statement. A note for later without one is a task.
_IS = (
    r"(?=.*(?<!\w)(?:ist|sind|hat|haben|wird|läuft|liegt|steht|gilt|gelten|heißt|braucht|son|está|están|tiene|tienen|hay|"
    r"est|sont|ont|utilise|tourne|è|sono|hanno|são|tem|têm|zijn|heeft|hebben|draait|staat|wordt|jest|są|ma|mają|у|это)"
    r"(?!\w))"
)
#: Where something runs, what it is called and who owns it; this remains true until somebody changes it.
_ARRANGED = (
    r"(?:ports?|porta|puerto|poort|porcie|порту?|ポート|포트|端口)(?: |は|는)?\d|(?:运行|跑|监听|放|部署)在|"
    r"(?<!\w)(?:(?:auf|in|unter|bei|hinter|op|onder|achter|bij) [^,]{2,40} "
    r"(?:läuft|liegt|lauscht|draait|staat|luistert)|"
    r"(?:läuft|liegt|lauscht|draait|staat|luistert|tourne|écoute|se trouve|"
    r"est hébergée?|corre|escucha|se aloja|vive|gira|ascolta|risiede|si trova|roda|escuta|"
    r"fica|działa|nasłuchuje|stoi|работает|слушает|находится)(?: \w+)? "
    r"(?:im|auf|unter|bei|hinter|op|onder|achter|bij|sur|dans|à|chez|en|su|sulla|sul|in|nel\w*|em|n[ao]|na|pod|w|на|в|под)|"
    r"heißt|heet|s['’]appelle|se llama|si chiama|se chama|nazywa się|называется)(?!\w)"
)
#: Jobs that end by themselves, so that "is running" is true only for a while.
_JOB = (
    r"(?:(?<!\w)(?:migra[cçtz]\w*|миграци\w+|imp[oô]rt\w*|импорт\w*|exp[oô]rt\w*|экспорт\w*|builds?|сборк\w+|tests?|testy|"
    r"тест\w*|prueb\w+|backups?|deploy\w*|деплой\w*|jobs?|pipelines?|s[ck]ripts?|sync\w*|training|uploads?|downloads?|"
    r"updates?|umz[uü]g\w*|\w{0,20}index\w*|\w{0,20}indi[zc]ierung\w*|kopie|copie|copia|cópia|treinamento|entrenamiento|"
    r"entraînement|addestramento|scans?|dump)(?![-\w])|迁移|构建|测试|备份|部署|移行|ビルド|テスト|バックアップ|빌드|테스트|백업|배포)"
)
_ON_MEMORY = r"^\W*(?:\w+[,:]? ){0,2}?"


def _remembered(language: Language) -> str:
    """Return a pattern for the beginning of an order to remember a statement or prohibition, or of a note for later."""
    if not language.is_spaced:
        return f"{language.remember}|(?:{language.noted})"
    prohibits = rf"{_KINDLY}\s?[,:] (?:{language.denies})(?!\w)"
    lasts = rf",? (?:dass|que|che|dat|że|что)\b.*(?<!\w)(?:{language.lasting})(?! noch)(?!\w)"
    return rf"(?:{language.remember})(?:{_STATES}|{_KINDLY}{lasts}|{prohibits})|(?:{language.noted})\s?[:,]{_IS}\s*\w+"


REMEMBERS = pattern(_remembered, _ON_MEMORY)


def _reminded_for_now(language: Language) -> str:
    """Return a pattern for the beginning of an order to remember something that is only true at the moment."""
    passing, now, decides, lasting = (
        _words(language.is_spaced, cues)
        for cues in (language.passing, language.now, language.decides, f"{language.later}|{language.lasting}")
    )
    is_now = rf"(?:(?=.*{passing})|(?=.*{now})(?!.*{decides}|(?!.*{_JOB}).*(?:{_ARRANGED})))"
    return rf"^{is_now}(?!.*{lasting})\W*(?:\w+[,:]? ){{0,2}}?(?:{language.remember}|{language.noted})"


#: An order to remember something that is only true at the moment.
REMINDS_FOR_NOW = any_case("|".join(_reminded_for_now(language) for language in LANGUAGES.values()))
#: Names of things that end soon, so that a sentence about "this" one holds only for the moment, and of the days. They
#: may not be part of a longer name: "this ticket-system".
_PASSING_THING = (
    r"(?:[pm]rs?|pull[- ]request|branch|zweig|datei|commit|ticket|aufgabe|änderung|sitzung|session|sprint|demo|test|"
    r"funktion|branche|fichier|tâche|rama|archivo|fichero|tarea|sesión|ramo|file|sessione|attività|arquivo|"
    r"ficheiro|tarefa|sessão|bestand|taak|sessie)(?![\w-])"
)
_WEEKDAY = (
    r"(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|"
    r"dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo|luned[iì]|marted[iì]|mercoled[iì]|gioved[iì]|"
    r"venerd[iì]|sabato|domenica|segunda|terça|quarta|quinta|sexta|maandag|dinsdag|woensdag|donderdag|vrijdag|"
    r"zaterdag|zondag)"
)
_DAY = (
    rf"(?:{_WEEKDAY}|morgen|übermorgen|demain|mañana|domani|amanhã|release|rilascio|livraison|lanzamiento|lançamento|"
    r"launch|demo|démo|freeze|deadline|wochenende|week-?end|sprint\w*|go-live|abnahme|urlaub\w*)(?![\w-])"
)
_UNTIL = r"(?:bis|tot|jusqu['’]|hasta|fino|até)"
_MOMENT = any_case(
    r"(?<!\w)(?:vorerst|vorläufig|einstweilen|fürs erste|bis auf weiteres|(?<!ab )(?<!von )(?<!seit )heute(?! an\b)|"
    r"pour l['’]instant|pour le moment|jusqu['’]à nouvel ordre|(?:de|por el) momento|por ahora|hasta nuevo aviso|"
    r"per ora|per adesso|per il momento|fino a nuovo ordine|por enquanto|por ora|até (?:novo aviso|segunda ordem)|"
    r"voorlopig|voor nu|tot nader order|na razie|póki co|пока что|на данный момент)(?!\w)|"
    r"^\W*(?:erst ?mal (?:immer|nie(?:mals)?)|пока (?:всегда|никогда))(?!\w)|"
    r"(?<!\w)(?:(?<!partir d['’])(?<!dès )aujourd['’]hui|(?<!desde )(?<!de )hoy|(?<!da )(?<!d['’])oggi|"
    r"(?<!de )(?<!desde )hoje|(?<!vanaf )vandaag|(?<!od )dzi(?:ś|siaj)|(?<!с )сегодня)(?!\w)|"
    r"今日(?!から|以降|より)|(?<!从)今天(?!起|开始)|오늘(?!부터)|当面|とりあえず|今のところ|暂时|目前|당분간|"
    rf"(?<!\w)(?:für|in|auf|bei|pour|dans|sur|para|por|en|per|su|em|op|voor) (?:(?:dies|jen)\w{{1,2}}|(?:dem|den) "
    rf"aktuellen|c(?:e|et|ette)|est[ae]|quest[oa]|dit|deze) {_PASSING_THING}|"
    rf"(?<!\w)nest[ae] {_PASSING_THING}"
)
_UNTIL_DAY = any_case(
    rf"(?<!\w){_UNTIL} ?(?:(?:zu[mr]?|nach de[mr]|nächsten|nächste|kommenden|ende|au?x?|à|"
    rf"l[aeo]s?|el|al|alla|ad?|o|de|het|volgende) ){{0,2}}{_DAY}"
)
#: Days that are a part of every week ("Monday until Thursday"), and verbs of waiting: "never wait until the release".
_ANY_DAY = any_case(
    rf"(?<!\w)(?:{_WEEKDAY} {_UNTIL}|(?:wart(?:en?|e[st]?)|attend(?:s|re|ez|ons)|esper(?:ar|es?|a|en|emos)|"
    r"aspett(?:are|a|ate|iamo)|wacht(?:en)?)(?!\w))"
)
_NEXT_TIME = (
    r"(?:minuten?|stunden?|tagen?|wochen?|minutes?|heures?|jours?|semaines?|minutos?|horas?|d[ií]as?|semanas?|minuti|or[ae]|"
    r"giorni|settimane|uur|dagen|weken)"
)
#: A stretch of time that begins now: "die nächsten zwei Stunden", "les 20 prochaines minutes".
_SOON = any_case(
    rf"(?<!\w)(?:(?:nächsten?|kommenden|prochaine?s|próxim[ao]s|prossim[ei]|komende|volgende) (?:\w+ ){{0,2}}"
    rf"{_NEXT_TIME}|(?:\w+ ){{0,2}}(?:prochaine?s|próxim[ao]s|prossim[ei]) {_NEXT_TIME})(?!\w)"
)
#: What gives a reason for the sentence before it instead of limiting it: "Nur für den Fall."
_IN_CASE = (
    r"für (?:den fall|alle fälle)|pour (?:être|info|le cas|plus de)|"
    r"por (?:si|precauci[óo]n|precaução|via das|seguridad)|para (?:estar|garantir|que quede)|"
    r"per (?:sicurezza|precauzione|essere|chiarezza)|in caso|voor (?:de zekerheid|het geval|de duidelijkheid)|"
    r"na wszelki|dla (?:pewności|jasności)|на всякий|для (?:уверенности|ясности)"
)
#: A sentence that only limits the one before it: "Nur in dieser Datei."
LIMITS = any_case(
    r"^\W*(?:(?:aber|und|mais|et|pero|y|ma|e|mas|maar|en|ale|но)[, ]+)?"
    rf"(?![^\W\d_]+ (?:geval )?(?:{_IN_CASE})(?!\w))(?:"
    r"(?:nur|zumindest|jedenfalls) (?:hier|dort|da|jetzt|heute|für|in|bei|bis|solange|dieses mal|diesmal)|"
    r"(?:seulement|uniquement|juste|du moins) (?:ici|là|pour|dans|sur|jusqu|cette fois|aujourd)|"
    r"(?:s[oó]lo|solamente|únicamente|al menos) (?:aquí|ahí|para|por|en|hasta|esta vez|hoy)|"
    r"(?:solo|soltanto|solamente|almeno) (?:qui|lì|là|per|in|fino|questa volta|oggi)|"
    r"(?:só|somente|apenas|pelo menos) (?:aqui|ali|aí|para|por|em|n[ao]|nest[ae]|até|desta vez|hoje)|"
    r"(?:alleen|in ieder geval) (?:hier|daar|voor|in|tot|deze keer|vandaag)|"
    r"tylko (?:tu|tutaj|tam|dla|w|na|do|tym razem|dziś)|только (?:здесь|тут|там|для|в|на|до|сегодня))"
    r"(?!\w)(?:\W+[\w'’./-]+){0,7}\W*$|"
    r"^.{0,8}(?:ここ|そこ|これ|この.{1,8}|今回|今日)だけ.{0,6}$|^[只仅](?:在|限|是|对|有)?[这那此今本].{0,10}$|"
    r"^.{0,8}(?:여기|이번|오늘|이 .{1,6})만.{0,8}$"
)
#: A sentence that makes an exception from the one before it, in any of the languages.
EXCEPTS = any_case(
    r"^\W*(?:(?:but|aber|mais|pero|ma|mas|maar|но|ale) )?(?:(?:unless|except(?! that)|with the exception of|"
    r"es sei denn|außer|ausgenommen|sauf|à moins (?:que|de)|hormis|salvo|excepto|a menos que|tranne|eccetto|"
    r"a meno che|exceto|a não ser|behalve|tenzij|chyba że|oprócz|z wyjątkiem|кроме|за исключением|если только)(?!\w)|"
    r"ただし|除非|除了)"
)


def is_for_the_moment(sentence: str) -> bool:
    """Return True if words in another language than English limit a sentence to the moment or the current task."""
    is_soon = _MOMENT.search(sentence) or _SOON.search(sentence)
    return bool(is_soon or (_UNTIL_DAY.search(sentence) and not _ANY_DAY.search(sentence)))


#: "Perhaps" at the beginning of a sentence or after a lead-in, where it marks the sentence as a guess.
PERHAPS = any_case(
    r"^(?:[^:]{0,40}:)?\W*(?:(?:maybe|perhaps|possibly|vielleicht|eventuell|evtl|peut-être|quizás?|tal vez|"
    r"a lo mejor|forse|magari|talvez|misschien|wellicht|być może|возможно|может быть)(?!\w)|たぶん|也许|或许)"
)
#: Verbs of somebody who has not decided, in the present: "ich überlege, ob". What follows them is not a rule.
_CONSIDERS = (
    r"(?:i(?:['’]m| am)|we(?:['’]re| are)) (?:\w+ ){0,2}?(?:thinking (?:about|of|if|whether)|wondering|considering|"
    r"debating|contemplating|pondering|undecided|unsure|not sure|on the fence)|(?:still )?(?:debating|undecided|unsure|"
    r"not sure(?: yet)?) (?:if|whether)|(?:i|we) (?:do(?:n['’]?t| not) know|have(?:n['’]?t| not) decided)(?: yet)? "
    r"(?:if|whether)|"
    r"(?:ich|wir) (?:überleg|erwäg)en?(?! nicht)|(?:überleg|erwäg)en? (?:ich|wir)|"
    r"(?:ich|wir) denken? (?:\w+ ){0,2}?dar(?:über|an)|ich frage? mich|(?:ich|wir) spielen? mit dem gedanken|"
    r"(?:(?:ich|wir) (?:\w+ ){0,4}?(?:nicht sicher|unsicher|unschlüssig)|keine ahnung|"
    r"(?:ich|wir) (?:weiß|wissen)(?: \w+)? nicht),? ob|"
    r"(?:je|on|nous) (?:réfléchi\w+|hésit\w+|envisag\w+)|j['’](?:hésite|envisage)|(?:je me|on se|nous nous) demand\w+|"
    r"(?:je|on|nous) ne sa\w+ pas(?: \w+)? si|"
    r"(?:estoy|estamos) (?:\w+ )?(?:pensando|valorando|considerando|evaluando|dudando)|(?:me pregunt|nos preguntam)os?|"
    r"no (?:sé|sabemos)(?: \w+)? si|dud(?:o|amos) si|"
    r"(?:sto|stiamo) (?:\w+ )?(?:pensando|valutando|considerando)|mi chiedo|ci chiediamo|"
    r"non (?:so|sappiamo)(?: \w+)? se|"
    r"(?:estou|estamos) (?:\w+ )?(?:a (?:pensar|considerar|avaliar)|pensando|considerando|avaliando)|"
    r"(?:me pergunto|pergunto-me)|não (?:sei|sabemos)(?: \w+)? se|"
    r"(?:ik|we|wij) (?:overweeg|overwegen|twijfel\w*)|(?:ik|we|wij) denk(?:en)? (?:er(?:over|aan)|na over)|"
    r"ik vraag me af|(?:ik weet|we weten)(?: \w+)? niet of|"
    r"zastanawia(?:m|my) się|rozważa(?:m|my)|(?:nie wiem|nie wiemy|nie jestem pewi\w+),? czy|"
    r"(?:я |мы )?(?:размышля(?:ю|ем)|подумыва(?:ю|ем))|(?:я |мы )?дума(?:ю|ем)(?:,| (?:о том|над тем))|"
    r"(?:я |мы )?не (?:знаю|знаем|уверен\w*),? (?:стоит|надо|нужно|будем|\w+ ли)"
)
#: A sentence that only says that something is considered. "If I wonder whether …" and "not sure if you know, but …" may
#: be rules.
CONSIDERS = any_case(
    r"^(?:[^:]{0,40}:)?\W*(?!(?:if|when|whenever|wenn|falls|si|quand|cuando|se|quando|als|jeśli|gdy|если|когда)(?!\w))"
    rf"(?:\w+[,:]? ){{0,2}}?(?:{_CONSIDERS})(?!\w)"
    r"(?! (?:(?:if|whether) )?you (?:know|knew|noticed|saw|realise|realize|remember|are aware)\b)"
    r"(?!.{1,80}\b(?:but|aber) (?:please )?(?:from now on|going forward|ab (?:jetzt|sofort))\b)"
    r"(?!.{0,40}[,;–—-] (?:but|aber|mais|pero|ma|mas|maar|ale|но) (?:\w+ ){0,3}(?:always|never|immer|nie\w*|toujours|"
    r"jamais|siempre|nunca|sempre|mai|altijd|nooit|zawsze|nigdy|всегда|никогда)(?!\w))|"
    r"(?:検討(?:中|して)|考えて(?:い|る)|迷って|悩んで)\w{0,6}\W*$|"
    r"(?:在(?:考虑|想|琢磨|犹豫|纠结)|(?:考虑|犹豫|纠结)(?:要不要|是否|是不是)|不(?:确定|知道)(?:以后)?(?:要不要|是否|是不是))|"
    r"(?:고민|고려|검토|생각) ?(?:중|하고 있)\w{0,6}\W*$"
)
#: Somebody else's words, or irony.
DOUBTFUL = any_case(
    r"(?<!\w)(?:sag(?:t|te)|meint\w*|schreibt|schrieb|laut|angeblich|dit|disait|selon|dice|dijo|según|secondo|diz|"
    r"disse|segundo|zegt|volgens|mówi|według|говорит|сказал\w*|(?:gute|tolle|super) idee|bonne idée|buena idea|buona "
    r"idea|boa ideia|goed idee|dobry pomysł|génial|genial)(?!\w)"
)
#: An order in the infinitive to do something always or never: "Nie wieder ungefragt Dateien löschen!".
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
#: An imperative with a pronoun before "always", after a condition, if any: "frag mich immer vorher".
_TELL_ME = (
    r"(?:(?:wenn|falls|sobald|bevor|quand|si|avant de|quando|se|als|voordat) [^,.?!]{3,80}, )?(?:bitte )?(?:"
    r"(?:frage?|sage?|zeige?|gib|erklär\w?|warne?|informiere?|erinnere|nenne?|schicke?|lass) (?:mich|mir|uns)|"
    r"(?:demande|dis|montre|préviens|explique|donne|rappelle|envoie)-(?:moi|nous)|"
    r"(?:pergunte|diga|mostre|avise|explique)-(?:me|nos)|(?:vraag|zeg|toon|laat|waarschuw|geef|vertel) (?:me|mij|ons)) "
    r"(?:immer|niemals|stets|toujours|sempre|altijd)(?! (?:noch|wieder|encore|nog|weer)\b) \w"
)
#: The plainest wordings of a rule, at the beginning of a sentence.
ALWAYS_DO = any_case(
    r"^\W*(?:(?:bitte|por favor|s['’]il te plaît|per favore|alsjeblieft),? )?"
    rf"(?:(?:ab (?:jetzt|sofort)|von jetzt an|künftig|in zukunft|vanaf nu|désormais) )?(?:{_INFINITIVE}|{_TELL_ME})|"
    rf"^(?:{_HERE})?请?(?:永远|绝对|千万)都?(?:不要|别|不许|不准)|"
    r"^(?:今後|これから)は、?(?!.{0,6}[そこ]う).{4,60}(?:[てで](?:ください|下さい)?|こと)[。！]?$"
)
#: A French prohibition, which has no subject before it.
NEVER_DO = any_case(r"^\W*n(?:e |['’])(?:(?:me|nous|le|la|les|y) )?[^\W\d_]{2,20}(?:[es]|ez) (?:plus )?jamais\b")
#: "From now on" and an order, in languages in which the verb has no fixed place. Words that begin a statement are
#: excluded.
FROM_NOW_ON = any_case(
    r"^\W*(?:[àa] partir de maintenant|d[ée]sormais|dor[ée]navant|(?:a partir|desde|de) (?:de )?ahora(?: en adelante)?|"
    r"d['’](?:ora|adesso) in (?:poi|avanti)|(?:a partir de|daqui em|de) (?:agora|diante|hoje)(?: em diante)?),? "
    r"(?!.*(?<!\w)(?:così|modo|ça|assim)(?!\w))(?!(?:les?|la|un\w?|el|los|las|il|lo|gli|i|os?|as?|uma?|se|ça|ce|"
    r"[cl]['’]\w+|on|est|sont|está|están|è|sono|é|são)\b)[^\W\d_]{2,}"
)
#: For a sentence in lower case.
TAKES_BACK = pattern(lambda language: language.takes_back, flags=0, is_led_by_letter=True)
#: Words in a withdrawal that don't name its subject.
EMPTY_WORDS = " ".join(language.empty for language in LANGUAGES.values())
LOCAL = pattern(lambda language: language.local)
UNIVERSAL = pattern(lambda language: language.universal)


def word_count(text: str) -> int:
    """Return the number of words; a letter of a script without spaces counts as half a word."""
    letters = len(_UNSPACED.findall(text))
    return len(_UNSPACED.sub(" ", text).split()) + -(-letters // LETTERS_PER_WORD) if letters else len(text.split())


def sentences_of(statement: str) -> list[str]:
    """Return the sentences of a statement in a script without spaces; any other statement is one sentence."""
    return [part.strip() for part in _FULL_STOP.split(statement) if part.strip()]
