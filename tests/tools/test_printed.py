"""What a program prints is made readable, and nothing of its words is lost."""

import time

import pytest

from tenex.tools.process import plain_text


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("plain\nlines\n", "plain\nlines"),
        ("\x1b[1;31mred\x1b[0m and \x1b]0;title\x07words", "red and words"),
        ("  1%\r 50%\r100%\ndone\r\n", "100%\ndone"),
        ("a\r\nb\r\n", "a\nb"),
        ("nul\0bell\x07tab\t", "nul\ufffdbell\ufffdtab\t"),
        ("\n\n  indented\n\n", "  indented"),
        ("\x9b31mc1\x9d0;title\x9c", "\ufffd31mc1\ufffd0;title\ufffd"),
        ("", ""),
        ("grüße 漢字 \ufffd", "grüße 漢字 \ufffd"),
    ],
)
def test_it_reads_as_it_looked(output: str, shown: str) -> None:
    assert plain_text(output) == shown


@pytest.mark.parametrize("part", ["\x1b]", "\r", "x\r", "\x1b[", "\x1b[0", "a"])
def test_nothing_printed_on_purpose_takes_long(part: str) -> None:
    started = time.process_time()
    plain_text(part * 100_000)
    assert time.process_time() - started < 5  # milliseconds; what grows with the square takes minutes
