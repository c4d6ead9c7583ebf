"""Judging: pure functions from observations to verdicts, coverage and a tier."""
