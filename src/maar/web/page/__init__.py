"""The page that `maar web` serves: HTML, a style sheet and ES modules, as browsers read them.

There is no build step, and nothing is loaded from elsewhere. `maar.web.api.server` sends the files as they are,
with a strict content policy; it names all modules in `index.html`. The page knows only the API under /api/v1.
"""
