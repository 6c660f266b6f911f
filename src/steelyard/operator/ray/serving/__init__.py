"""Servers of the operator for Ray clusters: webhooks, Pods' certificates, and dashboards with a login."""
