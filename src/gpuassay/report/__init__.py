"""Reports: everything that is shown is rendered from the results document and nothing else."""
