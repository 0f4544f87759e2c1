"""What Maar serves over HTTP: health, metrics, and measurements that trainings report.

Imports `controller` and `history`. `cli` passes `server.serving` to `maar.controller.main.run`; nothing else imports
from here.
"""
