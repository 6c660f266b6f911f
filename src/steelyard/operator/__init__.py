"""The operator: one pure decision per kind of resource, and the one edge that carries decisions out."""
