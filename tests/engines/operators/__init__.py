"""The clients' tests on the real KubeRay, Kueue and AppWrapper and on the embedded ones, unchanged."""
