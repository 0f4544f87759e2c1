"""The input of each cycle: the cache with its assumed decisions, and objects that make a decision fail.

Imports no other part of the controller; all of them may import it.
"""
