"""The soak: ``python -m tests.soak --minutes 30``.

Producers, workers and an operator work on one queue for so long, while workers, connections and
the server are killed, stopped and cut every few seconds. Then all settles, and a balance sheet says
where every admitted job is and why any ran twice. Ends with 1 where a job is lost or something is
unexplained; the folder with journal, effects and logs is then kept.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.soak.run import Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="run for so long (30)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the chance")
    parser.add_argument("--keep", action="store_true", help="keep the folder also when all is well")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    say(f"seed {options.seed}, in {folder}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    soak = Soak(folder, options.seed)
    try:
        soak.run(options.minutes, say)
    finally:
        soak.close()
    say(soak.books.balance())
    if soak.books.faults:
        say(f"kept: {folder}")
        return 1
    if not options.keep:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
