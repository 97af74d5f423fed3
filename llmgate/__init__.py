"""llmgate: a first come, first served queue between LLM clients and LLM servers."""

__version__ = "0.1.0"
