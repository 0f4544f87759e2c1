"""The page that `maar web` serves: HTML, a style sheet and ES modules, as browsers read them.

There is no build step, and nothing is loaded from elsewhere. `files` hands the files to a server, with the headers that
they need. The page knows only the API under /api/v1.
"""
