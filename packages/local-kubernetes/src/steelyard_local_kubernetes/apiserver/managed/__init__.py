"""Managers of fields: server-side apply, and the effect of other writes on an object that was applied once."""
