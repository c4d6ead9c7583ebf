"""Service levels: what was promised, what node histories say of it, and what a run has measured.

``spans``, ``outages``, ``moments``, ``terms``, ``account``, ``judged`` and ``run`` are pure functions of
data, in whole seconds and fractions; ``readers`` turn histories as they come into outages.
"""
