"""What commands share: input files and options, exit codes, logs, printing.

Only commands and their reports import from here.
"""
