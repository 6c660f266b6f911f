"""Controllers of RayCluster and RayJob over Ray's own programs, which run in Pods of this machine."""
