"""Policies, a file each: what actions ask, plugins answer."""
