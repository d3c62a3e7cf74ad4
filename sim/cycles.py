"""Clock cycles that the benches counted, beside their budgets and the reference; run it after `pytest sim/`."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "fpga"))

from budgets import CYCLES  # noqa: E402

RECORDS = ROOT / "build" / "cycles"


def measured() -> dict[str, int]:
    """The worst count of each name over the last run of every bench."""
    worst: dict[str, int] = {}
    for path in RECORDS.glob("*.json"):
        for name, record in json.loads(path.read_text()).items():
            worst[name] = max(worst.get(name, 0), record["cycles"])
    return worst


def main() -> int:
    counts = measured()
    if not counts:
        print("nothing has been counted yet; first: pytest sim/", file=sys.stderr)
        return 2
    rows = [("", "cycles", "budget", "from, to", "reference")]
    for name, limit in CYCLES.items():
        count = f"{counts[name]:,}" if name in counts else "not run"
        rows.append((name, count, f"{limit.budget:,}", limit.what, limit.reference))
    rows += [(name, f"{count:,}", "", "", "") for name, count in sorted(counts.items()) if name not in CYCLES]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for name, count, budget, what, reference in rows:
        line = f"{name:{widths[0]}}  {count:>{widths[1]}}  {budget:>{widths[2]}}  {what:{widths[3]}}  {reference}"
        print(line.rstrip())
    over = [name for name, limit in CYCLES.items() if counts.get(name, 0) > limit.budget]
    if over:
        print(f"over budget: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
