"""For tests of the page: scenes, an API that answers from a scene, and a browser."""
