# tests/report.sh: sourced by tests/run.sh: one file with all that is needed to understand a run
# from afar: machine, versions, doctor, what failed to build, which tests failed and how. Written
# also when the build failed, for that is when it is needed most. The home folder's and user's names
# are left out. shellcheck shell=bash

# What a command prints, under a heading; a missing command is no failure.
report_command() {  # heading command...
    echo
    echo "== $1"
    shift
    "$@" 2>&1 || echo "(failed: $*)"
}

report_versions() {
    local tool
    for tool in cmake ninja c++ python3 ccache; do
        printf '%s: ' "$tool"
        if command -v "$tool" > /dev/null; then
            "$tool" --version 2> /dev/null | head -n 1
        else
            echo "not there"
        fi
    done
    if command -v brew > /dev/null; then
        brew list --versions hwloc libevent pmix openssl@3 fmt nlohmann-json cli11 googletest || true
    elif command -v dpkg-query > /dev/null; then
        dpkg-query -W libhwloc-dev libevent-dev libpmix-dev libssl-dev libfmt-dev nlohmann-json3-dev libcli11-dev \
            libgtest-dev 2> /dev/null || true
    fi
}

report_machine() {
    uname -srm
    if [ "$(uname -s)" = Darwin ]; then
        sw_vers
        sysctl machdep.cpu.brand_string hw.memsize hw.perflevel0.physicalcpu hw.perflevel1.physicalcpu \
            2> /dev/null || true
    else
        grep -m1 -E '^(model name|CPU part)' /proc/cpuinfo || true
        grep -m1 MemTotal /proc/meminfo || true
        sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2> /dev/null || true
    fi
    getconf _NPROCESSORS_ONLN
}

# The end of a log, or its errors where there are some.
report_log() {  # file
    if grep -q -E 'error|FAILED' "$1"; then
        grep -n -E -B1 -A6 'error|FAILED' "$1" | head -n 200
    fi
    tail -n 40 "$1"
}

report_body() {  # root build status
    local root=$1 build=$2 status=$3 log
    echo "Pomona test report, $(date -u +%Y-%m-%dT%H:%M:%SZ)"
    echo "commit $(git -C "$root" describe --always --dirty 2> /dev/null || echo unknown)"
    echo "exit status $status"
    report_command machine report_machine
    report_command versions report_versions
    if [ -x "$build/bin/pomona" ]; then
        report_command "pomona info" "$build/bin/pomona" info
        report_command "pomona doctor" "$build/bin/pomona" doctor
    else
        printf '\n== pomona\nwas not built\n'
    fi
    for log in "$build.log" "$build.build.log"; do
        [ -s "$log" ] && report_command "$(basename "$log")" report_log "$log"
    done
    if [ -s "$build/tests.log" ]; then
        report_command "tests" cat "$build/tests.log"
    else
        printf '\n== tests\ndid not run\n'
    fi
    true
}

write_report() {  # root build status file
    local home=${HOME:-/nonexistent} user
    user=$(id -un)
    # Names of two letters or fewer, and root's, are no secret and are found everywhere.
    case $user in ? | ?? | root) user='<nobody>' ;; esac
    report_body "$1" "$2" "$3" | sed -e "s|$home|~|g" -e "s|/$user/|/USER/|g" > "$4"
}
