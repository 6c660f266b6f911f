"""Entities, commands and a whole platform in memory, for tests of the services."""
