"""A Kubernetes in one Python process: API server, controllers, kubelet, names, queues and GPUs."""
