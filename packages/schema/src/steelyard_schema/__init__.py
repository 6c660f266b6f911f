"""Every kind of the platform as values; the only source of JSON, CRDs and reference documentation."""
