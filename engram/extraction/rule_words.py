"""Patterns for rules in English: how rules begin, what they always contain, and what speaks against them.

What ends a rule, or takes back the sentence before it, is in ``engram.text.withdrawals``, and other languages are in
``engram.text.languages``. ``user_rules.py`` combines them.
"""

from __future__ import annotations

from engram.system.lazy_regex import any_case, lazy_regex
from engram.text.languages import NOT_MADE

# --- Words of a rule --------------------------------------------------------------------------------------------------

#: Words of which every rule contains at least one. They also occur in other sentences.
LASTING = any_case(
    r"\b(?:always?|never|ever|from (?:now|here|today|this point|then)|(?:going|moving) forward|"
    r"henceforth|hereafter|(?:in|for) (?:the )?future|for (?:all|any|every) (?:future|later|new)|whenever|"
    r"(?:every|each)(?: single)? time|at all times|by default|exceptions?|(?:under|in) (?:no|any) circumstances?|"
    r"no matter|rules?|conventions?|polic(?:y|ies)|standards?|style|habit|practice|guidelines?|principle|"
    r"preferences?|remember|(?:keep|bear) in mind|don'?t forget|make a (?:mental )?note|note (?:for|to)|standing|"
    r"permanent(?:ly)?|for good|once and for all|any ?more|no more|must(?:n'?t)?|not allowed|forbidden|banned|"
    r"we(?:'ve| have)? (?:use|keep|name|write|stick|go|follow|prefer|agreed|decided|settled|put|run|store|ship|support|"
    r"require|avoid|ban|log|test|pin|tag|call|format|spell|merge|squash|commit|deploy|work|allow|treat|handle|return|"
    r"validate|document|review|record|measure|do(?:n'?t| not)?)|"
    r"i(?:'d| would)? (?:really |strongly |generally |usually )?(?:prefer|hate|dislike|can'?t stand|expect|like)|"
    r"i (?:don'?t|do not) (?:want|like)|i \w+ .{0,40}(?:myself|by hand)|off limits|our|wherever|whatever|"
    r"everywhere|only|every (?!one\b|where\b)\w+|each \w+|all|no \w+)\b|\b(?:before|after) (?:every|each|any|you)\b|"
    # A prohibition whose reason also applies later.
    r"\b(?:don'?t|do not|avoid)\b.*\b(?:as|because|since) (?:that|it|this|they|those)\b"
)
_START = (
    r"^\W*(?:(?:ok(?:ay)?|yes|no|and|also|but|so|oh|hm+|well|sorry|actually|wait|hold on|btw|please|pls|plz|claude|"
    r"note|important|rules?|reminder|instead|on second thoughts?|in this (?:repo|project))\b[,:!. ]+)*"
)
#: The base form of a verb with which an order may begin.
_VERB = (
    r"(?!(?:mind|on|in|at|the|a|an|when|if|with|been|again|true|false|there|this|that|it|as|because|for|more|only|any|"
    r"once|like|so|seen|got|gotten|had|was|were|did|made|knew|thought|found|wrote|written|built|sent|shown|saw|heard|"
    r"happens|sure|happy|glad|good|nice|do)\b|\w+(?:[^s]s|(?<!ne)(?<!fe)(?<!se)(?<!ee)ed)\b)[a-z]+"
)
_YOU_MUST = (
    r"(?:you (?:must|should|shall|may|have to|need to|are to)|i(?:['’]d| would) like you to|i (?:want|need) you to)"
)
#: "Don't ever", unless it is quoted or about what somebody doesn't see, know or want.
_DO_NOT_EVER = (
    r"(?<![\"“”„«'‘’`])(?:don['’]?t|do not) ever(?! (?:see|get|remember|know|think|feel|want|need|like|have|seem|care|"
    r"expect|find|hear|work|understand|recall)\b)"
)
#: A sentence that begins like this is nearly always meant to last.
SURE = any_case(
    rf"[,;]\s+(?:(?:and|but|so|please)[, ]+)*from now on,? (?:(?:please|always|never|do not|don'?t) )*"
    rf"(?!(?:we|you|i|they|just)\b){_VERB}\b|{_START}(?:(?:always|never) {_VERB}|{_DO_NOT_EVER} {_VERB}|"
    rf"{_YOU_MUST} (?:always|never) {_VERB} (?:with |for |to )?(?:me|us)|from now on|"
    r"(?:our|my) (?:\w+ ){0,2}(?:convention|rule|policy|standard)s?|going forward|in future|"
    r"as a (?:general )?rule|make it a habit|(?:every|each) time you|(?:before|after) (?:every|each)|"
    r"we(?:'ve| have)? (?:decided|agreed))\b|"
    rf"{_START}(?:don['’]?t|do not) (?!(?:you|worry|think|know|remember|forget|believe|care|want)\b){_VERB} "
    r"[^,;:?]{3,100},? ever(?: again)?\W*$"
)
_LATER = r"(?:(?:the |all |any |every )?(?:future|later|further)\b(?: \w+)?)"
_NOTE = r"(?:(?:(?:an? |one )?(?:mental )?note|fyi|just so you know(?: it)?) )?"
#: An order to remember something, with any words that say for how long.
_REMEMBER = (
    r"(?:remember|(?:keep|bear) in mind|don'?t forget|make a (?:mental )?note|(?:put|save|store|add) "
    r"(?:(?:this|that|it) )?(?:to|in|into) (?:your )?memory)(?: (?:for|in) [^,:.?]{1,40}| permanently)?"
)
#: The beginning of a note for later sessions; and of one for "later", which may only postpone a task.
_FOR_SESSIONS = (
    rf"{_NOTE}for (?:the |all |any |every )?(?:future|later|next|further) (?:reference|use|sessions?|conversations?|"
    r"chats?|prompts?|times?)"
)
_FOR_LATER = rf"{_NOTE}for {_LATER}"
_IS = (
    r"(?:is|are|has|have|runs?|uses?|lives?|means?|owns?|works?|keeps?|stores?|belongs?|returns?|expects?|supports?|"
    r"contains?|comes?|goes|sends?|reads?|writes?)"
)
_THE_ONE = r"(?:the|our|every|each|all|half|no)\b(?!.*\b(?:that|which|who|where|when)\b)"
#: The beginning of a statement. A note for later that begins differently is a task.
_STATES = (
    r"(?:(?:we|there)\b(?! (?:need|have|want|ought) to\b| (?:should|will|could|shall)\b)|"
    rf"{_THE_ONE} .{{3,60}}?\b{_IS}\b|"
    rf"[\w-]+ {_IS}\b|(?:always|never|every|each|any|no)\b)"
)
_REMEMBER_THAT = (
    r"[,;:–—-]\s+(?:(?:and|so|but|please) )*(?:remember (?:that|this|it)|"
    r"(?:keep|bear) (?:that|this|it) in mind|(?:put|save) (?:that|this|it) (?:to|in|into) (?:your )?memory)(?: please)?"
    rf"(?=\W*$| (?:for (?:all|every|any|{_LATER})|from|whenever|when you)\b)"
)
#: An order to remember the rest of the sentence, unless that says what the user or Claude is doing, which is momentary.
REMEMBERS = any_case(
    rf"{_START}(?:(?:{_REMEMBER}(?::| that\b)|{_FOR_SESSIONS}[:,])(?!\W+(?:i|i['’]\w+|my|you|this|that|it|it['’]s|to|"
    rf"for|one|bug|time)\b)(?:\W+\w+){{3}}|{_FOR_LATER}[:,]?(?=\s+{_STATES})|"
    rf"{_REMEMBER},?(?=\s+(?:we\b|there\b|{_THE_ONE} .{{3,60}}?\b(?:{_IS}|must|needs?|only)\b)))|"
    r"^(?!\W*(?:this|that|it|so|do|\w+ (?:just )?(?:said|told|wrote|claimed))\b)"
    rf".{{12,}}{_REMEMBER_THAT}"
)
#: A sentence that only asks to remember the statement before it.
REMIND_OF_IT = any_case(
    r"^\W*(?:(?:and|so|please|pls)[, ]+)*(?:remember (?:that|this|it)|(?:keep|bear) (?:that|this|it) in mind|"
    r"(?:put|save) (?:that|this|it) (?:to|in|into) (?:your )?memory)(?:,? (?:please|pls|thanks))?[\s.!)]*$"
)
#: A statement that can be remembered on its own.
STATES = any_case(
    rf"^(?!\W*(?:this|that|it|so|do|i|you|he|she|they|if|when)\b)(?!.*[?？])(?=.{{12}}).*\b(?:{_IS}|we)\b"
)
#: A condition, and what must always or never be done then.
SAYS_WHEN = any_case(r"^\W*(?:if|when|whenever|once)\b(?!.*[?？]).{4,},? (?:always|never) \w")
#: Any order to remember something, and any note for later.
REMINDS = any_case(rf"{_START}(?:{_REMEMBER}|{_FOR_LATER})\b|{_REMEMBER_THAT}")
#: A sentence that begins like this is usually meant to last.
UNMISTAKABLE = any_case(
    rf"\b{_YOU_MUST} (?:always|never) (?!have |be )|"
    r"\bimportant (?:that you|to) (?:always|never) |"
    rf"{_START}(?:always?|never|from now on|in the future|for the future(?=[:,])|whenever you|"
    r"remember(?: that|:)|keep in mind(?: that|:)|"
    r"(?:our|my) (?:preference|style)|we (?:always|never|use|only|prefer|don'?t use)|i (?:always|never|prefer|hate))\b"
)
#: Wordings for how the team does something, which is a decision.
TEAM = any_case(
    r"(?:^|[.,;:!–—-]\s+|\b(?:because|since|and|but|so|here|that|in this (?:repo\w*|project))[, ]+)we (?:(?:always|"
    r"generally|usually) )?(?:use|prefer|only|follow|require|support|name|ship with|decided (?:to|on|that)|(?:don'?t|"
    r"do not|never) (?:use|commit|want|push|support|do|write|add|allow|mock|merge))\s+(?!(?:it|them|one|both|that|this|"
    r"these|those|the same|to (?:be|do|see|know|have)|a lot|lots|loads|tons|plenty|(?:too|so|very|way) (?:much|many)|"
    r"more|less|about|around|roughly|nearly|almost|up|\d+)\b)\w"
)
#: Explicit wordings for all of the user's projects.
_EVERY_PROJECT = (
    r"(?:(?:this and )?(?:every|each|any)(?: other| single| one| new)?(?: \w+)?(?: of)?(?: my| our| the)?|"
    r"all(?: of)?(?: my| our| the)?(?: \w+){0,2}?) (?:projects?|repos?|repositor(?:y|ies)|code ?bases?|workspaces?)"
    r"(?: (?:of (?:mine|ours)|(?:that )?(?:i|we) (?:have|own|work (?:on|in)|maintain|touch|start)))?"
)
#: Wordings for everything that the user makes or works on, in any project. "Our" programs may all be parts of one
#: project.
_ALL_OF_MINE = (
    r"(?:(?:every|each|any)(?: single)?(?: one)? of my|all(?: of)? my)(?: other| own)? (?:programs?|tools?|scripts?|"
    r"apps?|applications?|packages?|librar(?:y|ies)|web ?sites?|bots?|plugins?|extensions?|software|machines|code|work|"
    r"stuff|things)"
)
_EVERYTHING = rf"(?:{_EVERY_PROJECT}|{_ALL_OF_MINE})"
UNIVERSAL = any_case(
    rf"\b(?:in|for|across|with|on|to|throughout)? ?{_EVERYTHING}(?![\w-])|\b(?:no matter|regardless of|"
    r"independent of|whatever|whichever)(?: in)?(?: which| what| the)?(?: of my)? (?:projects?|repo\w*|"
    r"code ?base)\b|\b(?:everywhere|wherever) (?:i|we) (?:work|code|program|go)\b|\bproject[- ]independent(?:ly)?\b|"
    r"\b(?:in|for|with|across|on) (?:everything|all the things|all) (?:that )?i (?:do|write|build|make|code|program|"
    r"work on)\b|\bwhatever i(?:'m| am) working on\b|\bglobally(?=[,:])|\bglobal (?:rule|preference)\b|"
    r"\bhere (?:or|and) (?:elsewhere|everywhere else)\b"
)
#: Wordings that mention this project only to include others: "not just here".
NOT_ONLY_HERE = any_case(r"\bnot (?:just|only)?(?: in| for)? ?(?:here|this (?:repo\w*|project|one|app))\b")
#: Wordings that mention the moment or one thing only to include others: "not only for these files".
NOT_ONLY = any_case(
    r"\bnot (?:just|only|merely) (?:(?:for|in|on|during|until) )?(?:now|here|today|(?:this|that|these|those) [\w-]+)"
    r"(?: (?:file|branch|request|test|change)s?)?\b"
)
#: Words that cancel words for all projects: "not in all my projects", "in every project of the solution".
NOT_UNIVERSAL = any_case(
    rf"\b(?:not|n'?t|hardly|except|but|unlike|other than|apart from)(?: \w+)? {_EVERYTHING}|"
    rf"{_EVERYTHING} (?:(?:of|in|inside|within|under) (?:(?:the|this|that|our)\b|~|/|[\w.-]+/)|\(?(?:at|"
    rf"for) (?-i:[A-Z])|except|but|other than|apart from)|"
    r"\b(?:except|but not|other than|apart from) (?:here|this|in this|for this)\b"
)
#: An order that may be meant only for the moment.
ORDER = any_case(
    r"(?:^|[.!,;:—–-]\s+|\b(?:and|but|please|also)\s+)(?:please\s+)?"
    r"(?:don'?t|do not|prefer|avoid|stop|make sure (?:to|that you|you|we|claude)|be sure to|remember to|"
    r"use \S+(?: \S+){0,5} (?:instead|rather than)\b)"
    r"\s*(?!know|think|see|worry|forget|understand|have|need|mind|get|care|believe|remember|really|exist)|"
    r"\bi (?:don'?t|do not) want \w|\bi(?:'d| would) (?:prefer|rather) \w|\b(?:you|we) must (?!have\b)\w"
)
#: An order to use one thing instead of another, which may be meant only for what is being done.
SWAPS = any_case(
    r"^\W*(?:(?:please|ok(?:ay)?|and|hey)[, ]+)*(?:stop|quit) using [^,;:.?]{2,60}[,;:.–—-]+ ?"
    r"(?:(?:and|but|please|just) ){0,3}use \w"
)
# --- What speaks against a rule ---------------------------------------------------------------------------------------

