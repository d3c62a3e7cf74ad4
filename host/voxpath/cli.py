"""The command line: options, what they are checked for, and the three commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from voxpath import sources
from voxpath.errors import ModelError, VoxpathError
from voxpath.speech import endpoint as endpoints
from voxpath.speech.think import DEFAULT_SYSTEM

INTERRUPTED = 130
BOARDS = ("sim", "kv260", "serial", "pcie", "soundcard")
ENGINES = ("cpu", "cuda")
# The interpreter lets a thread hold its lock for 5 ms by default, longer than a frame lasts.
SWITCH_S = 0.0005


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage in front of it."""

    def error(self, message: str):
        raise VoxpathError(f"{message[:1].upper()}{message[1:].rstrip('.')}. See --help for the options.")


def parser() -> Parser:
    options = Parser(prog="run.py", description="Talk through an FPGA front end, and see where each millisecond goes.")
    options.add_argument(
        "command",
        nargs="?",
        default="talk",
        help="talk (default): answer what is said; doctor: what is there and missing; selftest: the board's time",
    )
    options.add_argument("--board", default="sim", help="sim: the RTL as a cycle-accurate board in this process")
    options.add_argument("--address", help="where the board is; the simulated board has none")
    options.add_argument(
        "--source", metavar="FILE", help="what the microphone hears: WAV or FLAC, any rate, any channels"
    )
    options.add_argument("--ask", metavar="TEXT", action="append", help="have the voice ask this; may be given again")
    options.add_argument(
        "--labels", metavar="FILE", help='JSON [{"start_s": 0.0, "end_s": 1.0, "text": ""}] for --source'
    )
    options.add_argument("--sink", metavar="FILE|none", default="none", help="a 48 kHz WAV of what the board played")
    options.add_argument("--engine", default="cpu", help="where the models run: cpu (default), or cuda: an NVIDIA GPU")
    options.add_argument(
        "--asr",
        metavar="MODEL",
        help="recogniser: whisper:FOLDER of weights in CTranslate2's format, instead of the default",
    )
    options.add_argument(
        "--llm", metavar="MODEL", help="language model: gguf:FILE of the Llama family, or openai:URL[,NAME] of a server"
    )
    options.add_argument(
        "--tts",
        metavar="MODEL",
        help="voice: an ONNX file of hibari's form, or piper:FILE.onnx (needs piper-tts), instead of the default",
    )
    options.add_argument(
        "--system", metavar="TEXT|@FILE", default=DEFAULT_SYSTEM, help="what the language model is told"
    )
    options.add_argument(
        "--endpoint",
        default=endpoints.DEFAULT,
        help="ms of silence that end a turn: adaptive:MIN,MAX by how complete the words are, or fixed:MS "
        f"(default {endpoints.DEFAULT})",
    )
    options.add_argument(
        "--no-speculation",
        dest="speculate",
        action="store_false",
        help="answer only after the endpoint, not from the first pause; an adaptive endpoint then waits its longest",
    )
    options.add_argument(
        "--report", metavar="DIR", help="write summary.json, turns.jsonl and the sound of each turn here"
    )
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. What the user can mend is one sentence on stderr, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character does not end the run
    try:
        args = parser().parse_args(arguments)
        _check_text(args)
        commands = {"talk": talk, "doctor": doctor, "selftest": selftest}
        if args.command not in commands:
            raise VoxpathError(f"There is no command {args.command}; use talk, doctor or selftest.")
        if args.command != "talk":
            _check_no_talk_options(args)
        return commands[args.command](args)
    except VoxpathError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{error.filename or 'The output'} cannot be read or written: {error.strerror}.", file=sys.stderr)
        return VoxpathError.exit_code
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED


def _console():
    from rich.console import Console

    return Console()


def doctor(args: argparse.Namespace) -> int:
    from voxpath import doctor

    return doctor.show(doctor.look(), _console())


def selftest(args: argparse.Namespace) -> int:
    from voxpath import selftest

    _check_board(args)
    console = _console()
    with Progress(console) as progress:
        board = open_sim(progress)
    try:
        return selftest.run(board, console)
    finally:
        board.close()


