"""tests/bench_accel/compare.py: sums of two arrays by Pomona, numpy and torch, and the memory's
limit.

Method: one thread each, in turn, best of several rounds, processor time (so that a busy machine
disturbs less); bytes per second count three arrays. numpy and torch write into a given result.
Usage: compare.py ACCEL_BENCH [--markdown]
"""
import json
import subprocess
import sys
import time

SIZES = [16 << 10, 256 << 10, 4 << 20, 64 << 20]
TYPES = {"f32": "float32", "f64": "float64", "i32": "int32", "f16": "float16", "bf16": "bfloat16"}


def best_rate(run, size):
    """GB/s of run() on three arrays of `size` bytes: the best of at least 5 rounds and 0.1 s."""
    calls = max(1, (4 << 20) // size)
    best, begin = float("inf"), time.thread_time()
    rounds = 0
    while rounds < 5 or time.thread_time() - begin < 0.1:
        before = time.thread_time()
        for _ in range(calls):
            run()
        best = min(best, (time.thread_time() - before) / calls)
        rounds += 1
    return 3 * size / best / 1e9


def numpy_rates(name):
    try:
        import numpy
        a, b, out = (numpy.ones(1, name) for _ in range(3))
    except (ImportError, TypeError):
        return [None] * len(SIZES)  # numpy has no bfloat16
    rates = []
    for size in SIZES:
        a, b, out = (numpy.ones(size // a.itemsize, name) for _ in range(3))
        rates.append(best_rate(lambda: numpy.add(a, b, out=out), size))
    return rates


def torch_rates(name):
    try:
        import torch
    except ImportError:
        return [None] * len(SIZES)
    torch.set_num_threads(1)
    dtype, rates = getattr(torch, name), []
    for size in SIZES:
        count = size // torch.ones(1, dtype=dtype).element_size()
        a, b, out = (torch.ones(count, dtype=dtype) for _ in range(3))
        rates.append(best_rate(lambda: torch.add(a, b, out=out), size))
    return rates


def pomona_rates(program, pattern):
    """Name -> rates, from accel-bench; the best of three repetitions."""
    output = subprocess.run(
        [program, f"--benchmark_filter={pattern}", "--benchmark_format=json",
         "--benchmark_min_time=0.05", "--benchmark_repetitions=3"],
        check=True, capture_output=True, text=True).stdout
    found = {}
    for row in json.loads(output)["benchmarks"]:
        if row.get("run_type") != "iteration":
            continue
        name, size = row["name"].rsplit("/", 1)[0], int(row["name"].rsplit("/", 1)[1])
        rate = row["bytes_per_second"] / 1e9
        found.setdefault(name, {})[size] = max(rate, found.get(name, {}).get(size, 0))
    return {name: [rates.get(size) for size in SIZES] for name, rates in found.items()}


def main():
    program, markdown = sys.argv[1], "--markdown" in sys.argv
    sizes = "|".join(str(size) for size in SIZES)
    kinds = "|".join(TYPES)
    ours = pomona_rates(program, f"^(limit/add|best/sum/({kinds})/to)/({sizes})$")
    rows = [("limit: add of doubles", ours["limit/add"])]
    for short, name in TYPES.items():
        rows.append((f"{short} pomona", ours[f"best/sum/{short}/to"]))
        rows.append((f"{short} numpy", numpy_rates(name)))
        rows.append((f"{short} torch", torch_rates(name)))
    heads = [f"{s >> 20} MiB" if s >= 1 << 20 else f"{s >> 10} KiB" for s in SIZES]
    if markdown:
        print("| GB/s | " + " | ".join(heads) + " |")
        print("| --- |" + " ---: |" * len(heads))
    else:
        print(f"{'GB/s':<24}" + "".join(f"{head:>10}" for head in heads))
    for label, rates in rows:
        cells = ["-" if rate is None else f"{rate:.1f}" for rate in rates]
        if markdown:
            print(f"| {label} | " + " | ".join(cells) + " |")
        else:
            print(f"{label:<24}" + "".join(f"{cell:>10}" for cell in cells))


main()
