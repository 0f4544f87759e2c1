"""Builders and fixtures that tests, simulator and docs share."""
