"""Training jobs: the kinds of `kubeflow.org/v1`, and `DLJob` with frameworks that are data."""
