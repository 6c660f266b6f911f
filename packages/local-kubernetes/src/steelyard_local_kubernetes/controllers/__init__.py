"""The built-in controllers: Job, Deployment, ReplicaSet and Service, speaking REST only."""
