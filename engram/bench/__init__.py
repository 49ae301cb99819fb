"""Measure the search: data sets and synthetic memories in, figures with intervals out. Nothing here prints."""
