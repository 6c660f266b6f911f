"""Kubernetes as raw objects: client, informers, work queue, leader election, and an in-memory double."""
