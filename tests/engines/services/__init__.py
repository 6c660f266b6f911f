"""Databases and object stores that the suites start on free loopback ports: PostgreSQL and an S3 server."""
