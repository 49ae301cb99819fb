"""Changes to files that other programs also write, as values: JSON and TOML, and how to revert them."""
