"""Judge the elements of a message in the user's place: who wrote what is between its tags. Pure.

Elements are judged by an allow-list: an element that is not known to contain a person's words counts as containing
none, and its name is stored with the turn, so that a later version can judge it again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from engram.system.lazy_regex import any_case, lazy_regex
from engram.transcripts.speaker import Speaker, Words
from engram.trust.pasted_shapes import is_markup


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
    return name in _USES or name.lower() == "private" or is_markup(name)


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
