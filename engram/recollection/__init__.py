"""Answer a prompt with bites or nothing: filter the prompt, choose memories, render them and pass them to the hooks."""
