#!/usr/bin/env bash
# tests/vm/guest_far.sh LOSS: in the second of two guests (pair.sh): does what far.sh in the first
# one asks for, until pair.sh says that it is over.
tc qdisc add dev en2 root netem loss "$1%"
printf '#!/bin/bash\nIFS= read -r command\nexec bash -c "$command" 2>> /tmp/shared/errors\n' > /tmp/serve
chmod +x /tmp/serve
busybox nc -ll -p 7000 -e /tmp/serve &
server=$!
while [ ! -e /tmp/shared/over ]; do sleep 0.5; done
kill $server
cat /tmp/shared/errors 2> /dev/null
exit 0
