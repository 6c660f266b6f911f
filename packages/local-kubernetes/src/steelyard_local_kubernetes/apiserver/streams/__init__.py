"""Connections to Pods that carry several streams: forwarded ports and attached containers."""
