"""The HTTP server of Maar: health, metrics, and measurements that training jobs report.

Imports `controller` and `history`. `cli` passes `server.serving` to `maar.controller.main.run`; no other package
imports this one.
"""
