"""The local page (`engram ui`): a web server for one person, on this machine only.

Adding a view takes a module, a template, and a line:

1. ``engram/page/views/NAME.py`` defines ``VIEW = View(...)`` (``engram/page/view.py``): its name, title, key and
   routes. A route is a path and a function that takes a ``PageRequest`` and returns an ``Answer`` (a template with its
   values) or a ``Redirect``. The function reads through ``engram.models`` and ``engram.reports``, and writes through
   ``engram.memories`` with ``Actor.USER``, as a command does. It never imports Starlette, numpy or ``engram.search``: a
   view that needs the search or the model asks the worker (``engram.worker.worker_client``), and reports it if no
   worker answers.
2. ``engram/page/templates/NAME.html`` extends ``base.html`` and fills the block ``main``. A part that htmx replaces is
   a separate block: the route answers ``Answer("NAME.html", values, block="rows")`` if ``request.is_fragment``. Parts
   that are never a full page, and the macros that all views share, are in ``templates/parts/``.
3. ``engram/page/views/__init__.py`` lists the view.

In a template every value is escaped and its hidden characters are spelled out; a test checks that this can't be
bypassed. An element with an ``hx-`` attribute needs ``hx-nonce="{{ nonce }}"``, or htmx ignores it. Nothing is
inline: no script, no ``style=``, no ``on…=``; a bar's length is a class (``day_chart``). Show stored texts with
``parts.rich`` and ``parts.inline``, and times with ``parts.time``; take colours and gaps from the tokens of
``page.css``. ``link("m", id)`` makes addresses, with the secret path and the chosen project.

Anything that makes a change is a POST route whose button has ``hx-post``. It answers with the changed part and a
``Notice`` that says what was done and how to undo it. Rows of a list have ``data-row`` and begin with their link, so
that j and k move among them. ``data-key="e"`` makes a letter press a button or follow a link.

`docs/page.md` describes the guard, the keys and the figures.
"""
