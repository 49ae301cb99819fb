"""The command line: one module per subject, each a thin layer over a service."""
