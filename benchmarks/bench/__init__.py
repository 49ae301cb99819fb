"""Measure the search and the use of memory: data sets and tasks in, figures with intervals out. Nothing here prints."""
