"""Evidence: raw things taken from a cluster, stored as they came."""
