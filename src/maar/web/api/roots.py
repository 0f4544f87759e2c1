"""Where the API is served: directly, and as the aggregated API. The commands know it too, and not the server."""

PREFIX = "/api/v1"
GROUP, VERSION = "web.maar.dev", "v1"
"""Group and version of the aggregated API."""
ROOT = f"/apis/{GROUP}/{VERSION}"
