"""Where a cluster is, and how it is reached."""
