"""A standalone cluster, with a master and workers in processes of their own, as an operator would start it."""

import os
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pyspark

LAUNCH = str(Path(pyspark.__file__).parent / "bin" / "spark-class")


@dataclass
class Cluster:
    """A master, and workers that come and go; each has one executor with one core."""

    port: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._launch("master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def add_worker(self) -> int:
        """Start a worker; gives the id of its process."""
        return self._launch("worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", self.url)

    def lose(self, executor: int) -> None:
        """Kill an executor, and its worker before, which would start another."""
        worker = int(Path(f"/proc/{executor}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert worker in [process.pid for process in self.processes], "the executor is none of this cluster's"
        for process in (worker, executor):
            with suppress(ProcessLookupError):
                os.kill(process, 9)

    def _launch(self, main: str, *arguments: str) -> int:
        command = [LAUNCH, f"org.apache.spark.deploy.{main}", *arguments, "--webui-port", "0"]
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        silent = subprocess.DEVNULL
        self.processes.append(subprocess.Popen(command, env=environment, stdout=silent, stderr=silent))
        return self.processes[-1].pid

    def _wait(self) -> None:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError("the master did not start")
