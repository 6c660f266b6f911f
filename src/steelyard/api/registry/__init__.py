"""The registry of artifacts, in the protocol of OCI registries (distribution specification 1.1)."""
