"""Actions available in every view: pause the news, and turn off single-letter keys."""

from __future__ import annotations

from engram.config_file import set_value
from engram.errors import BadRequest
from engram.page.view import Answer, PageRequest, Redirect, Route, View, number_in
from engram.vaults import config_home


def switch_letters(request: PageRequest) -> Answer | Redirect:
    """Turn single-letter keys on or off, on this and every later page."""
    is_on = request.form.get("letters") == "on"
    set_value(config_home(request.settings.home), "page_letters", "true" if is_on else "false")
    return Redirect(("",))


def pause_news(request: PageRequest) -> Answer:
    """Pause or resume the stream of news, without changing the time from which news is counted."""
    since = number_in(request.query.get("since", ""))
    if since is None:
        raise BadRequest("give the time from which to count news")
    is_paused = request.query.get("paused") == "yes"
    return Answer("parts/live.html", {"live_view": request.path["name"], "since_ms": since, "is_paused": is_paused})


VIEW = View(
    name="around",
    title="",
    routes=(Route("/letters", switch_letters, method="POST"), Route("/pause/{name}", pause_news)),
)
