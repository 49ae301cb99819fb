"""The installer: changes other programs' files as one transaction, and takes every change back."""