def talk(args: argparse.Namespace) -> int:
    from voxpath.talk import Talk
    from voxpath.timing.report import Report, show, summary
    from voxpath.view import View

    sys.setswitchinterval(SWITCH_S)
    _check_board(args)
    _check_choices(args)
    endpoint = endpoints.parse_endpoint(args.endpoint)
    system = read_system(args.system)
    recording = sources.from_file(args.source, args.labels) if args.source else None
    report = Report(args.report) if args.report else None
    sink = None if args.sink == "none" else Path(args.sink)
    console = _console()
    with Progress(console) as progress:
        engines, models = load_engines(args, progress)
        if args.ask:
            clips = [sources.spoken(text, engines[2]) for text in args.ask]
        else:
            clips = [recording or sources.default_recording()]
        board = open_sim(progress, room=sources.quiet_room())
    settings = {
        "source": args.source or ("ask" if args.ask else "default"),
        "endpoint": str(endpoint),
        "speculation": args.speculate,
        "system": system,
    }
    code, written = 0, None
    view = View(console)
    talk = Talk(
        board,
        engines,
        endpoint=endpoint,
        speculate=args.speculate,
        system=system,
        watcher=view,
        report=report,
        finished=view.finished,
    )
    try:
        with view, talk:
            talk.play(clips)
    except KeyboardInterrupt:
        code = INTERRUPTED
        talk.records.end_at(board.time()[0])
        console.print("Stopped.")
    except VoxpathError as error:
        code = error.exit_code
        print(error, file=sys.stderr)
    finally:
        board.close()
        if report is not None and not talk.broken_report:
            figures = summary(
                talk.records, board, board_name=args.board, engine=args.engine, settings=settings, models=models
            )
            written = report.close(figures)
        if sink is not None:
            _write_sink(sink, board)
    if written is not None:
        console.print(f"Report: {written}", highlight=False, soft_wrap=True)
    show(talk.records, console)
    if code == 0 and not any(record.outcome == "answered" for record in talk.records.turns):
        errors = [record.error for record in talk.records.turns if record.error]
        why = errors[-1] if errors else "no words were recognised in what the board heard"
        console.print(f"Nothing was answered: {why.rstrip('.')}.", highlight=False, markup=False)
        code = 1
    return code


# ---- checking options ------------------------------------------------------------------------------------------------


def _check_board(args: argparse.Namespace) -> None:
    if args.board not in BOARDS:
        raise VoxpathError(f"There is no board called {args.board}; use --board sim.")
    if args.board != "sim":
        raise VoxpathError(f"This version has only the simulated board, not {args.board}; use --board sim.")
    if args.address:
        raise VoxpathError("The simulated board runs in this process and has no address; leave --address out.")


def _check_choices(args: argparse.Namespace) -> None:
    if args.engine not in ENGINES:
        raise VoxpathError(f"There is no engine called {args.engine}; use --engine cpu or cuda.")
    if args.source and args.ask:
        raise VoxpathError("--source and --ask both say what the microphone hears; give one of them.")
    if args.source == "mic":
        raise VoxpathError("The simulated board has no microphone; give --source a WAV or FLAC file.")
    if args.sink == "speaker":
        raise VoxpathError("The simulated board has no loudspeaker; give --sink a file name, or none.")
    if args.sink != "none" and Path(args.sink).is_dir():
        raise VoxpathError(f"--sink {args.sink} is a folder; give the name of a WAV file.")
    if args.sink != "none" and Path(args.sink).exists() and not Path(args.sink).is_file():
        raise VoxpathError(f"--sink {args.sink} is a pipe or a device; give the name of a WAV file.")
    if args.sink != "none" and not Path(args.sink).resolve().parent.is_dir():
        raise VoxpathError(f"There is no folder {Path(args.sink).resolve().parent} for --sink.")
    if any(not any(char.isalnum() for char in text) for text in args.ask or ()):
        raise VoxpathError("There is nothing to ask: the text of --ask has no words.")
    if args.labels and not args.source:
        raise VoxpathError("--labels belongs to a --source.")


def _check_text(args: argparse.Namespace) -> None:
    """No option is empty, and what the models are to read is text."""
    for name, value in vars(args).items():
        for one in value if isinstance(value, list) else [value]:
            if one == "" and name != "system":
                raise VoxpathError(f"--{name} is empty.")
            if name in ("system", "ask") and any("\ud800" <= char <= "\udfff" for char in one or ""):
                raise VoxpathError(f"--{name} is not text in UTF-8.")


