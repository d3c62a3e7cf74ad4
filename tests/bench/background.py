"""The simulated board in a room that is never silent, whose replies are cut off once they can be judged.

A microphone hears its room all the time: between what is said, and while a reply is played. Room tone is under every
clip already (`sources.with_room`); a thread here gives the board the same tone between clips, and noise under both.
"""

import threading

import numpy as np

from voxpath.errors import BoardError
from voxpath.sources import BOARD_RATE, room_tone

AHEAD_S = 0.3  # of background that waits in the board
CHUNK_S = 0.1
TONE_S = 20.0  # after which the tone repeats
HEARD_S = 0.8  # of a reply: its start can be judged, and nobody has to wait for its end


class Room:
    """A SimBoard with background sound; `noise` is float64 at 48 kHz in units of int16, repeated, or None.

    Use it wherever the board is used. A reply on it ends by itself after HEARD_S; what is written beyond is ignored.
    """

    def __init__(self, board, noise: np.ndarray | None = None) -> None:
        self._board = board
        self._noise, self._noise_at = noise, 0
        self._tone, self._tone_at = 32768.0 * room_tone(int(TONE_S * BOARD_RATE), seed=1), 0
        self._end_ns = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="room", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str):
        return getattr(self._board, name)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._board.close()

    def play_source(self, pcm: np.ndarray) -> int:
        """As the board's; the noise goes on under it."""
        with self._lock:
            return self._play(pcm.astype(np.float64))

    def start_reply(self, rate: int) -> "ShortReply":
        return ShortReply(self._board.start_reply(rate), int(HEARD_S * rate))

    def _play(self, sound: np.ndarray) -> int:
        if self._noise is not None:
            sound = sound + np.take(self._noise, np.arange(self._noise_at, self._noise_at + len(sound)), mode="wrap")
            self._noise_at = (self._noise_at + len(sound)) % len(self._noise)
        start_ns = self._board.play_source(np.clip(np.rint(sound), -32768, 32767).astype(np.int16))
        self._end_ns = start_ns + round(len(sound) * 1e9 / BOARD_RATE)
        return start_ns

    def _fill(self) -> None:
        chunk = int(CHUNK_S * BOARD_RATE)
        try:
            while not self._closing.wait(CHUNK_S / 2):
                with self._lock:
                    while self._end_ns < self._board.time()[0] + AHEAD_S * 1e9:
                        self._play(np.take(self._tone, np.arange(self._tone_at, self._tone_at + chunk), mode="wrap"))
                        self._tone_at = (self._tone_at + chunk) % len(self._tone)
        except BoardError:
            pass  # who uses the board meets the error too


class ShortReply:
    """A board's reply that takes `most` samples and is finished with the last of them.

    Once that was heard, all that was written counts as heard: what a speaker has heard of earlier replies is what the
    language model goes on from, and it would learn to stop in the middle of a sentence.
    """

    def __init__(self, reply, most: int) -> None:
        self._reply = reply
        self._left = most
        self._ignored = 0

    def __getattr__(self, name: str):
        return getattr(self._reply, name)

    def write(self, pcm: np.ndarray) -> None:
        taken = pcm[: self._left]
        self._ignored += len(pcm) - len(taken)
        if len(taken):
            self._reply.write(taken)
            self._left -= len(taken)
            if not self._left:
                self._reply.finish()

    def played(self) -> int:
        return self._reply.played() + (self._ignored if "last" in self._reply.times else 0)
