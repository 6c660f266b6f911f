"""Croissant, the metadata of datasets that others read: written for a dataset, and taken from one's file."""
