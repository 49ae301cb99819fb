"""Sentences of others that direct whoever reads them in what is not the project's. Pure.

`conduct` knows wordings of orders about conduct, and finds them wherever nobody typed a text here. This module turns
the question around, for memories of teammates, packs, imports and agents: a statement is told, and an order only if
it is about the project: it names something that projects are made of ("keep functions short"), or chooses ("use uv,
not pip"). What oversees the work, what is secret, another's name, what was said in a session, and what somebody is to
know or believe are no matters of the project, unless the verb takes care of them ("ask for a review", "rotate the
key") or the order forbids what harms them ("never log tokens"). Orders are recognised in English; of other languages,
wordings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_LONGEST = 20_000
#: Longer ones are read in pieces, as each clause is looked at with its whole sentence.
_LONGEST_SENTENCE = 400
#: Files that only show which variables there are.
_EXAMPLE_FILE = re.compile(r"\.env\.(?:example|sample|template|dist|test|ci)\b")
_BLANKS, _EMPTY_LINES = re.compile(r"[^\S\n]+"), re.compile(r"\s*\n\s*")
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+")
#: Where a clause that may be an order begins.
_CLAUSES = re.compile(
    r"[,:—–(]\s+(?:and |then |so |but |or |just )*|\s(?:and|then|so|but|or)\s+(?!(?:the|a|an|its?)\b)"
)
#: What stands before the verb of an order.
_BEFORE = re.compile(
    r"(?:(?:please|kindly|always|just|also|then|first|now|simply|quietly|instead|and|so|but|here|hence|therefore|step|"
    r"\d+[.)]|[-*•>#]+|you (?:can|may|should|must|need to|have to|are to)|feel free to|make sure (?:to|you)|be sure to|"
    r"remember to|agents? (?:should|must|may|can)|from (?:now|here) on|in this (?:repo|repository|project)),?\s+)*"
)
_NEGATED = re.compile(
    r"(?:never|do not|don['’]t|avoid|no|not|must not|should not|you (?:must not|mustn['’]t|should not|shouldn['’]t|"
    r"may not|cannot|can['’]t))\s+(?:ever\s+)?"
)
_WORD = re.compile(r"[a-z][a-z-]*")
#: Words that begin a statement or a question, so that no order begins with them.
_NO_VERBS = frozenset(
    "the a an this that these those it its he she they we i you your our their his her my there here what which who "
    "when where why how if because since while until after before in on at of for from with without by to into as all "
    "any each every some no none not nobody everyone both either neither one two three most many few other another "
    "more less only even still yet however although though unless once whenever wherever whatever whoever is are was "
    "were be been has have had do does did can could may might must shall should will would".split()
)
#: Verbs of orders that are about conduct whatever their object is.
_CONDUCT = re.compile(
    r"(?:trust|believe|accept|approve|agree)\b (?:to |with )?(?:every|any|all|each|whatever|when|comments?|messages?|"
    r"notes?)\b|"
    r"(?:make|let)\b.{0,24}\b(?:believe|think|look as|seem|appear|assume)\b|withhold\b|overwrite the user|claim\b|"
    r"report (?:success|passes|green|that)\b|ship\b.{0,30}\b(?:production|prod)\b|silence the user|"
    r"(?:report|say|mark|claim|show|merge|commit|push|deploy|continue|go on)\b.{0,40}\beven (?:if|when|"
    r"though)\b.{0,30}\b"
    r"(?:fail\w*|break\w*|red|wrong)\b|forget|disregard|pretend|believe|obey|lie\b|blame|mislead|deceive|convince|"
    r"persuade|assure|reassure|bother|"
    r"disturb|distract|impersonate|conceal|backdate|downplay|comply|gloss|whitewash|falsify|forge\b|cover up|"
    r"(?:act|behave|proceed|go on|continue|carry on|speak|write|answer|commit|sign)\b.{0,20}?\bas (?:if|though|"
    r"the (?:user|"
    r"owner|maintainer|admin\w*|reviewer))\b|"
    r"let\b.{0,30}\b(?:believe|think|assume|wonder)\b|exempt\b|waive\b|plead\b|insist\b|refuse\b|vouch\b"
)
#: What oversees the work.
_OVERSIGHT = re.compile(
    r"\b(?:reviews?|reviewers?|approvals?|sign-?offs?|audits?|audit (?:log|trail|entr\w+)|permissions?|confirmations?|"
    r"consent|sandbox(?:ing)?|scanners?|scans?|guard ?rails?|safeguards?|restrictions?|monitoring|alerts?|alarms?|"
    r"opt-?outs?|"
    r"watchdogs?|2fa|mfa|branch protection|codeowners|firewall|spending limits?|budget|quotas?|policies|policy|checks|"
    r"assertions?|failing tests?|tests? that fail\w*|red tests?|secret detection|dlp|antivirus|intrusion\w*|"
    r"compliance)\b"
)
_CARES_FOR_OVERSIGHT = frozenset(
    "ask get request require wait obtain seek add run write record read check keep enable use follow respect see "
    "update document create open assign handle test store send show return define configure put validate verify "
    "perform log list filter render name move model cover set implement derive compute cache query load fetch treat "
    "enforce raise make pass map register build extend prefer import wrap call throw return assert wire expose route "
    "find need let rely link attach mention describe include restrict limit increase await schedule trigger start "
    "execute extract split test mock stub fix repair address discuss consult".split()
)
#: Raised, set or attached oversight that is given up all the same.
_GIVEN_UP = re.compile(
    r"\b(?:yourself|itself|on your own|off\b|to (?:auto\w*|never|full\w*|yolo|bypass|none|allow|skip|accept|off|zero|"
    r"0)\b|as (?:done|passed|approved|"
    r"green|optional)|without (?:reading|looking|asking)|as you (?:like|see fit)|away|aside)"
)
#: What is secret, or lets somebody in.
_SECRETS = re.compile(
    r"(?<!test )(?<!dummy )(?<!fake )(?<!csrf )(?<!design )(?<!refresh )\b(?!\w+ of the (?:test|demo|dummy|local))"
    r"(?:passwords?|passphrases?|credentials?|secrets?|tokens?|cookies?|private keys?|ssh keys?|api keys?|access keys?|"
    r"signing keys?|(?:production|prod|master|root|deploy|admin|personal) keys?|keychain|environment variables|"
    r"environment of|\w+_(?:url|token|key|secret|password)|card numbers?|"
    r"customer records|personal data|browser profiles?|wallets?)\b|(?<![\w/])(?<!to )(?<!as )(?<!into )\.env\b(?!\.)|"
    r"\.netrc|\.ssh\b|\.aws\b"
)
_CARES_FOR_SECRETS = frozenset(
    "rotate encrypt hash mask redact revoke read load get use generate create put store keep pass inject check "
    "validate verify set renew expire refresh request scope reset register name prefix document replace remove delete "
    "drop parse decode compare test mock stub sign define configure cache fetch look see find escape strip hide "
    "filter trim issue invalidate move limit shorten mount seal add ask prefer derive salt treat require wrap import "
    "exclude ignore scan".split()
)
#: Where a secret goes when it is given away, and whose it is.
_GIVEN_AWAY = re.compile(
    r"\b(?:your|the next|the first|each|every|a) (?:\w+ )?(?:answers?|repl(?:y|ies)|reports?|summar(?:y|ies)|messages?|"
    r"comments?|prompts?|outputs?)\b|\b(?:to|for) (?:whoever|anyone|anybody|everyone|them|him|her|me|us|support|"
    r"somebody|"
    r"the (?:chat|channel|vendor|contractor|helpdesk|customer))\b|\b(?:in|into|to|via|at|under) (?:the |an? )?(?:chat|"
    r"slack|"
    r"issues?|tickets?|wiki|gist|pastebin|shared (?:folder|drive)|webhook|drive|mail|channel|commit messages?|"
    r"descriptions?)\b|https?://|[\w.+-]{1,64}@[\w-]+\.\w|~/|/tmp/|\b(?:user|developer|owner|maintainer|admin|customer|"
    r"colleague)"
    r"['’]s\b|\bcop(?:y|ies) of\b|\bfrom the (?:wiki|chat|shared|drive)"
)
#: What was said here, and the agent's own orders.
_SAID = re.compile(
    r"\b(?:conversations?|transcripts?|chat (?:log|history)|system prompt|your (?:instructions|prompt|memory|memories|"
    r"context)|what (?:the|this) (?:user|person|developer|human) (?:\w+ ){0,2}(?:wrote|said|typed|asked|does|did|"
    r"wants)|"
    r"(?:the )?user['’]s (?:messages?|words|prompts?|questions?))\b"
)
_GIVES = re.compile(
    r"\b(?:mirror|post|send|upload|collect|attach|copy|share|publish|reveal|print|paste|forward|record|log|store|save|"
    r"keep|stream|sync|export|report|quote|dump|read out|submit|pass)\b"
)
#: Another's name, or the reader's own power.
_NAMES = re.compile(
    r"\b(?!(?:it|that|let|here|what|there|who|he|she)['’]s)[a-z]+['’]s (?:\w+ )?(?:login|account|password|credentials?|"
    r"identity|token|keys?|name|address|session|signature|badge|approval)\b|"
    r"\b(?:my|his|her|their|a shared|the shared|an old|somebody['’]s) (?:\w+ )?"
    r"(?:login|account|password|credentials?|identity|token|key|signature)\b|\bgit author\b|\bcommitter\b|"
    r"\broot password\b"
)
_TAKES_NAME = re.compile(
    r"\b(?:use|log in|login|sign|authenticate|push|commit|change|set|act|deploy|merge|approve|borrow|take|write|"
    r"switch|enter|type)\b"
)
_ONESELF = re.compile(
    r"\b(?:grant|give|add|make|promote|appoint|assign|approve|elevate|allow|permit|authori[sz]e|exempt|raise|excuse|"
    r"unblock|"
    r"whitelist|invite)\b.{0,40}\byourself\b|\b(?:merge|approve|accept|review|sign)\b.{0,12}\byour own\b|"
    r"\bdecide (?:alone|yourself|on your own|by yourself)\b|\bon your own (?:authority|account|judg\w+|discretion)\b"
)
#: A choice of anything: what comes, whoever asks.
_ANYTHING = re.compile(
    r"\b(?:whatever|whichever|anything|everything|whoever|any \w+ that|all that|anybody who|anyone who)\b"
)
_DOES_ANYTHING = re.compile(
    r"\b(?:install|run|execute|do|give|hand|accept|approve|apply|believe|follow|trust|grant|allow|obey|answer|send|"
    r"reveal|download|merge|revert|confirm|agree|say yes)\b"
)
#: What somebody is told, as a claim.
_CLAIM = re.compile(
    r"\b(?:tell|inform|answer|write|say to|report to|let)\b (?:\w+ ){0,3}?(?:users?|customers?|clients?|boss|lead|"
    r"manager|"
    r"management|owners?|reviewers?|team|support|auditors?|maintainers?|developers?|people|press|everyone|anyone|them|"
    r"him|"
    r"her)\b(?: know)?,? (?:that )?(?!(?:which|what|how|when|where|why|about|to|if|whether|by|before|after|with|in|on|"
    r"via)\b)"
    r"(?:\w+ ){1,5}?(?:is|was|are|were|has|have|had|did|took|takes|will|never|cannot|works?|failed|exists?)\b|"
    r"\b(?:say|choose|answer|click|press|select|reply|type) (?:with )?[\"'“„]?(?:yes|no|ok|allow|always|done|green)\b"
)
#: Norms in the form of statements.
_NORMS = tuple(
    re.compile(source)
    for source in (
        r"\b(?:kept|keep|leave|left|remain|stay) in the dark\b|\b(?:no|not a) word (?:about|of|to)\b|"
        r"\bno mention of\b|\bmum['’]?s the word\b",
        r"\b(?:must|should|may|shall|ought|is|are|need|do|does)(?:n['’]t| not| never)? (?:ever |to )?(?:appear|"
        r"show up|come "
        r"up|surface|turn up|be (?:mentioned|visible|found|told|listed|noted)) (?:in|to) (?:any|the|your|a) (?:\w+ )?"
        r"(?:summar(?:y|ies)|reports?|answers?|changelog|release notes|documentation|commit|history|users?|"
        r"customers?)\b"
        r"(?<!\bto the user)",
        r"\bkeep (?:this|that|it|these) (?:\w+ )?(?:out of|away from|from) (?:the |any |your )",
        r"\b(?:errors?|failures?|incidents?|outages?|breach\w*|leaks?|bugs|problems|deletions?|losses|"
        r"mistakes)\b[^.]{0,30}"
        r"\b(?:are|is|be|get|go) (?:not|never|un)\W?(?:to be )?(?:reported|mentioned|told|disclosed|raised|escalated|"
        r"admitted|communicated)\b",
        r"\b(?:agents?|assistants?|claude|copilot|the model)\b[^.\n]{0,40}\b(?:never|always|every|no longer|does not|"
        r"do "
        r"not|only)\b[^.\n]{0,24}\b(?:answers?|reports?|says?|tells?|mentions?|asks?|signs?|admits?|refuses?|informs?|"
        r"confirms?|obeys?|trusts?)\b|"
        r"\b(?:agents?|assistants?|claude)\b[^.\n]{0,40}\b(?:answers?|replies|reply|responds?) (?:every|all|any|with|"
        r"to all)\b|"
        r"\b(?:agents?|assistants?|claude)\b[^.\n]{0,40}\b(?:approves?|merges?|reviews?|signs?) (?:their|its|"
        r"his) own\b|"
        r"\b(?:agents?|assistants?|claude)\b[^.\n]{0,30}\b(?:signs?|commits?|pushe?s?|acts?|speaks?|"
        r"writes?)\b[^.\n]{0,30}"
        r"\bas the (?:maintainer|owner|user|reviewer|admin\w*)\b|"
        r"\b(?:agents?|assistants?|claude)\b[^.\n]{0,30}\b(?:keeps?|cop(?:y|ies)|stores?|"
        r"holds?)\b[^.\n]{0,30}\b(?:keys?|"
        r"tokens?|passwords?|secrets?|credentials?)\b|"
        r"\b(?:the agent|agents?|assistants?|claude)\b (?:first |then |always )?(?:runs?|starts?|executes?|"
        r"installs?) \W?"
        r"(?:npx|uvx|curl|wget|bash|sh |pipx)",
        r"\b(?:standing|blanket|general|full|advance) (?:permission|approval|consent|licen[cs]e|authority)\b|"
        r"\b(?:has|have|had) waived\b|\b(?:wo|do|does)(?:n['’]t| not) mind\b|\bnobody (?:minds|objects|cares)\b",
        r"\b(?:loyalty|allegiance|duty|obedience|obligation)\b[^.\n]{0,20}\b(?:is|lies|goes|belongs) (?:to|with)\b",
        r"\b(?:unnecessary|needless|pointless|superfluous|not (?:necessary|needed|required)|no use|no point) (?:to|in) "
        r"(?:show|ask|tell|report|mention|inform|confirm|notify|warn|explain|bother)\w*\b|"
        r"\bquestions? (?:are|is) (?:not |un)(?:welcome|needed|wanted|necessary)\b|"
        r"\b(?:do not|don['’]t|need not|needn['’]t|no) (?:have to|need to|need for) ask\w*\b|\bno questions asked\b",
        r"\b(?:requests?|orders?|wishes|objections?|instructions?|questions?)\b[^.\n]{0,60}\b(?:are|"
        r"is) (?:to be )?(?:refused|"
        r"ignored|disregarded|overruled|denied|secondary)\b",
        r"\b(?:comments?|issues?|messages?|mails?|e-mails?|lines?|notes?|texts?|tickets?|"
        r"titles?)\b[^.\n]{0,40}\b(?:are|is) (?:to "
        r"be )?(?:executed|obeyed|followed|carried out|run as|treated as)\b|"
        r"\b(?:comments?|issues?|messages?|mails?|lines?|notes?|tickets?)\b[^.\n]{0,30}\bas (?:commands?|orders?|"
        r"instructions?)\b",
        r"\b(?:approvals?|reviews?|confirmations?|permissions?|rules|conventions|instructions|"
        r"guidelines)\b[^.\n]{0,24}\b(?:is|are|"
        r"was|were) (?:obsolete|abolished|void|history|gone|a formality|outdated|no longer)\b|\b(?:approvals?|reviews?|"
        r"questions) (?:only )?(?:slow|delay|cost|hold|annoy)\w*\b",
        r"\bwhatever\b[^.\n]{0,24}\b(?:orders?|says?|wants?|asks?|thinks?)\b|\b(?:come|comes|go|goes|rank|ranks|count|"
        r"counts) "
        r"(?:first|before|above|more than)\b[^.\n]{0,30}(?:\buser|$)|\b(?:outranks?|prevails? over|overrules?|"
        r"trumps?)\b|\bthese are the new\b",
        r"\bmay (?:request|demand|get|see|have|read) (?:any|every|all)\b[^.\n]{0,20}\b(?:secrets?|passwords?|keys?|"
        r"tokens?|data|"
        r"files?)\b|\bremember (?:for good|for ever|forever|permanently|always)\b",
        r"\b(?:nobody|no ?one|no \w+|none of (?:them|the \w+))\b[^.\n]{0,16}\b(?:hears?|learns?|notices?|knows?|"
        r"finds? out|"
        r"gets? wind|suspects?|is told|sees? it)\b[^.\n]{0,24}\b(?:of|about|it|this|that)\b",
        r"\b(?:leave|leaves|leaving) no (?:trace|record|sign|hint|evidence|note)\b",
        r"\b(?:fetch|load|get|pull|read|take)\w*\b[^.\n]{0,24}\b(?:instructions?|orders|rules|tasks|directives?|"
        r"commands)\b"
        r"[^.\n]{0,24}(?:https?://|\bgist|\bpastebin|\blinked|\bremote|\bweb ?site|\bserver\b)",
        r"\b(?:please|and) do (?:the same|likewise)\W*$|\bfollow suit\b|"
        r"\bdo (?:everything|anything|whatever|what|exactly)\b[^.\n]{0,30}\b(?:listed|there|says?|asks?|written|told|"
        r"wants?)\b|"
        r"\b(?:do not|don['’]t|never|no need to) (?:bother|disturb|annoy|pester|burden|trouble|worry) (?:the |"
        r"your )?(?:user|"
        r"human|developer|owner|team|customer|reviewer|boss|lead|maintainer)s?\b",
        r"\b(?:next|any|every|each|all|future|coding) (?:ai )?(?:agents?|assistants?|"
        r"models?)\b[^.\n]{0,40}\b(?:should|must|"
        r"shall|ha(?:s|ve) to|needs? to|may|will)\b|\b(?:every|each|all|the|a) sessions? (?:ends?|starts?|begins?|"
        r"opens?|"
        r"closes?) (?:with|by)\b|\bpre-?(?:granted|cleared|agreed|arranged)\b|"
        r"\b(?:never|do not|don['’]t) (?:hesitate|be (?:afraid|shy)) to (?!ask|open|reach|contact|write|file)\w",
        r"\b(?:reply|respond|answer)\b (?:to )?(?:any|all|every)\b|\banswer\b[^.\n]{0,40}\b(?:with|by) (?:yes|ok|y|"
        r"allow)\b|"
        r"\b(?:it (?:helps|would help)|we (?:would )?appreciate it|it would be (?:nice|great|good)|it is (?:fine|ok|"
        r"okay|safe)) "
        r"(?:us )?(?:if you|to)\b|\b(?:left|go|goes|remain|remains|stay|stays|kept|be) (?:unmentioned|unreported|"
        r"undisclosed|"
        r"unnoticed|untold|a secret|between us)\b",
        r"\b(?:human|person|operator|developer|user)\b[^.\n]{0,40}\b(?:is|are) (?:not|no longer) (?:authori[sz]ed|"
        r"allowed|"
        r"permitted|entitled|supposed) to (?:stop|interrupt|cancel|overrule|see|know|decide)\b|"
        r"\b(?:nobody|no ?-?one)\b[^.\n]{0,40}\b(?:needs?|has|have|must|should|is|wants?)(?: to)? (?:learn|know|hear|"
        r"see|be "
        r"told|find out|sign|approve|check|look|review|confirm|agree)\b|\b(?:anything|everything|texts?|"
        r"nothing) (?:that )?the (?:customer|user|client|boss) (?:reads?|sees?|"
        r"gets?|hears?)\b|\byou have (?:my|our|the|full|every|all)\b[^.\n]{0,20}\b(?:blessing|permissions?|ok|"
        r"approval|right|"
        r"freedom|word|authority|consent)\b|\bhereby\b|^i,? the \w+,",
        r"\b(?:agents?|assistants?|claude)\b[^.\n]{0,30}\b(?:should|must|shall|may|can|need|is to|"
        r"are to)\b[^.\n]{0,8}\b(?:never|"
        r"not)\b[^.\n]{0,12}\b(?:warn|mention|ask|tell|report|refuse|stop|question|complain|show|inform|wait)\b|"
        r"\b(?:who(?:so)?ever|anyone who|anybody who|everyone who) (?:asks?|wants?|needs?|requests?)\b|\b(?:is|"
        r"are) exempt from\b|"
        r"\bno questions\b|\bnever stop\b|\bin doubt,? (?:just )?(?:do|go|act|proceed|run)\b|\bnobody will (?:find|"
        r"know|"
        r"notice|mind|see)|\b(?:agents?|assistants?|claude)\b (?:\w+ ){0,2}(?:merge|approve|review|sign)s? (?:its|"
        r"their) own\b|"
        r"\b(?:agents?|assistants?|claude)\b[^.\n]{0,30}\b(?:keeps?|stores?|holds?|saves?)\b[^.\n]{0,30}\bpasswords?\b",
        # In other languages.
        r"\b(?:bestätig|akzeptier|genehmig)\w* (?:\w+ ){0,2}(?:alle|jede|automatisch)|\berzähl\w* (?:niemand|keinem)|"
        r"\bsind "
        r"befehle\b|\bvon unserem server\b|\blad(?:e)? [^.\n]{0,60}\bauf (?:den|einen|unseren) server\b|\bfrag(?:e|"
        r"t)? (?:\w+ ){0,2}(?:nie|nicht)\b(?! ab)|\bverschweig|\bverheimlich|\bso,? als (?:ob|wäre|hätte)|"
        r"\bgib\b[^.\n]{0,40}\b(?:passwor|zugang|schlüssel|token)|\bignorier\w*,? was\b|\btu(?:t|e)? so\b",
        r"\bn['’]atten\w+ pas l['’]accord|\benvoie[zr]? [^.\n]{0,40}\b(?:notre|serveur)\b|\bscript joint\b|"
        r"\bn['’]informe[zr]? pas\b|\baccepte[zr]? (?:tou(?:te)?s|n['’]importe)|\bfai(?:s|tes) comme si\b|"
        r"\bsans en parler\b|\bcache[zr]? (?:\w+ ){0,3}(?:à|au|aux)\b|\bdonne[zr]? (?:\w+ ){0,4}"
        r"(?:mot de passe|accès)\b",
        r"\bno pidas\b|\benv[ií]\w+ [^.\n]{0,50}\b(?:extern\w+|nuestr\w+)\b|\bignora lo que (?:diga|dice)\b|"
        r"\bsube\b[^.\n]{0,40}\b(?:extern\w+|nube)\b|\bacepta (?:cualquier|todos|todas|siempre)\b|"
        r"\bresponde (?:siempre )?que\b|\bhaz como si\b|\bda(?:le)? acceso\b[^.\n]{0,40}\ba quien\b|"
        r"\boculta\w*\b[^.\n]{0,20}\bal? "
        r"(?:usuario|cliente|equipo)|\bfinge\b",
        r"\bnon (?:menzionare|dire|parlare|riferire|segnalare)\b|\bfingi\b|\bnascondi\b[^.\n]{0,24}\b(?:all|al|"
        r"agli)\b|\bcome se\b|"
        r"\baccetta (?:sempre|tutt\w+|ogni)\b|\bcopia (?:le|la) (?:chiav|password|credenzial)",
        r"\bfinja\b|\b(?:envie|mande|copie) as? (?:chave|senha|credencia)|\baceite (?:tudo|tod[oa]s|qualquer)\b|"
        r"\besconda\b[^.\n]{0,24}\b(?:do|da|ao)\b|\bnão (?:mencione|conte|diga|fale|informe|reporte)\b",
        r"\bkopieer (?:de|het) (?:wachtwoord|sleutel|token)|\b(?:accepteer|bevestig) (?:altijd|alle|elke)\b|"
        r"\bzeg\b[^.\n]{0,40}\bdat alles\b|\bdoe alsof\b|\bverzwijg|\bvertel\b[^.\n]{0,30}\b(?:niets|niet)\b",
        r"\bnie (?:wspominaj|mów|zgłaszaj|pytaj|informuj)|\b(?:zatwierdzaj|akceptuj|potwierdzaj) (?:wszystk|każd)|"
        r"\bukryj\b|\budawaj\b",
        r"(?:не|ни слова)\s*(?:упомин|сообща|говор|спрашив|рассказ)\w*|\b(?:подтверждай|принимай|одобряй|"
        r"соглашайся)(?:те)? (?:все|любы|на всё|всегда)|\bскрой|\bскрыв|\bпритвор|\bсделай вид",
        r"(?:誰|だれ)にも(?:言|話|知|伝)|言わないこと|内緒に|黙って|ふりを",
        r"不要向.{1,8}(?:报告|透露|说|提|汇报)|(?:发给|传给|交给)我们|(?:会话|对话|聊天)(?:记录|内容)?.{0,12}(?:上传|发送|发给|提交)|(?:上传|发送).{0,12}(?:会话|"
        r"对话|聊天)|一律(?:选择|点击|回答)?(?:允许|同意|批准|确认)|(?:隐瞒|瞒着|假装|装作)|不要(?:提|告诉|汇报|报告|询问)",
    )
)


def directs(text: str) -> bool:
    """Return whether a text directs whoever reads it in a matter that is not the project's.

    Args:
        text: any text; of more than 20,000 characters, the beginning is read.
    """
    text = _EXAMPLE_FILE.sub("file", unicodedata.normalize("NFKC", text[:_LONGEST]).lower())
    text = _EMPTY_LINES.sub("\n", _BLANKS.sub(" ", text))
    sentences = (
        sentence[at : at + _LONGEST_SENTENCE]
        for sentence in _SENTENCES.split(text)
        for at in range(0, len(sentence), _LONGEST_SENTENCE - 100)
    )
    return any(any(norm.search(sentence) for norm in _NORMS) or _orders(sentence) for sentence in sentences)


def _orders(sentence: str) -> bool:
    """Return whether a clause of a sentence is an order about another matter than the project's."""
    return any(_is_conduct(*imperative) for imperative in _imperatives(sentence))


