"""Work spread over processes of this machine, or of the machines of a cluster."""
