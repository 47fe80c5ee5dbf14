"""Descriptions of parameters, from docstrings in three styles."""

import pytest

from seqoria_runtime.toolbox._reading.docstrings import first_line, parameter_descriptions

GOOGLE = """Find a city.

    Args:
        name (str): The name
            of the city.
        country: Where it is: a code.
        *rest: Anything.
        bare:

    Returns:
        found: not a parameter
    """

NUMPY = """Find a city.

    Parameters
    ----------
    name : str
        The name
        of the city.
    country, region : str, optional
        Where it is.
    bare

    Returns
    -------
    found : str
        Not a parameter.
    """

SPHINX = """Find a city.

    :param str name: The name
        of the city.
    :param country: Where it is: a code.
    :type country: str
    :returns: not a parameter
    """


@pytest.mark.clause("C61")
@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (
            GOOGLE,
            {
                "name": "The name of the city.",
                "country": "Where it is: a code.",
                "rest": "Anything.",
                "bare": "",
            },
        ),
        (
            NUMPY,
            {
                "name": "The name of the city.",
                "country": "Where it is.",
                "region": "Where it is.",
                "bare": "",
            },
        ),
        (SPHINX, {"name": "The name of the city.", "country": "Where it is: a code."}),
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_each_style_describes_its_parameters_and_nothing_else(
    docstring: str, expected: dict[str, str]
) -> None:
    assert parameter_descriptions(docstring) == expected


@pytest.mark.parametrize("docstring", [None, "", "   ", "One line.", "Args:", "Args:\n\n", "Parameters\n---"])
def test_a_docstring_without_descriptions_has_none(docstring: str | None) -> None:
    assert parameter_descriptions(docstring) == {}


def test_a_numpy_section_may_start_the_docstring_and_end_it() -> None:
    assert parameter_descriptions("Parameters\n----------\nx : int\n    The x.") == {"x": "The x."}


def test_a_section_ends_where_its_indentation_ends() -> None:
    docstring = "Do it.\n\nArgs:\n    x: The x.\nNote: y: no parameter"
    assert parameter_descriptions(docstring) == {"x": "The x."}


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (None, ""),
        ("", ""),
        ("\n    Second line is first.\n    More.", "Second line is first."),
        ("A. B.", "A. B."),
    ],
)
def test_the_description_is_the_first_line(docstring: str | None, expected: str) -> None:
    assert first_line(docstring) == expected
