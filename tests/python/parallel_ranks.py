"""parallel_ranks.py: a function on several ranks of a gloo group, as processes forked from one that has computed
nothing yet."""

import datetime
import multiprocessing
import os
import tempfile
import time
import traceback

import torch
import torch.distributed as dist

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _work(rank, size, path, timeout, function, arguments, results):
    try:
        torch.set_num_threads(1)
        store = dist.FileStore(path, size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=timeout))
        results.put((rank, True, function(rank, size, *arguments)))
        dist.destroy_process_group()
    except BaseException:  # noqa: BLE001, told to the parent
        results.put((rank, False, traceback.format_exc()))


def on_ranks(size, function, *arguments, timeout=60.0, lost=()):
    """The results of function(rank, size, *arguments), by rank; lost: ranks that are not waited for, and are killed
    at the end."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store")
        processes = [context.Process(target=_work, args=(rank, size, path, timeout, function, arguments, results))
                     for rank in range(size)]
        for process in processes:
            process.start()
        found, until = {}, time.monotonic() + 2 * timeout
        try:
            while len(found) < size - len(lost):
                if time.monotonic() > until:
                    raise TimeoutError(f"ranks {sorted(set(range(size)) - set(found) - set(lost))} of {size} do not end")
                if results.empty():
                    time.sleep(0.01)
                    continue
                rank, fine, answer = results.get()
                if not fine:
                    raise AssertionError(f"rank {rank} of {size}:\n{answer}")
                found[rank] = answer
        finally:
            for process in processes:
                process.join(0 if lost else 10)
                if process.is_alive():
                    process.kill()
                    process.join()
    return found
