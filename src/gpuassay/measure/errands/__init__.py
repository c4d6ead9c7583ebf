"""Short programs that run on a node as a job's user; each travels alone and prints one JSON document.

They use the standard library of Python 3.9, import nothing of ours, and write nothing to the node.
"""
