"""The probe: takes raw evidence on a node and judges nothing.

It is read-only, needs the standard library of Python 3.9 or newer, travels as text through standard input
(``travel``, ``bootstrap``), and answers with one framed line for each item (``frames``).
"""
