"""`python -m judge.cli`: the same command line where no `judge` script is on the path."""

from judge.cli import main

main()
