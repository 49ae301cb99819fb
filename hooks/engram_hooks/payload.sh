# What the scripts of a tool call share: when to say nothing, and how to read the payload. Sourced, so that it costs no
# process; works in the memory folder, with $id. POSIX sh; silent and status 0 whatever is broken.
exec 2>/dev/null
LC_ALL=C
case ${ENGRAM_DISABLE:-0} in 0) ;; *) exit 0 ;; esac
id=${CLAUDE_CODE_SESSION_ID:-}
case $id in '' | *[!0-9A-Za-z_-]*) exit 0 ;; esac
[ ${#id} -le 128 ] || exit 0
CDPATH='' cd -- "${ENGRAM_HOME:-${HOME:-}/.claude-memory}" >/dev/null || exit 0

# Read the payload, which is one line, into $payload. The shell reads by itself: to start a program takes longer than to
# read the payload of most calls. A stdin that stays open is given up after a moment.
read_payload() {
    trap 'exit 0' TERM
    {
        trap - TERM
        sleep 0.2 || exit
        kill $$
        # Some shells go on reading after a signal.
        sleep 0.05
        kill -9 $$
    } </dev/null >/dev/null &
    clock=$!
    payload=
    IFS= read -r payload
    # A clock that only just began may not hear TERM, and would end this shell while it waits for the answer.
    kill -9 $clock
    trap - TERM
    case $payload in '{'*'}') ;; *) exit 0 ;; esac
}
