"""What runs on a node in the storage that was bought; standard library only, Python 3.9, it travels."""
