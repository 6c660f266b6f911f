"""Prompts: rows read from files or from the hub, and rendered into requests."""
