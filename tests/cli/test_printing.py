"""Printing of text and tables."""

from rich.table import Table

from maar.cli.support.printing import apart, printed


def test_names_are_printed_as_they_are_and_not_wrapped() -> None:
    table = Table("job")
    table.add_row(":smile: [bold]" + "x" * 500)
    text = printed([":smile: [red]a[/red]", "", table])
    assert text.startswith(":smile: [red]a[/red]\n\n")
    assert ":smile: [bold]" + "x" * 500 in text


def test_parts_stand_apart_and_no_line_ends_in_space() -> None:
    assert "a\n\nb\n" == printed(apart(["a   ", "b"]))
