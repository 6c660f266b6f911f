"""Backups: the archive of `workflows.state` in a bucket, and what is rebuilt from it."""
