"""Waits until Services answer 200: `answers.py SECONDS 'SCHEME VARIABLES PATH'...`. What `helm test` runs.

The certificate is not checked: the test is about readiness, and sends no token.
"""

import os
import ssl
import sys
import time
import urllib.error
import urllib.request

anyone = ssl._create_unverified_context()
deadline = time.monotonic() + float(sys.argv[1])
for service in sys.argv[2:]:
    scheme, variables, path = service.split()
    host, port = os.environ[f"{variables}_HOST"], os.environ[f"{variables}_PORT"]
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5, context=anyone) as answer:
                print(f"{url}: {answer.status}", flush=True)
                break
        except (OSError, urllib.error.URLError) as error:
            print(f"{url}: {error}", flush=True)
            if time.monotonic() > deadline:
                sys.exit(f"{url}: no answer in {sys.argv[1]} s")
        time.sleep(1)
