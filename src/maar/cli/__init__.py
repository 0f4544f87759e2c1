"""The command line: arguments in, text out.

One file per command, named as the command; `main` lists them and loads only the one that runs. A `*_text` or `*_json`
file next to it turns results into output. No decisions here. Imports every layer; nothing imports from here.
"""
