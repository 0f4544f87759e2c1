"""The certificate of `maar web`: its files may change while it serves."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from maar.files import check_regular
from maar.web.addresses import CannotServe

logger = logging.getLogger("maar.web")


class Certificate:
    """A certificate and its key, read again when the files change."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._times()
        try:
            self._check()
            self.context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise CannotServe(f"{certificate}: not a certificate with the key {key}: {error}") from None

    def _times(self) -> tuple[float, ...]:
        try:
            return tuple(file.stat().st_mtime for file in self._files)
        except OSError:
            return ()

    def _check(self) -> None:
        for file in self._files:
            check_regular(file)  # reading a FIFO would wait for its writer, and stop all answers

    def look(self) -> None:
        """Use new files for new connections."""
        times = self._times()
        if times and times != self._seen:
            try:
                self._check()
                self.context.load_cert_chain(*self._files)
                self._seen = times
                logger.info("the certificate was read again")
            except (OSError, ssl.SSLError) as error:
                logger.warning("the new certificate cannot be used: %s", error)
