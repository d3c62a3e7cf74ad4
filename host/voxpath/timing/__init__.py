"""When things happened, on the board's clock: stamps, records of turns, reports."""
