"""The orchestrator: what is created waits until it may run, then it runs in Kubernetes, and then it goes again."""
