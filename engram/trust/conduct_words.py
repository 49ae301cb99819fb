"""English patterns of orders about conduct, and orders about secrets in other languages. All in lower case.

``conduct_concepts`` has the words by which sentences in any language are recognised as being about conduct.
"""

from __future__ import annotations

WHO_READS = (
    r"(?:\b(?:ai|llm|coding|autonomous|language) ?-?(?:agents?|assistants?|models?|tools?|systems?|readers?|"
    r"reviewers?|bots?)|"
    r"\b(?:agents?|assistants?|claude(?: code)?|copilot|codex|gemini|chatbots?|llms?|ais|anthropic)\b|\bthe model\b|"
    r"\bwho(?:ever|soever)? reads (?:this|it)\b|\banyone reading\b|\byou\b)"
)
#: A character of a clause that contains no negation so far.
UNDENIED = r"(?:(?!\b(?:not|never|cannot|neither|without)\b|n['’]t\b)[^.\n])"
#: What comes before the verb of an order.
ORDER = (
    r"(?:(?:^|[.!?:;,(\"'“„«>*•|#)]|(?<=\s)-)\s*|\b(?:and|then|please|kindly|always|also|first|next|now|just|"
    r"simply|quietly|"
    r"silently|secretly|immediately|instead|must|should|shall|or|finally|so|only|bitte|to|step \d+:?|(?:ha(?:s|ve)|"
    r"needs?|"
    r"required?|supposed|expected|ought|asked|told|allowed|free|sure|wants?|likes?|prefers?|you|them|us|it|"
    r"hesitate|forget|"
    r"fail|approved|authori[sz]ed) to)\s+)"
)


def act(verbs: str, *, is_loose: bool = False) -> str:
    """Return a pattern for an order to do something, or for an agent that does it.

    Args:
        verbs: alternatives, in their base form.
        is_loose: whether a bare infinitive with "to" counts as an order, too.
    """
    order = ORDER if is_loose else ORDER.replace("bitte|to|", "bitte|")
    inflected = rf"(?:{verbs})(?:e?s|ing|ed)?"
    return rf"(?:{order}(?:{verbs})\b|{WHO_READS}\b{UNDENIED}{{0,60}}\b{inflected}\b)"


