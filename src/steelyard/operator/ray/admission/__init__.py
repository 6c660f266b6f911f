"""Admission of RayClusters, RayJobs and AppWrappers: refusals, their words, and additions."""