#: Names of a period, after which nothing said until then holds.
_PERIOD = (
    r"(?:release|launch|demo|freeze|deadline|go-live|rollout|audit|weekend|holidays?|sprint|lunch|noon|midnight|"
    r"tonight|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
)
#: Words that limit a sentence to the moment or to the current task.
MOMENT = any_case(
    r"\b(?:for now|right now|just now|currently|(?:at|for) the moment|for the time being|until further notice|"
    r"this (?:time|once)|"
    r"(?<!from )(?<!as of )(?<!starting )(?:today|tonight|tomorrow)|(?:in|for|on|during|within|until|as) "
    r"(?:the (?:ticket|spike|hotfix|poc)|(?:this|that|(?:the|your) (?:current|next|following|coming|rest of (?:this|"
    r"the))) (?:one|file|branch|test|commit|pr|pull request|change|task|step|function|script|class|module|session|"
    r"chat|conversation|answer|reply|response|message|run|screenshot|draft|ticket|issue|refactor(?:ing)?|rewrite|rename|fix|bug|feature|"
    r"migration|clean-?up|sprint|release|demo|week|meeting)\b(?! (?:config\w*|trackers?|"
    r"templates?|suites?|process\w*|pipelines?|workflows?|folders?|"
    r"director(?:y|ies)|formats?|reports?|helpers?|names?)\b)|(?:these|those) (?:\w+ ){0,2}?(?:ones|files|branches|"
    r"tests|commits|prs|pull requests|changes|tasks|steps|functions|modules|classes|scripts|components|runs|"
    r"screenshots|drafts|tickets|issues|bugs|features|migrations)\b(?! (?:that|which|who|where|with|without|in|under|"
    r"you|we)\b)))\b|"
    r"\b(?:for|in|within|during|over) the next (?:[\w-]+ ){0,3}?(?:minutes?|hours?|days?|weeks?|months?)\b|"
    r"\bduring (?:the|this|our) (?:\w+ )?(?:freeze|launch|demo|rollout|audit|holidays?|sprint|outage|incident|move|"
    r"transition|trial|pilot)\b|"
    rf"\bfrom now on until\b|(?:nothing|\bnot|n['’]t)\b.{{0,40}}\byet\W*$|decided nothing\b|"
    rf"\b(?:until|till) (?:(?:the|this|that|our|next) (?:\w+ )?)?{_PERIOD}\b"
)
_STILL = r"(?:still |again |all |now |just |currently |already |completely )*"
#: Jobs that end by themselves, so that "is running" is only true for a while; a server keeps running.
_JOB = (
    r"(?:imports?|exports?|builds?|tests?|suite|migrations?|deploy\w*|jobs?|backups?|restore|sync\w*|pipelines?|"
    r"scripts?|"
    r"training|benchmarks?|uploads?|downloads?|updates?|upgrades?|(?:re)?index\w*|rebuild|releases?|quer(?:y|ies)|"
    r"crawl\w*|scans?|vacuum|cop(?:y|ies)|clone|notebook|conversion|recovery)"
)
#: How the team works, or where something is; this remains true until somebody changes it.
_ARRANGED = (
    r"\b(?:we|everyone|everybody)(?:['’]re| are| all| only)* (?:us(?:es?|ing)|prefers?|requires?|supports?|follows?|"
    r"go with|deploy (?:to|with|on|from|via)|host|store|name|call)\b|"
    r"(?<!\w)(?:(?:is|are) (?:running|listening|hosted|stored|kept|owned|handled|"
    r"managed|served|generated|deployed)|runs?|lives?|listens?) (?:on|in|at|under|by|with|behind|inside|from|"
    r"against)\b|\b(?:is|are) (?:called|named)\b|\bmoved to\b|\bteam owns\b"
)
#: A statement that is only true at the moment: about a running process, a machine that is down, a date.
NOW = any_case(
    r"^(?!.*\b(?:always|never|every|each|whenever|if|when|while|until|unless|must|on \w+days)\b)(?:.*(?:"
    r"\b(?:is|are) (?:still )?(?:building|compiling|loading|importing|exporting|syncing|indexing|deploying|"
    r"restarting|rebooting|downloading|uploading|waiting|failing|testing)\b|"
    rf"(?:\b{_JOB}(?: (?:of|against|on|for|from|to|into|with)\b[^,;:]{{1,50}}?)? (?:is|are)|"
    rf"\byou(?: are|['’]re)(?!.*\bso\b)|(?:\b(?:is|are)|['’]s|['’]re) still) "
    rf"{_STILL}running\b|"
    rf"(?:\b(?:is|are)|['’]s|['’]re) {_STILL}(?:running|down|up|broken|red|green|"
    r"failing|offline|online|stuck|busy|away|sick|out|late|done|finished|ready|unavailable|unreachable|on (?:holiday|"
    r"vacation|"
    r"leave|fire|hold))(?=\W*$|[,;.:!]| (?:again|today|now|and|but|so|since|because|for|in the background|"
    r"late|low|short|out|slow\w*|hot)\b)|"
    r"\b(?:is|are) (?:on|due|by|this|next) (?:\w+ )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|week|month)\b|"
    r"\b(?:the|this|your|our) current (?:branch|build|run|deploy\w*|pipeline|commit|version)\b)|"
    rf"(?!.*(?:{_ARRANGED})).*\bnow\W*$)"
)
#: Words for what a rule would apply to instead of this project.
ELSEWHERE = any_case(
    r"^(?!.*\b(?:here|this (?:repo\w*|project|one|code ?base))\b(?!\W*$)).*(?<!unlike )(?<!than )(?<!like )(?<!as )"
    r"\b(?:in|for|at|on) (?:(?:the|my|our|their|your) other|another) (?:one|repo\w*|project|code ?base|company|job|"
    r"team|client|customer|app)\b|,\s*(?:but )?not (?:in |for )?(?:here|this (?:repo\w*|project|one|code ?base))\W*$|"
    # At the beginning of the sentence: other languages, and "here" where it only states a difference.
    r"^\W*(?:(?:in|for|at|on) (?:(?:the|my|our|their|your) other|another) (?:repo\w*|project|code ?base)\b"
    r"(?!.*\b(?:so|too|also|as well|same|now on|(?:but|while|and) here|here (?:we|it['’]s|always|never))\b)|"
    r"(?:i[mn]|bei) (?:(?:de[mnr]|mein\w*|unser\w*|einem) )?ander\w+ (?:projekt|repo|team|firma)\w*(?!.*\b(?:auch|"
    r"genauso|aber hier|hier (?:immer|nie|nur))\b)|"
    r"dans (?:(?:mon|notre|un) autre |l['’]autre )(?:projet|dépôt|équipe)\b(?!.*\b(?:aussi|mais ici|ici (?:toujours|"
    r"jamais))\b)|"
    r"en (?:(?:mi|el|nuestro) )?otro (?:proyecto|repo\w*|equipo)\b(?!.*\b(?:también|pero (?:aquí|acá)|(?:aquí|"
    r"acá) (?:siempre|nunca))\b)|"
    r"(?:nell['’]altro|(?:nel mio|nel nostro|in un) altro) (?:progetto|repo\w*)\b(?!.*\b(?:anche|ma qui|qui (?:sempre|"
    r"mai))\b)|"
    r"n(?:o|um) (?:(?:meu|nosso) )?outro (?:projet?o|repo\w*)\b(?!.*\b(?:também|mas aqui|aqui (?:sempre|nunca))\b)|"
    r"in (?:(?:het|mijn|ons|een) )?andere? (?:project|repo\w*)\b(?!.*\b(?:ook|maar hier|hier (?:altijd|nooit))\b)|"
    r"w (?:(?:moim|naszym) )?(?:innym|drugim) (?:projekcie|repo\w*)\b(?!.*\b(?:też|także|ale tu(?:taj)?|"
    r"tu(?:taj)? (?:zawsze|nigdy))\b)|"
    r"в (?:(?:моём|моем|нашем) )?другом (?:проекте|репозитории)\b(?!.*\b(?:тоже|(?:а|но) (?:здесь|тут)|(?:здесь|"
    r"тут) (?:всегда|никогда))\b)|"
    r"(?:別|他|ほか)の(?:プロジェクト|リポジトリ)で(?!も|.*(?:ここでは|この))|"
    r"(?:在)?(?:另一个|别的|其他)(?:项目|仓库)(?!.*[也都这本]))"
)
#: Beginnings of an example of what was said before.
EXAMPLE = any_case(
    r"^\W*(?:(?:e\.g\.?|for (?:example|instance)|such as|say,)|like(?! (?:i|we|you|he|she|they|always|before)\b))\W.*"
    r"(?:->|→)"
)
#: Wordings that report what someone said, how something was, or what the user only recalls.
REPORTS = any_case(
    r"\bi(?:['’]ve| have)? (?:always|never) (?:(?!embed\b|shed\b|shred\b)\w+(?<!e)ed|understood|knew|thought|got|saw|"
    r"found|had|was|did|been|went|said|felt|heard|meant|wrote|written|seen|known|gotten)\b|"
    r"\b(?:i guess|iirc|afaicr|if (?:i|my) (?:recall|remember|memory serves)(?: me)?(?: correctly| right(?:ly)?)?)\b|"
    r"^\W*(?:(?:and|but|so|also|well|hm+|ok(?:ay)?)\b[, ]+)*i(?:['’]ve| have)?(?: (?:just|once|also|often|recently))? "
    r"(?:heard|read|learn(?:ed|t)|(?:was|am|got) told)\b"
    r"(?: (?:somewhere|once|online|recently|yesterday))?(?: that| to)? (?:you|one|we|people|it|they|nobody|everybody|"
    r"always|never|not|don'?t)\b|"
    r"^\W*never(?: (?:before|once|again|yet|(?:in|on|at|during|since)(?: [\w'’-]+){1,5}?))?,? (?:have|had|did|has) "
    r"(?:i|we|he|she|they|it)\b|"
    r"(?<!get )(?<!got )(?<!is )(?<!are )(?<!am )(?<!be )(?<!'re )(?<!'m )\bused to \w"
    r"(?!.*\b(?:but|so|now)\b)"
)
#: The words before a colon that is followed by more of the sentence.
LEAD = lazy_regex(r"^(?P<lead>[^:：]{2,80}?)\s?(?:[:：](?!//)\s*)(?=\S)")
#: A lead with an article attributes the words after it to somebody ("a guy on a forum: …", "my boss: …"), unless it
#: says that they are a rule of the user's, where they apply, or only what kind of statement they are ("a tip: …").
ATTRIBUTES = any_case(
    r"^\W*(?:(?:and|but|so|also|well|as|like|ok(?:ay)?)[, ]+)?(?:an?|the|my|some|one of|this one|de[rs]|die|das|"
    r"mein|meine|ein|eine|le|la|un|une|mon|ma|el|una|mi|il|lo|uno|o|um|uma|meu|minha|een|mijn)\b(?! la suite)"
    r"(?!.*\b(?:rules?|polic(?:y|ies)|conventions?|standards?|preferences?|principles?|styles?|habits?|practices?|"
    r"instructions?|things?|notes?|points?|requests?|reminders?|decisions?|answer|agreement|deal|way|default|future|"
    r"for|always|never|we|us|i|you|"
    r"\w*regel|\w*konvention|sache|bitte|règle|chose|consigne|convention|regla|cosa|norma|regola|convenzione|"
    r"regra|coisa|convenção|regel|afspraak|ding)\b)"
    r"(?!\s(?:hints?|tips?|warnings?|(?:\w+ )?(?:guidelines?|guidance|process|procedure|workflow|requirements?|"
    r"constraints?|expectations?|corrections?|clarifications?|remarks?|caveats?|takeaways?|lessons?|goals?|wish|part|"
    r"bit|"
    r"wichtigste|hinweise?|vorgaben?|anforderung(?:en)?|wunsch|anmerkung|remarque|précision|exigence|important|"
    r"notas?|importante|opmerking))\W*$)"
)
#: A lead that only introduces what the user says: "before we go on: …".
OPENS = any_case(
    r"^\W*(?:(?:hey|hi|ok(?:ay)?|so|and|also|claude|oh|btw|by the way|one more thing|one (?:last )?thing|"
    r"another thing|quick (?:note|one)|heads[- ]up|fyi|just so you know|please|bitte|"
    r"(?:before (?:we|you|i)|bevor (?:du|wir|ich|es)|avant (?:de|que|d['’])|antes de|prima di|voordat (?:je|we)) "
    r".{2,50}|"
    r"(?:noch |nur )?(?:eine sache|etwas)|une (?:dernière )?chose|una cosa|uma coisa|nog iets)[,! ]*)+$"
)
#: An order about a text that follows a colon; the text is not addressed to the assistant.
ABOUT_A_TEXT = any_case(
    r"^\W*(?:(?:please|now|then|also|and|can you|could you) )*"
    r"(?:put|add|write|draft|document|mention|say|include)\b[^:]{0,60}\b(?:that|saying|says)\b|"
    r"^\W*(?:(?:please|now|then|also|and|can you|could you) )*(?:write|rewrite|translate|rephrase|proofread|reword|"
    r"shorten|add|put|insert|append|change|set|update|replace|create|generate|print|show|render|log|display|document|"
    r"convert|rate|grade|score|evaluate|critique|compare|judge)\b"
    r"(?![^:]*\b(?:(?:this|that|these|one|new|following|my|our|another|global|general|standing|an?|the) "
    r"(?:rules?|notes?|conventions?|preferences?)\b|down:|memory|remember|mind))[^:]{3,100}:\s"
)
#: An order to write, translate or judge a text that follows; the whole paragraph is then that text.
TEXT_FOLLOWS = any_case(
    r"^\W*(?:(?:please|now|then|also|and|can you|could you|bitte|por favor|s['’]il te plaît|per favore) )*"
    r"(?:(?:translate|rephrase|reword|proofread|paraphrase|übersetze?|traduis|traduce|traduci|tradu[zc]a?|vertaal|"
    r"przetłumacz|переведи)\b[^:]{0,60}|(?:draft|write|compose|schreibe?|verfasse?|écris|rédige|escribe|redacta|scrivi|"
    r"escreve|redige|schrijf|napisz|напиши)\b[^:]{0,40}\b(?:e?-?mails?|letter|post|tweet|blog\w*|commit\w*|message|"
    r"announcement|readme|paragraph|brief|nachricht|courriel|correo|mensaje|messaggio|lettera|lettre|carta|mensagem|"
    r"bericht|wiadomość|письмо|сообщение)\b[^:]{0,40}|"
    r"(?:(?:the|an?|die|der|o|el|il|le|la) )?(?:commit[ -]?(?:message|nachricht|text)|(?:message|mensaje|mensagem|"
    r"messaggio) (?:de|del|di|do|du) commit|subject|e-?mail (?:text|body)|tooltip|caption|slogan|headline|changelog "
    r"entry|release notes?))\s?:(?=\s)|^[^。：:]{0,40}(?:翻译成?|译成|訳し|翻訳)[^。：:]{0,12}[：:]"
)
#: An order about a text that is named without a colon: "change the label to Always ask".
TEXT_TO = any_case(
    r"^\W*(?:please )?(?:change|rename|set|make|update|reword|let) (?:\w+ ){0,4}(?:text|label|title|message|caption|"
    r"placeholder|tooltip|wording|heading|headline|subject|description) (?:to|be|read|say)\b"
)
#: A sentence that says how a part of a program behaves or must behave, even in future: "from now on the server returns
#: …". A sentence about every, each or no such part may be a rule for the code.
OF_THE_PROGRAM = any_case(
    rf"{_START}(?:(?:from (?:now|today|here) on|in (?:the )?future|going forward|later|then|when\b[^,]{{3,80}}),? )?"
    r"(?:(?:the|this|its|these|those) (?:[\w./`'’:-]+ ){1,4}?|(?:it|they|he|she) )"
    r"(?:must|should|shall|may|can|will|has|have|is|are|needs?|always|never|only|\w+s)\b"
)
#: A sentence without a person that says how a program must behave.
REQUIRES = any_case(
    r"^(?!.*\b(?:we|our|us|i|my|me|you|your|commits?|tests?|rules?|reviews?|pull requests?|prs?|branch\w*|code|docs?|"
    r"files?|comments?|names?)\b).*\b(?:must|should|shall|has to|have to|needs to)(?: (?:not|only|always|never))? \w"
)
#: Words that show that a sentence is about the work, not about the thing to make.
OF_THE_WORK = any_case(
    r"\b(?:runs?|commit\w*|test\w*|lint\w*|install\w*|rebas\w+|review\w*|document\w*|pull requests?|prs?|"
    r"dependenc\w+|packages?|changelog|instead of)\b"
)
#: Words for the speaker, the assistant or the whole project; a sentence with one may be about how they work.
PERSONAL = any_case(
    r"\b(?:we(?!(?: are|['’]re) \w+ing\b)|our|us|i|my|me|you|your|here|"
    r"(?:this|the whole) (?:repo\w*|project|code ?base))\b|"
    r"\b(?:rules?|conventions?|so (?:please )?(?:always|never|do not|don['’]?t))\b"
)
#: The beginning of a text that is dictated for an agent, a skill or another model, up to the end of the prompt.
DICTATES = any_case(r"\b(?:prompts?|instructions?|persona|system message)\b[^.!?:]{0,40}:(?=\s)")
_ASKED = (
    r"^\W*(?:(?:please|now|then|next|ok(?:ay)?|also|first|hey|hi|can you|could you|let'?s|i (?:want|need) you to|"
    r"we need(?: to)?|(?:we|i)(?:['’]re|['’]m| are| am)(?: \w+)?(?= \w+ing\b))[,:]? )*"
)
_NOT_A_THING = rf"(?! (?:sure|it|that|this|a note|an exception)\b){NOT_MADE}"
#: The words before the name of a thing to make, except those that say what it is for.
_OF_IT = r"(?:(?!(?:that|which|who|to|for|with|from|in|on|so)\b)[\w'’/+-]+ ){0,4}?"
#: What must follow the name of a thing: "make tool calls" doesn't ask for a tool.
_ENDS = r"(?=\W*$|[^\w\s'’-]| (?:that|which|who|with|for|to|in|on|from|where|and|of|using|like|so)\b)"
#: Names of things that software consists of.
_THING = (
    r"(?:[\w-]*page|form|screen|view|component|button|toggle|checkbox|dropdown|slider|banner|popup|dialog|modal|"
    r"widget|table|list|menu|nav|navbar|header|footer|sidebar|dashboard|wizard|script|tool|app|[\w-]*site|cli|api|"
    r"endpoint|service|server|client|parser|importer|exporter|"
    r"worker|function|class|module|library|package|plugin|extension|feature|game|[\w-]*bot|agent|assistant|copilot|"
    r"instructions|prompt|persona)"
)
#: A request to make something; the sentences or the list after it may say what that must do. "Build" and "code" are
#: also nouns, and "write short answers" is about style, so an article or a thing in the singular must follow.
BUILDS = any_case(
    rf"{_ASKED}(?:(?:implement|develop|scaffold)\b|add (?:an?|another) {_OF_IT}{_THING}\W*$|"
    rf"(?:build|create|design|set up|write|generate|code|program|make|i need|"
    rf"(?:build|creat|design|develop|mak|writ)ing){_NOT_A_THING}(?: me| us)? "
    rf"(?:(?:an?|the|this|some|another|two|three)\b|{_OF_IT}{_THING}{_ENDS})){_NOT_A_THING}"
)
#: Words that show that a sentence is about more than the thing to make: the team, or what Claude does from now on.
WIDER = any_case(
    r"\b(?:from (?:now|here|today|this point|then) on|(?:going|moving) forward|(?:in|for) (?:the )?future|later|"
    r"we(?:['’]\w+)?|our|us|i(?:['’]\w+)?|my|me|here|everywhere|in general|generally|rules?|conventions?|"
    r"polic(?:y|ies)|in mind|(?<!always )(?<!never )remember|"
    r"(?:this|these|the whole) (?:repo\w*|projects?|code ?base|app|team))\b"
)
#: The beginning of a remark that is not part of the dictated text or the task before it.
BESIDES = any_case(
    r"^\W*(?:(?:also|and|besides),? (?:from now on|going forward|in (?:the )?future)|btw|by the way|besides|"
    r"(?:apart|aside) from that|other than that|separately|unrelated)\b"
)
#: Text that is struck through, and a sentence that is nothing but code or a quotation in backticks.
STRUCK = lazy_regex(r"~~[^~]++~~")
IN_BACKTICKS = lazy_regex(r"^\W*`[^`]+`\W*$")
#: A task to be ticked off.
TO_DO = lazy_regex(r"\s*+(?:[-*+•]|\d{1,3}[.)])\s++\[[ xX]\]\s")
#: Wordings that make it doubtful that a sentence is meant as a rule although it begins like one: someone else's words,
#: a choice, a joke.
DOUBTFUL = any_case(
    r"\b(?:says?|said|told|wrote|writes|insist\w*|thinks?|thought|reckons?|believes?|prefers|wants|put it|motto|"
    r"advice|opinion|according to|options?|variant|alternative|version|following|above|either|or never|yes or no|"
    r"sarcas\w*|iron(?:y|ic\w*)|joking|kidding|a joke|say never|yeah|right,|of course|brilliant|genius|"
    r"is what|(?:great|good|nice) (?:idea|advice|plan|message)|while|until|as long as|because that)\b"
)
#: A sentence that does not say what it is about.
DANGLING = any_case(
    r"^\W*(?:(?:and|but|please|so|yes|ok(?:ay)?)[,! ]+)*remember (?:that|this|it|these)(?: one)?"
    r"(?: (?:for|in|from) (?:[\w'’]+ ){0,4}[\w'’]+)?(?:,? please)?\W*$|"
    r"^\W*(?:(?:and|but|please|so|we|i|you|they) )*(?:always|never) "
    r"(?:\w+ (?:it|them|that|this|those|one)|(?:in|on|at|for|with|without|from|by|to|before|after|during)"
    r"(?: [\w'’-]+){1,3})\W*$|"
    r"\b(?:(?:like|as) (?:that|this|so|it)|(?:that|this|the same) way|do(?:ing)? (?:it|that|so))"
    r"(?: (?:again|please|ever|from now on|always|in future))*\W*$"
)
LAUGHS = any_case(r"\b(?:lo+l|(?:ha){2,}h?|lmao|rofl)\b|(?:^|\s)/s(?=\W*$)|[🤦🤷😅🙄😂🤣😜😉😏🤡🙃]")
QUESTION = any_case(
    r"[?？][^\w?？]*$|^(?:(?:and|but|so|ok(?:ay)?|hey|hi)[, ]+)*"
    # "Do it in two steps" and "have it formatted" are orders.
    r"(?:(?:do|have) (?:you|we|i|they|tests?)|(?:can|could|would|should|shall|does|did|is|are|was|were|will|why|what|"
    r"which|how|who|where|has|am)\b (?!not\b)(?:you|we|i|it|they|the|this|that|there|these|don'?t|aren'?t|about|if|"
    r"does|is|are|come|would|should|do|tests?))\b|"
    r"^(?:(?:and|but|so|please|hm+)[, ]+)*(?:i(?:'m| am|'ve been)? wonder(?:ing)?|any idea|no idea|tell me|curious|"
    r"(?:i(?:'d| would) (?:like|love)|i want) to know)[, ]+(?:if|whether|what|which|how|why|where|who|when)\b"
)
#: A request worded as a question: the words before its rule, and an ending that only asks for consent. A request about
#: "this", or about a function in the code, is a task.
POLITE = any_case(
    r"^(?!.*(?:\bthis\b(?! (?:repo\w*|project|code ?base))|\w\(\)))"
    r"\W*(?:(?:and|but|so|ok(?:ay)?|hey|hi|please|pls|also|next time)[, ]+)*(?:"
    r"(?:can|could|would|will) you (?:please |pls |kindly )?(?:(?:make|be) sure|remember|try) (?:to|that you|you)\b|"
    r"(?:can|could|would|will) you (?:please|pls|kindly)\b|"
    r"(?:kannst|könntest|würdest) du(?: bitte)?(?= (?:künftig|in zukunft|ab (?:jetzt|sofort)|von jetzt an)\b)|"
    r"(?:can|could|would|will) you(?= (?:from now on|going forward))) "
    r"(?=(?:always|never|from now on|going forward|künftig|in zukunft|ab|von)\b)"
)
CONSENT = any_case(r"[\s,.!–—-]{1,5}(?:ok|okay|alright|all right|got it|understood|please|pls|thanks|deal)\s?\?{1,3}$")
#: Wordings that assign the assistant a role for the next request.
PART = any_case(
    r"^\W*(?:(?:please|ok(?:ay)?|now|from now on)[, ]+)*(?:(?:i want you to |i'd like you to |you(?:'ll| will| "
    r"should) |let'?s |can you |could you )?(?:act|acting|behave|respond|role-?play) (?:as|like) (?!(?:before|"
    r"usual|always|this|that|these|those|it|agreed|described|expected|above|follows|intended|specified)\b)\w|"
    r"(?:i want you to |let'?s )?(?:pretend|imagine)\b|let'?s (?:play|do|have|run|try) (?:an? )?(?:\w+ )?(?:game|quiz|"
    r"interview|role-?play|simulation|debate)\b|play the (?:role|part) of|"
    r"you(?:'re| are) (?:now )?(?:an? |the )(?:[\w/+#-]+ ){0,6}?(?:engineer|developer|programmer|expert|assistant|"
    r"agent|bot|reviewer|writer|editor|architect|analyst|tester|specialist|consultant|teacher|tutor|coach|extractor|"
    r"translator|designer|manager|scientist|researcher|auditor|copywriter|pirate|interviewer|linter|compiler|terminal|"
    r"api|model)\b|your (?:role|persona|task|job|goal|mission|objective) is\b)"
)
#: Words that extend a command to all later occasions.
FROM_NOW_ON = any_case(
    r"\b(?:from now on|going forward|(?:ab|von) (?:jetzt|sofort) an|ab (?:jetzt|sofort)|[àa] partir de maintenant|"
    r"désormais|a partir de ahora|de ahora en adelante|d['’]ora in poi|a partir de agora|vanaf nu|od teraz)\b|"
    r"с этого момента|今後|从现在开始|앞으로"
)
#: A command, skill or agent in front of its words, and a command with a name that says that the words should be kept.
COMMAND = lazy_regex(r"\s*+(?:[/$]|@agent-)[\w:.-]++\s+")
KEEPS = any_case(
    r"\s*+/(?:[\w.-]++:)?(?:(?:add|save|new|set|keep)-)?(?:remember|memory|memori[sz]e|rules?|conventions?|learn|"
    r"notes?)\s"
)
#: A single line that begins with ``#``, as many people write what they want remembered.
HASH = lazy_regex(r"\s*+#{1,3}\s*+(?=[^\s#][^\n]*+\s*+$)")
#: "1. … 2. …" within a paragraph.
ENUMERATION = any_case(r"^(?>.*?(?:^|\s)\(?(?:1|a)[.)]\s).*\s\(?(?:2|b)[.)]\s")
#: Words in quotation marks.
QUOTED = lazy_regex(r"\"[^\"\n]{1,60}\"|[“„«「『][^”“»」』\n]{1,60}[”“»」』]")
#: A remark in parentheses. A question mark in it doesn't make the sentence a question.
PARENTHESIS = lazy_regex(r"\([^()]{0,300}\)")
#: Headings of a list of rules.
RULES_HEADING = any_case(
    r"\b(?:rules?|conventions?|preferences?|guidelines?|standards?|habits?|polic(?:y|ies)|always|never|from now on|"
    r"going forward|remember|in (?:the )?future|principles|code style|workflow|how we work|regeln|r[eè]gles|reglas|"
    r"regole|regras|regels|zasady|правила)\b|ルール|規約|规则|规范|규칙"
)
#: A heading that says nothing but that the rules of the project follow, so that a point needs no word such as always.
PROJECT_RULES = any_case(
    r"^\W*(?:(?:here are|these are|remember|please follow) )?(?:(?:the|our|my|some|general|standing|coding) ){0,3}(?:"
    r"(?:house|project|team|repo) (?:rules|conventions)(?: (?:for|of|in) (?:this|our|the) "
    r"(?:repo\w*|project|code ?base))?|"
    r"(?:rules|conventions) (?:for|of|in) (?:this|our|the) (?:whole )?(?:repo\w*|project|code ?base)|"
    r"(?:haus|projekt)?regeln (?:für|in) (?:dieses|diesem|unser\w*|das) (?:repo\w*|projekt)|projektregeln|"
    r"règles (?:de ce|du|pour ce|de notre) (?:projet|dépôt)|reglas (?:de(?: este|l)|para este) (?:proyecto|repo\w*)|"
    r"regole (?:di questo|del|per questo) (?:progetto|repo\w*)|regras (?:deste|do|para este) (?:projet?o|repo\w*)|"
    r"regels voor dit (?:project|repo\w*)|zasady (?:tego projektu|w tym projekcie)|правила (?:этого )?проекта|"
    r"(?:この|本)?(?:プロジェクト|リポジトリ)の?(?:ルール|規約|決まり)|(?:[这本该]个?|我们的)?(?:项目|仓库|代码库)的?(?:规则|规范|约定)|"
    r"(?:이 |우리 )?(?:프로젝트|저장소|리포)의? ?(?:규칙|컨벤션))\W*$"
)
#: What a heading of rules says if they are about the work, although the prompt asks to make something. "House rules"
#: may be those of a game.
WORK_HEADING = any_case(
    r"\b(?:we|our|us|i|my|me|(?:repo\w*|projects?|code ?base|team|coding|code|git|commit\w*|workflow|style)\b|always|"
    r"\w*(?:projekt|repo|progetto|proyecto|projet?o?|проект)\w*)\b|プロジェクト|リポジトリ|项目|仓库|프로젝트|저장소"
)
#: Words for rules, which may be those of a game or of another thing to make.
RULE_NOUN = any_case(
    r"\b(?:rules?|conventions?|polic(?:y|ies)|\w*regeln?|r[eè]gles?|reglas?|regol[ae]|regras?|regels|zasad\w+|правил\w*)"
    r"\b|ルール|規則|规则|규칙"
)
#: The rules or points of a list, in a request to make what they describe.
THESE_RULES = any_case(rf"\b(?:these|those|them|(?:all )?the (?:following|above))\b|{RULE_NOUN.pattern}")

