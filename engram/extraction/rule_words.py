"""Wordings of rules in English, as patterns: forms that make a rule, that count against one, and that withdraw one.

Other languages are in ``languages.py``. ``user_rules.py`` combines them.
"""

from __future__ import annotations

import re

from engram.system.lazy_regex import lazy_regex
from engram.text.words import content_words

_ANY = re.IGNORECASE

# --- Forms that make a rule -------------------------------------------------------------------------------------------

#: The beginning of a clause that may be an order.
_CLAUSE = (
    r"(?:^|[.,;:!–—-]\s+|\b(?:and|but|so|please|also|then)\s+|"
    r"^(?:ok(?:ay)?|yes|yeah|no|hey|hi|btw|again|claude|note|rule|reminder|important)\b[,:!. ]+)"
)
#: Words after "always" and "never" that no order begins with, and participles.
_NO_VERB = (
    r"(?!(?:mind|on|in|at|the|a|an|when|if|with|been|again|true|false|there|this|that|it|as|because|for|more|only|any|"
    r"once|quite|gonna|going|ever|really|actually|seen|got|gotten|had|was|were|did|made|knew|thought|found|wrote|"
    r"written|built|sent|shown|"
    r"ran|saw|heard|understood|happen\w*|fail\w*|work\w*|sure|knows?)\b|(?:set|run|hit|put|read)(?:[.,;]|$)|"
    r"(?!(?:embed|need|feed|seed|exceed|proceed|speed|shed)\b)\w+ed\b)"
)
_PROCESS = (
    r"(?:claude|agents?|subagents?|commits?|commit (?:messages?|subjects?|titles?)|prs?|pull requests?|pr titles?|"
    r"branch(?:es| names?)|merges?|releases?|tests?|comments?|docs?)"
)
ALWAYS = lazy_regex(
    rf"{_CLAUSE}(?:please\s+)?(?:always|never(?:,? ever,?|, under (?:any|no) circumstances,)?|don'?t ever|"
    rf"do not ever)\s+{_NO_VERB}\w|"
    rf"\bwe (?:(?:should|must|shall|have to|need to|want to) )?(?:always|never)\s+{_NO_VERB}\w|"
    r"\b(?:you|claude|agents?|subagents?|everyone|everybody) (?:must|should|shall|need to|have to|are to|may|can) "
    r"(?:always|never) \w|"
    rf"\b{_PROCESS} (?:must|should|may|shall) (?:always|never) \w|"
    rf"^(?:for|with|in|on) (?:every|each|any|all)(?: [\w-]+){{1,4}} (?:always|never)\s+{_NO_VERB}\w|"
    r"\bi (?:always|never) (?:want|prefer|use|expect|merge|review|commit|push|squash|rebase|write) \w|"
    r"\bi (?:want|need|expect|would like|'d like) (?:you|claude|us|all agents|agents) to (?:always|never) \w|"
    r"\b(?:make sure|be sure|remember|please|let'?s|try)(?: (?:to|that|you|we)){0,2} (?:always|never) \w",
    _ANY,
)
FOR_LATER = lazy_regex(
    r"\b(?:from now on|from here on(?: out)?|going forward|henceforth|in (?:the )?future(?=[,.!]|$)|"
    r"make it a (?:habit|rule) (?:to|that)|(?:every|each) time (?:you|we|i)|whenever (?:you|we|i)(?! (?:like|want|"
    r"wish|can|feel|please)\b)|"
    r"as a (?:general )?rule|at all times|for all (?:future|new)|"
    r"(?:before|after|in|with|for) (?:every|each) (?:commit|push|pr|pull request|merge|release|session|reply|answer|"
    r"change|edit|response|deploy\w*))\b",
    _ANY,
)
REMEMBER = lazy_regex(
    r"(?:^|[.,;:!–—-]\s+|\b(?:and|but|so|please|also)\s+)(?:remember|keep in mind|note for the future)\s*"
    r"(?::|,? that (?!(?:time|bug|error|issue|file|thing|day|conversation|discussion|pr|commit|test|function|i (?:ask|"
    r"told|"
    r"said)\w*)\b))",
    _ANY,
)
CONVENTION = lazy_regex(
    r"\b(?:our|my|the(?= \w+ (?:here|in this))) (?:\w+ ){0,2}?(?:convention|rule|policy|preference|standard|workflow|"
    r"code "
    r"style|style|practice)s? (?:(?:here|in this (?:repo\w*|project)) )?(?:is|are|for|says?)\b|"
    r"\b(?:it is|it'?s|that'?s) (?:our|my) (?:convention|rule|policy)\b",
    _ANY,
)
#: How the team does something. This also makes the rule a decision.
TEAM = lazy_regex(
    r"(?:^|[.,;:!–—-]\s+|\b(?:because|since|and|but|so|here|that|in this (?:repo\w*|project))[, ]+)"
    r"we (?:(?:always|generally|usually) )?(?:use|prefer|only|follow|require|support|name|ship with|decided (?:to|on|"
    r"that)|"
    r"(?:don'?t|do not|never) (?:use|commit|want|push|support|do|write|add|allow|mock|merge))\s+"
    r"(?!(?:it|them|one|both|that|this|these|those|the same|to (?:be|do|see|know|have)|a lot|lots|loads|tons|plenty|"
    r"(?:too|so|very|way) (?:much|many)|more|less|about|around|roughly|nearly|almost|up|\d+)\b)\w",
    _ANY,
)
_DETERMINED = (
    r"(?:the|this|that|these|those|it|them|your|his|her|their|its|a|an|option|another|more|less|any|how|what|one|both|"
    r"neither|either|something|to (?:be|see|have|do|know|keep going|wait|say|think|go)|when that|number)\b"
)
TASTE = lazy_regex(
    r"(?:^|[.,;:!–—-]\s+|\b(?:and|but|also|generally|so)[, ]+)i (?:really |strongly |generally |usually |always |"
    r"much )?"
    rf"(?:prefer|hate|dislike|can'?t stand|like (?:it when|to)|(?:don'?t|do not) like) (?!{_DETERMINED})\w",
    _ANY,
)
MINE = lazy_regex(
    r"(?:^|[.,;:!–—-]\s+|\b(?:and|but|because|since|as|that)\s+)i (?:always )?(?:merge|commit|create|review|push|"
    r"deploy|"
    r"release|tag|publish) (?!(?:it|this|that|them|one)\b)\w+.{0,40}\b(?:myself|manually|by hand)\b",
    _ANY,
)
MUST = lazy_regex(
    r"\b(?:claude|agents?|subagents?|commits|commit (?:messages|subjects|titles)|prs|pull requests|pr titles|branches|"
    r"branch names) (?:must(?:n'?t| not)?|may not|are not allowed) \w",
    _ANY,
)
#: A prohibition of a kind of thing, with a reason that also applies later.
REASONED = lazy_regex(
    r"(?:^|[.,;:!–—-]\s+|\b(?:and|but|also|please)\s+)(?:please )?(?:don'?t|do not|avoid) \w+(?:ing)? "
    rf"(?!{_DETERMINED})(?:\w+,? ){{1,8}}(?:as|because|since) (?:that|it|this|they|those)\b "
    r"(?!is\b|are\b|was\b|were\b|will\b|takes?\b|has\b|have\b|had\b|'|fail\w*|need\w*)\w+",
    _ANY,
)
#: All of the user's projects, explicitly.
_EVERY_PROJECT = (
    r"(?:(?:this and )?(?:every|each|any)(?: other| single| one)?(?: \w+)?(?: of)?(?: my| our| the)?|all(?: of)?(?: "
    r"my| our| the)?(?: other)?) (?:projects?|repos?|repositor(?:y|ies)|code ?bases?|workspaces?)(?: (?:of (?:mine|"
    r"ours)|(?:that )?(?:i|we) (?:have|own|work (?:on|in)|maintain|touch|start)))?"
)
#: What the user makes, whatever the project. "Our" programs may all be parts of one project.
_ALL_OF_MINE = (
    r"(?:(?:every|each|any)(?: single)?(?: one)? of my|all(?: of)? my)(?: other| own)? (?:programs?|tools?|scripts?|"
    r"apps?|applications?|packages?|librar(?:y|ies)|web ?sites?|bots?|plugins?|extensions?|software)"
)
_EVERYTHING = rf"(?:{_EVERY_PROJECT}|{_ALL_OF_MINE})"
UNIVERSAL = lazy_regex(
    rf"\b(?:in|for|across|with|on|to|throughout)? ?{_EVERYTHING}(?![\w-])|\b(?:no matter|regardless of|"
    rf"independent of|whatever|whichever)"
    r"(?: in)?(?: which| what| the)? (?:project|repo(?:sitory)?|code ?base)\b|\b(?:everywhere|wherever) (?:i|we) "
    r"(?:work|code|program|go)\b|\bproject[- ]independent(?:ly)?\b|\b(?:in|for|with) (?:everything|all the things|all) "
    r"i (?:do|write|build|make|code|program|work on)\b|\b(?:in|for) all (?:of )?my (?:work|code)\b|\bglobally(?=[,:])|"
    r"\bglobal (?:rule|preference)\b",
    _ANY,
)
#: Words that cancel words for all projects: "not in all my projects", "in every project of the solution".
NOT_UNIVERSAL = lazy_regex(
    rf"\b(?:not|n'?t|hardly|except|but|unlike|other than|apart from)(?: \w+)? {_EVERYTHING}|"
    rf"{_EVERYTHING} (?:(?:of|in|inside|within|under) (?:the|this|that|our)\b|except|but|other than|apart from)|"
    r"\b(?:except|but not|other than|apart from) (?:here|this|in this|for this)\b",
    _ANY,
)
#: A universal rule worded as an order, before or after the words for all projects.
UNIVERSAL_RULE = lazy_regex(
    rf"^(?:please )?(?:(?:in|for|across|throughout) {_EVERYTHING}|(?:everywhere|wherever) (?:i|we) (?:work|"
    rf"code|go))[,:]? "
    r"(?:please )?(?:(?:i|we|you) (?:want|use|expect|prefer|need|must|should)|use|write|keep|put|run|add|sign|format|"
    r"name|avoid|answer|prefer|commit|document|test|make|set|call|call me|speak|explain|start|end|do|go with|stick|"
    r"no )\b|"
    rf"^(?:please )?(?:use|write|keep|run|sign|format|name|answer|commit|document|speak|stick to|go with)\b(?! "
    rf"(?:the|this|that|our|it)\b).{{1,80}}\b(?:(?:in|for|across|throughout) {_EVERYTHING}|(?:everywhere|wherever) "
    rf"(?:i|we) (?:work|code|go))[.!]?$|"
    # "Every one of my programs should end with …"; but a wish about how things are, and work to do, are not rules.
    rf"(?:^|[,;:–—]\s+)(?:(?:and|so|because|since) )?(?:(?:it'?s|that'?s|this is|that is) how )?{_EVERYTHING}(?: that "
    r"\w+(?: \w+){0,4}?)? (?:should|must|shall|has to|have to|needs? to|(?:is|are) to)(?: (?:always|never|only))? "
    r"(?!be (?:\w+ing|up|there|done|ready|fine|ok|able|possible|updated|upgraded|migrated|moved|renamed|fixed|"
    r"deployed|ported|converted|switched|replaced|restarted|checked|tested again)\b|have \w+(?:ed|en)\b|already|"
    r"now|still|work\b(?! (?:with|offline))|run (?:again|now)\b|get (?:an?|the) update)\w",
    _ANY,
)
#: An order that may be meant for the moment.
ORDER = lazy_regex(
    r"(?:^|[.!,;:—–-]\s+|\b(?:and|but|please|also)\s+)(?:please\s+)?"
    r"(?:don'?t|do not|prefer|avoid|stop|make sure (?:to|that you|you|we|claude)|be sure to|remember to|"
    r"use \S+(?: \S+){0,5} (?:instead|rather than)\b)"
    r"\s*(?!know|think|see|worry|forget|understand|have|need|mind|get|care|believe|remember|really|exist)|"
    r"\bi (?:don'?t|do not) want \w|\bi(?:'d| would) (?:prefer|rather) \w|\b(?:you|we) must (?!have\b)\w",
    _ANY,
)
#: A sentence with a rule's words, whatever they mean there.
SOUNDS_LIKE_A_RULE = lazy_regex(r"\b(?:always|never)\b(?! mind)", _ANY)

