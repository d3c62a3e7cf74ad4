"""`python -m voxpath.models`: fetch and convert all that the default chain needs, once."""

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from voxpath import models
from voxpath.errors import VoxpathError
from voxpath.models import fetch, recordings


def prepare(console: Console | None = None) -> None:
    """Fetch and convert the defaults under a progress bar; nothing is shown where nothing is to be done."""
    percentage = TextColumn("{task.percentage:>3.0f}%")
    columns = [TextColumn("{task.description}"), BarColumn(), percentage, TimeElapsedColumn()]
    bars = Progress(*columns, console=console or Console(stderr=True))
    tasks: dict[str, int] = {}

    def finish() -> None:
        for task in tasks.values():
            bars.update(task, completed=1.0)

    def show(label: str, done: float) -> None:
        bars.start()
        if label not in tasks:
            finish()
            tasks[label] = bars.add_task(label, total=1.0)
        bars.update(tasks[label], completed=done)

    try:
        for step in (models.default_asr, models.default_llm, models.default_tts, recordings.two_cities):
            step(show)
        finish()
    finally:
        if tasks:  # stopping what never started prints an empty line
            bars.stop()


def main() -> int:
    try:
        prepare()
    except VoxpathError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(f"The models are ready in {fetch.cache()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
