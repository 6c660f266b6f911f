"""The orchestrator: what is created waits until it may run, then it runs in Kubernetes, and then it goes again."""

from steelyard.services.orchestrator.run import run_orchestrator

__all__ = ["run_orchestrator"]
