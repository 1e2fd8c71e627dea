"""python -m attest: the `attest` program that ships in this package. `attest` on the PATH is the same."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "attest")


def main():
    if not os.path.exists(PROGRAM):
        print("attest: this package was built without the program, which needs jansson's header (libjansson-dev)", file=sys.stderr)
        sys.exit(3)
    os.execv(PROGRAM, ["attest", *sys.argv[1:]])


if __name__ == "__main__":
    main()
