"""1,000 training jobs with 4 simulated replicas each through the operator, beside the same on kopf."""
