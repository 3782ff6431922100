"""``python -m kvframe``: the command, of the environment that this Python is of."""

from kvframe.cli import main

if __name__ == "__main__":
    main()
