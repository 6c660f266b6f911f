"""Ray clusters and Ray jobs from Python, over KubeRay's kinds."""
