"""The cost of tokens at the list price of Claude Haiku, called by Claude Code in print mode."""

from __future__ import annotations

import json

from engram.extraction.model.model_answer import ANSWER_SCHEMA

CHARACTERS_A_TOKEN = 4
#: Tokens that Claude Code adds to each call in print mode (measured with 2.1.330), plus those of the schema.
TOKENS_A_CALL = 300 + len(json.dumps(ANSWER_SCHEMA, separators=(",", ":"))) // CHARACTERS_A_TOKEN
#: Dollars for a million tokens in and out, for prompts up to 100,000 tokens; source in docs/language-model.md.
PRICES = {"claude-haiku-5-5": (0.10, 0.50), "claude-haiku-4-5": (1.00, 5.00)}
#: Tokens that a model counts per four characters; for the newer tokenizer, the vendor says about 1.3.
TOKEN_FACTORS = {"claude-haiku-5-5": 1.3, "claude-haiku-4-5": 1.0}


def claude_dollars(calls: float, input_tokens: float, output_tokens: float) -> dict[str, float]:
    """Return model → dollars for this many calls and tokens, without thinking and without cached prompts."""
    read = input_tokens + calls * TOKENS_A_CALL
    return {
        model: round(TOKEN_FACTORS[model] * (read * price_in + output_tokens * price_out) / 1e6, 2)
        for model, (price_in, price_out) in PRICES.items()
    }
