"""`python -m domadapt` is the `domadapt` command."""

from domadapt.cli import main

if __name__ == "__main__":
    main()
