"""The page of published figures is as the shipped traces make it, and tables are reproduced."""

from __future__ import annotations

from perf.published import PAGE, dynamo, isolation, lens_half, lens_whole, mooncake, page


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text() == page(), "python -m perf.published"


def test_tables_are_reproduced() -> None:
    """Whole, or by the other's rules where these differ; the rest says why not."""
    for table in (dynamo(), isolation()):
        assert all(figure.equal for figure in table.figures), table.title
    for table in (lens_half(), lens_whole()):
        by_rules = [figure for figure in table.figures if figure.what.endswith("by its rules")]
        assert len(by_rules) == 7
        assert all(figure.equal for figure in by_rules), table.title
        assert all(figure.equal or figure.why for figure in table.figures)
    assert all(figure.equal or figure.why for figure in mooncake().figures)
