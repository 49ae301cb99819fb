# The status line: how many memories this session was shown and produced, any problem, and how full the context is.
# Sourced. It starts no process: the worker writes the figures to a file, and an empty file requests them. POSIX sh;
# prints one line or nothing, and never fails.
exec 2>/dev/null
LC_ALL=C
case ${ENGRAM_DISABLE:-0} in 0) ;; *) exit 0 ;; esac
status=
IFS= read -r status
id=${status#*'"session_id":"'}
id=${id%%'"'*}
case $id in '' | *[!0-9A-Za-z_-]*) exit 0 ;; esac
[ ${#id} -le 128 ] || exit 0
CDPATH='' cd -- "${ENGRAM_HOME:-${HOME:-}/.claude-memory}/recollections" >/dev/null || exit 0

file=./$id.statusline
pid= shown= kept= problem=
if [ -f "$file" ]; then
    IFS=' ' read -r pid shown kept problem <"$file"
elif [ ! -e "$file" ]; then
    umask 077
    : >"$file"
fi
case $pid$shown$kept in *[!0-9]*) pid= ;; esac
# Whatever the file contains, the line stays short and plain.
[ "${#pid}" -le 10 ] && [ "${#shown}" -le 9 ] && [ "${#kept}" -le 9 ] || pid=
case $problem in *[!0-9A-Za-z\ ._-]*) problem=something ;; esac
[ "${#problem}" -le 60 ] || problem=something

if [ -z "$pid" ]; then
    line='Engram: not running, start it with engram up'
    if [ -S ../engram.sock ]; then
        # A killed worker leaves its socket, and its process id in the lock.
        worker=
        [ ! -f ../worker.lock ] || IFS= read -r worker <../worker.lock
        case $worker in
            *[!0-9]* | ???????????*) ;;
            *) [ -n "$worker" ] && ! kill -0 "$worker" || line=Engram ;;
        esac
    fi
elif ! kill -0 "$pid"; then
    line='Engram: not running, start it with engram up'
elif [ -n "$problem" ]; then
    line="Engram: problem with $problem, see engram doctor"
else
    line="Engram: $shown shown, $kept kept"
fi

# The share of the context that is used, in percent.
used=
case $status in
    *'"context_window":{'*'"used_percentage":'*)
        used=${status#*'"context_window":{'}
        used=${used#*'"used_percentage":'}
        used=${used%%[!0-9]*}
        [ "${#used}" -le 3 ] || used=
        ;;
esac
[ "${used:-0}" -lt 80 ] || line="$line · context $used % full"
printf '%s\n' "$line"
exit 0
