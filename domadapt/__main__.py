"""`python -m domadapt` is the `domadapt` command."""

from domadapt.cli.main import main

if __name__ == "__main__":
    main()
