"""Databases, brokers and object stores that the suites start on free loopback ports."""
