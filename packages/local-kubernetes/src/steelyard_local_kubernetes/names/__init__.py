"""Names and addresses of Services on one machine: a hosts file and TCP forwarders."""
