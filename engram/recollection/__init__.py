"""From a prompt to bites or nothing: filter the prompt, choose memories, render them, hand them to the hooks."""
