"""OpenAI's own client, the newest and the oldest that we name, on every server of OpenAI's API."""
