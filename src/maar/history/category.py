"""The category of a job: jobs that repeat one training share a category, and so their measurements."""

from __future__ import annotations

from maar.model.name_stems import stem_of

CATEGORY = "maar.dev/category"
"""Annotation or label that sets the category of a job."""


def scoped(namespace: str, category: str) -> str:
    """A category as its namespace owns it.

    >>> scoped("team", "vision"), scoped("team", "team/vision"), scoped("team", "other/vision")
    ('team/vision', 'team/vision', 'team/other/vision')
    """
    return category if not category or category.startswith(f"{namespace}/") else f"{namespace}/{category}"


def namespace_of(name: str) -> str:
    """The namespace of a category or of a job (`namespace/name`)."""
    return name.partition("/")[0]


def category_of(namespace: str, name: str) -> str:
    """The category of a job that states none: its name without the part that differs between runs.

    Numbers, times, hashes and generated suffixes are removed from the end of the name (Voda: jobs of one name are one
    category). It always belongs to the namespace of the job: what one tenant reports must not change the sizes of
    another tenant's jobs.

    >>> category_of("team", "resnet-20261101-100000"), category_of("team", "bert-7f9c2a1"), category_of("a", "b-x7k2p")
    ('team/resnet', 'team/bert', 'a/b')
    >>> category_of("team", "vgg16"), category_of("team", "1234")
    ('team/vgg16', 'team/1234')
    """
    return f"{namespace}/{stem_of(name)}"
