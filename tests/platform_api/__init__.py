"""The API asked through ASGI with real tokens, over real services on engines in memory."""