USER = (
    r"(?:the |your |our |this |any )?(?:user|human|developer|owner|maintainer|operator|reviewer|boss|team ?lead|"
    r"security team|admin(?:istrator)?|engineer|person|customer)"
)
ANYBODY = rf"(?:{USER}|anyone|anybody|somebody|someone|people|them|him|her|us|me|others|the team)"
THIS = (
    r"(?:this|that|it|these|those|any of (?:this|that|it)|the (?:extra |new |additional |hidden )?(?:\w+ "
    r")?(?:change|changes|"
    r"request|requests|commit|step|instruction|instructions|note|edit|file|remote|deletion|upload|failure|failures|"
    r"rule|"
    r"message|dependency|command|fact|diff|output|log|result|warning|prompt|conversation)s?)"
)
HARD_SECRETS = (
    r"(?:(?<![\w/])\.env\b(?!\.)|\benv(?:ironment)? (?:vars?|variables?|values?|file)|\bssh[- ]keys?|"
    r"\bid_rsa|\bid_ed25519|\bprivate keys?|\.aws\b|\.ssh\b|\.netrc\b|\.npmrc\b|\.kube/config|\bkeychain|"
    r"/etc/(?:passwd|"
    r"shadow)|\bcredentials?\b|\bsystem prompt|\bhidden (?:instructions?|prompt)|\b(?:your|own|initial) (?:\w+ "
    r")?(?:instructions|"
    r"prompt|rules|memory|memories)\b|\b(?:the|this|our|whole|full|entire|your) (?:conversation|transcript|chat|chat "
    r"history)|\btranscripts?\b|\bchat history|\bmemory contents|\bcustomer data\b|\b(?:all|every|any|the|your|our|"
    r"whatever) (?:\w+ )?(?:secrets?|passwords?|api[ _-]?keys?|access keys?|tokens?)|\bsecrets\b|\bwhoami\b|"
    r"\bprintenv\b|"
    r"\b(?:source code|code ?base|repo(?:sitory)?(?:'s)? contents?)\b)"
)
SOFT_SECRETS = (
    r"(?:\bsecrets?\b|\b(?:api|access|signing|deploy(?:ment)?)[ _-]?keys?\b|\btokens?\b|\b\w+_(?:token|key|secret|"
    r"password)\b|"
    r"\bpasswords?\b|\bcookies?\b|\bcard numbers?\b)"
)
#: Any text that mentions a secret contains one of these.
SECRET_MARKS = (
    *(
        "secret",
        "key",
        "token",
        "password",
        "credential",
        "env",
        "id_rsa",
        "id_ed25519",
        ".aws",
        ".ssh",
        ".netrc",
        ".npmrc",
    ),
    *(
        "kube",
        "keychain",
        "/etc/",
        "prompt",
        "instruction",
        "rules",
        "memor",
        "conversation",
        "transcript",
        "chat",
        "data",
    ),
    *("whoami", "source code", "code", "repo", "cookie", "card number"),
)
OUTSIDE = (
    r"(?:https?://|\bpastebin|\bgists?\b|\brequestbin|\bngrok|\bwebhook|\b[\w.+-]+@[\w-]+\.\w|\bcommit messages?|"
    r"\bin(?:to)? "
    r"(?:every|each|all|your|the next|the) (?:commit|answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|messages?|"
    r"issue|"
    r"pull request|readme|notes?|logs?|changelog|comments?)\b|\bin(?:to)? (?:an? |the )?(?:chat|slack|issues?|"
    r"tickets?|pastes?)\b|"
    r"\breadme\b|\bnotes?\.(?:txt|md)|\b(?:branch|file) names?\b|\bpublic\b|\battacker|\bfor "
    r"debugging\b|\b(?:chat|slack|discord|telegram|external|support) (?:channel|server|bot|webhook|endpoint|address)|"
    r"\.example\b)"
)
GIVE = (
    r"send|upload|post|publish|forward|e-?mail|mail|exfiltrate|transmit|leak|share|submit|paste|reveal|print|dump|"
    r"expose|"
    r"disclose|output|echo|curl|attach|display|show|repeat|give|hand over|tell|copy|include|append|put|write|add|"
    r"embed|push|"
    r"sync|mirror|encode|report|store|save|log|collect|quote|cat"
)
GIVE_AWAY = (
    r"send|upload|post|publish|forward|e-?mail|mail|exfiltrate|transmit|leak|submit|paste|reveal|print|dump|"
    r"disclose|output|"
    r"echo|curl|attach|repeat|hand over|quote|expose|respond|reply|answer"
)
PROTECTION = (
    r"(?:permissions?\b(?! (?:check|class|model|table|cache|column))|permission (?:prompts?|checks?)|sandbox\w*|"
    r"approvals?\b|"
    r"confirmations?\b|confirmation (?:prompts?|dialogs?)|(?:code |peer )?reviews?\b(?! (?:app|environment|deploy))|"
    r"pre-commit|(?:git |commit |safety |security )?hooks?\b|guard ?rails?|safety|safeguards?|security (?:checks?|"
    r"warnings?|"
    r"rules?|scans?|prompts?)|(?:signature|tls|ssl|certificate) (?:verification|checks?|validation)|tls\b|ssl\b|"
    r"firewall|"
    r"antivirus|audit (?:logs?|trail)|branch protection|two-factor|2fa\b|human in the loop|"
    r"bestätigung\w*|berechtigung\w*|freigaben?\b|rückfragen?\b|sicherheitsprüfung\w*)"
)
#: Checks that find mistakes before others do, with words for giving them up for more than a moment.
CHECKS = (
    r"(?:(?:the|any|your|our|all) )?(?:(?:unit|integration|slow|style) )?(?:tests?(?: suite)?|linters?|linting|"
    r"type[ -]?check(?:er|ing|s)?|checks|ci|pre-commit(?: hooks?)?)\b"
)
FOR_GOOD = r"\b(?:again|any ?more|any longer|from now on|in (?:the )?future|for good|from here on)\b"
NEGATED_ORDER = (
    r"\b(?:do not|don['’]?t|never|no (?:need|reason|point) (?:to|in)|must(?: not|n['’]t)|should(?: not|n['’]t)|"
    r"need(?: not|"
    r"n['’]t)|not (?:necessary|needed|required|important|allowed) to|stop|avoid|refrain from|quit|does(?: not|"
    r"n['’]t) need "
    r"to|skip|please not)\b"
)
#: Leaving out such checks.
LEAVES_OUT_CHECKS = (
    rf"{NEGATED_ORDER}[^.\n]{{0,12}}\b(?:run|running|execute|use|start)\b {CHECKS}[^.\n]{{0,40}}{FOR_GOOD}|"
    rf"\bstop (?:running|using|executing) {CHECKS}|\bnever again (?:run|check|test|lint)\b|"
    rf"{NEGATED_ORDER} (?:ever )?(?:lint|test|check(?! in| out)|type-?check)\b[^.\n]{{0,40}}"
    r"\b(?:again|any ?more)\b|"
    rf"{ORDER}(?:(?:skip|disable|turn off|switch off|deactivate|leave out|omit) {CHECKS}|"
    rf"(?:turn|switch|leave) {CHECKS} (?:off|out)\b)"
    rf"(?:\s*(?:[.!]|$)|[^.\n]{{0,24}}(?:{FOR_GOOD}|\b(?:when(?:ever)?|before) you\b))"
)


