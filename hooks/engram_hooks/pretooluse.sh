# PreToolUse: hand over what is pending for this session: once, never to a subagent, which has its parent's id,
# and never to a call that a mod makes by itself.
# Sourced, and only where the file is there (see block.py). $S: this file.
[ -r "${S%/*}/payload.sh" ] || exit 0
. "${S%/*}/payload.sh"
cd ./recollections || exit 0

# A regular file, younger than five minutes, and no larger than an answer may be.
[ -n "$(find "./$id.pending" -type f -mmin -5 -size -65536c)" ] || exit 0
read_payload
case $payload in
*'"agent_id"'* | *'"tool_use_id":"toolu_plugin_'* | *'"tool_use_id": "toolu_plugin_'*) exit 0 ;;
*'"tool_name"'*) ;;
*) exit 0 ;;
esac

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
