"""Changes to files that other programs also write, as values: JSON, TOML, blocks of text, and how to revert them."""
