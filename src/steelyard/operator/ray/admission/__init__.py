"""Admission of RayClusters, RayJobs and AppWrappers: what is refused, with which words, and what is added."""
