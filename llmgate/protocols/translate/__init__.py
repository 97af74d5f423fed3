"""Anthropic Messages for an upstream that speaks OpenAI chat completions only."""
