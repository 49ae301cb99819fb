# PostToolUseFailure: ask the worker about the failure if the call names a program that has failed before.
# Sourced, and only if the list of those programs exists (see block.py). $S: this file.
[ -r "${S%/*}/payload.sh" ] || exit 0
. "${S%/*}/payload.sh"
[ -S ./engram.sock ] && [ -x ./python ] || exit 0
for programs in ./recollections/"$id".failures ./vaults/*/recollections/"$id".failures; do
    [ -f "$programs" ] && break
done
[ -f "$programs" ] || exit 0
read_payload

# The input of the call, or more of the payload if its fields are in another order.
call=${payload#*'"tool_input":'}
call=${call%%'"tool_use_id":'*}
while IFS= read -r program; do
    case $call in
        *"$program"*)
            printf '%s' "$payload" | ./python -I -S "${S%/*}/prompt.py"
            break
            ;;
    esac
done <"$programs"
exit 0
