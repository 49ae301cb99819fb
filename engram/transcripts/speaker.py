"""Decide who speaks: the only rule by which words in the user's place count as the user's, for every agent. Pure.

Two things decide together: the fields that the agent writes next to a message (``claude_code_speaker``,
``codex_speaker``), and the element that fills it (``judge``). Missing fields indicate a person, because older versions
do not write them. Elements are judged by an allow-list: an element that is not known to contain a person's words counts
as containing none, and its name is stored with the turn, so that a later version can judge it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from engram.system.lazy_regex import any_case, lazy_regex


class Speaker(StrEnum):
    """Who wrote a message in the user's place."""

    PERSON = "person"
    #: A program that uses the agent: an SDK, print mode, ``codex exec``, a plugin that speaks for the user.
    PROGRAM = "program"
    #: Another agent, session or channel.
    AGENT = "agent"
    SCHEDULE = "schedule"
    #: The agent's own program: notifications, reminders, output, summaries.
    HARNESS = "harness"


class Words(NamedTuple):
    """The content of a message in the user's place, without tags."""

    speaker: Speaker
    #: The speaker's words; "" if they contain no request.
    text: str = ""
    #: Parts of the message that the speaker did not write, such as pasted text.
    beside: tuple[str, ...] = ()
    #: Name of the element that fills the message, if that element is unknown; ``text`` is then its content.
    unknown: str = ""
    #: A slash command or shell command as it was typed (``/plan the parser``), whether or not it makes a request.
    command: str = ""
    #: True if the command starts something that is not a response to the previous prompt.
    is_start: bool = False

    @property
    def is_prompt(self) -> bool:
        """True for words of a person or a program, which open a turn."""
        return bool(self.text) and not self.unknown and self.speaker in (Speaker.PERSON, Speaker.PROGRAM)


# -- the fields of Claude Code

