"""Faults: what is broken on purpose, with its undo, while ``watch`` looks what the provider makes of it.

``node`` is what travels to a node and acts there. ``consent`` decides whether it may; ``trial`` leads one
fault from its plan to its end; ``errand`` packs what is sent.
"""
