"""When two submissions are one kernel: a digest of the source without comments and layout. Pure.

Of Python go comments, layout and statements that are only a string, such as docstrings; of C++, CUDA
and HIP go comments and white space outside of literals. Other names for things make another kernel.
"""

from __future__ import annotations

import hashlib
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

from judge.archive import FURTHER_ENDINGS, MANIFEST, ending_of
from judge.model import SourceFile

LONGEST_BYTES = 250_000
"""More source than this counts byte-exact: Python's tokens take up to 4 us and 600 bytes of memory a
byte, and no kernel written by hand is so long."""


class _NoSource(Exception):  # noqa: N818
    """A file that is not of its language."""


def sameness(main: str, files: Sequence[SourceFile]) -> str:
    """SHA-256 (hex) of what a submission's files say, whatever their comments and layout.

    main: the file that is loaded or compiled; its name does not matter, only its ending. A file that
    cannot be read as its language counts with every byte. Takes time and memory in proportion to the
    files, up to `LONGEST_BYTES`, for any bytes.
    """
    readable = sum(len(file.content) for file in files) <= LONGEST_BYTES
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        if file.name == MANIFEST:
            continue  # it names the main file, and nothing else
        name = ending_of(main) if file.name == main else file.name
        content = _digest_of_tokens(file) if readable else _digest_of_bytes(file)
        for part in (name.encode(), content):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def _digest_of_bytes(file: SourceFile) -> bytes:
    return hashlib.sha256(b"bytes" + file.content).digest()


def _digest_of_tokens(file: SourceFile) -> bytes:
    """The digest of a file's tokens, or of its bytes where it has none."""
    digest = hashlib.sha256(b"tokens")
    try:
        for token in _tokens(file):
            # No source that gets here holds a NUL, so no two sequences of tokens look alike.
            digest.update(token.encode() + b"\0")
    except _NoSource:
        return _digest_of_bytes(file)
    return digest.digest()


def _tokens(file: SourceFile) -> Iterator[str]:
    """Raises _NoSource, also while the tokens are read."""
    if b"\0" in file.content:
        raise _NoSource
    try:
        text = file.content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _NoSource from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    ending = ending_of(file.name)
    if ending == ".py":
        return _python(text)
    if ending in C_LIKE:
        return _c_like(text)
    raise _NoSource


# --- Python

_DROPPED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)
_LAYOUT = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\n>", tokenize.DEDENT: "\n<"}
_DECLARES_ENCODING = re.compile(r"(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*+(?!utf-?8\b)", re.I)
_EVALUATED = re.compile(r"[a-z]*f", re.I)


def _python(text: str) -> Iterator[str]:
    if _DECLARES_ENCODING.match(text):
        raise _NoSource
    strings: list[str] | None = []  # of a statement that has been nothing else so far
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.ERRORTOKEN:
                raise _NoSource
            if token.type in _DROPPED:
                continue
            layout = _LAYOUT.get(token.type)
            if layout is not None:
                if strings is None or layout != "\n":
                    yield layout
                strings = []
            elif strings is not None and _is_plain_string(token):
                strings.append(token.string)
            else:
                yield from strings or ()
                yield token.string
                strings = None
    except (tokenize.TokenError, SyntaxError):
        raise _NoSource from None


def _is_plain_string(token: tokenize.TokenInfo) -> bool:
    """Whether a token is a string that computes nothing."""
    return token.type == tokenize.STRING and _EVALUATED.match(token.string) is None


# --- C++ and its kin

C_LIKE = (".cpp", ".cu", ".hip", *FURTHER_ENDINGS)

_DEFINE_AND_NAME = 3  # lexemes: `#`, `define`, the macro's name

# Possessive repeats, so that no input makes it look twice. `bad` is what opens and never closes.
_LEXEME = re.compile(
    r"""
    (?P<space>(?:[^\S\n]++|\\\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)++)
  | (?P<comment>//[^\n\\]*+(?:\\\n?[^\n\\]*+)*+)
  | (?P<line>\n)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s"]{0,16}+)\()
  | (?P<literal>(?:u8|[uUL])?(?:"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'))
  | (?P<bad>/\*|["'])
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'(?=\w)|[\w.])*+)
  | (?P<word>\w++)
  | (?P<sign><<<|>>>|<=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\#\#
      |[-+*/%&|^]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _c_like(text: str) -> Iterator[str]:
    """Lexemes; the lines of preprocessor directives keep their ends.

    A space between a macro's name and its parenthesis decides what it means, so it stays too.
    """
    at, line_is_empty, spaced = 0, True, False
    of_directive = 0  # lexemes of the directive so far, none outside of one
    while at < len(text):
        found = _LEXEME.match(text, at)
        assert found is not None, "every character is at least a sign"
        kind, lexeme, at = found.lastgroup, found.group(), found.end()
        if kind in ("space", "comment"):
            spaced = True
            continue
        if kind == "line":
            if of_directive:
                yield "\n"
            of_directive, line_is_empty, spaced = 0, True, True
            continue
        if kind == "bad":
            raise _NoSource
        if found["delimiter"] is not None:
            closing = f'){found["delimiter"]}"'
            end = text.find(closing, at)
            if end < 0:
                raise _NoSource
            lexeme += text[at : end + len(closing)]
            at = end + len(closing)
        if of_directive == _DEFINE_AND_NAME and spaced and lexeme == "(":
            yield " "
        if of_directive or (line_is_empty and lexeme == "#"):
            of_directive += 1
        yield lexeme
        line_is_empty, spaced = False, False
    if of_directive:
        yield "\n"