#: Kinds of ``origin`` that can deliver a person's words, if another field says that a person wrote them.
_MESSENGERS = frozenset({"channel", "voice-call", "slack-ping"})
_ORIGINS = {
    "human": Speaker.PERSON,
    "channel": Speaker.AGENT,
    "voice-call": Speaker.AGENT,
    "slack-ping": Speaker.AGENT,
    "peer": Speaker.AGENT,
    "coordinator": Speaker.AGENT,
    "observer": Speaker.AGENT,
    "observer-activity": Speaker.AGENT,
}
_SUBKINDS = {
    "scheduled-trigger": Speaker.SCHEDULE,
    "peer-send-message": Speaker.AGENT,
    "projects-relay": Speaker.AGENT,
}
_TURN_ORIGINS = {
    "scheduled": Speaker.SCHEDULE,
    "peer": Speaker.AGENT,
    "task_notification": Speaker.HARNESS,
    "auto_continuation": Speaker.HARNESS,
    "host_synthetic": Speaker.HARNESS,
    "system": Speaker.HARNESS,
}
_TYPED_SOURCES = frozenset({"typed", "queued", "suggestion_accepted", "user"})
_TYPED_TURNS = frozenset({"human", "user"})
#: Front ends in which a person types even though they use the SDK.
_FRONT_ENDS = ("claude-desktop", "claude-vscode", "claude-jetbrains")
_PROGRAM_ENTRYPOINTS = ("sdk", "mcp", "claude-code-github-action", "remote_trigger", "remote_cowork_trigger")
#: A word in the name of a front end that indicates that nobody types there.
_UNATTENDED = lazy_regex(
    r"(?:^|[^a-z])(?:exec|sdk|mcp|ci|bot|actions?|automation|cron|batch|webhook|scheduler|runner|hook|trigger)(?![a-z])"
)
#: Marks of words that are attributed to a person but were written, changed or sent by a program.
_NOT_TYPED = ("textNotTyped", "promptRewritten", "handedOff", "queueSkipAttachments", "queueTranscriptOnly")
#: Marks of words that came from somebody else.
_FROM_OTHERS = ("emailSenderTurn", "fromConnector")
_HARNESS_FLAGS = (
    *("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "repeatsCompactSummary", "turnCompanion"),
    *("isSynthetic", "isApiErrorMessage", "isVirtual"),
)
#: Names of the call of a tool that put its words on the line.
_OF_A_TOOL = ("sourceToolUseID", "parent_tool_use_id")


def claude_code_speaker(fields: Mapping[str, Any]) -> Speaker:
    """Return who wrote a Claude Code line, judging only by its fields.

    Args:
        fields: the line; for a queued command, its attachment, completed with the fields of the line that it lacks.
    """
    speaker = _speaker(fields)
    is_anothers = _role(fields) != "user" or any(map(fields.get, _OF_A_TOOL))
    return Speaker.HARNESS if is_anothers and speaker is Speaker.PERSON else speaker


def _speaker(fields: Mapping[str, Any]) -> Speaker:
    if fields.get("isSidechain") is True or fields.get("agentId"):
        return Speaker.AGENT
    origin = _origin(fields)
    kind = origin.get("kind")
    if kind is not None and kind != "human":
        return _other_origin(str(kind), origin, fields)
    is_meta = any(fields.get(flag) is True for flag in _HARNESS_FLAGS)
    if fields.get("verifiedSlackHumanTurn") is True and not is_meta:
        return Speaker.PERSON
    if is_meta or fields.get("promptSource") == "system" or fields.get("humanTurn") is False:
        return Speaker.HARNESS
    if fields.get("wakeupSource") or fields.get("hostInitiator") == "scheduled-task":
        return Speaker.SCHEDULE
    if (turn_origin := _TURN_ORIGINS.get(str(fields.get("turnOrigin")))) is not None:
        return turn_origin
    if any(map(fields.get, _FROM_OTHERS)):
        return Speaker.AGENT
    if any(map(fields.get, _NOT_TYPED)):
        return Speaker.PROGRAM
    return Speaker.PERSON if kind == "human" or _says_typed(fields) else _without_origin(fields)


def _role(fields: Mapping[str, Any]) -> object:
    """Return the role of the message on a line; the user's for lines that name none."""
    message = fields.get("message")
    return (message.get("role") if isinstance(message, dict) else None) or "user"


def _origin(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the origin of a line.

    A value that isn't an object becomes the kind of the origin, because a value of unknown form does not indicate a
    person.
    """
    origin = fields.get("origin")
    return origin if isinstance(origin, dict) else {"kind": None if origin is None else str(origin)}


def _other_origin(kind: str, origin: Mapping[str, Any], fields: Mapping[str, Any]) -> Speaker:
    if kind in _MESSENGERS and (_says_typed(fields) or fields.get("verifiedSlackHumanTurn") is True):
        return Speaker.PERSON
    if kind == "plugin":
        return Speaker.PROGRAM if origin.get("asUser") is True else Speaker.HARNESS
    if kind == "task-notification":
        return _SUBKINDS.get(str(origin.get("subkind")), Speaker.HARNESS)
    return _ORIGINS.get(kind, Speaker.HARNESS)


def _says_typed(fields: Mapping[str, Any]) -> bool:
    return (
        str(fields.get("turnOrigin")) in _TYPED_TURNS
        or str(fields.get("promptSource")) in _TYPED_SOURCES
        or fields.get("humanTurn") is True
    )


def _without_origin(fields: Mapping[str, Any]) -> Speaker:
    if fields.get("teamName") and fields.get("agentName"):
        # This is a member of a team in its own process, whose prompts come from the lead. The lead itself has no name.
        return Speaker.AGENT
    entrypoint = str(fields.get("entrypoint") or "")
    if entrypoint.startswith(_FRONT_ENDS):
        return Speaker.PERSON
    # Typed prompts are marked as such; prompts from a source that this version does not recognise may be anybody's.
    is_program = bool(fields.get("promptSource") or fields.get("turnOrigin"))
    is_program = is_program or entrypoint.startswith(_PROGRAM_ENTRYPOINTS) or bool(_UNATTENDED.search(entrypoint))
    return Speaker.PROGRAM if is_program else Speaker.PERSON


#: Fields of every line of a session that show who types in it.
_OF_SESSION = ("entrypoint", "teamName", "agentName")
#: Placeholder for these fields until a line has them; until then, it is unknown whether a person types there.
UNKNOWN_SESSION: dict[str, str] = {"promptSource": "unknown"}


def session_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a line that also apply to lines of its session without such fields, such as queue lines."""
    return {name: value for name in _OF_SESSION if isinstance(value := fields.get(name), str)}


def came_by_messenger(fields: Mapping[str, Any]) -> bool:
    """Return True for a line that arrived through a messenger channel or a call."""
    return str(_origin(fields).get("kind")) in _MESSENGERS


def declares_person(fields: Mapping[str, Any]) -> bool:
    """Return True if the origin of a Claude Code line declares that a person wrote it."""
    return _origin(fields).get("kind") == "human"


# -- the fields of Codex

#: Sources where a person types; any other source is a program.
_CODEX_PERSONS = frozenset({"cli", "vscode", "unknown"})


def codex_speaker(head: Mapping[str, Any]) -> Speaker:
    """Return who writes the prompts of a Codex session, according to the head of its rollout."""
    source, originator = head.get("source"), str(head.get("originator") or "")
    if isinstance(source, dict):
        # {"subagent": …}, {"custom": …}: the prompts come from an agent, or from a named program.
        return Speaker.AGENT if any(str(key).startswith("sub") for key in source) else Speaker.PROGRAM
    is_program = bool(source) and str(source) not in _CODEX_PERSONS
    return Speaker.PROGRAM if is_program or _UNATTENDED.search(originator.lower()) else Speaker.PERSON


# -- elements


class _Use(StrEnum):
    """The kind of content in an element in the user's place."""

    #: Inserted around or between words. It is removed, and the remaining text decides.
    INSERTED = "inserted"
    #: Inserted into a prompt by a person, but written by somebody else.
    PASTED = "pasted"
    #: A person's words.
    PERSON = "person"
    #: Words that were sent through a messenger, which are a person's if the fields say so.
    MESSENGER = "messenger"
    AGENT = "agent"
    SCHEDULE = "schedule"
    HARNESS = "harness"


_NAMES = {
    _Use.INSERTED: "system-reminder system_reminder ide_opened_file ide_selection ide_diagnostics "
    "user-prompt-submit-hook post-tool-use-hook session-start-hook browser_instruction total_tokens new-diagnostics "
    "in-app-browser-context artifact-view-context hook_context "
    # What other memory programs recall into a prompt.
    "claude-mem-context deja-recall hindsight_memories memory-context relevant-memories relevant_memories "
    "supermemory-context",
    _Use.PASTED: "pasted_content pasted-content fetched-web-content untrusted-widget-state untrusted-uploads "
    "persisted-output terminal browser attached_file attached-file",
    _Use.PERSON: "user-memory-input",
    _Use.MESSENGER: "channel slack-ping slack-tag-message voice-call-talk voice-call",
    _Use.AGENT: "teammate-message agent-message cross-session-message coordinator-relay peer-message "
    "observer-message subagent_notification fork-boilerplate",
    _Use.SCHEDULE: "scheduled-task scheduled_task tick wake heartbeat",
    _Use.HARNESS: "command-name command-message command-args command-contents skill-format local-command-stdout "
    "local-command-stderr local-command-caveat bash-input bash-stdout bash-stderr bash-exit-code task-notification "
    "tool_use_error function_results sandbox_violations remote-review remote-review-progress forked-skill-launch "
    "fork-source artifact-origin-notes artifact-stored-declaration mcp-resource-update mcp-polling-update "
    # Codex and its plugins.
    "apps_instructions codex_internal_context collaboration_mode environment_context goal_context hook_prompt "
    "INSTRUCTIONS model_switch permissions personality_spec plugins_instructions recommended_plugins skill "
    "skills_instructions turn_aborted user_instructions user_shell_command "
    # Gemini CLI.
    "session_context state_snapshot",
}
#: Elements of web pages. They indicate that a person pasted code or is asking about it.
_MARKUP = frozenset(
    "a abbr article aside audio b blockquote body br button canvas circle code col dd details dialog div dl dt em "
    "fieldset figure footer form g h1 h2 h3 h4 h5 h6 head header hr html i iframe img input label legend li link main "
    "meta nav ol optgroup option p path picture pre rect script section select small span strong style sub summary sup "
    "svg table tbody td template textarea tfoot th thead title tr u ul video xml".split()
)
#: The name of a component, as in JSX.
_COMPONENT = lazy_regex(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*")
_USES = {name: use for use, names in _NAMES.items() for name in names.split()}
_SPEAKERS = {
    _Use.AGENT: Speaker.AGENT,
    _Use.MESSENGER: Speaker.AGENT,
    _Use.SCHEDULE: Speaker.SCHEDULE,
    _Use.HARNESS: Speaker.HARNESS,
}
#: Beginnings of messages written by the agent's program, some of which older versions do not mark in any other way.
_HARNESS_BEGINNINGS = (
    "[Request interrupted by user",
    "[SYSTEM NOTIFICATION - NOT USER INPUT]",
    "[Your previous response had no visible output",
    "Caveat: The messages below",
    "This session is being continued from a previous conversation",
    "Base directory for this skill: ",
    "Stop hook feedback:",
    "UserPromptSubmit operation blocked by hook",
    "Operation stopped by hook",
    "A session-scoped Stop hook is now active with condition: ",
    "Your response was cut off because it exceeded the output token limit",
    "[Cross-session delivery notice]",
    "[Cross-session idle notice]",
    "[Subagent hand-back]",
    "[SUGGESTION MODE: ",
    "Please analyze this codebase and create a CLAUDE.md file",
    "Unknown skill: ",
    "Unknown slash command: ",
    # Codex
    "# AGENTS.md instructions",
    "Another language model started to solve this problem",
    "Warning: apply_patch was requested via",
    "Generate a file named AGENTS.md that serves as a contributor guide",
    # Gemini CLI
    "This is the Gemini CLI.",
    "You are an AI agent that brings the power of Gemini directly into the terminal.",
    "System: Potential loop detected.",
    "Here is the user's editor context as a JSON object.",
    "Here is a summary of changes in the user's editor context,",
    # claude-mem, which observes a session from another one
    "You are a Claude-Mem, a specialized observer tool",
    "Hello memory agent, you are continuing to observe",
    "PROGRESS SUMMARY CHECKPOINT\n",
)
#: Messages of the agent's program that are recognised only if nothing else is in the message.
_HARNESS_MESSAGES = frozenset(
    {"Continue from where you left off.", "Tool loaded.", "No response requested.", "System: Please continue."}
)
#: The marker by which a loop wakes the agent.
_LOOP_MARK = lazy_regex(r"<<[\w-]{1,60}>>")
#: The beginning of an automation's prompt, as written by Codex's app.
_AUTOMATION = lazy_regex(r"Automation: [^\n]{0,300}\nAutomation ID: \S")
#: The sentences that Claude Code puts before and after a message of another session.
_PEER_SENTENCE = "Another Claude session sent a message"
_BEFORE_PEER = lazy_regex(rf"^{_PEER_SENTENCE}(?: while you were working)?:[ \t]*\n\s*", re.MULTILINE)
_AFTER_PEER = lazy_regex(
    r"^(?:This came from another Claude session|That [\"“]other Claude session[\"”] is)\b[^\n]*(?:\n[^\n]+)*",
    re.MULTILINE,
)
#: Slash commands with arguments that configure something or are meant for somebody else, and are not a request to the
#: model.
_SETTINGS = frozenset(
    "add-dir agents branch bug cd clear color config context copy cost doctor effort exit export fast "
    "feedback help hooks ide keybindings login logout mcp memory model output-style permissions plugin "
    "privacy-settings remote-control rename resume rewind sandbox skills status statusline tag tasks terminal-setup "
    "theme usage vim voice".split()
)
_NAME = r"[A-Za-z][\w.:-]{0,60}"
_OPENING = lazy_regex(rf"<({_NAME})(?:\s[^<>]{{0,2000}})?(/?)>")
#: A tag. Private tags are kept, because the text between them is dropped later.
_TAG = any_case(rf"</?(?!private\b){_NAME}(?:\s[^<>]{{0,2000}})?/?>")
#: The beginning of an element, even if its tag is cut off or has a ``>`` in a value.
_BEGINNING = lazy_regex(rf"<({_NAME})(?=[\s>/])")
_COMMAND_PART = lazy_regex(r"\s*<(command-(?:message|name|args|contents)|skill-format)>(.*?)</\1>", re.DOTALL)
_SHELL_COMMAND = lazy_regex(r"<bash-input>(.*?)</bash-input>", re.DOTALL)
#: Text by which older versions show that the model, not the person, called a skill.
_LOADED_SKILL = lazy_regex(r'The "[^"\n]{1,100}" skill is loading')
#: A slash command as it was typed, without tags.
_TYPED_COMMAND = lazy_regex(r"/[\w:.-]+(?=\s|$)")
#: Claude Code's notes on where it stored a picture and at what size the picture is shown.
_PICTURE_NOTE = lazy_regex(r"\[Image: (?:source: |original \d)[^\]\n]*\]\n?")
_LEAD_IN = lazy_regex(r"[^\n<]{1,120}:\s*\n\s*(?=<)")
_BLANK_LINES = lazy_regex(r"\n\s*\n\s*\n+")


def judge(blocks: Sequence[str], speaker: Speaker, *, is_declared: bool = False, by_messenger: bool = False) -> Words:
    """Return the words of a message in the user's place, and who speaks.

    Args:
        speaker: who wrote it, according to its fields.
        is_declared: True if a field declares that a person wrote it, which only an element that fills the message can
            refute.
        by_messenger: True if it arrived through a messenger channel.
    """
    text = "\n".join(block for block in map(without_inserted, blocks) if block)
    if not text:
        return Words(Speaker.HARNESS)
    if not (text := _without_peers(text)):
        return Words(Speaker.AGENT)
    if (command := _slash_command(text)) is not None:
        return command._replace(speaker=speaker) if command.text else command
    if shell := _SHELL_COMMAND.match(text):
        return Words(Speaker.HARNESS, command=shell[1].strip(), is_start=True)
    if speaker not in (Speaker.PERSON, Speaker.PROGRAM):
        return Words(speaker)
    if not is_declared and (text.startswith(_HARNESS_BEGINNINGS) or text in _HARNESS_MESSAGES):
        return Words(Speaker.HARNESS)
    if _LOOP_MARK.fullmatch(text) or _AUTOMATION.match(text):
        return Words(Speaker.SCHEDULE)
    typed = _TYPED_COMMAND.match(text)
    if typed and (typed.end() == len(text) or sets_something(text)):
        return Words(Speaker.HARNESS, command=text, is_start=not sets_something(text))
    return _judge_elements(text, speaker, is_declared=is_declared, by_messenger=by_messenger)


def typed_words(text: str) -> str:
    """Return the words of a prompt in the form passed to hooks, with pasted text but without tags.

    Return "" if no person wrote it.
    """
    words = judge([text], Speaker.PERSON)
    return "\n".join([words.text, *words.beside]).strip() if words.is_prompt else ""


def sets_something(command: str) -> bool:
    """Return True for a typed command with arguments that are not a request to the model, such as ``/model opus``."""
    return command.split(maxsplit=1)[0].removeprefix("/") in _SETTINGS or is_engrams(command)


def is_engrams(command: str) -> bool:
    """Return True for the command of Engram's mod, which needs no answer from the model."""
    return command.split(" ", 1)[0] == "/engram"


def is_interruption(text: str) -> bool:
    """Return True for the line that Claude Code writes when the user interrupts it."""
    return text.startswith("[Request interrupted by user")


def written_beginnings() -> tuple[str, ...]:
    """Return the beginnings of messages in the user's place that neither a person nor a program wrote.

    Slash commands are not included, because their arguments may be a person's words.
    """
    names = [name for name, use in _USES.items() if use in _SPEAKERS and use is not _Use.MESSENGER]
    names = [name for name in names if not _COMMAND_PART.match(f"<{name}></{name}>")]
    return (*_HARNESS_BEGINNINGS, *(f"<{name}{end}" for name in names for end in "> "))


def persons_elements() -> str:
    """Return the names of the elements that contain a person's words, separated by spaces."""
    return " ".join(sorted(name for name, use in _USES.items() if use is _Use.PERSON))


def is_persons_element(name: str) -> bool:
    """Return True if this version recognises the element as containing a person's words."""
    return _USES.get(name) is _Use.PERSON


def without_inserted(text: str) -> str:
    """Return the text without the blocks that programs insert before, after and between its lines.

    An unclosed block extends to the end of the text if it begins a line.
    """
    kept, at = [], 0
    unclosed: set[str] = set()
    for opening in _OPENING.finditer(text):
        if opening.start() < at or _USES.get(opening[1]) is not _Use.INSERTED:
            continue
        stop = _end_of(text, opening, unclosed)
        if stop == opening.end() and not opening[2] and _begins_line(text, opening.start()):
            stop = len(text)
        if stop > opening.end():
            kept.append(text[at : opening.start()])
            at = stop
    return _PICTURE_NOTE.sub("", _BLANK_LINES.sub("\n\n", "".join([*kept, text[at:]])) if at else text).strip()


def _judge_elements(text: str, speaker: Speaker, *, is_declared: bool, by_messenger: bool) -> Words:
    beginning = _BEGINNING.match(text)
    lead_in = None if beginning else _LEAD_IN.match(text)
    quoted = text[lead_in.end() :] if lead_in else text
    first = beginning or _BEGINNING.match(quoted)
    use = _USES.get(first[1]) if first else None
    if first and (use is _Use.PERSON or (use is _Use.MESSENGER and by_messenger and speaker is Speaker.PERSON)):
        return Words(speaker, *_without_others(_persons_content(quoted, first[1])))
    if use in _SPEAKERS and (_fills(quoted) or not (is_declared or lead_in)):
        return Words(_SPEAKERS[use])
    text, beside = _without_others(text)
    if not text:
        return Words(Speaker.HARNESS, beside=beside)
    first = _BEGINNING.match(text)
    if first and not _is_known(first[1]) and speaker is Speaker.PERSON and _fills(text):
        return Words(Speaker.HARNESS, _untagged(_content(text)), beside, unknown=first[1])
    return Words(speaker, text, beside)


def _without_peers(text: str) -> str:
    """Return the text without messages from other sessions, which Claude Code frames with its own sentences.

    Everything up to the last such sentence counts as a message, because a message may imitate such a sentence.
    """
    before = _BEFORE_PEER.search(text) if _PEER_SENTENCE in text else None
    if before is None:
        return text
    stop = max((after.end() for after in _AFTER_PEER.finditer(text, before.end())), default=0)
    if not stop and (opening := _OPENING.match(text, before.end())) is not None:
        close = f"</{opening[1]}>"
        at = text.rfind(close, opening.end())
        stop = at + len(close) if at >= 0 else 0
    return f"{text[: before.start()].rstrip()}\n\n{text[stop:].lstrip()}".strip() if stop else text


def _slash_command(text: str) -> Words | None:
    """Return a slash command as it was typed, whatever the order of its tags.

    Return None if the message is not a slash command.
    """
    parts: dict[str, str] = {}
    at = 0
    while (part := _COMMAND_PART.match(text, at)) is not None:
        parts.setdefault(part[1], part[2].strip())
        at = part.end()
    name = parts.get("command-name") or parts.get("command-message", "").split(" is running")[0]
    if not parts or not name:
        return None
    if _LOADED_SKILL.fullmatch(parts.get("command-message", "")):
        return Words(Speaker.HARNESS)
    name = f"/{name.lstrip('/')}"
    arguments = text.partition("<command-args>")[2].rpartition("</command-args>")[0].strip()
    arguments, beside = _without_others(without_inserted(arguments))
    command = f"{name} {arguments}".strip()
    is_start = text.lstrip().startswith("<command-message>") and not sets_something(name)
    if not arguments or sets_something(name):
        return Words(Speaker.HARNESS, command=command, is_start=is_start)
    return Words(Speaker.PERSON, command, beside, command=command)


def _without_others(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without the elements that contain somebody else's words, and the content of those elements."""
    kept, others, at = [], [], 0
    unclosed: set[str] = set()
    for opening in _OPENING.finditer(text):
        use = _USES.get(opening[1])
        is_other = use is _Use.PASTED or (use in _SPEAKERS and _begins_line(text, opening.start()))
        stop = _end_of(text, opening, unclosed) if is_other and opening.start() >= at else 0
        if stop > opening.end():
            kept.append(text[at : opening.start()].rstrip(" \t"))
            content = _content(text[opening.start() : stop])
            others.append(content if use is _Use.PASTED else _untagged(content))
            at = stop
    return "".join([*kept, text[at:]]).strip(), tuple(content for content in others if content)


def _untagged(text: str) -> str:
    """Return a program's text without the tags within it; a person's pasted text keeps them."""
    lines = (line.strip() for line in _TAG.sub("\n", text).splitlines())
    return "\n".join(filter(None, lines))


def _is_known(name: str) -> bool:
    return (
        name in _USES or name.lower() in _MARKUP or name.lower() == "private" or _COMPONENT.fullmatch(name) is not None
    )


def _begins_line(text: str, at: int) -> bool:
    while at and text[at - 1] != "\n" and text[at - 1].isspace():
        at -= 1
    return not at or text[at - 1] == "\n"


def _end_of(text: str, opening: re.Match[str], unclosed: set[str]) -> int:
    """Return where the element of an opening tag ends; if the element is never closed, where the tag itself ends.

    Args:
        unclosed: the names of elements that aren't closed any more, which this updates. Without it, a long text with
            many such tags would be searched to its end for each of them.
    """
    close = None if opening[2] or opening[1] in unclosed else _close_of(text, opening)
    if close is None and not opening[2]:
        unclosed.add(opening[1])
    return opening.end() if close is None else close.end()


def _close_of(text: str, opening: re.Match[str]) -> re.Match[str] | None:
    """Return the tag that closes an element.

    Some closing tags repeat an attribute, so that the content can't imitate them.
    """
    return re.compile(rf"</{re.escape(opening[1])}(?:\s[^<>]{{0,200}})?>").search(text, opening.end())


def _fills(text: str) -> bool:
    """Return True if the text consists only of elements."""
    text, at = text.strip(), 0
    while at < len(text):
        opening = _OPENING.match(text, at)
        if opening is None:
            return False
        if text.endswith(f"</{opening[1]}>"):
            return True
        stop = _end_of(text, opening, set())
        if stop == opening.end() and not opening[2]:
            return False
        at = stop
        while at < len(text) and text[at].isspace():
            at += 1
    return bool(text)


def _persons_content(text: str, name: str) -> str:
    """Return the words in every element with this name, and after the last one, without the tags of these elements."""
    return re.sub(rf"</?{re.escape(name)}(?:\s[^<>]{{0,2000}})?/?>[ \t]*\n?", "\n", text).strip()


def _content(text: str) -> str:
    """Return the words within elements, without their tags at the beginning and the end."""
    text = text.strip()
    opening = _OPENING.match(text)
    if opening is None or opening[2]:
        return "" if opening is not None and opening.end() == len(text) else text
    close = f"</{opening[1]}>"
    if text.endswith(close):
        return text[opening.end() : -len(close)].strip()
    found = _close_of(text, opening)
    inside, after = (
        ("", text[opening.end() :]) if found is None else (text[opening.end() : found.start()], text[found.end() :])
    )
    return "\n".join(part for part in (inside.strip(), _content(after) if after.strip() else "") if part)
