"""What is answered under /api/v1: a function for each route, in the order of `maar.web.api.routes`.

Nothing here checks what a viewer may see: `maar.views` does, by the sight that it gets. Only the routes import this.
"""
