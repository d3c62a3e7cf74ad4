"""Voxpath's command line: `python host/run.py [talk|doctor|selftest]`; `--help` says the rest."""

import sys

if __name__ == "__main__":
    try:
        from voxpath.cli import main

        code = main()
    except KeyboardInterrupt:  # before there is anything to end
        code = 130
    sys.exit(code)
