"""Definitions of other projects' kinds that the embedded Kubernetes serves: Ray, AppWrapper and Kueue."""
