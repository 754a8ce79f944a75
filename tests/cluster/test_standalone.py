"""A standalone cluster, with a master and workers in processes of their own, as an operator would start it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from tests.crash.query import written
from tests.crash.variants import expected
from tests.support.oracle import difference

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SEED = 3


@pytest.fixture
def master():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    commands += [
        ["worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", url]
    ] * 2
    launch = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    processes = [daemon(launch, *command) for command in commands]
    wait_for(port)
    yield url
    for process in processes:
        process.kill()
        process.wait()


def daemon(launch, main, *arguments):
    command = [launch, f"org.apache.spark.deploy.{main}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(port):
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the master did not start")


def test_a_query_is_exact_on_a_standalone_cluster(master, tmp_path):
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "tests.crash.query", master, str(tmp_path), str(SEED)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    got, wanted = written(tmp_path), expected(SEED)
    assert got == wanted, difference(got, wanted)
