"""Programs of our own in processes of their own."""

import os
import subprocess
import sys


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Run Python in a process of its own that finds the package where we found it."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
