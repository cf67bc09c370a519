"""Programs that are interrupted: how long one goes on after the signal."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def worked(pid: int) -> float:
    """Tell how many seconds of the processor a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_until_interrupted(program: str, *arguments: object, after: float) -> float:
    """
    Run a program and interrupt it some seconds after it said "ready".

    It answers `print("interrupted", time.time(), time.process_time(), flush=True)`.
    The answer is the time by the clock or of the processor, whichever is less: on a
    busy machine a program cannot answer while another one has its processor.
    """
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(after)
            used = worked(process.pid) if sys.platform == "linux" else None
            process.send_signal(signal.SIGINT)
            sent = time.time()
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    word, *times = said.split()
    assert word == "interrupted", said
    when, had = map(float, times)
    return when - sent if used is None else min(when - sent, had - used)
