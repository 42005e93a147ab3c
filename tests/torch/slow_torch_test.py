#!/usr/bin/env python3
"""Runs the tests of plugins/torch with the PyTorch that tools/torch has installed."""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def skip(reason):
    print("plugins/torch was NOT tested: " + reason)
    sys.exit(77)


def environment():
    """The folder of the virtual environment."""
    given = os.environ.get("TEST_TORCH_ENV")
    if given:
        return given
    with open(os.path.join(ROOT, "tools", "torch"), encoding="utf-8") as file:
        pinned = re.search(r'^PINNED = "(.*)"', file.read(), re.MULTILINE)[1]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "tutti", f"torch-{pinned}")


def main():
    python = os.path.join(environment(), "bin", "python")
    if not os.path.exists(python):
        skip(f"there is no PyTorch at {environment()}; tools/torch installs it")
    # Not tutti_torch, which may be of another checkout, or older than its sources.
    asked = subprocess.run([python, "-c", "import torch; print(torch.__version__.split('+')[0])"],
                           capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        sys.exit(f"PyTorch cannot be imported:\n{asked.stderr}")
    subprocess.run([sys.executable, "-B", os.path.join(ROOT, "tools", "torch"), "--env",
                    environment(), "--torch", asked.stdout.strip()], check=True)
    tests = os.path.join(ROOT, "plugins", "torch", "tests")
    done = subprocess.run([python, "-B", "-m", "unittest", "discover", "-v", "-s", tests],
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
