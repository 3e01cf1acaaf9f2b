"""The machine's limits, as this process meets them."""

import subprocess
import sys

import pytest

from coviews import compat

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc as on Linux")


def in_a_process(code):
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_a_limit_of_the_address_space_counts():
    code = """
import resource
from coviews.compat import free_memory
space, used = (int(n) * resource.getpagesize() for n in open("/proc/self/statm").read().split()[:2])
limit = space + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
print(abs(free_memory() - (limit - used) // 2))
"""
    assert in_a_process(code) < 5 << 20


def test_a_container_leaves_what_it_has_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(compat, "_CGROUP", tmp_path)
    assert compat._memory_of_container() is None
    for name, content in (("max", "1000\n"), ("current", "700\n"), ("stat", "anon 500\ninactive_file 150\n")):
        (tmp_path / f"memory.{name}").write_text(content)
    assert compat._memory_of_container() == 450
    (tmp_path / "memory.max").write_text("max\n")
    assert compat._memory_of_container() is None


def test_no_limit(monkeypatch):
    monkeypatch.setattr(compat, "_available", lambda: None)
    monkeypatch.setattr(compat, "_memory_of_container", lambda: None)
    monkeypatch.setattr(compat, "_memory_of_process", lambda: None)
    assert compat.free_memory() is None


def test_memory_that_is_freed_is_kept():
    """Otherwise every large array would have its pages cleared anew."""
    code = """
import resource
import numpy as np
from coviews.compat import keep_freed_memory
keep_freed_memory()
for _ in range(3):
    np.ones(20 << 20, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(20 << 20, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    assert in_a_process(code) < 5_000  # all pages of ten arrays would be 51,200


def test_and_given_back_at_the_end():
    code = """
import numpy as np
from coviews.compat import keep_freed_memory, return_freed_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
keep_freed_memory()
before = resident()
arrays = [np.ones(20 << 20, np.uint8) for _ in range(10)]
del arrays
assert resident() - before > 150 << 20
return_freed_memory()
print(resident() - before)
"""
    assert in_a_process(code) < 50 << 20