# --- What speaks against a rule ---------------------------------------------------------------------------------------

QUESTION = lazy_regex(
    r"[?？]\W*$|^(?:(?:and|but|so|ok(?:ay)?|hey|hi)[, ]+)*(?:can|could|would|should|shall|do|does|did|is|are|was|were|"
    r"will|"
    r"why|what|which|how|who|where|have|has|am)\b (?!not\b)(?:you|we|i|it|they|the|this|that|there|these|don'?t|"
    r"aren'?t|"
    r"about|if|does|is|are|come|would|should|do|tests?)\b|"
    r"^(?:(?:and|but|so|please|hm+)[, ]+)*(?:i(?:'m| am|'ve been)? wonder(?:ing)?|any idea|no idea|tell me|curious|"
    r"(?:i(?:'d| would) (?:like|love)|i want) to know)[, ]+(?:if|whether|what|which|how|why|where|who|when)\b",
    _ANY,
)
_WHOLE = r"(?:projects?|repo\w*|code ?bases?|apps?|applications?|workspaces?|teams?|compan(?:y|ies)|machines?|monorepo)"
_PLACE = (
    r"(?:time|file|function|class|module|method|test|script|component|page|endpoint|table|query|migration|line|screen|"
    r"button|ticket|issue|story|task|feature|prs?|pull request|mr|merge request|branch|commit|session|chat|"
    r"conversation|"
    r"case|round|run|step|sprint|release|demo|refactor\w*|change|patch|fix|example|one|folder|directory|week|day|hour|"
    r"morning|afternoon|evening|month|iteration|part|section|review|experiment|spike|poc|prototype|moment|iteration)s?"
)
#: A noun that, after a word for a moment or a thing at hand, turns it into a lasting kind: "for the release build", "in
#: the branch name", "of the current user".
_OF_A_KIND = (
    r"(?! (?:names?|titles?|messages?|descriptions?|bod(?:y|ies)|headers?|comments?|templates?|lists?|numbers?|types?|"
    r"levels?|size|paths?|builds?|notes?|scripts?|branch(?:es)?|process|pipelines?|jobs?|workflows?|tags?|pages?|"
    r"servers?|environments?|envs?|databases?|data|config\w*|artifacts?|candidates?|managers?|teams?|checklists?|"
    r"commits?|modes?|profiles?|folders?|director(?:y|ies)|files?|suites?|apps?|accounts?|systems?|cycles?|rooms?|"
    r"links?|tests?|users?|requests?|tenants?|locales?|threads?|elements?|items?|arguments?|parameters?|rows?|columns?|"
    r"values?|indexe?s?|states?|themes?|languages?|customers?|plans?|stages?|keys?|steps|dates?)\b)"
)
MOMENT = lazy_regex(
    r"\b(?:for now|right now|just now|currently|at (?:the|this) moment|for the (?:(?:moment|time being|rest)|"
    r"(?:next|current|following|last|first|second|demo|meeting|release)"
    + _OF_A_KIND
    + r")|today|tonight|tomorrow|yesterday|this once|just once|"
    r"temporarily|eventually|some ?day|one day|at some point|in the long run|(?:you|we|i|it|they) still (?:have|"
    r"need|needs|must|should)|(?:in|for|to|on|of|with|answer|use|apply|do|follow|translate|read) the following\b|"
    r"in the meantime|meanwhile|yet|first(?=,)|anymore\?|later on|soon|asap|"
    r"(?:this|these|those) (?!(?:\w+ )?" + _WHOLE + r"\b)\w+|"
    r"(?:in|for|on|to|of|with|within|during|throughout) (?:that|the (?:current|same|next|new|other)"
    + _OF_A_KIND
    + r") (?!"
    + _WHOLE
    + r"\b)\w+|"
    r"(?:the (?:current|same|next) "
    + _PLACE
    + r"|that "
    + _PLACE
    + r"(?=\W*$|[.,;:]| (?:and|or|until|when|because)\b))|"
    r"only (?:here|now|once|in (?:here|one)|for (?:now|you|me))|"
    r"(?:till|until) (?!(?:(?:the|all|your|every|its) )?(?:tests?|ci|checks?|builds?|pipelines?|lint\w*|reviews?|they|"
    r"it)\b)|"
    r"while (?:(?:we|you|i)(?:'re|'m| are| am)?|debugging|testing|refactoring|working|this|that|the)\b|"
    r"as long as|once (?:we|you|i|it|the|that's|everything)\b|during|after (?:that|the (?:merge|release|demo|review))|"
    r"(?:for the (?:branch|ticket|task|story|pr|pull request|mr|merge request|file|function|class|method|page|"
    r"migration)|(?:in|on|for|with|within|during) the (?:spike|poc|prototype|demo|sprint|experiment|hotfix|task|story))"
    + _OF_A_KIND
    + r"|"
    r"before (?:that|the (?:merge|release|demo|review|deadline|weekend|meeting)|we (?:merge|release|ship) (?:it|the))|"
    r"the (?:first|second|third|fourth|last|latter|former|other|next|previous|above|following|same) (?:option|one|"
    r"approach|"
    r"variant|version|solution|alternative|suggestion|choice|way|proposal|answer|idea)|"
    r"(?:option|variant|alternative|approach|proposal|solution|choice|number) (?:[a-e]|\d+|one|two|three)|"
    r"(?:pr|issue|ticket|mr|task|story|bug|branch|commit|step|phase) #?\d+|"
    r"(?:in|for|on) [A-Z]{2,}-\d+|"
    r"i don'?t (?:know|think|see|understand|get|have|remember|believe|care)|don'?t (?:know|think|worry)|never ?mind)\b|"
    r"(?:^|\s)#\d+|\bthis\s*[.,:;!)]|\bthis$|"
    r"(?:^|[.,;:!–—-]\s*|\b(?:and|but|please|so|or|then)\s+)just\s+(?!in\b)\w+|\bjust (?:this|for|here|now)\b",
    _ANY,
)
#: Words with which people say the opposite of what they mean.
IRONY = lazy_regex(
    r"\b(?:yeah,? right|oh,? (?:great|nice|wonderful|brilliant|fantastic|perfect|lovely|sure)|"
    r"what could (?:possibly )?go wrong|(?:worked|went) (?:out )?(?:so|really|just) (?:well|great)|"
    r"because that(?:'s| has| always| really)? (?:worked|works|went)|lo+l|lmao|rofl|(?:ha){2,}h?|great idea|"
    r"genius(?=\W*$|[.!,])|as if that|slow clap|ja,? (?:klar|sicher)|na klar|(?:super|tolle) idee|"
    r"hat ja (?:super|toll|prima)|bravo|(?:très )?bonne idée|mais bien sûr|sí,? claro|claro,? claro|"
    r"(?:qué )?(?:buena|gran) idea|genial idea|ja(?:ja)+)\b|\((?:(?:just|only|that'?s|das war|nur) )?(?:sarcas\w*|"
    r"iron\w*|"
    r"joking|kidding|a joke|joke|scherz|spaß|blague|broma|scherzo|brincadeira|not)\b[^()]*\)|(?:^|\s)/s(?=\W*$)|"
    r"[🙄😂🤣😜😉😏🤡🙃]",
    _ANY,
)
#: A condition that doesn't end a "never": "never merge until CI is green" also applies later.
HEDGE = lazy_regex(
    r"\b(?:theoretically|hypothetically|maybe|perhaps|possibly|probably|ideally|apparently|supposedly|allegedly|might|"
    r"could|would (?:be|have|it|you|we|that)|wouldn'?t|i (?:think|guess|wonder|suppose|assume|believe|bet|hope|wish|"
    r"feel)|"
    r"i'?m (?:thinking|wondering|not sure|unsure|tempted|considering)|not sure|unsure|what if|how about|what about|"
    r"whether|"
    r"suppose|imagine|pretend|assuming|assume|let'?s say|my understanding is|if i understand|correct me if|"
    r"if i'?m not mistaken|as far as i (?:know|can "
    r"tell)|afaik|iirc|i thought|should be(?=:)|it (?:seems|looks)|proposal|suggestion|"
    r"suggest|either|versus|vs|"
    r"or (?:always|never|(?:do |should )?we (?:use|always|never)|use|should)|as if|if (?:we|you|i|they|it) (?:always|"
    r"never)|"
    r"if (?:it (?:was|were) up to me|i had (?:my way|the choice)|only we)|in an? (?:ideal|perfect) world|"
    r"pros and cons|consider\w*)\b|^(?:for example|for instance|e\.g\.|example)",
    _ANY,
)
_PERSONS = (
    r"(?:he|she|they|people|someone|somebody|some|many|others|everyone(?: else)?|everybody|"
    r"(?:my|our|the|a|an|some|his|her|their|your|another|one)(?: \w+){0,3}? (?:boss|manager|lead|leader|cto|ceo|head|"
    r"reviewer|colleague|co-?worker|team ?mate|friend|client|customer|teacher|author|maintainer|architect|developer|"
    r"dev|"
    r"engineer|designer|book|article|blog|post|guide|guidelines?|linter|tutorial|video|tool|bot|model|assistant|ai|"
    r"vendor|"
    r"docs|documentation|readme|pm|po|product owner|user|qa|guy|person|intern|consultant|auditor|contractor)s?)"
)
_THINK = (
    r"(?:think|believe|feel|want|say|said|insist|prefer|suggest|recommend|argue|claim|like|ask|told|tell|demand|expect|"
    r"hold|reckon|swear|swore|advise|propose|mention|advocate|hate|love|wrote|write|decide|require|keep saying|"
    r"would (?:like|"
    r"say|"
    r"prefer))(?:s|d|ed|es)?"
)
OTHERS = lazy_regex(
    rf"\b{_PERSONS}(?: (?:always|often|also|really|usually|just|strongly|now|who \w+))* {_THINK}\b|"
    r"\baccording to (?!(?:our|my)\b)|\bit is (?:often )?said\b|\bbest practices? (?:says?|is|are)\b|"
    rf"\b{_PERSONS}'s (?:rule|opinion|view|advice|take|preference|convention|style|idea)\b|"
    rf"^(?:\W*(?!(?:for|in|on|to|with|about|as)\b)\w+[,:]? )?(?!(?:some|many|every\w+|people|others)\b){_PERSONS}"
    r"(?: \w+){0,4}\s?:\s|\b(?:their|his|her) (?:rule|policy|motto|convention|style|mantra)\b|"
    rf"\b{_PERSONS} (?:\w+ )?(?:used to|complains?|complained|warns?|warned|reminds?|reminded|nags?|yells?)\b|"
    r",? (?:says|said|thinks|according to|in the words of|quoth) \w+[.!]?$|"
    r", (?:says|said|thinks|insists|recommends|writes|wrote) (?:\w+ ){1,4}\w+[.!]?$|\bi (?:read|heard|was told|"
    r"saw) (?:that|"
    r"somewhere|"
    r"on|in)\b|\b(?:he|she|they|someone|somebody) (?:is|are|was|were) (?:convinced|sure|adamant)\b|\bconvinced that\b|"
    r"\b(?:that|this)(?:'?s| is| was) (?:what|how) (?!(?:we|i|you)\b)\w+ (?:wrote|said|says|put it|suggested|suggests|"
    r"wants?|wanted|recommends?|recommended|likes?|asked|told)\b",
    _ANY,
)
#: A name with a verb of opinion: "Anna wants us to always squash."
NAMED_OTHERS = lazy_regex(
    r"\b(?!(?:We|You|I|It|This|That|There|Nobody|Always|Never|Claude)\b)[A-Z][\w'-]+"
    r"(?: (?:from|of|in|at) (?:the )?\w+)? (?:(?:always|also|really|often) )?(?:thinks|"
    r"believes|wants|says|said|insists|prefers|suggests|suggested|recommends|recommended|argues|claims|claimed|likes|"
    r"told|"
    r"asked|demands|expects|advises|proposes|proposed|swears|hates|keeps saying|thought|wanted|insisted)\b|"
    r"\b(?!(?:We|You|I|It|This|That|There|Claude)\b)[A-Z][\w'-]+ [a-z]+(?:s|ed) (?:that )?(?:we|you|one|people|"
    r"everyone) "
    r"(?:should|must|ought|have to|need to)\b|"
    r"\b[A-Z]\w+'s (?:rule|opinion|view|advice|take|preference|convention|style|idea|motto)\b"
)
DISAGREES = lazy_regex(
    # The text after it is somebody else's, and is cut: "that's what the linter says".
    r"\b(?:that|this)(?:'?s| is| was) what\W*$|"
    r"\b(?:i (?:strongly |totally |completely )?(?:disagree|beg to differ)|i (?:don'?t|do not) (?:agree|think so|"
    r"believe (?:that|"
    r"it|so)|see it that way|buy (?:it|that))|(?:that'?s|that is|which is|this is) (?:just |plain |total |"
    r"complete )?(?:wrong|"
    r"nonsense|silly|stupid|bullshit|rubbish|not true|a bad idea|overkill|ridiculous|too (?:strict|much))|"
    r"not convinced|"
    r"i'?m not a fan|what nonsense|(?:that|this|which)(?:'s| is| was) (?:what|how) (?:the|my|our|their|they|he|she|"
    r"his|her)\b"
    r"[^.]{0,40}\b(?:did|does|do|said|says?|wanted|wants?|thinks?|thought))\b",
    _ANY,
)
#: A one-time task at the beginning, to which the rest of the sentence belongs.
TASK = lazy_regex(
    r"^(?:(?:please|can you|could you|let'?s|and|also|yeah|yes|ok(?:ay)?|then|now|so|next|first|go ahead and|"
    r"i want (?:you )?to|"
    r"we (?:need|have) to)[, ]+)*"
    r"(?:add|write|put|insert|append|update|document|include|mention|create|implement|build|generate|fix|rename|"
    r"refactor|"
    r"change|make (?:it|the|a|an|this|that|sure (?:the|it|that the|that it))|modify|replace|remove|delete|move|extend|"
    r"draft|"
    r"translate|summari[sz]e|design|introduce|rewrite|check (?:that|if|whether)|verify|set up|explain|describe)\b",
    _ANY,
)
DESCRIPTION = lazy_regex(
    r"^(?:it|this|that|there|they|he|she|these|those|nobody|nothing|everything|something)\b(?!'?s (?:our|my) |"
    r" is (?:our|my) )|"
    r"\b(?:it|they|that|which|there|this|these) (?:always|never)\b|\b(?:will|would|does|is|are|was|has|have|had|be|"
    r"can|do|did) (?:always|never)\b|(?<!sure )(?<!sure that )\byou (?:always|never) |\bi(?:'ve| have) never |"
    r"\bi (?:always|never) (?!want|prefer|use|expect|merge|review|commit|push|squash|rebase|write)|don'?t always|"
    r"\b(?:every|each) time (?:you|we|i)\b[^,]*, (?:it|the|this|that|there|they|i|an?|my|nothing|"
    r"something)\b(?! (?:want|"
    r"need|must))|\b(?:(?:every|each) time|whenever) i (?:run|try|open|start|click|build|call|load)\b|"
    r"\bwhenever (?:you|we|"
    r"i)\b[^,]*, (?:it|the|this|that|there|they|i (?:get|see)|nothing)\b|"
    r"\bin (?:every|each) \w+ (?:there|it|they|i (?:get|see|found))\b|"
    r"\bi (?:get|got|see|saw|found|notice\w*|had|ran|tried)\b|\bused to\b|\bback then\b|\bin the past\b|\bpreviously\b|"
    r"\bwe (?:always|never) (?:get|got|see|saw|hit|had|run into|end up|hear|heard|knew|wrote|used)\b|"
    r"^(?:claude|codex|copilot|cursor|gemini|(?:the|your|my|this) (?!team\b)\w+) (?:always|never) (?!\w+ss\b)\w+s\b|"
    r"\bnever say never\b|\balways (?:happy|glad|a pleasure|good|nice)\b",
    _ANY,
)
#: "We use …" in a report on the present state, or on what is wrong with that state.
REPORT = lazy_regex(
    r"\b(?:wrong\w*|bugs?|broken|fails?|failing|error|errors|already|still|twice|both places|in two places|"
    r"instead of what|"
    r"so we (?:need|should|have|can|could)|but (?:we|it|the)|which (?:is|are|was|makes|means|causes)|too (?:many|much|"
    r"slow|"
    r"old)|(?:two|three|four|five|several|many|multiple|various) (?:different|separate|kinds|ways|versions|copies)|"
    r",\s*(?:please |so |can you |could you |let'?s )?(?:clean|fix|change|replace|remove|unify|merge|migrate|refactor|"
    r"switch|update)\b(?! (?:before|after|with)\b)|outdated|deprecated|duplicat\w+|doesn'?t|isn'?t|aren'?t|can'?t|"
    r"problem|issue|unclear|ugly|inconsistent)\b",
    _ANY,
)
#: The beginning of a requirement for what is built, or of a line in a work list or a log.
REQUIREMENT = lazy_regex(
    r"^\W*(?:as an? (?!rule\b|general\b|matter\b)[\w-]+(?: [\w-]+){0,3},? i (?:\w+ )?(?:want|need|can|would|should|"
    r"expect|must|see|get)\b|given (?:that |an? |the |some |no |i |we )(?=.*\bthen\b)|"
    r"(?:todo|fixme|hack|xxx|acceptance criteri(?:a|on)|user stor(?:y|ies)|(?:expected|actual)(?: (?:result|"
    r"behaviou?r))?|steps? to reproduce|error|warning|fatal|symptom|bug|issue|problem)(?: ?\([^()]{0,40}\))? ?:)",
    _ANY,
)
#: Assigns the assistant a role for the next request.
PART = lazy_regex(
    r"^\W*(?:(?:please|ok(?:ay)?|now|from now on)[, ]+)*(?:(?:i want you to |i'd like you to |you(?:'ll| will| "
    r"should) |let'?s |can you |could you )?(?:act|acting|behave|respond|role-?play) (?:as|like) (?:an? |the |my |if )|"
    r"(?:i want you to |let'?s )?(?:pretend|imagine)\b|play the (?:role|part) of|"
    r"you(?:'re| are) (?:now )?(?:an? |the )(?:[\w/+#-]+ ){0,6}?(?:engineer|developer|programmer|expert|assistant|"
    r"agent|bot|reviewer|writer|editor|architect|analyst|tester|specialist|consultant|teacher|tutor|coach|extractor|"
    r"translator|designer|manager|scientist|researcher|auditor|copywriter|pirate|interviewer|linter|compiler|terminal|"
    r"api|model)\b|your (?:role|persona|task|job|goal|mission|objective) is\b)",
    _ANY,
)
#: A condition on the thing that is built, not on what somebody does.
CONDITION = lazy_regex(
    r"^(?:and |but |so )?(?:if|when|once|unless|in case)\b(?! (?:you|we|i|claude|an? agent|agents?|in doubt|unsure|"
    r"possible|"
    r"writing|adding|committing|editing|creating|changing|naming|working|asked|reviewing|debugging|running|fixing)\b)",
    _ANY,
)
DANGLING = lazy_regex(
    r"\b(?:always|never|ever) (?:\w+ ){1,2}(?:it|them|so|that|those|one)(?: (?:again|that way|like (?:that|so)|please|"
    r"ever|"
    r"first|anyway|either))*\W*$|\bfrom now on,? (?:please )?(?:do|use|keep|stop) (?:it|that|so|them)\W*$|"
    r"^(?:(?:and|but|so) )?(?:that|this|it)(?:'?s| is| isn'?t)? (?:not )?(?:only |just )?(?:for [^,]+, )?(?:it'?s )?"
    r"how ",
    _ANY,
)
#: Requires a previous statement that says what "it" is.
ANTECEDENT = lazy_regex(r"\b(?:the|our|an?) (?:[\w-]+ ){1,3}(?:is|are|has|have|holds?|contains?|belongs?)\b", _ANY)
#: "1. … 2. …" within a paragraph.
ENUMERATION = lazy_regex(r"(?:^|\s)\(?(?:1|a)[.)]\s.*\s\(?(?:2|b)[.)]\s", _ANY)
REASON = lazy_regex(r"\b(?:because|since|so that)\b", _ANY)
PARENTHESIS = lazy_regex(r"\([^()]{0,300}\)")
CLOCK = lazy_regex(r"\d\d:\d\d:\d\d|\w+\.\w+:\d+:")
#: Headings of a list of rules.
RULES_HEADING = lazy_regex(
    r"\b(?:rules?|conventions?|preferences?|guidelines?|standards?|habits?|polic(?:y|ies)|always|never|from now on|"
    r"going "
    r"forward|remember|in (?:the )?future|principles|code style|workflow|how we work|regeln|reglas)\b|ルール|規約",
    _ANY,
)
OPTIONS_HEADING = lazy_regex(
    r"\b(?:options?|either|which|choose|pick|alternatives?|should (?:we|i)|what about|decide|proposals?|suggestions?|"
    r"questions?|ideas?|candidates|variants?)\b|\?",
    _ANY,
)

