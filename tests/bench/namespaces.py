"""namespaces.py: what makes links between network namespaces like cables: packets keep their order,
and shaped lines carry short ones. For tests/host_world.py and the benchmarks; Linux and root.
"""

import os
import subprocess
import sys

LINE_SECONDS = 60e-6  # that one packet takes a shaped line
FRAME, LONGEST = 1514, 65536  # bytes of a packet, at least and at most

refused = []  # that was told


def keep_order(space, *interfaces, processor=None):
    """Packets that come by these interfaces stay in order, as by a cable. A token bucket's are let
    go by whichever processor is there, each of which has a queue of its own for what arrives: TCP
    then takes them for lost, thousands in a second at 10 Gb/s, and stalls. Steering (RPS) leads all
    packets of a connection to one processor's queue: this one, or one by a number that the system
    draws for each connection. Waking another processor takes 20 us on some virtual machines."""
    mask = (1 << (os.cpu_count() or 1)) - 1 if processor is None else 1 << processor
    words = [f"{mask >> shift & 0xffffffff:08x}" for shift in range(0, mask.bit_length(), 32)]
    files = " ".join(f"/sys/class/net/{each}/queues/rx-*/rps_cpus" for each in interfaces)
    done = subprocess.run(["ip", "netns", "exec", space, "sh", "-c",
                           f"for file in {files}; do echo {','.join(reversed(words))} > $file || exit 1; done"],
                          check=False, stderr=subprocess.DEVNULL)
    if done.returncode != 0 and (os.cpu_count() or 1) > 1 and not refused:
        # An unusual system, where figures are worse, and nothing else.
        refused.append(space)
        print("namespaces.py: the system refuses packet steering (rps_cpus): packets between these hosts may "
              "change places, and quick links are slower than cables are", file=sys.stderr)
    return done.returncode == 0


def limit_packets(space, device, megabits):
    """What the device sends are packets that a line of so many Mb/s carries in LINE_SECONDS, or one
    frame. A token bucket lets a packet through as a whole, and systems hand over up to 64 KiB as
    one: half a millisecond of 1 Gb/s, at each bucket on the way, where a cable carries frames of
    1500 bytes."""
    longest = min(max(int(megabits * 1e6 / 8 * LINE_SECONDS), FRAME), LONGEST)
    subprocess.run(["ip", "-n", space, "link", "set", "dev", device, "gso_max_size", str(longest)], check=True)


def shape_line(space, device, megabits, burst, latency="50ms"):
    """What the device sends goes at so many Mb/s, `burst` bytes at once, in short packets."""
    limit_packets(space, device, megabits)
    subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{megabits}mbit",
                    "burst", str(burst), "latency", latency], check=True)
