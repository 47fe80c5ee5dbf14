"""CPU seconds and modules of `import seqoria_runtime`, each sample in a process of its own.

python benchmarks/import_cost.py
"""

import statistics
import subprocess
import sys

SAMPLE = """
import sys, time
started = time.process_time()
import seqoria_runtime
print(time.process_time() - started, *(name for name in ("httpx", "mcp", "trio") if name in sys.modules))
"""


def main() -> None:
    samples = [
        subprocess.run(
            [sys.executable, "-c", SAMPLE], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(9)
    ]
    seconds = statistics.median(float(sample[0]) for sample in samples)
    loaded = sorted({name for sample in samples for name in sample[1:]})
    print(f"import seqoria_runtime: {seconds:.3f} CPU s")
    print(f"of httpx, mcp and trio it loads: {', '.join(loaded) or 'none'}")


if __name__ == "__main__":
    main()