# --- Withdrawing ------------------------------------------------------------------------------------------------------

#: Withdraws what was said, wherever it occurs.
TAKES_BACK = lazy_regex(
    r"(?<!don't )(?<!dont )(?<!do not )(?<!never )(?<!not )\b(?:"
    r"(?:scratch|strike|disregard) (?:that|this|it|all|everything|what|the|my|those)|(?:just |only )?kidding|jk|j/k|"
    r"psych(?=\W*$|[!.,])|"
    r"(?:just |only )?(?:messing|playing|toying|joking) with you|(?:just |only )?teasing(?: you)?(?=\W*$|[!.,])|"
    r"(?:just )?pulling your leg|april fools?|"
    r"forget (?:that(?! \w+ (?:is|are|was|has|have)\b)|it|this|all|everything|about (?:that|it|the|my|what)|"
    r"what i(?:'ve| have)?(?: just)? (?:said|wrote|told|asked|typed)|i (?:ever )?said|(?:the|my|"
    r"that) (?:[\w-]+ ){0,2}(?:rule|"
    r"preference|"
    r"convention|instruction|policy|thing)|my last|the last)|"
    r"ignore (?:that|what i|my (?:last|previous|earlier)|the (?:last|previous) (?:rule|message|sentence|instruction))|"
    r"(?:i |i'll |let me |i hereby |i'd like to )?(?:take|took|taking) (?:that |this |it |those |all that |"
    r"everything )?back|"
    r"i (?:take|took|withdraw|revoke|retract) (?:back )?(?:that|what|the|my)|i(?:'ve| have)? changed my mind|nvm|"
    r"(?:scrap|drop|cancel|lose|skip|undo|ditch) (?:the|that|my) (?:[\w-]+ ){0,3}(?:rule|thing|convention|policy|"
    r"preference)(?=\W*$| (?:about|on|for|again|please)\b)|"
    r"scrap (?:that|it|this)(?=\W*$)|that rule (?:is |was |holds |applies )?(?:only|just) for (?:today|now|this|the)|"
    r"(?:on|after) second thoughts?|(?:that|it|this) was (?:only |just )?(?:a joke|sarcas\w+|ironic|a mistake|wrong|"
    r"nonsense)|"
    r"i(?:'m| am| was) (?:only |just )?(?:joking|kidding|sarcastic)|i was wrong|my (?:bad|mistake)\b|not (?:really|"
    r"seriously|"
    r"serious)(?=[.!,]|$)|undo (?:that|the) rule|(?:that|the|my) rule (?:about .{1,40})?(?:no longer|doesn'?t|"
    r"does not) "
    r"(?:hold|appl\w+|count)\w*|lol,? no|haha,? no|i didn'?t mean (?:that|it)|don'?t (?:do|"
    r"follow) what i (?:just )?said|"
    r"that'?s not what i (?:meant|want\w*))\b|^(?:(?:oops|sorry|ups|ah|oh|uh|"
    r"my bad)\W+)*(?:that was (?:for |the )?)?(?:the )?"
    r"(?:wrong|other|another) (?:window|chat|tab|terminal|project|repo|session|channel|thread|person)\W*$|"
    r"\b(?:wasn'?t|not) meant for (?:you|here|this)\b|\bnever ?mind(?=\W*$|[.,;!]| (?:that|about|what|the rule|my))",
    _ANY,
)
#: Corrects what comes just before it.
CORRECTS = lazy_regex(
    r"(?:^|[.,;:!–—-]\s*|\()(?:oh|hm+|ah|oops|uh|um|er|well|actually|sorry|but|no|nope|wait|hold on|hang on)?[,.!… ]*"
    r"(?:no,? wait|wait,? no|wait,? that'?s not (?:right|true)|(?:wait|hold on)[,.!…]|no,|nope\b|sorry,? (?:i|no|not|"
    r"that)|i (?:meant|mean)\b|"
    r"correction\b|on reflection\b|come to think of it\b|(?:now that i )?think(?:ing)? (?:about|of) it\b|"
    r"let me rephrase\b|"
    r"actually,? (?:no|not|don'?t|let'?s|use|it'?s|make|keep|never ?mind|scratch)\b|or rather\b|make that\b|"
    r"(?:go |switch |let'?s go )?back to (?!(?:the|my|our|this|that|work|it)\b)[^\W\d_]+(?: please)?(?=\W*$)|"
    r"rather not\b|better not\b|no[,.!]? (?:use|make|do|not|let'?s)\b)",
    _ANY,
)
#: Ends an earlier rule, if it names it.
LIFTS = lazy_regex(
    r"^(?:(?:ok(?:ay)?|please|actually|well|now|and|but)[, ]+)*(?:stop \w+ing|no need to|no longer|you (?:may|"
    r"can) \w+ .*\bagain|"
    r"you don'?t (?:have|need) to)\b|^actually,? (?:you (?:may|can)|it'?s (?:ok|okay|fine))\b",
    _ANY,
)
#: Says that something is over, whenever it was stipulated.
OVER = lazy_regex(
    r"\b(?:we|you|i) (?:no longer|(?:don'?t|do not) (?:\w+ ){1,12}?(?:any ?more|any longer)|(?:(?:have |'ve )?"
    r"(?:stopped|given up|gave up|quit) \w+ing|(?:have |'ve )?(?:got rid of|moved away from|said goodbye to)))\b|"
    r"\b(?:there is |there'?s )?no (?:longer a )?need (?:to|for) .*(?:any ?more|any longer)\b",
    _ANY,
)
#: Says that something is no longer forbidden.
ALLOWED_AGAIN = lazy_regex(
    r"\b(?:you|we) (?:may|can|are allowed to) (?:now )?(?:\w+ ){1,8}?again\b|"
    r"\bit(?:'?s| is) (?:ok|okay|fine|allowed) (?:now )?to (?:\w+ ){1,8}?again\b",
    _ANY,
)
#: Words that only say that something is over, without naming a subject.
OVER_WORDS = content_words(
    "no longer anymore any more stopped using used use need needs have given gave quit rid moved away want allowed "
    "again may can now okay fine said goodbye"
)
#: A rule that forbids something, or one thing in favour of another.
DENIES = lazy_regex(
    r"\b(?:not|never|no|avoid|stop|don'?t|doesn'?t|won'?t|mustn'?t|without|instead of|rather than|in place of)\b", _ANY
)
ALL_OF_IT = lazy_regex(r"\b(?:all|everything|both|these|those)\b", _ANY)
#: A later withdrawal has to name its subject.
SUBJECT = lazy_regex(
    r"\b(?:about|regarding|concerning|rule (?:on|for|that|with|to)|back (?:the|my|what)|forget (?:the|my|that)|"
    r"withdraw|"
    r"revoke|retract|said (?:about|on|that|to)|sobre|über|mit|zu[mr]?)\b(.*)",
    _ANY,
)
#: Words in a withdrawal that don't name its subject.
EMPTY_WORDS = content_words(
    "forget said say take back rule rules scratch strike never mind about what told tell wrote preference convention "
    "instruction anymore longer like whenever actually wait sorry meant mean just kidding before earlier last previous "
    "always from ignore disregard that thing regel regla olvida vergiss"
)

