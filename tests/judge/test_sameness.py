"""Promises of sameness: comments and layout make no new kernel, and everything else does."""

from __future__ import annotations

import time

import pytest

from judge.model import SourceFile
from judge.sameness import LONGEST_BYTES, sameness

PYTHON = """import torch

def custom_kernel(data):
    x, out = data
    if x is None:
        return out
    out.copy_(x.sum(1) + 1.5)
    return out
"""

CPP = r"""#include <vector>
#define SQUARE(x) ((x) * (x))
#define PAIR (1, 2)
static const char* text = "a // b /* c */ \" d";
static const auto raw = R"x(// kept )" /* kept */)x";
int custom_kernel(int n) {
  long long k = 1'000'000;
  char c = '"';
  return n + +k + SQUARE(n) + c;
}
"""


def of_python(text: str) -> str:
    return sameness("a.py", (SourceFile("a.py", text.encode()),))


def of_cpp(text: str) -> str:
    return sameness("a.cpp", (SourceFile("a.cpp", text.encode()),))


def edited(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import torch\n", "# fast\nimport torch  # really\n\n\n"),
        ("    x, out = data\n", '    """Adds up.\n\n    Twice."""\n    x, out = data\n'),
        ("    x, out = data\n", "    'one' \"two\"\n    # three\n    b'four'\n    x, out = data\n"),
        ("import torch\n", '"""About."""\nimport torch\n'),
        ("    ", "\t"),
        ("        return out", "          return out"),
        ("x.sum(1) + 1.5", "x . sum( 1 )+ \\\n   1.5"),
        ("x.sum(1) + 1.5", "x.sum(\n  1  # the rows\n\n) + 1.5"),
        ("\n", "\r\n"),
        ("\n", "\r"),
        ("import torch", "\ufeffimport torch"),
        ("1.5)\n    return out\n", "1.5)\n    return out"),
    ],
)
def test_comments_docstrings_and_layout_of_python_do_not_count(old: str, new: str) -> None:
    assert of_python(edited(PYTHON, old, new)) == of_python(PYTHON)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return out\n    out", "        return out\n        out"),
        ("1.5", "1.50"),
        ("x, out = data", 'x, out = data; "text"; x'),
        ("x is None", "x is not None"),
        ("x is None", 'x == "None"'),
        ("import torch\n", 'import torch\nf"{torch}"\n'),
        ("import torch\n", 'import torch\nx = "text"\n'),
        ("import torch\n", 'import torch\nx = "te xt"\n'),
        ("    return out\n", "    return out\nreturn\n"),
        ("data", "dat a"),
    ],
)
def test_what_python_would_do_otherwise_counts(old: str, new: str) -> None:
    assert of_python(edited(PYTHON, old, new)) != of_python(PYTHON)


def test_spaces_in_a_string_of_python_count() -> None:
    assert of_python('x = "a b"\n') != of_python('x = "ab"\n')
    assert of_python('x = "a # b"\n') != of_python('x = "a # c"\n')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int custom", "// fast\n/* really\n * so */\n\nint   custom"),
        ("return n", "return// no \\\n still a comment\n n"),
        ("return n + +k", "return n+ +k"),
        ("{\n", "\n\n{"),
        (";\n", ";"),
        (";\n", "; /**/ "),
        ("return n", "return \\\n n"),
        ("\n", "\r\n"),
        ("#include <vector>", "#  include\t<vector> // all of it"),
        ("((x) * (x))", "((x)*(x)) /* x * x */"),
        ("((x) * (x))", "((x) \\\n * (x))"),
    ],
)
def test_comments_and_layout_of_cpp_do_not_count(old: str, new: str) -> None:
    assert of_cpp(edited(CPP, old, new)) == of_cpp(CPP)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n + +k", "n ++k"),
        ("long long", "longlong"),
        ("a // b", "a // c"),
        ("/* c */", "/* d */"),
        ("/* kept */", ""),
        ("// kept )", "// kept)"),
        ("1'000'000", "1'000'001"),
        ("'\"'", "'\\''"),
        ("#define PAIR (1, 2)", "#define PAIR(1, 2)"),
        ("#include <vector>\n", "#include <vector> "),
        ("SQUARE(x) ((x) * (x))\n", "SQUARE(x) ((x) *\n(x))\n"),
    ],
)
def test_what_cpp_would_do_otherwise_counts(old: str, new: str) -> None:
    assert of_cpp(edited(CPP, old, new)) != of_cpp(CPP)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.py", b"x = 1 # \xff"),
        ("a.py", b"x = 1 # \0"),
        ("a.py", b"x = (1 # open"),
        ("a.py", b"x = 'open # text"),
        ("a.py", b'x = """open # text'),
        ("a.py", b"if x:\n   y\n  z # neither"),
        ("a.py", b"x = 1 $ 2 # what"),
        ("a.py", b"# coding: latin-1\nx = 1 # cookie"),
        ("a.py", b"\n# -*- encoding=utf_16 -*-\nx = 1 # cookie"),
        ("a.cpp", b"int x; /* open"),
        ("a.cpp", b'int x = "open // text\n";'),
        ("a.cpp", b"int x = 'open // text\n;"),
        ("a.cpp", b'int x = R"(open // text)x";'),
        ("a.txt", b"some text"),
    ],
)
def test_a_file_that_is_no_source_counts_with_every_byte(name: str, content: bytes) -> None:
    once = sameness(name, (SourceFile(name, content),))
    assert once == sameness(name, (SourceFile(name, content),))
    assert once != sameness(name, (SourceFile(name, content + b" "),))


