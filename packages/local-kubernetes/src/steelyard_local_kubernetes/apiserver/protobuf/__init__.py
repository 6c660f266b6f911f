"""Request bodies in Kubernetes' protobuf, read as the JSON that the same client would have sent."""
