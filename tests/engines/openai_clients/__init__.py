"""OpenAI's own client and LiteLLM, the newest and the oldest that we name, on every server of OpenAI's API."""
