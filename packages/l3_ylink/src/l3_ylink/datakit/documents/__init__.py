"""Documents in memory and on disk: batches, and blocks that are committed whole."""
