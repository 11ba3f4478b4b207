#!/usr/bin/env python3
"""A ring by plain sockets: what a shaped network carries, whichever library uses it.

plain_ring.py FOLLOWING HOSTS BYTES TURNS    on each host of a HostWorld, with the next one's address;
                                             prints the median seconds

Each host sends BYTES to the next one while as many come from the one before, by one connection each
way, as in a ring's step. Benchmarks over shaped lines ask for it first (ring_share): where plain
sockets do not fill the lines, a library's share of them says less of the library.
"""

import select
import socket
import statistics
import subprocess
import sys
import time

PORT = 7777
WELL = 0.85  # of a line's rate; heads of packets take 0.04 of it
READ = 1 << 18


def connections(following):
    """To the next host, and from the one before."""
    listener = socket.create_server(("0.0.0.0", PORT))
    for _ in range(200):
        try:
            out = socket.create_connection((following, PORT))
            break
        except ConnectionRefusedError:  # it has not begun to listen
            time.sleep(0.05)
    else:
        raise SystemExit(f"{following} does not answer")
    into, _ = listener.accept()
    for each in (out, into):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return out, into


def meet(out, into, hosts):
    """Two tokens go around: then all have come."""
    for _ in range(2 * (hosts - 1)):
        out.sendall(b"t")
        if not into.recv(1):
            raise SystemExit("the host before has ended")


def step(out, into, size):
    """Seconds until `size` bytes have left and as many have come."""
    data, place = memoryview(bytes(size)), memoryview(bytearray(READ))
    sent = got = 0
    begin = time.perf_counter()
    out.setblocking(False)
    while sent < size or got < size:
        ready, room, _ = select.select([into] if got < size else [], [out] if sent < size else [], [])
        if ready:
            more = into.recv_into(place[:min(READ, size - got)])
            if more == 0:
                raise SystemExit("the host before has ended")
            got += more
        if room:
            sent += out.send(data[sent:])
    out.setblocking(True)
    return time.perf_counter() - begin


def main():
    following, (hosts, size, turns) = sys.argv[1], (int(word) for word in sys.argv[2:])
    out, into = connections(following)
    times = []
    for _ in range(turns + 1):
        meet(out, into, hosts)
        times.append(step(out, into, size))
    meet(out, into, hosts)
    print(statistics.median(times[1:]))


def ring_share(world, hosts, megabits, turns=5):
    """What steps of 50 ms carry of the lines' rate, on the slowest of the first `hosts` hosts."""
    size = int(megabits * 1e6 / 8 * 0.05)
    ranks = [subprocess.Popen([str(word) for word in world.inside(
        f"h{rank + 1}", sys.executable, __file__, world.address((rank + 1) % hosts + 1), hosts, size, turns)],
        stdout=subprocess.PIPE, text=True) for rank in range(hosts)]
    try:
        slowest = max(float(each.communicate(timeout=120)[0]) for each in ranks)
    finally:
        for each in ranks:
            each.kill()  # where one has failed, the others wait for it
    share = round(0.05 / slowest, 3)
    if share < WELL:
        print(f"plain_ring.py: plain sockets carry {share} of {megabits} Mb/s in a ring of {hosts} hosts: shares of "
              "this network are the machine's too", file=sys.stderr)
    return share


if __name__ == "__main__":
    main()
