"""Serves the storage folder by a part of the S3 protocol, for steps that cannot mount it (ADR 46)."""