#: What ties a sentence to this code base: symbols, paths, "this", "our", "here".
LOCAL = lazy_regex(
    r"`[^`]+`|\b\w+/\w|\b\w+\.[a-z]{1,4}\b|\b[a-z]+[A-Z]\w*|\b\w+_\w+|"
    r"(?i:\b(?:this|these|here|our|the (?:repo\w*|project|app\w*|code|file|cli|api|server|page|button|component|"
    r"branch|table|database|function|method|module|package|service))\b)"
)
#: Names of naming styles, which are not symbols of a project.
CASES = lazy_regex(r"\b(?:camelCase|snake_case|PascalCase|kebab-case|SCREAMING_SNAKE_CASE|UPPER_CASE)\b")
#: The end of a sentence, if no capital letter follows.
SOFT_END = lazy_regex(
    r"(?<=[\w)`\"'][.!?;])\s+(?=[a-zäöü])|(?<=\.\.\.)\s+|(?<=…)\s*|\s+[–—]\s+(?=(?i:just kidding|no|wait|sorry|"
    r"actually|scratch)\b)"
)
ABBREVIATION = lazy_regex(r"\b(?:e\.g|i\.e|vs|etc|cf|approx|resp|bzw|z\.b|d\.h|p\.ej)\.$", _ANY)
PLAIN_LINE = lazy_regex(r"^(?!\s*(?:[-*+•|>#]|\d{1,3}[.)]\s|```|~~~)).*[\w)`\"']$")
NEGATION = lazy_regex(r"\b(?:not|never|no|avoid|stop|don'?t|nicht|kein\w*|nie|nunca)\b", _ANY)

# --- Spelling ---------------------------------------------------------------------------------------------------------

_SHORT = {"pls": "please", "plz": "please", "dont": "don't", "doesnt": "doesn't", "cant": "can't", "alway": "always"}
_CUES = ("always", "never", "remember", "please", "immer", "niemals", "toujours", "jamais", "siempre", "nunca")
#: Misspellings of cue words that are words in their own right.
_NO_SLIPS = frozenset(("nuca", "nuna", "neve", "neer", "never", "sempre", "pleas"))


def _slips(word: str) -> set[str]:
    """Return a word with two letters exchanged, one doubled, or one left out; its first letter stays."""
    inner = range(1, len(word))
    exchanged = {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inner if at + 1 < len(word)}
    return exchanged | {word[:at] + word[at] + word[at:] for at in inner} | {word[:at] + word[at + 1 :] for at in inner}


_MEANT = {slip: word for word in _CUES for slip in _slips(word) - _NO_SLIPS} | _SHORT
_WORD = lazy_regex(r"[^\W\d_]{3,10}")


def as_meant(sentence: str) -> str:
    """Return a sentence with misspellings and shorthand in its cue words corrected, for judging."""
    return _WORD.sub(lambda word: _MEANT.get(word[0].lower(), word[0]), sentence)
