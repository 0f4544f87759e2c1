"""The HTTP process of `maar run`: limits connections, answers from a cache, and asks the scheduler rarely.

A separate process with low priority, so that no client can delay a decision: requests in a thread of the scheduler
would share its interpreter lock. It starts as `python -m maar.web.front`, imports only the standard library, msgspec
and httptools, and of Maar little more than `maar.web.messages` and `maar.web.limits`. `maar.web.server` starts it.
"""
