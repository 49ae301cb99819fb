"""Extract memories with a language model: requests, answers, providers, costs."""
