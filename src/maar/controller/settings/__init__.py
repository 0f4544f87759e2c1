"""What the operator of Maar sets: the options at the start, the files read again while it runs, and the brakes.

Imports no other part of the controller; all of them may import it.
"""
