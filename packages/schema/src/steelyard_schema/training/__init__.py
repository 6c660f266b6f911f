"""The kinds of training jobs: `kubeflow.org/v1`, and DLJob and Framework of `dyff.io/v1alpha1`."""
