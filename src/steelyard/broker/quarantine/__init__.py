"""Quarantine: entities whose messages a consumer cannot take wait here until an administrator decides."""
