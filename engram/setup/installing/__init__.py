"""The installer: changes other programs' files as one transaction, and can undo every change."""
