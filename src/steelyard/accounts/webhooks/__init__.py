"""Webhooks in the accounts database: who is notified, what waits to be sent, and how far the log has been read."""
