"""What a turn's stamps amount to: response time, outcome, validity. Definitions are in docs/timing.md."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

import numpy as np

from voxpath.speech.speak import audible_from

WALL_LIMIT_MS = 2.0  # board time and wall time of one response may differ by this much
LAG_LIMIT_MS = 8.0  # a simulated board may be this late during a turn
LAG_STEP_NS = 4_000_000
LAG_BASE_NS = 2_000_000_000
OUTCOMES = ("answered", "missed", "cut_in", "merged")

# The way of a response, in order: what is waited for, and the stamp at its end. The way starts at speech_end.
WAY = (
    ("silence until the endpoint", "endpoint"),
    ("recogniser, after the endpoint", "asr_final"),
    ("language model, first token", "llm_first_token"),
    ("language model, first phrase", "phrase"),
    ("voice, first sound", "tts_first_audio"),
    ("handing it to the board", "handed_to_board"),
    ("board, to the first sound", "reply_start"),
)


@dataclass(slots=True)
class Spoken:
    """A labelled utterance on the board's clock, and what became of it."""

    start_ns: int
    end_ns: int
    text: str = ""
    outcome: str = "missed"
    turn: int | None = None


@dataclass(slots=True)
class Record:
    """One turn as it is reported. Times are board ns, durations ms; None is what did not happen."""

    turn: int
    outcome: str
    valid: bool = True
    invalid_because: list[str] = field(default_factory=list)
    transcript: str = ""
    reply: str = ""
    speculated: bool = False
    barged_in: bool = False
    times_ns: dict[str, int] = field(default_factory=dict)
    uncertainty_ns: int = 0
    speech_end_from: str = "vad"
    response_ms: float | None = None
    wall_ms: float | None = None
    endpoint_ms: float | None = None
    chain_ms: float | None = None
    hold_ms: float | None = None
    overlap_ms: float | None = None
    lag_ms: float | None = None
    underruns: int = 0
    concealed_ms: float = 0.0
    concealed_frames: int = 0
    error: str | None = None

    def way(self) -> list[tuple[str, float]]:
        """(what was waited for, ms) from the end of speech to the first sound of the reply; adds up to response_ms.

        Steps that were over before the one in front of them (a speculative recognition) waited for nothing.
        """
        times = self.times_ns
        if self.response_ms is None:
            return []
        now = times["speech_end"]
        steps = []
        for name, stamp in WAY:
            # No step ends after the reply was heard: a host stamp may be a little later than the board's own.
            then = min(max(now, times.get(stamp, now)), times["reply_start"])
            steps.append((name, (then - now) / 1e6))
            now = then
        return steps


def _ms(times: dict[str, int], start: str, end: str) -> float | None:
    if start not in times or end not in times:
        return None
    return (times[end] - times[start]) / 1e6


