"""The category of a job: jobs that repeat one training share a category, and so their measurements."""

from __future__ import annotations

import re
from collections.abc import Mapping

CATEGORY = "maar.dev/category"
"""Annotation or label that sets the category of a job."""

_RUN = re.compile(
    r"""[-_.](?:
        [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}     # a UUID
      | \d{8}t?\d{4,6}z?                                # a time: 20261101t100000z
      | \d+                                             # a number, a date, seconds since 1970
      | (?=[0-9a-f]*\d)[0-9a-f]{7,64}                   # a hash, in hexadecimal: with a digit, so that words stay
      | [bcdfghjklmnpqrstvwxz2456789]{5}                # what Kubernetes appends to a generateName
    )$""",
    re.VERBOSE,
)


def category_of(
    namespace: str, name: str, annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> str:
    """The category of a job: its annotation or label, else its name without the part that differs between runs.

    Jobs in different namespaces with the same annotation or label `maar.dev/category` share a category. Without one,
    the category is the namespace and the name; numbers, times, hashes and generated suffixes are removed from the end
    of the name (Voda: jobs of one name are one category). Jobs called `train` in two namespaces do not share it.

    >>> category_of("team", "resnet-20261101-100000"), category_of("team", "bert-7f9c2a1"), category_of("a", "b-x7k2p")
    ('team/resnet', 'team/bert', 'a/b')
    >>> category_of("team", "vgg16"), category_of("team", "1234"), category_of("team", "x-1", {CATEGORY: "vision"})
    ('team/vgg16', 'team/1234', 'vision')
    """
    for category in (annotations or {}).get(CATEGORY, ""), (labels or {}).get(CATEGORY, ""):
        if category:
            return category
    stem = name
    while (end := _RUN.search(stem)) and end.start():
        stem = stem[: end.start()]
    return f"{namespace}/{stem}"
