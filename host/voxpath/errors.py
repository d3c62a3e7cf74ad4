"""What can go wrong in a way that the user can mend: each error is one clear sentence."""


class VoxpathError(Exception):
    """A sentence for the user; the command line prints it and exits with `exit_code`."""

    exit_code = 2


class BoardError(VoxpathError):
    """The board is missing, busy, foreign or dead; the sentence says what to check."""


class SourceError(VoxpathError):
    """A recording is missing, empty, silent or not audio."""


class ModelError(VoxpathError):
    """Weights could not be fetched, converted or run."""
