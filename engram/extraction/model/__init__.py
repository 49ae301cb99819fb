"""Memories written by a language model: requests, answers, providers, money."""
