"""What people and programs do on a cluster, over `kube.Cluster`: for the command line, and for Python."""
