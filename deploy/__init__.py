"""Files that are installed on a cluster: definitions, policies and the chart; and the programs that make them."""
