"""The command line: arguments in, text out.

One file per command, with the name of the command. `main` lists them and loads only the one that runs. `reports`
turns results into output. No decisions here. Imports every layer; nothing imports from here.
"""
