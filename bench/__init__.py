"""Benchmarks: they print figures and test nothing."""
