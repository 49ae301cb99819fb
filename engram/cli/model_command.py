"""``engram model``: embedding models other than the bundled one."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace


@click.group("model")
def model() -> None:
    """Get an embedding model other than the bundled one.

    Example: engram model fetch BAAI/bge-small-en-v1.5
    """


@model.command("fetch")
@click.argument("name")
@json_option
@pass_workspace
def fetch(workspace: Workspace, name: str, as_json: bool) -> None:
    """Download the model NAME from the Hugging Face hub and make it ready to run.

    This is the only command that downloads a model. It doesn't change which model is used: it prints the command that
    does. A model in a folder of yours needs no download.

    Example: engram model fetch BAAI/bge-small-en-v1.5
    """
    from engram.embedding.fetch import fetch_model

    embedder = fetch_model(name, workspace.places.prepare().models)
    if as_json:
        print_json({"name": name, "id": embedder.model_id, "dimension": embedder.dimension, "note": embedder.reason})
        return
    say(f"{name} is ready: {embedder.dimension} numbers in a vector, {embedder.max_tokens} tokens at most.")
    if embedder.reason:
        say(f"It runs with torch, which takes more memory: {embedder.reason}")
    say(f"To use it: engram config set embedding_model {name}\nThe worker then embeds every memory again.")
