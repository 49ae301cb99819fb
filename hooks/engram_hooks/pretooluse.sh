# PreToolUse: hand over what is pending for this session: once, and never to a subagent, which has its parent's id.
# Started only where the file is there (see block.py). POSIX sh; silent and status 0 whatever is broken.
exec 2>/dev/null
LC_ALL=C
case ${ENGRAM_DISABLE:-0} in 0) ;; *) exit 0 ;; esac
id=${CLAUDE_CODE_SESSION_ID:-}
case $id in '' | *[!0-9A-Za-z_-]*) exit 0 ;; esac
[ ${#id} -le 128 ] || exit 0
CDPATH='' cd -- "${ENGRAM_HOME:-${HOME:-}/.claude-memory}/recollections" >/dev/null || exit 0

# A regular file, younger than five minutes, and no larger than an answer may be.
[ -n "$(find "./$id.pending" -type f -mmin -5 -size -65536c)" ] || exit 0

# The beginning of the payload, up to the name of the tool, says whose call it is. A stdin that stays open is given up after a moment.
exec 3<&0
beginning=$(
    head -c 16384 <&3 &
    reader=$!
    { sleep 0.2; kill $reader; } >/dev/null 3<&- &
    clock=$!
    wait $reader
    kill $clock
)
exec 3<&-
case $beginning in *'"agent_id"'*) exit 0 ;; '{'*'"tool_name"'*) ;; *) exit 0 ;; esac

# Whoever moves the file has it; the worker takes the moved one away as the receipt, so it is opened before.
text=
{
    mv -f "./$id.pending" "./$id.injected" </dev/null && text=$(cat <&4)
} 4<"./$id.pending"
# No other keys; a text that begins with one of these words stands after a colon.
case $text in
    *[!:]'"permission'* | *[!:]'"decision'* | *[!:]'"updated'* | *[!:]'"continue'* | *[!:]'"stop'* | *[!:]'"suppress'*) ;;
    '{"hookSpecificOutput"'*'}}') printf '%s\n' "$text" ;;
esac
exit 0