def test_a_declared_utf_8_is_read_as_what_it_is() -> None:
    assert of_python("# -*- coding: utf-8 -*-\nx = 1\n") == of_python("x = 1\n")


def test_no_bytes_look_like_the_tokens_of_another_file() -> None:
    assert of_python("x = 1 \0") != of_python("x = 1")


def test_the_name_of_the_main_file_does_not_count_but_its_language_does() -> None:
    content = b"x = 1\n"
    named = sameness("a.py", (SourceFile("a.py", content),))
    assert sameness("b.py", (SourceFile("b.py", content),)) == named
    assert sameness("b.cpp", (SourceFile("b.cpp", content),)) != named


def test_further_files_count_with_their_names_in_any_order() -> None:
    main, more = SourceFile("a.py", b"import m\n"), SourceFile("m.py", b"x = 1\n")
    both = sameness("a.py", (main, more))
    assert sameness("a.py", (more, main)) == both
    assert sameness("a.py", (main, SourceFile("m.py", b"x = 1 # one\n"))) == both
    assert sameness("a.py", (main, SourceFile("n.py", b"x = 1\n"))) != both
    assert sameness("a.py", (main,)) != both
    assert sameness("m.py", (main, more)) != both


def test_the_manifest_only_names_the_main_file() -> None:
    main = SourceFile("a.py", b"x = 1\n")
    manifest = SourceFile("submission.toml", b'main = "a.py"')
    assert sameness("a.py", (main, manifest)) == sameness("a.py", (main,))


MB = 1_000_000
TRYING = {
    "nested brackets": ("a.py", b"(" * MB),
    "nested blocks": ("a.py", b"".join(b" " * n + b"if x:\n" for n in range(1_380))),
    "a huge line": ("a.py", b"x = [" + b"1," * (MB // 2) + b"]\n"),
    "a huge name": ("a.py", b"x" * MB),
    "a huge number": ("a.py", b"1" * MB),
    "an unclosed string": ("a.py", b"x = '" + b"\\'" * (MB // 2)),
    "an unclosed text": ("a.py", b'x = """' + b"\n" * MB),
    "many quotes": ("a.py", b"\\'" * (MB // 2)),
    "continued lines": ("a.py", b"\\\n" * (MB // 2)),
    "NULs": ("a.py", b"\0" * MB),
    "no UTF-8": ("a.py", b"\xff" * MB),
    "many cookies": ("a.py", b"#" + b"coding:" * (MB // 7)),
    "C: nested brackets": ("a.cpp", b"(" * MB),
    "C: unclosed comments": ("a.cpp", b"/*" * (MB // 2)),
    "C: stars": ("a.cpp", b"/" + b"*" * MB),
    "C: an unclosed string": ("a.cpp", b'"' + b"\\'" * (MB // 2)),
    "C: unclosed raw strings": ("a.cpp", b'R"aaaaaaaaaaaaaaaa ' * (MB // 19)),
    "C: a raw string": ("a.cpp", b'R"(' + b")" * MB),
    "C: continued lines": ("a.cpp", b" \\\n" * (MB // 3)),
    "C: a continued comment": ("a.cpp", b"//" + b"\\\n" * (MB // 2)),
    "C: a huge number": ("a.cpp", b"1'" * (MB // 2)),
    "C: directives": ("a.cpp", b"#\n" * (MB // 2)),
}


@pytest.mark.parametrize("what", TRYING)
def test_no_input_takes_longer_than_its_size_lets_expect(what: str) -> None:
    name, content = TRYING[what]
    for size in (LONGEST_BYTES, MB):
        began = time.process_time()
        sameness(name, (SourceFile(name, content[:size]),))
        # Looking twice at every byte for each byte would take minutes.
        assert time.process_time() - began < 10


def test_more_source_than_is_looked_into_counts_with_every_byte() -> None:
    many = b"x = 1\n" * (LONGEST_BYTES // 6)
    assert of_python(many.decode() + "#") == of_python(many.decode())
    longer = many.decode() + "x = 1\n"
    assert of_python(longer + "#") != of_python(longer)
