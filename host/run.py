"""Voxpath's command line: `python host/run.py [talk|doctor|selftest]`; `--help` says the rest."""

import sys

from voxpath.cli import main

if __name__ == "__main__":
    sys.exit(main())
