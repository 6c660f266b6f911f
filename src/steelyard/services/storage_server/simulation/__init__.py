"""A server in a thread, and its client, for tests."""
