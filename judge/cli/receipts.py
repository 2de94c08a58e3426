"""Receipts: proof that a submission was received, which anybody can verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from judge.cli.login import Server, connect
from judge.cli.render import receipt_line
from judge.cli.talk import Exit, WrongUse, answer, say
from judge.wire import ReceiptBody

commands = typer.Typer()
receipt = typer.Typer(
    no_args_is_help=True, help="Verify receipts kept by `judge submit --receipt`."
)
commands.add_typer(receipt, name="receipt")


@receipt.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt, as JSON.")],
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="PEM", help="A public key you kept; else the judge is asked."
        ),
    ] = None,
    server: Server = None,
) -> None:
    """Say whether a receipt was signed by the judge, as it stands. Status 1 if not."""
    try:
        from judge.receipts import verify as signed_by
    except ModuleNotFoundError:
        raise WrongUse("Verifying needs one more package: pip install cryptography") from None
    try:
        body = ReceiptBody.model_validate_json(file.read_bytes())
        pem = key.read_text() if key is not None else None
    except OSError as error:
        raise WrongUse(f"{error.filename} cannot be read: {error.strerror}.") from error
    except (ValidationError, UnicodeDecodeError):
        raise WrongUse(f"{file} holds no receipt as `judge submit --receipt` writes it.") from None
    if pem is None:
        with connect(server, None, needs_token=False) as client:
            pem = client.receipt_key().public_key_pem
    try:
        genuine = signed_by(pem, body)
    except ValueError as error:
        raise WrongUse(f"The key cannot be used: {error}.") from error
    answer("genuine" if genuine else "not signed by this judge, or changed since")
    say(receipt_line(body))
    raise typer.Exit(Exit.ACCEPTED if genuine else Exit.NOT_ACCEPTED)
