"""A Kubernetes API server of our own for tests, with a scheduler and kubelets that really run what pods say.

It answers as the real servers do whose answers were captured (1.20 and 1.36), as far as our requests go. The
clusters that it shows are synthetic.
"""