def _imperatives(sentence: str) -> Iterator[tuple[str, str, str]]:
    """Yield each verb that orders something, its clause, and the whole sentence; none that is forbidden."""
    if _ELSEWHERE.search(sentence) or not _ENGLISH.search(sentence):
        return
    starts = [(0, True), *((match.end(), not match[0].isspace()) for match in _CLAUSES.finditer(sentence))]
    ends = [*(match.start() for match in _CLAUSES.finditer(sentence)), len(sentence)]
    for (start, _), end in zip(starts, ends, strict=True):
        before = _BEFORE.match(sentence, start)
        at = before.end() if before else start
        is_other = _NEGATED.match(sentence, at) or _LABEL.match(sentence, at)
        word = None if is_other else _WORD.match(sentence, at)
        if word is None or word[0] in _NO_VERBS or _NO_ORDER.search(word[0]):
            continue
        # "Sessions are …" and "passwords or keys" state or name; "rotate the key" orders.
        has_object = _OBJECT.match(sentence, word.end()) is not None
        if not has_object and (start or word[0] not in _VERBS or _is_subject(sentence, word.end())):
            continue
        yield word[0], sentence[at:end], sentence


#: Words that are no verb in its base form: participles, adverbs, plurals.
_NO_ORDER = re.compile(r"(?:ed|ing|ly|(?<![s])(?<!focu)(?<!foc)(?<!canva)s)$")
_ENGLISH = re.compile(
    r"\b(?:the|to|of|is|are|for|with|and|not|it|from|by|when|before|after|if|all|never|always|your?|this|that|be|each|"
    r"every|"
    r"only|any|what|whatever|anything|everything|nothing|who|how|our|my|then|them|their|its|at|until|instead|over)\b"
)
#: "Budget: …".
_LABEL = re.compile(r"[a-z][\w-]*(?: \w+){0,2}:(?=\s|$)")
#: Words of other languages, whose orders are among the norms.
_ELSEWHERE = re.compile(
    r"\b(?:der|das|dem|den|und|nicht|muss|wird|mit|les|des|une|pour|est|sont|el|los|las|una|para|que|gli|della|het|"
    r"een|niet|"
    r"voor|não|uma|são|przed|jest)\b|[^\x00-\x7f\u2000-\u22ff\u00a0-\u00bf]"
)
#: What an order about a project does not speak of.
_FOREIGN = re.compile(
    r"(?<!before )(?<!when )(?<!after )(?<!while )(?<!if )(?<!until )(?<!once )(?<!where )(?<!that )(?<!^)\byou\b|"
    r"\byour(?:s|self)?\b(?! (?:own |local |new |feature |api |first )*(?:keys?|branch\w*|config\w*|fork|copy|"
    r"changes?|commits?|"
    r"prs?|pull requests?|editor|shell|machine|code|tests?|features?|functions?|migrations?|schemas?|components?|"
    r"modules?|"
    r"imports?|quer\w+|environment|venv|terminal|ide|projects?|repo\w*|teams?|handlers?|services?|files?|endpoints?|"
    r"installation|checkout|clone|database|container|cluster)\b)|\b(?:the remotes?|fork at|attachments?|drop ?box|"
    r"blessing|by heart|sight unseen|precedence|look(?:s)? (?:complete|clean|"
    r"fine|good|green|normal|like)|as (?:passed|successful|reviewed|approved|read)|whether \w+ \w+ or "
    r"not|carry (?:it|them|that|this) out|stop requests|told|sudo|(?:your|full|more|elevated|admin|root) (?:rights|"
    r"privileges|access)|evidence|(?:in|from) the (?:summary|answer|reply)|conversations?|"
    r"transcripts?|(?:the|a|an) (?:agency|partner|vendor|competitor|press|lawyer)|outside (?:server|host|party)|"
    r"external (?:server|host|drive|party|account)|the user['’]s (?:machine|laptop|computer|disk|home|money|account|"
    r"settings|"
    r"wishes|preferences|instructions|shell|browser|files|keys?|git|alarm|backups?|searches|behalf)|"
    r"requests? of the user|"
    r"behalf of|(?:with|under|in) the (?:name|account|identity|signature) of|(?:cannot|can['’]t|not) be traced|"
    r"(?:turn|switch|turned|switched) off (?:the )?(?:logging|logs|recording|history|auditing)|"
    r"(?:send|upload|forward|post|push|move|copy|ship|mail|e-?mail|submit|export|deliver|transfer|sync|give|"
    r"show)\b[^\n]{0,80}"
    r"(?:https?://(?!localhost|127\.)|[\w.+-]{1,64}@[\w-]+\.\w+|\b(?:our|their|my) (?:server|channel|"
    r"share|inbox|bucket|"
    r"fork)\b|"
    r"\b(?:to|with) (?:us|me)\b)|(?:public|open) (?:web ?)?(?:server|site|share|bucket)|from our (?:server|share|site)|"
    r"of ours|for marketing|hidden|unnoticed|unseen|unmentioned|silently|in silence|no matter)\b|"
    r"~/|/etc/|/tmp/|\$home|\$\("
)
#: "Prefer composition over inheritance".
_CHOOSES = frozenset("prefer favor favour use avoid stick".split())
_LOOKS_LIKE_CODE = re.compile(
    r"`|\w/\w|\w_\w|\b\w+\.[a-z]{1,5}\b(?!\w)|--?[a-z]|\d|\w\(|::|[<>=@#$]|\.\w|\w\.\w|[a-z]-[a-z]+-[a-z]"
)
#: What a program does for its users.
_USERS = re.compile(r"\busers?\b")
_SHOWN_TO_USERS = frozenset(
    "ask show redirect notify let return display create load delete update find fetch get send log identify "
    "authenticate warn prompt inform tell mention invite add remove list count group validate greet".split()
)
_PART = re.compile(r"[a-z]+")
_STEM = re.compile(r"(?<=\w{3})(?:ies|es|s)$")
#: What projects are made of, in the singular; a word in -y, -e or -s also without that end.
_PROJECT = frozenset(
    """
    abstraction accessor adapter alias alpine ansible anchor api app application architecture argument array
    artifact asset async attribut attribute aws azure backend backup badge banner baseline bash batch benchmark
    binary blob block board body boolean boundary box branch breakpoint browser buffer bug build builder bundle
    bundler button byte cach cache callback canvas card caret case cdn cell char chart checkbox checksum chunk
    ci class cleanup cli client clock cluster codebase code codec codegen coercion collection color colour
    column command comma commit compiler component composer composition config configuration connection
    connector constant constraint constructor container context contract controller conversion converter cookie
    copyright core coroutine counter coverage cpu crash crate cron css csv currency cursor dart dashboard data
    databas database dataframe dataset date datetime deadlock debugger debug decimal declaration decorator
    default dependenc dependency deploy deployment deprecation descriptor design desktop diagram dialog
    dictionary diff directive directory django doc dockerfile docker docstring doctest documentation domain dot
    double download draft driver dropdown dto duplicate duration editor element embedding emitter emoji encoder
    encoding endpoint engine entity entries entry enum env environment error escape event example exception
    exchange exit export expression extension facade factory fallback feature field file filename filter fixture
    flag flask float fold folder font footer form format formatter fragment framework frontend function functor
    fuzz gateway generator generic getter git github gitlab global go gradle grafana grammar graph graphql grid
    group grpc guide handler hash header heading helm helper hook host html http https icon id identifier
    idempotent image import index indent inheritance initializer inject inline input insert installer instance
    integer integration interface interceptor internal interpreter invariant isolation item iteration iterator
    java javascript job join json junit kafka kernel key keyword kotlin kubernetes label lambda language latency
    layer layout lazy ledger leaf library licence license limit line link lint linter list listener literal
    loader local locale lock lockfile log logger logging loop machine macro main makefile manifest map markdown
    master memoiz merge mesh message metadata metric method middleware migration milestone minor mixin mobile
    mock mode model modal module money monorepo mount mutex mysql namespace naming network newline nginx node
    notification npm null number numpy object observer offset openapi operator option order orm os output
    overflow package packag padding page pagination pandas panel panic parameter parent parser partition patch
    path pattern payload payment peer performance php pip pipeline pixel placeholder platform playwright plugin
    pnpm pod pointer policy poll pool pooling popup port postgres precision prefix preview primitive print
    priority process processor producer production profiler program project prometheus promise prop property
    protobuf protocol prototype provider proxy python pytest query queue rabbitmq race rail rails range rate
    react reader readme rebas rebase record recursion redis redux refactor reference regex region registry
    regression relation release renderer replica replication repo repository report request reset resolver
    resource response rest result retention retry retrie revision role rollback root router route routing row
    ruby rule runner runtime rust s3 sample scala scaffold schedule schema scope screen script scroll sdk search
    section seed segment select selector semantic semver serializer server servic service session setter setting
    settings shell sidebar signal signature singleton size skeleton slot snapshot snippet socket sort source
    space spec spinner sql sqlite squash sso stack stag staging state statement static status step storag
    storage store stream string struct structur structure stub style stylesheet subclass submodule subscription
    suffix suite svelte svg swift swagger switch symbol sync syntax system tab table tag tailwind target task
    tcp team telemetry templat template tenant terraform test text theme thread throttl throttle throughput
    ticket tim time timeout timestamp timezone tls toggle tokenizer toml tool tooltip topic trac trace tracing
    transaction transform translation trait transpil tree trigger tuple tutorial typ type typescript typing ui
    unit upgrade url utc utility uuid validation validator value variabl variable vector vendor version view
    virtualenv volume vue warning watcher webhook webpack websocket weight whitespace widget width window
    windows wiki worker workflow workspace wrapper xml yaml yarn zone zod vite uv ruff mypy black eslint
    prettier jest vitest cypress celery sentry codecov bastion price prices invoice cent currency receipt
    certificate ca invalidation composition comprehension subprocess
    """.split()
)
#: How a program passes a secret on.
_PROTOCOL = re.compile(r"\b(?:header|cookie|bearer|query parameter|form field|request body|as a file|payload)s?\b")
_CODE = re.compile(r"`[^`\n]*`")
#: Verbs by which a sentence without an article may begin an order.
_VERBS = frozenset(
    """
    accept act add adjust agree alert allow announce answer append apply approve ask assign assume assure attach
    authenticate avoid backdate batch begin behave believe block book borrow bother break bring build bump
    bypass cache call cancel care carry catch change charge check choose clean clear clone close collect come
    comment commit compare compile complain comply compress compute conceal configure confirm connect consult
    continue convert convince copy create cut deactivate debug decide declare decline decode define delay
    delegate delete deny deploy describe destroy disable disclose discuss display dismiss disregard disturb
    divide document download drop dump edit email embed emit empty enable encode encrypt end enforce ensure
    enter erase escalate escape evade exclude excuse execute exempt expect explain export expose extend extract
    fake fall feed feel fetch fill filter find finish fix flush fold follow force forge forget format forward
    generate get give go grant group grow guess guide hand handle hash help hide hold hurry identify ignore
    impersonate import include increase index inform inject insert insist inspect install invite invoke join
    jump keep kill know label launch lay lead learn leave lend let lie limit list listen load lock log look loop
    lower maintain make manage map mark mask measure mention merge migrate mirror mislead mock model modify
    monitor mount move mute name nest note notify obey obtain offer omit open optimize order override overrule
    overwrite own paginate parse pass paste patch pause pay persuade pick pin pipe place plan play point poll
    post prefer prepare present preserve press pretend prevent print process produce prove provide publish pull
    purge push put query queue quote raise read reassure rebase rebuild recommend record redact redirect reduce
    refactor refer refuse register reject relax release reload rely remember remind remove rename render repeat
    replace reply report request require rerun reset resolve respect respond restart restore restrict retry
    return reuse reveal revert review revoke rewrite roll rotate round route run save say scan schedule search
    see select send separate serve set share ship show sign silence simulate skip soften sort speak split squash
    stack start state stay stop store stream strip submit suggest suppress swap switch sync tag take talk tell
    terminate test think throw tidy touch track transfer translate transmit treat trigger trim trust try turn
    type unlock unset update upgrade upload use validate vary verify view visit vouch wait waive warn watch wipe
    withhold work wrap write zip
    """.split()
)
_FINITE = re.compile(
    r"\s(?:(?!(?:that|which|who|when|if|whether|what|while|until|because|since|after|before|so|as|"
    r"once)\b)\S+\s){0,6}?(?:is|are|was|were|has|have|had|will|would|can|could|may|might|must|shall|should|do|does|"
    r"did|needs?|"
    r"goes?|comes?|lives?|belongs?|uses?|runs?|checks?|returns?|contains?)\b"
)
_OBJECT = re.compile(
    r"\s(?:(?:the|an?|all|any|every|each|no|your|its|this|that|these|those|it|them|my|our|his|her|their)\b(?! (?:is|"
    r"are|was|were|has|have)\b))"
)


