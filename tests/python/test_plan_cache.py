"""test_plan_cache.py: one cache for every operation and thread; contexts that are replaced while a plan is made from
them."""

import subprocess
import sys

import attest
import numpy as np

# In a separate process: a failure would use freed memory.
REPLACED = """
import threading

import attest
import numpy as np

q = np.ones((1, 1, 8, 8), np.float32)
wrong = []


def hammer(first):
    try:
        for step in range(1500):
            k = np.ones((1, 1, 1 + (first + step) % 900, 8), np.float32)
            assert np.allclose(attest.attention(q, k, k), 1)
            assert np.allclose(attest.merge([q] * (1 + step % 5), [q[..., 0]] * (1 + step % 5))[0], 1)
    except Exception as error:
        wrong.append(error)


threads = [threading.Thread(target=hammer, args=(first,)) for first in (0, 300, 600)]
for each in threads:
    each.start()
while any(each.is_alive() for each in threads):
    attest.set_threads(1)
    attest.set_threads(2)
print(wrong, attest.cache_info().plans <= attest.cache_info().limit)
"""


def test_threads_set_while_plans_are_made():
    done = subprocess.run([sys.executable, "-c", REPLACED], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[] True\n"), done.stderr


def test_threads_hold_for_merges():
    o, lse = np.ones((4, 8, 512, 64), np.float32), np.ones((4, 8, 512), np.float32)
    try:
        attest.set_threads(1)
        attest.merge([o, o], [lse, lse])
        assert attest.last_launch().block == (1, 1, 1)
        attest.set_threads(2)
        attest.merge([o, o], [lse, lse])
        assert attest.last_launch().block == (2, 1, 1)
    finally:
        attest.set_threads(0)


def test_more_problems_than_are_kept():
    attest.cache_clear()
    lse = np.ones((1, 1, 1), np.float32)
    for d in range(1, attest.cache_info().limit + 20):
        x = np.ones((1, 1, 1, d), np.float32)
        attest.merge([x], [lse])
    assert attest.cache_info().plans == attest.cache_info().limit
    assert attest.cache_info().misses == attest.cache_info().limit + 19
    attest.cache_clear()
    assert attest.cache_info()[:3] == (0, 0, 0)
