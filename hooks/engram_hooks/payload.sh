# Shared by the scripts of tool calls: conditions for silence, and reading the payload. Sourced, to save a process;
# changes to the memory folder and sets $id. POSIX sh; silent, with status 0, whatever is broken.
exec 2>/dev/null
LC_ALL=C
case ${ENGRAM_DISABLE:-0} in 0) ;; *) exit 0 ;; esac
id=${CLAUDE_CODE_SESSION_ID:-}
case $id in '' | *[!0-9A-Za-z_-]*) exit 0 ;; esac
[ ${#id} -le 128 ] || exit 0
CDPATH='' cd -- "${ENGRAM_HOME:-${HOME:-}/.claude-memory}" >/dev/null || exit 0

# Read the payload, which is one line, into $payload. The shell reads it itself, since starting a program usually takes
# longer. If stdin stays open, give up after a moment.
read_payload() {
    trap 'exit 0' TERM
    {
        trap - TERM
        sleep 0.2 || exit
        kill $$
        # Some shells continue reading after a signal.
        sleep 0.05
        kill -9 $$
    } </dev/null >/dev/null &
    clock=$!
    payload=
    IFS= read -r payload
    # Not TERM: a clock that has just started may miss it and would end this shell during the wait for the answer.
    kill -9 $clock
    trap - TERM
    case $payload in '{'*'}') ;; *) exit 0 ;; esac
}
