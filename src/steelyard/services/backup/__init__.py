"""Backups: the archive of `workflows.state` in a bucket, and the stores rebuilt from it."""
