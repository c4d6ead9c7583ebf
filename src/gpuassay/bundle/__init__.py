"""The offline bundle: all that workloads need where a site has no way out, with the sum of each file."""