class Records:
    """All turns of a run, matched to the labels of what was said.

    `board` is asked for `wall_ns(board_ns)` where it has that (a simulated board): the host's monotonic ns at which
    the board was there, or None.
    """

    def __init__(self, board=None) -> None:
        self.turns: list[Record] = []
        self.spoken: list[Spoken] = []
        self._wall_ns = getattr(board, "wall_ns", None)
        self._lock = threading.Lock()

    def expect(self, spoken: Iterable[Spoken]) -> None:
        """Add labelled utterances that have begun to play, in order of time."""
        self.spoken.extend(spoken)

    def add(self, turn) -> Record:
        """Make the record of a closed turn (voxpath.speech.turn.Turn)."""
        record = self._measure(turn)
        with self._lock:
            self.turns.append(record)
        return record

    def _measure(self, turn) -> Record:
        times = dict(turn.times)
        record = Record(
            turn.number,
            outcome="missed",
            transcript=turn.transcript,
            reply=turn.reply.strip(),
            speculated=turn.speculated,
            barged_in=turn.barged_in,
            uncertainty_ns=turn.uncertainty_ns,
            concealed_frames=turn.utterance.concealed_frames,
            error=turn.error,
        )
        pcm = np.concatenate(turn.pcm) if turn.pcm else np.zeros(0, np.int16)
        self._place_reply_start(times, turn, pcm)
        self._match(record, times)
        # The recogniser needs the last of the speech: what it was given before that moment does not count.
        if "audio_ready" in times:
            times["audio_ready"] = max(times["audio_ready"], times["speech_end"])
        record.times_ns = dict(sorted(times.items(), key=lambda item: item[1]))
        if record.outcome == "answered":
            record.response_ms = _ms(times, "speech_end", "reply_start")
            record.wall_ms = self._wall(times)
        record.endpoint_ms = _ms(times, "speech_end", "endpoint")
        record.chain_ms = _ms(times, "audio_ready", "reply_ready")
        hold = _ms(times, "reply_ready", "endpoint")
        record.hold_ms = None if hold is None else max(0.0, hold)
        self._judge(record, turn, pcm)
        return record

    @staticmethod
    def _place_reply_start(times: dict[str, int], turn, pcm: np.ndarray) -> None:
        """DAC time of the first audible 10 ms: the board says when the first sample left, the sound says the rest."""
        if "first_pcm" not in times:
            return
        quiet = audible_from(pcm, turn.rate) if len(pcm) else None
        if quiet is None:
            return
        start = times["first_pcm"] + round(quiet * 1e9 / turn.rate)
        if start <= times.get("reply_end", start):  # a reply that was cut before it was heard did not start
            times["reply_start"] = start

    def _match(self, record: Record, times: dict[str, int]) -> None:
        """Find the labels that this turn heard; decide its outcome and where its speech ended."""
        start, end = times["speech_start"], times["speech_end"]
        reply = None if record.error else times.get("reply_start")  # to say that something has failed is no answer
        heard = [label for label in self.spoken if label.start_ns < end and label.end_ns > start]
        if not heard:
            record.outcome = "unlabelled" if self.spoken else "missed" if reply is None else "answered"
            return
        record.speech_end_from = "label"
        *earlier, last = heard
        times["speech_start"], times["speech_end"] = heard[0].start_ns, last.end_ns
        if reply is None:
            return
        if reply < last.end_ns:
            record.outcome = "cut_in"
            record.overlap_ms = (last.end_ns - reply) / 1e6
        else:
            record.outcome = "answered"
        self._settle(last, record.outcome, record.turn)
        for label in earlier:
            self._settle(label, "merged", record.turn)

    @staticmethod
    def _settle(label: Spoken, outcome: str, turn: int) -> None:
        """A label keeps its first outcome; only a miss can become something else, and a cut-in outweighs all."""
        if label.outcome == "missed" or outcome == "cut_in":
            label.outcome, label.turn = outcome, turn

    def _wall(self, times: dict[str, int]) -> float | None:
        start, end = (self._offset_ns(times[name]) for name in ("speech_end", "reply_start"))
        if start is None or end is None:
            return None
        return (times["reply_start"] - times["speech_end"] + end - start) / 1e6

    def _offset_ns(self, board_ns: int) -> int | None:
        """Wall time less board time: constant as long as the board keeps the wall's pace."""
        wall_ns = self._wall_ns(board_ns) if self._wall_ns is not None else None
        return None if wall_ns is None else wall_ns - board_ns

    def _lag(self, start_ns: int, end_ns: int) -> float | None:
        """How late a simulated board was at worst, in ms, against where it was earliest since LAG_BASE_NS before."""

        def offsets(first: int, last: int) -> list[int]:
            sampled = (self._offset_ns(ns) for ns in range(max(0, first), last, LAG_STEP_NS))
            return [offset for offset in sampled if offset is not None]

        during = offsets(start_ns, end_ns)
        if not during:
            return None
        return (max(during) - min(during + offsets(start_ns - LAG_BASE_NS, start_ns))) / 1e6

    def _judge(self, record: Record, turn, pcm: np.ndarray) -> None:
        """Say whether the turn's times can be trusted, and why not."""
        times, because = record.times_ns, record.invalid_because
        if record.response_ms is not None and record.response_ms < 0:
            record.response_ms = record.wall_ms = None
            because.append("the reply is stamped before the end of speech")
        if record.response_ms is not None and record.wall_ms is not None:
            apart = abs(record.response_ms - record.wall_ms)
            if apart > WALL_LIMIT_MS:
                because.append(f"board time and wall time differ by {apart:.1f} ms")
        if record.response_ms is not None:
            record.lag_ms = self._lag(times["speech_end"], times["reply_start"])
            if record.lag_ms is not None and record.lag_ms > LAG_LIMIT_MS:
                because.append(f"the board was {record.lag_ms:.1f} ms late")
        record.underruns = len(turn.underruns)
        first_phrase = turn.first_phrase_samples
        if any(first_phrase is None or position <= first_phrase for _, position in turn.underruns):
            because.append("playback ran dry before the second phrase")
        if turn.underruns and "reply_end" in times and not turn.barged_in:
            heard_ms = (times["reply_end"] - times["first_pcm"]) / 1e6
            record.concealed_ms = max(0.0, heard_ms - 1e3 * len(pcm) / turn.rate)
        record.valid = not because

    # ---- sums ------------------------------------------------------------------------------------------------------

    def end_at(self, ns: int) -> None:
        """The run was stopped at this board time: what had not been said to its end by then was not missed."""
        self.spoken = [label for label in self.spoken if label.end_ns <= ns or label.turn is not None]

    def counts(self) -> dict[str, int]:
        """Outcomes per labelled utterance, or per turn where there are no labels."""
        outcomes = [label.outcome for label in self.spoken] or [record.outcome for record in self.turns]
        counts = {"labelled": len(self.spoken)} | {name: outcomes.count(name) for name in OUTCOMES}
        return counts | {"invalid": sum(not record.valid for record in self.turns)}

    def distribution(self, name: str) -> dict[str, float | int | None]:
        """n, p50, p95, p99 and max of `response_ms`, `endpoint_ms` or `chain_ms`.

        Over all labelled utterances (turns, where there are no labels) but cut-ins; missed and merged ones count as
        infinite, which is None. Only an unlabelled turn of a labelled run is left out.
        """
        by_turn = {record.turn: record for record in self.turns}
        rows = self.spoken or self.turns
        values = []
        for row in rows:
            if row.outcome == "cut_in":
                continue
            value = getattr(by_turn[row.turn], name) if row.outcome == "answered" else None
            values.append(math.inf if value is None else value)
        return distribution(values)


def distribution(values: list[float]) -> dict[str, float | int | None]:
    """n, p50, p95, p99, max; infinite values are None. A percentile is a measured value, the higher neighbour."""
    ordered = sorted(values)
    result: dict[str, float | int | None] = {"n": len(ordered)}
    for name, part in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
        value = ordered[math.ceil(part * (len(ordered) - 1) - 1e-9)] if ordered else None
        result[name] = None if value is None or math.isinf(value) else value
    return result


def as_json(record: Record) -> dict:
    """The record as plain JSON values; ms rounded to a microsecond."""
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(record).items()}
