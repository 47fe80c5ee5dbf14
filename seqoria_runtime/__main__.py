"""`python -m seqoria_runtime` is the command `seqoria-runtime`."""

import sys

from seqoria_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
