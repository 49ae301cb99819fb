# PostToolUseFailure: ask the worker whether history knows the failure, if the call names a program that failed before.
# Sourced, and only where the list of those programs is there (see block.py). $S: this file.
[ -r "${S%/*}/payload.sh" ] || exit 0
. "${S%/*}/payload.sh"
programs=./recollections/$id.failures
[ -f "$programs" ] && [ -S ./engram.sock ] && [ -x ./python ] || exit 0
read_payload

# The input of the call; all of the payload if its fields come in another order.
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
