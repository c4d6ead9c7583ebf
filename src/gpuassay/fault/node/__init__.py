"""What breaks something on a node and mends it: it travels there as the probe does, and needs only Python.

A fault is a class with five methods (``words.Fault``). Each runs in a process of its own, and what one has to
tell another it says in the ``state`` that ``plan`` gives. So whoever mends need not be who broke: it may be
the dead-man on the node (``deadman``), for whoever broke may be gone.
"""
