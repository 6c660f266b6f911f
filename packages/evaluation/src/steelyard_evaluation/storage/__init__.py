"""Object storage behind one small protocol: a folder, memory, S3, GCS, Azure."""
