#!/usr/bin/env python3
"""Figures of paths by RDMA over the fake verbs library (tests/verbs), which copies by the
processor.

Usage: rdma.py BUILD [-r ROUNDS] [--json FILE]. In interleaved rounds: what the library does by
itself (verbs_bench), what two ranks of Pomona do over it (mpi-bench), both as quickly as the
library copies and with a cable's latency and rate (MODEL, the published figures of Thunderbolt 5),
the same by TCP, and how long nothing arrives when a cable is pulled (rdma_cut.c). Of all rounds the
quickest one counts. So it does of what a link leaves of the library's rate where one processor does
both ends' work (verbs_share), which a busy machine changes less. Counted once, whatever else the
machine does (rdma_counts.c): bytes copied for each byte sent, instructions of MPI_Send, what
waiting takes of a core, and after how long a receive from a rank that is killed fails. Beside them,
in virtual time, allreduce among 2 to 4 machines (tests/sim/rdma_bounds.cc). `load_average` says how
busy the machine was with other things before.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from figures import keep

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE.parent / "programs"
SIZES = [65536, 262144, 1048576, 4194304, 16777216]
COPIED = [8, 1024, 4000, 65536, 1048576, 16777216]
SUMMED = [1048576, 16777216]  # bytes of a vector of MPI_Allreduce
MODEL = {"latency_ns": 4200, "rate_mbs": 9375}  # ib_send_lat of 64 B, and 75 Gb/s
FAULTS = {"plain": "hold * * on",
          "model": "hold * * on\nlatency * * {latency_ns}\nrate * * {rate_mbs}".format(**MODEL)}


def under(build, script, faults="hold * * on", machines=2):
    done = subprocess.run([str(PROGRAMS / "rdma.sh"), str(build), str(machines), "1", "sh", "-c", script],
                          capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, RDMA_FAULTS=faults, RDMA_LEAST="0"))
    if done.returncode != 0:
        sys.exit(f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def mpirun(program, transports="self,rdma,tcp", options=""):
    return f"$build/bin/mpirun --oversubscribe -n 2 --set transports={transports} {options} $through {program}"


def raw(build, how, found):
    text = under(build, "$build/tests/verbs_bench 0.rdma_en1 1.rdma_en0 1", FAULTS[how])
    for case, size, value in re.findall(r"^(latency|bandwidth|memory) (\d+) ([\d.]+)$", text, re.M):
        found.setdefault((how, case, int(size)), []).append(float(value))


def ours(build, how, transports, found):
    """Half round trips in us, and GB/s of windows of messages; the machine."""
    with tempfile.TemporaryDirectory() as folder:
        # Of short messages the first ones go by TCP, while the queue pairs are being made: sizes
        # before that of interest take that time.
        for case, sizes, time in (("latency", "1:8 --step 2", 0.3),
                                  ("bandwidth", f"{SIZES[0]}:{SIZES[-1]} --step 4", 0.1)):
            file = f"{folder}/{case}.json"
            bench = f"$build/bin/mpi-bench {case} -q -s {sizes} -t {time} --json {file}"
            under(build, mpirun(bench, transports), FAULTS[how])
            kept = json.loads(Path(file).read_text())
            for row in kept["rows"]:
                value = row["min_us"]
                if case == "bandwidth":
                    value = row["bytes"] * row["extra"]["window"] / row["min_us"] / 1e3
                    found["window", row["bytes"]] = row["extra"]["window"]
                found.setdefault((how, case, row["bytes"]), []).append(value)
    return kept["machine"]


def gaps(build, program):
    """Of each cut: how long nothing came, and the longest such time before, which is the
    machine's."""
    text = under(build, mpirun(program))
    return [(float(gap), float(before)) for gap, before in re.findall(r"gap_ms ([\d.]+) before ([\d.]+)", text)]


def compiled(build, folder):
    """The programs of C beside this one."""
    for name in ("rdma_cut", "rdma_counts"):
        subprocess.run([f"{build}/bin/mpicc", "-O2", str(HERE / f"{name}.c"), "-o", f"{folder}/{name}", "-ldl"],
                       check=True)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-fno-builtin", str(HERE / "rdma_copied.c"),
                    "-o", f"{folder}/copied.so"], check=True)


