"""One module per source of a cluster: lower layers, documents, this machine."""
