"""Changes of files that others write too, as values: JSON, TOML, blocks of text, and their way back."""
