"""``extractor = "openai"``: OpenAI or a compatible server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.extraction.budget import Budget
from engram.extraction.model_extractor import ModelExtractor
from engram.extraction.openai_provider import OpenAIProvider
from engram.extraction.protocol import Extractor
from engram.settings import Settings

if TYPE_CHECKING:
    import httpx2


class OpenAIExtractor(ModelExtractor):
    """Asks the model that the settings name."""

    def __init__(
        self,
        settings: Settings,
        budget: Budget,
        fallback: Extractor,
        *,
        api_key: str = "",
        transport: httpx2.BaseTransport | None = None,
        total_seconds: float | None = None,
    ) -> None:
        """See ``OpenAIProvider`` and ``ModelExtractor``."""
        provider = OpenAIProvider(settings, api_key=api_key, transport=transport, total_seconds=total_seconds)
        super().__init__("openai-1", provider, budget, fallback)
