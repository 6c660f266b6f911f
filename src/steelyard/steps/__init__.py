"""Steps: the programs that run inside Pods, `python -m steelyard.steps.NAME --config FILE`. No step ever
talks to Kubernetes.
"""
