"""SessionStart, if enabled by the user: start the supervisor if none is running, in at most 10 s.

Run with Engram's packages, in the background. It never prints anything and always exits with 0.
"""

import os
import signal

#: After this many seconds, the system kills this process, whatever it is waiting for.
ALARM_SECONDS = 10
#: How long a killed supervisor's processes may take to exit, in seconds; those of ``engram up`` keep running.
ENDING_SECONDS = 5.0


def main() -> None:
    """Start the supervisor; always exit with status 0."""
    try:
        signal.alarm(ALARM_SECONDS)
        if os.environ.get("ENGRAM_DISABLE", "0") in ("", "0"):
            _start()
    except BaseException:  # noqa: BLE001 - the boundary of a hook
        pass
    os._exit(0)


def _start() -> None:
    from engram.reports.processes import is_held
    from engram.settings import load
    from engram.setup.services.service_definition import is_working, wait_until
    from engram.setup.services.service_plan import installed_system
    from engram.setup.services.supervisor import Background

    settings = load().settings
    home = settings.places
    if not settings.start_with_session:
        return
    if home.supervisor_lock.exists() and not is_held(home.supervisor_lock):
        # A killed supervisor's processes are still exiting.
        wait_until(lambda: not is_working(home), ENDING_SECONDS)
    if is_working(home):
        return
    system = installed_system(settings)
    # launchd and systemd start the processes themselves.
    if isinstance(system, Background):
        system.launch()


if __name__ == "__main__":
    main()
