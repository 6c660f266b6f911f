"""The API server of the embedded Kubernetes: one process, one event loop, objects as raw JSON in memory and SQLite."""