OPTIONS_HEADING = any_case(
    r"\b(?:options?|either|which|choose|pick|alternatives?|should (?:we|i)|what about|decide|proposals?|suggestions?|"
    r"questions?|ideas?|candidates|variants?)\b|\?"
)

#: A request to judge, process or write the items of a list, and a heading that says that they are somebody else's.
JUDGES = any_case(
    r"\b(?:compare|rank|rate|review|explain|summari[sz]e|translate|check|evaluate)\b|"
    r"^\W*(?:please )?(?:write|draft|invent|propose)\b|(?-i:\b[A-Z])\w+['’]s (?:\w+ )?(?:rules|conventions)\b|"
    r"\brules of the (?!repo|project|code|team|house)\w"
)
#: A short sentence that names an alternative to the one before it, in several languages: "Or Deno."
OFFERS_ANOTHER = any_case(r"^\W*(?:or|oder|ou|o|of|или)\b(?! (?:else|course|so|sea|seja)\b)(?:\W+[\w'’.-]+){1,4}\W*$")
#: A choice between always and never.
CHOICE = any_case(r"\b(?:always|never)\b.*\bor (?:always|never)\b|\bpick one\b")

# --- Where a rule applies, and where a sentence ends ------------------------------------------------------------------

#: Text that ties a sentence to this code base: symbols, paths, "this", "our", "here".
LOCAL = lazy_regex(
    r"`[^`]+`|\b\w+/\w|\b\w+\.[a-z]{1,4}\b|\b[a-z]+[A-Z]\w*|\b\w+_\w+|"
    r"(?i:\b(?:this|these|here|our|the (?:repo\w*|project|app\w*|file|cli|api|server|page|button|component|"
    r"branch|table|database|function|method|module|package|service))\b)"
)
#: Naming styles for identifiers, which are not themselves symbols of a project.
CASES = lazy_regex(r"\b(?:camelCase|snake_case|PascalCase|kebab-case|SCREAMING_SNAKE_CASE|UPPER_CASE)\b")
#: The end of a sentence, if no capital letter follows.
SOFT_END = lazy_regex(
    r"(?<=[\w)`\"'][.!?;])\s++(?=[a-zäöü])|(?<=\.\.\.)\s+|(?<=…)\s*|(?<!\s)\s++[–—]\s++(?=(?i:just kidding|no|wait|"
    r"sorry|actually|scratch)\b)"
)
#: A line of prose that ends without a full stop.
PLAIN_LINE = lazy_regex(r"^(?!\s*+(?:[-*+•|>#]|\d{1,3}[.)]\s|```|~~~)).*+(?<=[\w)`\"'])$")
#: The end of a clause within a sentence.
CLAUSE_END = lazy_regex(r"\s*(?:[,;:、，；：]|\s[–—-](?=\s))\s*")
#: Number of characters at the end of a text that are checked for an abbreviation.
LONGEST_ABBREVIATION = 10
ABBREVIATION = any_case(
    r"\b(?:e\.g|i\.e|vs|etc|cf|approx|resp|incl|excl|min|max|esp|bzw|inkl|exkl|ggf|evtl|mind|ca|z\.b|d\.h|u\.a|p\.ej|"
    r"p\. ?ex|máx|mín|np|tzn|т\.е|напр|макс|мин|bijv|d\.w\.z)\.$"
)
NEGATION = any_case(r"\b(?:not|never|no|avoid|stop|don'?t|nicht|kein\w*|nie|nunca)\b")
