"""Log lines: one line for each record, whatever it quotes.

Messages quote objects of tenants and answers of servers. A line break in them would forge a record, and an escape
sequence would reach the terminal of the person who reads the log.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from maar.cli.support.output import escaped, escaped_json

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
PLAIN = "%(levelname)s: %(message)s"
"""For commands that do not log as such: a warning among their messages."""
INDENT = "    "


class TextLines(logging.Formatter):
    """Formats each record as one line of text; the lines of a traceback follow, indented."""

    def format(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        stack = self.formatStack(record.stack_info) if record.stack_info else ""
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        said = self.formatMessage(record)
        more = [line for part in (trace, stack) if part for line in part.split("\n")]
        return "\n".join([escaped(said), *(INDENT + escaped(line) for line in more)])


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(line))


def log_to_stderr(how: str) -> None:
    """Log everything from `INFO` on, as `text` or `json`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if how == "json" else TextLines(TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def tame_stray_records() -> None:
    """Format what is logged before, or without, `log_to_stderr`: Python prints warnings as they are."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(TextLines(PLAIN))
