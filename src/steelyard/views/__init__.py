"""The entity view: what queries read."""
