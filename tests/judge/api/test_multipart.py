"""Promises of the form parser: byte-exact for every client, and no bytes that break it."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.api.multipart import Part, parse_form
from judge.model import Refusal

TEXT = "multipart/form-data; boundary=b"


def form(*parts: bytes, end: bytes = b"--b--\r\n") -> bytes:
    return b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + end


def part(head: str, content: bytes = b"x") -> bytes:
    return f"Content-Disposition: form-data; {head}\r\n\r\n".encode() + content


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "files", "mode"]), st.binary(max_size=300)), max_size=6
    )
)
def test_whatever_a_client_sends_arrives_byte_by_byte(fields):
    files = [(name, ("f.py", content)) for name, content in fields]
    request = httpx.Request("POST", "http://x/", files=files or {"a": ("f.py", b"")})
    parsed = parse_form(request.headers["content-type"], request.read(), 10)
    assert not isinstance(parsed, Refusal)
    if files:
        assert [(p.name, p.content) for p in parsed] == fields


@given(st.binary(max_size=200), st.lists(st.sampled_from([b"--b", b"\r\n", b"--", b"--b--"])))
def test_no_bytes_break_it(noise, pieces):
    for body in (noise, noise.join(pieces), form(noise), form(part('name="a"', noise), noise)):
        found = parse_form(TEXT, body, 4)
        assert isinstance(found, (tuple, Refusal))


@given(st.text(max_size=80))
def test_no_content_type_breaks_it(text):
    found = parse_form(text, form(part('name="a"')), 4)
    assert isinstance(found, (tuple, Refusal))


@pytest.mark.parametrize(
    ("head", "name", "filename"),
    [
        ('name="a"', "a", None),
        ("name=a", "a", None),
        ('name="a"; filename="f.py"', "a", "f.py"),
        ('filename="f.py"; name="a"', "a", "f.py"),
        ('name="a"; filename=""', "a", ""),
        ('NAME="a"; FILENAME="f.py"', "a", "f.py"),
        (r'name="a"; filename="q\"uote.py"', "a", 'q"uote.py'),
        ('name="a"; filename="semi;colon.py"', "a", "semi;colon.py"),
        ('name="a"; filename="kä.py"', "a", "kä.py"),
        ("name=\"a\"; filename*=utf-8''k%C3%A4.py", "a", "kä.py"),
        ('name="a=b; c"', "a=b; c", None),
    ],
)
def test_names_are_read_as_clients_write_them(head, name, filename):
    assert parse_form(TEXT, form(part(head)), 4) == (Part(name, filename, b"x"),)


def test_other_headers_and_a_preamble_are_passed_over():
    body = b"hello\r\n" + form(
        b'Content-Type: text/x; name="no"\r\nContent-Disposition: form-data; name="a"\r\n\r\nx'
    )
    assert parse_form(TEXT, body, 4) == (Part("a", None, b"x"),)


def test_a_quoted_boundary_is_a_boundary():
    body = b'--a b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--a b--'
    assert parse_form('multipart/form-data; boundary="a b"', body, 4) == (Part("a", None, b"x"),)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        form(part('name="a"'), end=b""),
        form(part('name="a"'), end=b"--b"),
        form(b"Content-Disposition: form-data\r\n\r\nx"),
        form(b'Content-Disposition: attachment; name="a"\r\n\r\nx'),
        form(b"\r\nx"),
        form(b'Content-Disposition: form-data; name="' + b"a" * 5_000 + b'"\r\n\r\nx'),
    ],
)
def test_a_broken_form_is_refused_with_a_reason(body):
    found = parse_form(TEXT, body, 4)
    assert isinstance(found, Refusal)
    assert found.code == "form_broken"


def test_too_many_parts_are_refused():
    found = parse_form(TEXT, form(*[part('name="a"')] * 5), 4)
    assert isinstance(found, Refusal)
    assert (found.code, found.status) == ("too_many_fields", 413)