def row_of(size, what, text):
    """What the lines "WHAT SIDE BYTES VALUE" of rdma_counts say of both sides."""
    sides = re.findall(rf"^{what} (\w+) \d+ ([\d.]+)$", text, re.M)
    return {"bytes": size} | {side: float(value) for side, value in sides}


def shares(build, rounds):
    """GB in a second of one processor that does both ends' work, of the library and of a link over
    it; and its nanoseconds for a message of 8 bytes."""
    text = subprocess.run([f"{build}/tests/verbs_share", str(5 * rounds)], capture_output=True, text=True,
                          check=True).stdout
    found = re.findall(r"^share (\d+) (\d+) ([\d.]+) ([\d.]+) ([\d.]+)$", text, re.M)
    rows = [{"bytes": int(size), "window": int(window), "library": float(library), "link": float(link),
             "share": float(share)} for size, window, library, link, share in found]
    library, link = re.search(r"^short 8 (\d+) (\d+)$", text, re.M).groups()
    return rows, {"library": int(library), "link": int(link)}


# Without checksums: their copies, of as many bytes, are not calls of memcpy, and would not be seen.
def copies(build, folder):
    out = []
    for size in COPIED:
        number = max(4, min(200, (8 << 20) // size))
        text = under(build, mpirun(f"{folder}/rdma_counts copies {size} {number}",
                                   options=f"--set rdma_crc=none -x LD_PRELOAD={folder}/copied.so"))
        out.append(row_of(size, "copies", text))
    return out


def copies_of_sums(build, folder):
    """Two ranks' MPI_Allreduce sends as many bytes as the vector has, and reduces half of them."""
    out = []
    for size in SUMMED:
        text = under(build, mpirun(f"{folder}/rdma_counts sums {size} {max(2, (32 << 20) // size)}",
                                   options=f"--set rdma_crc=none -x LD_PRELOAD={folder}/copied.so"))
        out.append(row_of(size, "sums", text))
    return out


def work(build, folder):
    """GB that a rank sends or receives in a second of its processor's time; what else runs counts
    little."""
    out = []
    for size in SIZES:
        text = under(build, mpirun(f"{folder}/rdma_counts work {size} {max(2, (128 << 20) // size)}"))
        out.append(row_of(size, "work", text))
    return out


def instructions(build, folder):
    """Of an MPI_Send of 8 bytes: in all, and without those of the fake library. None: no
    valgrind."""
    if not shutil.which("valgrind"):
        return None
    few, many, found = 500, 2500, {}
    for number in (few, many):
        script = f"""exec valgrind --tool=callgrind -q --toggle-collect=MPI_Send --toggle-collect=PMPI_Send \
            --callgrind-out-file={folder}/calls "$@" """
        Path(f"{folder}/count").write_text(f'if [ "$POMONA_JOB_RANK" != 1 ]; then exec "$@"; fi\n{script}\n')
        under(build, mpirun(f"sh {folder}/count {folder}/rdma_counts sends {number}"))
        text = subprocess.run(["callgrind_annotate", "--threshold=100", f"{folder}/calls"],
                              capture_output=True, text=True, check=True).stdout
        lines = re.findall(r"^ *([\d,]+) \([^)]*\)  (.*)$", text, re.M)
        costs = [(int(cost.replace(",", "")), where) for cost, where in lines]
        fake = sum(cost for cost, where in costs if "pomona_fake_verbs" in where)
        found[number] = costs[0][0], fake
    each = [(found[many][i] - found[few][i]) / (many - few) for i in (0, 1)]
    return {"MPI_Send": round(each[0]), "of_these_in_the_fake_library": round(each[1])}


def deaths(build, folder, times):
    found = []
    for _ in range(times):
        text = under(build, mpirun(f"{folder}/rdma_counts death", options="--on-death continue") + " || true")
        found += [float(value) for value in re.findall(r"death_ms ([\d.]+)", text)]
    return spread(found)


def idle(build, folder):
    """Percents of a core that a waiting rank takes."""
    text = under(build, mpirun(f"{folder}/rdma_counts idle 5").replace("-n 2", "-n 3"), machines=3)
    return {f"for_a_rank_{where}_MPI": float(value)
            for where, value in re.findall(r"^idle (outside|inside) ([\d.]+)$", text, re.M)}


def bounds(build):
    text = subprocess.run([f"{build}/tests/sim_rdma_bounds"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(\d) in a (\w+), (\d+) bytes: (\w+), ([\d.]+) us, ([\d.]+) of", text, re.M)
    return [{"machines": int(machines), "joined": joined, "bytes": int(size), "algorithm": name, "us": float(us),
             "of_the_bounds_pace": float(part)} for machines, joined, size, name, us, part in found]


def spread(values):
    values = sorted(values)
    return {"times": len(values), "least": values[0], "p50": values[len(values) // 2], "most": values[-1]}


def compared(how, library, rdma):
    def best(size):
        # What a model allows is known; without one the library's messages of 64 KiB come from, and
        # go to, as much memory.
        if how == "model":
            return MODEL["rate_mbs"] / 1e3
        window = int(rdma["window", size])
        used = min((used for kind, case, used in library if kind == how and case == "memory"),
                   key=lambda used: abs(used - size * window))
        return max(library[how, "memory", used])

    def rates(case):
        return {str(key[2]): max(values) for key, values in library.items() if key[:2] == (how, case)}

    raw_latency, latency = min(library[how, "latency", 8]), min(rdma[how, "latency", 8])
    return {"half_round_trip_8_B": {"library_us": raw_latency, "rdma_us": latency,
                                    "ratio": latency / raw_latency,
                                    # The machine is quicker at times, for all; a round is short.
                                    "ratios_of_rounds": [
                                        round(ours_ / its, 2) for ours_, its in
                                        zip(rdma[how, "latency", 8], library[how, "latency", 8])]},
            "library_gbs": rates("bandwidth"),
            "library_gbs_by_bytes_of_memory": rates("memory"),
            "bandwidth": [{"bytes": size, "rdma_gbs": max(rdma[how, "bandwidth", size]),
                           "share": max(rdma[how, "bandwidth", size]) / best(size)}
                          for size in SIZES]}


def say(document, file):
    """Prints the figures, and keeps them where a file is named."""
    print(json.dumps(document, indent=1))
    keep(document, file)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=Path)
    p.add_argument("-r", "--rounds", type=int, default=5)
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    build = options.build.resolve()
    library, rdma, tcp, cuts, load = {}, {}, {}, [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        compiled(build, folder)
        for _ in range(options.rounds):
            for how in FAULTS:
                raw(build, how, library)
                machine = ours(build, how, "self,rdma,tcp", rdma)
            ours(build, "plain", "self,tcp", tcp)
            cuts += gaps(build, f"{folder}/rdma_cut")
        long, short = shares(build, options.rounds)
        out = {
            "schema": 2, "tool": "rdma.py", "command": "rdma.py BUILD " + " ".join(sys.argv[2:]),
            "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "machine": machine,
            "load_average": round(load, 1), "rounds": options.rounds, "of_all_rounds": "the quickest",
            "plain": compared("plain", library, rdma),
            "model": MODEL | compared("model", library, rdma),
            "tcp": {"half_round_trip_8_B_us": min(tcp["plain", "latency", 8]),
                    "bandwidth_gbs": {str(size): max(tcp["plain", "bandwidth", size]) for size in SIZES}},
            "share_of_the_processors_work": long,
            "ns_of_a_processor_for_8_B": short,
            "copied_for_a_byte": copies(build, folder),
            "copied_for_a_byte_of_allreduce": copies_of_sums(build, folder),
            "gb_in_a_second_of_processor": work(build, folder),
            "instructions": instructions(build, folder),
            "waiting_percent_of_a_core": idle(build, folder),
            "killed_to_error_ms": deaths(build, folder, 5),
            "cable_pulled_ms": spread([gap for gap, _ in cuts]),
            "longest_pause_before_ms": spread([before for _, before in cuts]),
            "allreduce_in_virtual_time": bounds(build),
        }
    say(out, options.json)


if __name__ == "__main__":
    main()
