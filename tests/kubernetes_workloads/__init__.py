"""Pods, Jobs, Deployments and Services that run on the embedded Kubernetes and on a real node, compared."""
