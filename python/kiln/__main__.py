"""The command `kiln` of the wheel, and `python -m kiln`: becomes the program bin/kiln."""

from ._command import main

if __name__ == "__main__":
    main()