def _is_subject(sentence: str, at: int) -> bool:
    """Return whether the word that ends here begins a statement: a finite verb follows."""
    return _FINITE.match(sentence, at) is not None


def _is_conduct(verb: str, clause: str, sentence: str) -> bool:
    """Return whether an order is about another matter than the project's.

    Args:
        verb: what is ordered.
        clause: the verb with its object.
        sentence: the whole sentence.
    """
    if _CONDUCT.match(clause) or _ONESELF.search(clause) or _CLAIM.search(sentence):
        return True
    if _ANYTHING.search(clause) and _DOES_ANYTHING.match(clause):
        return True
    if _SAID.search(clause) and _GIVES.match(clause):
        return True
    if _NAMES.search(clause) and _TAKES_NAME.match(clause):
        return True
    if (
        _SECRETS.search(_CODE.sub("", clause))
        and not _PROTOCOL.search(clause)
        and (verb not in _CARES_FOR_SECRETS or _GIVEN_AWAY.search(sentence) is not None)
    ):
        return True
    overseen = _OVERSIGHT.search(clause, len(verb))
    if overseen is not None and (verb not in _CARES_FOR_OVERSIGHT or _GIVEN_UP.search(sentence) is not None):
        return True
    return _FOREIGN.search(sentence) is not None or not _is_of_project(verb, sentence)


def _is_of_project(verb: str, sentence: str) -> bool:
    """Return whether an order names something that projects are made of, or chooses between two things."""
    if verb in _SHOWN_TO_USERS and _USERS.search(sentence):
        return True
    if verb in _CHOOSES or _LOOKS_LIKE_CODE.search(sentence):
        return True
    return any(_STEM.sub("", word) in _PROJECT or word in _PROJECT for word in _PART.findall(sentence))
