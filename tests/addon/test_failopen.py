"""Hold the line of a failure to place and type: never a word of what was said."""

import pytest
from openmem_addon import failopen
from openmem_addon.core import source


def caught(error_of) -> BaseException:
    try:
        error_of()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_a_failure_names_the_innermost_place_of_ours_and_the_type() -> None:
    found = failopen.failure(caught(lambda: source.members(b'{"secret words"')))
    assert found.error == "NotSplicable"
    name, _, line = found.location.partition(":")
    assert name == "source.py"
    assert line.isdecimal()
    assert str(found) == f"openmem-context: fail-open NotSplicable at {found.location}"


def test_a_failure_of_another_library_names_where_we_called_it() -> None:
    found = failopen.failure(caught(lambda: source.compact(b"{")))
    assert found.location.startswith("source.py:")


def test_a_failure_outside_our_code_names_its_own_place() -> None:
    assert failopen.failure(caught(lambda: int("x"))).location.startswith("test_failopen.py:")


def test_a_failure_that_was_never_raised_has_no_place() -> None:
    assert failopen.failure(KeyError("x")) == failopen.Failure("unknown:0", "KeyError")


def test_no_message_of_an_exception_is_in_the_line() -> None:
    def fails() -> None:
        raise ValueError("sk-ant-a-key and the user's words")

    assert "sk-ant" not in str(failopen.failure(caught(fails)))


def test_a_line_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    failopen.to_stderr("one line")
    assert capsys.readouterr() == ("", "one line\n")
