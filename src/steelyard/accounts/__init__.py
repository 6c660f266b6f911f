"""Accounts, tokens, grants, quotas, and what the API and the orchestrator must not forget."""
