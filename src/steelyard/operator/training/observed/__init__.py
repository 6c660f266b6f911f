"""Observed state of a job: its Pods, its replicas, and which objects are its own."""