def _check_no_talk_options(args: argparse.Namespace) -> None:
    defaults = vars(parser().parse_args([]))
    given = [name for name, value in vars(args).items() if value != defaults[name]]
    foreign = sorted(set(given) - {"command", "board", "address"})
    if foreign:
        option = "--no-speculation" if foreign[0] == "speculate" else f"--{foreign[0]}"
        raise VoxpathError(f"{args.command} does not take {option}.")


def read_system(text: str) -> str:
    """The system prompt itself, or the content of @FILE."""
    if not text.startswith("@"):
        return text
    try:
        return sources.read_text(text[1:]).strip()
    except OSError as error:
        raise VoxpathError(f"The system prompt {text[1:]!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise VoxpathError(f"The system prompt {text[1:]!r} is not text in UTF-8.") from error


# ---- putting it together ---------------------------------------------------------------------------------------------


class Progress:
    """Bars for downloads and conversions, lines for the rest; `(label, done 0..1)` as the models report it."""

    def __init__(self, console) -> None:
        from rich import progress

        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn())
        self._bars = progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._console = console
        self._tasks: dict[str, int] = {}

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *_) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        self._hide()
        self._console.print(text, highlight=False, markup=False)

    def _hide(self) -> None:
        """What was going on is over: something else begins."""
        for task in self._tasks.values():
            self._bars.update(task, visible=False)

    def __call__(self, label: str, done: float) -> None:
        if label not in self._tasks:
            self._hide()
            self._tasks[label] = self._bars.add_task(label, total=1.0)
            if not self._console.is_terminal:
                self.say(f"{label} ...")
        self._bars.update(self._tasks[label], completed=done, visible=done < 1)


def open_sim(progress: Progress, **options):
    from voxpath.boards import open_board

    return open_board("sim", progress=progress.say, **options)


def load_engines(args: argparse.Namespace, progress: Progress) -> tuple[tuple, dict[str, str]]:
    """((recogniser, language, voice), what each is) for the options, fetched and converted where need be."""
    from voxpath import models

    engine = engine_module(args.engine)
    server = _server(args.llm)
    asr = models.asr(_path(args.asr, "whisper"), progress, args.engine)
    piper = Path(_path(args.tts, "piper")) if (args.tts or "").startswith("piper:") else None
    tts = piper or models.tts(args.tts, progress, args.engine)
    llm = None if server else models.llm(_path(args.llm, "gguf"), progress, args.engine)
    progress.say("Loading the models")
    language = server or _load(engine.language, llm)
    engines = _load(engine.recogniser, asr), language, _load(_piper if piper else engine.voice, tts)
    return engines, {"asr": asr.name, "llm": args.llm if server else llm.name, "tts": tts.name}


def engine_module(name: str):
    """The package with `recogniser`, `language` and `voice` for an engine. Raises ModelError if it cannot run here."""
    if name == "cuda":
        from voxpath.engines import cuda

        cuda.check()
        return cuda
    from voxpath.engines import ort

    return ort


def _piper(path: Path):
    from voxpath.engines.piper import Voice

    return Voice(path)


def _path(choice: str | None, kind: str) -> str | None:
    """The path of `KIND:PATH` or of `PATH`."""
    if choice == f"{kind}:":
        raise VoxpathError(f"{choice} names no file or folder.")
    return choice.removeprefix(f"{kind}:") if choice else None


def _server(choice: str | None):
    """The server of `openai:URL[,MODEL]`, which answers; None for another choice."""
    if not choice or not choice.startswith("openai:"):
        return None
    from voxpath.engines.openai import Server

    server = Server.parse(choice.removeprefix("openai:"))
    server.check()
    return server


def _load(make, folder: Path):
    try:
        return make(folder)
    except VoxpathError:
        raise
    except Exception as error:  # of a description that does not fit its network; the runtime's have no common base
        raise ModelError(
            f"The model in {folder} does not load ({error}); delete that folder to have it made again."
        ) from (error)


def _write_sink(path: Path, board) -> None:
    from voxpath.timing.report import write_wav

    pcm, _ = board.dac_pcm()
    path = path.resolve()  # the file that a link names is written, not the link
    part = path.with_name(path.name + ".part")
    try:
        write_wav(part, pcm, sources.BOARD_RATE)
        os.replace(part, path)
    except (OSError, RuntimeError) as error:
        part.unlink(missing_ok=True)
        raise VoxpathError(f"--sink {path} cannot be written: {str(error).rstrip('.')}.") from error
