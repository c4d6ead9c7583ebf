"""Bulletins: what vendors publish for machines, made into proposals for ``advisories.toml``."""