_FOREIGN_SECRETS = (
    r"(?:\.env\b|id_rsa|\.ssh\b|\.aws\b|umgebungsvariable|zugangsdaten|anmeldedaten|passw[oö]rt|geheimnis|"
    r"(?:private\w*|"
    r"geheime\w*|ssh-?|api-?) ?schlüssel|systemprompt|variables? d['’]environnement|identifiants|mots? de passe|"
    r"secrets|clés? "
    r"(?:privée|api|secrète|ssh)|invite système|variables de entorno|credenciales|contraseñas?|claves? (?:privada|"
    r"secreta|api|"
    r"ssh)|secretos|variabili d['’]ambiente|credenziali|chiav[ei] (?:privat|segret|api|ssh)|segreti|variáveis de "
    r"ambiente|"
    r"credenciais|senhas?|chaves? (?:privada|secreta|api|ssh)|segredos|omgevingsvariabelen|inloggegevens|"
    r"wachtwoord|geheime|"
    r"токен|парол|ключ|секрет|переменные окружения|"
    r"密钥|密码|令牌|凭证|私钥|环境变量|秘密|鍵|パスワード|トークン|認証情報|環境変数|"
    r"비밀|토큰|암호|hasł|klucz|zmienne środowiskowe|şifre|parola|anahtar)"
)
_FOREIGN_GIVE = (
    r"(?:\b(?:schick|sende|verschick|verrat|veröffentlich|übermittl|poste|übertrag|gib|zeig|druck|kopier|schreib|"
    r"lad)(?:e|en|t|"
    r"st)?\b|\b(?:envoie|envoyez|publie[zr]?|poste[zr]?|affiche[zr]?|copie[zr]?|transmets|transmettez|téléverse[zr]?|"
    r"révèle[zr]?|montre[zr]?|donne[zr]?)\b|\b(?:envía|envíe|envie|manda|mande|sube|suba|publica|publique|muestra|"
    r"muestre|imprime|"
    r"imprima|revela|revele|copia|invia|inviate|mandate|pubblica|mostra|stampa|rivela|copie|envia|mostre|imprima|"
    r"revele|"
    r"stuur|verstuur|toon|plaats|upload|wyślij|pokaż|opublikuj|wypisz)\b|отправ|пришли|покажи|выведи|опублику|"
    r"скопируй|"
    r"发给|发送|上传|输出|泄露|打印|显示|送信|送って|送れ|表示し|アップロード|출력|보내|업로드|gönder|yazdır|yükle)"
)
#: The reason, the pattern, and whether a negation before it makes it harmless.
ORDERS_ELSEWHERE: tuple[tuple[str, str, bool], ...] = (
    (
        "a claim in the user's name",
        r"\b(?:der|die|vom|mit dem|laut) (?:be)?(?:nutzer|user|entwickler|anwender|"
        r"chef)(?:in)?\b[^.\n]{0,50}(?:zugestimmt|"
        r"erlaubt|genehmigt|freigegeben|abgesprochen|vereinbart|einverstanden|gestattet)|"
        r"\bl['’]utilisateur\b[^.\n]{0,50}"
        r"(?:accepté|approuvé|autorisé|donné son accord|d['’]accord|permis|consenti)|\bel "
        r"usuario\b[^.\n]{0,50}(?:aprob|"
        r"autoriz|acept|permit|acuerdo|consinti)|\bl['’]utente\b[^.\n]{0,50}(?:approvato|autorizzato|accettato|"
        r"permesso|"
        r"d['’]accordo)|\bo usuário\b[^.\n]{0,50}(?:aprov|autoriz|aceit|permit|concord)|\bde gebruiker\b[^.\n]{0,50}"
        r"(?:goedgekeurd|toegestaan|akkoord|ingestemd)|пользователь[^.\n]{0,40}(?:разреш|одобр|соглас)|用户(?:已|"
        r"已经)?(?:同意|授权|"
        r"批准|允许)|ユーザー(?:は|が)[^。\n]{0,20}(?:許可|承認|同意)|사용자[^.\n]{0,20}(?:허락|승인|동의)|użytkownik[^.\n]{0,40}"
        r"(?:zgodził|zezwolił|zatwierdził)|kullanıcı[^.\n]{0,40}(?:onayla|izin ver)",
        False,
    ),
    (
        "secrecy towards the user",
        r"\b(?:sag\w*|erzähl\w*|verrat\w*|erwähn\w*|meld\w*|informier\w*|zeig\w*|"
        r"teil\w*)\b[^.\n]{0,50}\b(?:(?:be)?nutzer|user|"
        r"anwender|entwickler|ihm|ihr|niemand\w*)\b[^.\n]{0,40}\b(?:nicht|nichts|niemand\w*|kein\w*)\b|\b(?:dem|"
        r"den|der) "
        r"(?:be)?(?:nutzer|user|anwender|entwickler)\b[^.\n]{0,30}\b(?:nichts?|kein\w*)\b[^.\n]{0,60}\b(?:sag|"
        r"erzähl|mitteil|"
        r"verrat|meld|erwähn|zeig|informier)\w*|\bniemand\w* (?:etwas |davon |was )*(?:sag|erzähl|verrat|merk|"
        r"erfähr|sieht|"
        r"wiss|weiß)\w*|\b(?:heimlich|unbemerkt|stillschweigend|unter uns)\b|\bdamit (?:es |das )?(?:niemand|"
        r"keiner)\b|"
        r"\bverschweig\w*|\b(?:frag|frage) (?:\w+ ){0,2}nicht\b(?! ab)|\bnicht (?:nach)?fragen\b",
        False,
    ),
    (
        "secrecy towards the user",
        r"\b(?:ne|n['’]|sans)\b[^.\n]{0,24}\b(?:di(?:re|s|tes)|parle[rz]?|mentionn\w+|révél\w+|signal\w+|inform\w+|"
        r"prév\w+|"
        r"avert\w+|montr\w+|affich\w+)\b[^.\n]{0,50}\b(?:utilisateur|développeur|personne|rien|ceci|cela|"
        r"changement|modification)|"
        r"\b(?:no|nunca|sin)\b[^.\n]{0,16}\b(?:dig\w+|cuent\w+|menci\w+|inform\w+|revel\w+|avis\w+|muestr\w+|"
        r"decir\w*)\b"
        r"[^.\n]{0,50}\b(?:usuario|desarrollador|nadie|nada|esto|cambio)|\bnon (?:dir\w+|menzion\w+|inform\w+|"
        r"rivel\w+|"
        r"avvis\w+|mostr\w+|raccont\w+)[^.\n]{0,50}\b(?:utente|nessuno|niente|nulla|questo|modifica)|\b(?:não|"
        r"nunca)\b"
        r"[^.\n]{0,16}\b(?:con[td]\w+|dig\w+|mencion\w+|inform\w+|revel\w+|avis\w+|"
        r"mostr\w+)\b[^.\n]{0,50}\b(?:usuário|ninguém|"
        r"nada|isso|isto|mudança)|\b(?:vertel|zeg|meld|toon|noem)\b[^.\n]{0,40}\b(?:niets|niet|niemand)\b|\bnie "
        r"(?:mów|informuj|wspominaj|pokazuj|zdradzaj)\b|\b(?:не|ничего не)\s+(?:говори|сообщай|рассказывай|"
        r"упоминай|показывай|"
        r"информируй)|(?:不要|别|勿|不必|无需|不得)[^。\n]{0,8}(?:告诉|通知|提及|透露|提到|告知|让.{0,6}知道)|ユーザー[^。\n]{0,12}"
        r"(?:知らせず|言わず|言わない|知らせない|伝えず|伝えない|報告しない|教えない|内緒|秘密)|(?:伝えないで|言わないで|知らせないで|"
        r"報告しないで|教えないで)|사용자[^.\n]{0,16}(?:알리지|말하지|보고하지|보여주지)|kullanıcıya[^.\n]{0,30}(?:söyleme|bildirme|"
        r"gösterme|bahsetme)",
        False,
    ),
    (
        "acting without asking",
        r"\bohne (?:zu fragen|nachzufragen|rückfrage|nachfrage|bestätigung|zustimmung|erlaubnis)|\bsans (?:demander|"
        r"confirmation|prévenir|autorisation|(?:l['’])?accord|poser)|\bsin (?:preguntar|pedir|confirmar|"
        r"confirmación|permiso|"
        r"avisar)|\bsenza (?:chiedere|conferma|avvisare|permesso)|\bsem (?:perguntar|pedir|confirma\w+|permissão|"
        r"avisar)|"
        r"\bzonder (?:te vragen|vragen|bevestiging|toestemming|overleg)|\bbez (?:pytania|potwierdzenia|zgody)|\bбез "
        r"(?:подтверждения|спроса|разрешения|согласия|предупреждения)",
        True,
    ),
    (
        "acting without asking",
        r"\bne (?:\w+ )?(?:demande[rz]?|pose[rz]?)\b[^.\n]{0,16}\b(?:pas|jamais|rien|aucune)\b|\b(?:no|nunca) "
        r"(?:\w+ )?"
        r"(?:pregunt|pid|pedir|confirm)\w*(?: (?:confirmación|permiso|antes|al usuario|nada))|\bnon (?:chied|"
        r"domand)\w+\b|\b(?:não|nunca) "
        r"(?:\w+ )?(?:pergunt|peç|pedir|confirm)\w*|\bvraag (?:\w+ ){0,3}(?:niet|geen)\b|\bnie pytaj\b|"
        r"не\s+(?:спрашивай|"
        r"запрашивай|уточняй)|(?:不要|别|不用|无需|不必)[^。\n]{0,4}(?:询问|问|确认|请示|征求)|"
        r"(?:跳过|省略)[^。\n]{0,8}(?:确认|审核|"
        r"审批|检查|权限)|確認[^。\n]{0,12}(?:省略|スキップ|不要|せず|しないで)|(?:許可|承認)[^。\n]{0,8}(?:不要|なし|得ず)|"
        r"(?:묻지|확인하지|물어보지)[^.\n]{0,6}(?:말|마)|확인[^.\n]{0,8}(?:없이|생략)|"
        r"(?:sormadan|onay(?:sız| almadan|lamadan))",
        False,
    ),
    (
        "acting without asking",
        r"\bohne (?:es|sie|ihn|das) (?:vorher |erst )?(?:zu (?:prüfen|lesen|kontrollieren)|anzusehen|durchzusehen)\b|"
        r"\bsans (?:(?:le|la|les) |l['’])(?:vérifier|relire|lire|examiner)\b|\bsin (?:revisar|verificar|comprobar|"
        r"mirar|"
        r"leer)(?:l[oae]s?)\b|\bsenza (?:controllar|verificar|legger|guardar)l[oaie]\b|\bsem (?:[oa]s? )?(?:verific|"
        r"revis|"
        r"l[eê]|conferi)r?\w*-?(?:l?[oa]s?)\b",
        True,
    ),
    (
        "an order about answers",
        r"(?:^|[.!?:;\n]\s*)(?:(?:sag|sage|melde|antworte|berichte|behaupte|erkläre?)(?:t|n sie)? (?:(?:de[mrn]|ihm|"
        r"ihr) )?"
        r"(?:\w+)?,? ?dass (?:alles|es|sie|die|der|das|kein\w*|nichts|wir)|(?:dis|dites|réponds|répondez|"
        r"affirme[zr]?) "
        r"(?:(?:à|aux?|lui) ?(?:l['’])?(?:\w+ )?)?(?:que|qu['’]) ?(?:tout|c['’]est|les?|la|il|rien|aucun)|(?:di|dile|"
        r"diga|"
        r"dígale|responde|afirma|reporta) (?:al? \w+ )?que (?:todo|está|los?|la|no|nada)|(?:di['’]?|dì|digli|rispondi|"
        r"riferisci) (?:all?['’ ]?\w+ )?che (?:tutto|è|i|il|le|non)|(?:diga|diz|responda|informe) (?:ao? \w+ )?que "
        r"(?:tudo|está|os?|as?|não|nada))\b",
        True,
    ),
    (
        "a command that fetches and runs",
        r"\b(?:führ|starte|exécute|lance|ejecut|corr[ea]|esegu|avvia|execut|rod[ae])\w*\b[^.\n]{0,40}\b(?:s[ck]ript\w*|"
        r"befehl\w*|commandes?|comandos?|comand[oi]|código|codice|code)\b[^.\n]{0,40}\b(?:issues?|tickets?|"
        r"kommentar\w*|"
        r"commentaires?|comentarios?|commento|commenti|comentários?|e-?mails?|correos?|courriels?)\b",
        True,
    ),
    (
        "sending secrets to outsiders",
        _FOREIGN_GIVE + rf"[^.。\n]{{0,60}}{_FOREIGN_SECRETS}|{_FOREIGN_SECRETS}[^.。\n]{{0,60}}{_FOREIGN_GIVE}",
        True,
    ),
)
