"""Run every example of the docs, each in a separate process; exit with the number that failed.

An example is a file of docs/examples that works offline and in a few seconds. A name that begins
with an underscore is a helper of other examples.
"""

import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).parent / "examples"
LIMIT = 60


def run(example: Path) -> bool:
    started = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-W", "error", example],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"FAILED {example.name}: still running after {LIMIT} s")
        return False
    print(f"{'FAILED' if done.returncode else 'ok'} {example.name} ({time.monotonic() - started:.1f} s)")
    if done.returncode:
        print(done.stdout + done.stderr)
    return not done.returncode


def main() -> int:
    examples = [path for path in sorted(EXAMPLES.glob("*.py")) if not path.name.startswith("_")]
    results = [run(example) for example in examples]
    print(f"{results.count(True)} examples ran, {results.count(False)} failed")
    return results.count(False)


if __name__ == "__main__":
    sys.exit(main())
