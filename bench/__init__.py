"""Benchmarks: what a decision costs. Figures, not tests."""
