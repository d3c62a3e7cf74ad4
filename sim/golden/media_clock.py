"""Golden model of media_clock in exact arithmetic."""

MASK = (1 << 64) - 1
FRACTION = 32  # bits of a nanosecond that are kept


class MediaClock:
    """Times after `advance`s, in ns modulo 2^64. `clk_hz` None: time advances with ticks of 48 kHz, the first at 0."""

    def __init__(self, clk_hz: int | None):
        self.clk_hz = clk_hz
        self.epoch = 0
        self._advances = 0 if clk_hz else -1
        self._corrected = 0  # by the rate, in 2^-32 ns
        self._stepped = 0

    def advance(self, rate_adjust: int = 0):
        """One tick or one clk; `rate_adjust` is signed, in 2^-32 ns."""
        self._advances += 1
        if self._advances > 0:
            self._corrected += rate_adjust

    def step(self, ns: int):
        """Add signed `ns` to the media time."""
        self._stepped += ns
        self.epoch += 1

    def _elapsed(self) -> int:
        """Free time in 2^-32 ns. By ticks, whole ns: the fraction of the thirds does not mix with the correction's."""
        count = max(0, self._advances)
        if self.clk_hz is None:
            return count * 62_500 // 3 << FRACTION
        period = ((10**9 << FRACTION) + self.clk_hz // 2) // self.clk_hz
        return count * period

    @property
    def free_ns(self) -> int:
        return self._elapsed() >> FRACTION & MASK

    @property
    def now_ns(self) -> int:
        return (self._elapsed() + self._corrected >> FRACTION) + self._stepped & MASK
