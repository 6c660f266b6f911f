"""A real Kubernetes with one node (kubelet, containerd, runc, kube-proxy, CoreDNS), for tests that run Pods on it."""
