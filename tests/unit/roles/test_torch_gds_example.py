# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The example of torch.cuda.gds, run with stand-ins for PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "roles" / "nvidia_gds" / "files" / "torch_gds_example.py"

# The names and shapes of torch.cuda.gds are those of PyTorch 2.13; the memory behind them is invented.
TORCH = """
import os
from . import cuda
__version__ = "2.13.0+stub"
uint8 = "uint8"

class Tensor:
    def __init__(self, data):
        self.data = data
    def untyped_storage(self):
        return self.data

def randint(low, high, size, dtype, device):
    assert (low, high, dtype, device) == (0, 256, "uint8", "cuda")
    return Tensor(bytearray(os.urandom(size[0])))

def zeros_like(tensor):
    return Tensor(bytearray(len(tensor.data)))

def equal(one, other):
    return one.data == other.data
"""
CUDA = """
import os
def is_available():
    return os.environ["HAS_CUDA"] == "1"
def synchronize():
    pass
"""
GDS = """
import os
registered = []
def gds_register_buffer(storage):
    registered.append(id(storage))
def gds_deregister_buffer(storage):
    registered.remove(id(storage))

class GdsFile:
    def __init__(self, name, flags):
        if os.environ.get("REFUSED"):
            raise RuntimeError("cuFileHandleRegister failed:\\n 5008")
        self.handle = os.open(name, flags)
    def save_storage(self, storage, offset=0):
        os.pwrite(self.handle, bytes(storage), offset)
    def load_storage(self, storage, offset=0):
        storage[:] = os.pread(self.handle, len(storage), offset)
        if os.environ.get("WRONG"):
            storage[0] ^= 1
    def deregister_handle(self):
        os.close(self.handle)
"""


@pytest.fixture
def run(tmp_path):
    """run(arguments..., NAME=value...) gives (status, output, errors); with stub=False there is no PyTorch at all."""
    place = tmp_path / "modules" / "torch"
    (place / "cuda").mkdir(parents=True)
    (place / "__init__.py").write_text(TORCH)
    (place / "cuda" / "__init__.py").write_text(CUDA)
    (place / "cuda" / "gds.py").write_text(GDS)
    target = tmp_path / "data"
    target.mkdir()

    def start(*arguments, stub=True, **more):
        environment = {**os.environ, "HAS_CUDA": "1", **more}
        environment["PYTHONPATH"] = str(place.parent if stub else target)
        words = arguments or (str(target), "2")
        argv = [sys.executable, "-S", str(EXAMPLE), *words]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
        assert list(target.iterdir()) == []
        return done.returncode, done.stdout, done.stderr

    return start


def test_tensor_is_written_and_read(run):
    status, output, errors = run()
    assert (status, errors) == (0, "")
    assert output.startswith("write ")
    assert output.endswith(" GiB/s, equal\n")


def test_difference_exits_with_1(run):
    status, output, _errors = run(WRONG="1")
    assert (status, output.endswith("DIFFERENT\n")) == (1, True)


def test_missing_part_is_one_sentence(run):
    assert run(stub=False) == (
        2,
        "",
        "PyTorch with torch.cuda.gds is not installed (No module named 'torch'): install 2.7 or newer\n",
    )
    assert run(HAS_CUDA="0") == (
        2,
        "",
        "PyTorch 2.13.0+stub finds no GPU with CUDA: install a build with CUDA, and check nvidia-smi\n",
    )
    assert run(REFUSED="1") == (2, "", "cuFileHandleRegister failed: 5008\n")
    status, _output, errors = run("/nowhere/at/all")
    assert (status, errors.count("\n"), "No such file or directory" in errors) == (2, 1, True)


@pytest.mark.parametrize("arguments", [("/tmp", "many"), ("/tmp", "0"), ("/tmp", "\u00b2"), ("/tmp", "1", "2")])
def test_usage(run, arguments):
    assert run(*arguments)[0] == 3
