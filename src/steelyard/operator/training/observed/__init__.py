"""What the operator observes of a job: its Pods, its replicas, and which objects are its own."""
