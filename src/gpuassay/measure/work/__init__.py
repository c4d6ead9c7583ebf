"""Workloads of our own: what runs on a node's accelerators, one process (rank) for each of them.

These modules travel to the node, like the probe, and run in the Python that the site names, which has
torch. They are the only ones that may import torch, and do so when they run: to import them needs nothing.
A workload is a module with ``METHOD``, ``cases`` (what it will run: data, made where the suite runs) and
``run`` (one case, on a device). What a rank prints is one JSON document.
"""
