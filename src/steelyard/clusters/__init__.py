"""Work of people and programs on a cluster, over `kube.Cluster`: for the command line, and for Python."""
