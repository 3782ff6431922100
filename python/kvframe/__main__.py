"""``python -m kvframe`` runs the command ``kvframe`` of this Python's own environment."""

from kvframe.cli import main

if __name__ == "__main__":
    main()
