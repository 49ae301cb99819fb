# PreToolUse: print what is pending for this session: once, never for a subagent, which has its parent's id,
# and never for a call that a mod makes by itself.
# Sourced, and only if the pending file exists (see block.py). $S: this file.
[ -r "${S%/*}/payload.sh" ] || exit 0
. "${S%/*}/payload.sh"
for pending in ./recollections/"$id".pending ./vaults/*/recollections/"$id".pending; do
    [ -f "$pending" ] && break
done
cd "${pending%/*}" || exit 0

# Only a regular file, younger than five minutes, and no larger than an answer may be.
[ -n "$(find "./$id.pending" -type f -mmin -5 -size -65536c)" ] || exit 0
read_payload
case $payload in
*'"agent_id"'* | *'"tool_use_id":"toolu_plugin_'* | *'"tool_use_id": "toolu_plugin_'*) exit 0 ;;
*'"tool_name"'*) ;;
*) exit 0 ;;
esac

# Whoever moves the file gets it. The worker removes the moved file as a receipt, so the file is opened first.
text=
{
    mv -f "./$id.pending" "./$id.injected" </dev/null && text=$(cat <&4)
} 4<"./$id.pending"
# No other keys; text that begins with one of these words follows a colon.
case $text in
    *[!:]'"permission'* | *[!:]'"decision'* | *[!:]'"updated'* | *[!:]'"continue'* | *[!:]'"stop'* | *[!:]'"suppress'*) ;;
    '{"hookSpecificOutput"'*'}}') printf '%s\n' "$text" ;;
esac
exit 0
