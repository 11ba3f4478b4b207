# tests/packages.sh: sourced by tests/setup.sh: installs the packages of tests/packages.txt by the
# system's own manager (apt, dnf, pacman, Homebrew). Without root and sudo the same packages are
# fetched by the same manager and unpacked below .build, if there is a compiler; else conda, mamba
# or micromamba makes an environment there, where one is installed. POMONA_INSTALL=no
# (--no-install) installs nothing and says what is missing. shellcheck shell=bash

# The packages of one purpose (build, tests), as this manager calls them.
packages_for() {  # manager purpose
    awk -v manager="$1" -v purpose="$2" '
        /^# for/ { for (i = 3; i <= NF; ++i) if ($i == manager) column = i - 1 }
        !/^#/ && $1 == purpose && $column != "-" { gsub(",", " ", $column); print $column }
    ' "$POMONA_ROOT/tests/packages.txt" | tr '\n' ' '
}

find_manager() {
    local manager
    case $(uname -s) in
    Darwin) set -- brew ;;
    Linux) set -- apt-get dnf pacman ;;
    *) fail "Pomona runs on Linux and macOS" ;;
    esac
    for manager; do
        if command -v "$manager" > /dev/null; then echo "${manager%-get}"; return; fi
    done
    echo none
}

may_install() {
    [ "$(id -u)" = 0 ] || { command -v sudo > /dev/null && { [ -t 0 ] || sudo -n true 2> /dev/null; }; }
}
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

has_package() {  # manager package
    case $1 in
    apt) [ "$(dpkg-query -W -f '${Status}' "$2" 2> /dev/null)" = "install ok installed" ] ;;
    dnf) rpm -q --whatprovides "$2" > /dev/null 2>&1 ;;
    pacman) pacman -Q "$2" > /dev/null 2>&1 || pacman -Qg "$2" > /dev/null 2>&1 ;;
    brew) brew list --versions "$2" > /dev/null 2>&1 ;;
    esac
}
missing_packages() {  # manager package...
    local manager=$1 package
    shift
    for package; do has_package "$manager" "$package" || echo "$package"; done
}

# The command that installs packages, a word a line, to be run or shown.
install_command() {  # manager
    case $1 in
    apt) echo "apt-get install -y -qq --no-install-recommends" ;;
    dnf) echo "dnf install -y -q --setopt=install_weak_deps=False" ;;
    pacman) echo "pacman -S --needed --noconfirm" ;;
    brew) echo "brew install --quiet" ;;
    esac
}

OFFLINE="could not be fetched. Does this machine reach its package servers? Where it does not, install \
them by its own means (tests/packages.txt has the names) and call this again with --no-install"

install_by() {  # manager package...
    local manager=$1
    shift
    say "Installing by $manager: $*"
    # shellcheck disable=SC2046
    case $manager in
    apt)
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || true  # lists on disk may do
        as_root env DEBIAN_FRONTEND=noninteractive $(install_command apt) "$@" > /dev/null ;;
    brew) $(install_command brew) "$@" ;;
    *) as_root $(install_command "$manager") "$@" ;;
    esac || fail "These packages $OFFLINE: $*"
}

# --- Without root: below .build, for this tree alone.

use_prefix() {  # folder: what is found below it serves as if it were installed
    local lib
    lib=$1/lib/$(c++ -print-multiarch 2> /dev/null || true)
    if [ ! -d "$lib" ] || [ "$lib" = "$1/lib/" ]; then
        lib=$1/lib
        [ ! -d "$1/lib64" ] || lib=$1/lib64
    fi
    export PATH="$1/bin:$PATH" CMAKE_PREFIX_PATH="$1${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
    export PKG_CONFIG_PATH="$lib/pkgconfig:$1/share/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    export LDFLAGS="-Wl,-rpath,$lib -L$lib${LDFLAGS:+ $LDFLAGS}"
    # Programs of these packages, pkg-config for one, are built to find their libraries in the
    # system's.
    export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# The files of packages and of all they need that is not installed, as the manager calls them, into
# the current folder. No root is needed for that.
fetch_packages() {  # manager package...
    local manager=$1 names address
    shift
    case $manager in
    apt)  # APT_OPTIONS may name other lists than the system's
        names=$(apt-get ${APT_OPTIONS[@]+"${APT_OPTIONS[@]}"} install -s -qq --no-install-recommends "$@" |
            awk '$1 == "Inst" { print $2 }') || return
        # shellcheck disable=SC2086
        apt-get ${APT_OPTIONS[@]+"${APT_OPTIONS[@]}"} download -qq $names ;;
    dnf) dnf download -y -q --resolve --setopt=install_weak_deps=False --destdir=. "$@" > /dev/null ;;
    pacman)  # names the addresses alone; an empty list would be a system without lists
        names=$(pacman -Sp --noconfirm "$@") && [ -n "$names" ] || return
        for address in $names; do curl -fsSLO "$address" || return; done ;;
    esac
}
unpack_package() {  # file, folder
    case $1 in
    *.deb) dpkg-deb -x "$1" "$2" ;;
    *.rpm) if command -v bsdtar > /dev/null; then bsdtar -xf "$1" -C "$2"
        elif command -v cpio > /dev/null; then rpm2cpio "$1" | (cd "$2" && cpio -idm --quiet)
        else rpm2archive - < "$1" | tar -xz -C "$2"; fi ;;
    *) bsdtar -xf "$1" -C "$2" --exclude '.[A-Z]*' ;;  # of pacman: .PKGINFO and such
    esac
}

# The manager's own packages, unpacked: the names with all they need that is not installed.
unpack_packages() {  # manager folder package...
    local manager=$1 prefix=$2 root=$2/usr file link target wanted=
    shift 2
    mkdir -p "$prefix"
    [ $# = 0 ] || wanted=$(printf '%s\n' "$@" | grep -v -x -F -f <(cat "$prefix/names.txt" 2> /dev/null) | tr '\n' ' ' || true)
    if [ -n "$wanted" ]; then
        say "Unpacking below $prefix: $wanted"
        rm -rf "$prefix/archives"
        mkdir "$prefix/archives"
        # shellcheck disable=SC2086
        (cd "$prefix/archives" && fetch_packages "$manager" $wanted) || fail "These packages $OFFLINE: $wanted"
        for file in "$prefix"/archives/*; do
            unpack_package "$file" "$prefix" || fail "$file cannot be unpacked"
        done
        rm -r "$prefix/archives"
        # What names the system's folders, and links to libraries that the system has itself.
        find "$root" -name '*.pc' -exec sed -i "s|^prefix=/usr$|prefix=$root|; s|=/usr/|=$root/|" {} +
        find "$root" -xtype l | while read -r link; do
            target=${link#"$prefix"}
            target=$(realpath -m "$(dirname "$target")/$(readlink "$link")")
            if [ -e "$target" ]; then ln -sf "$target" "$link"; fi
        done
        # shellcheck disable=SC2086
        printf '%s\n' $wanted >> "$prefix/names.txt"
    fi
    [ -d "$root" ] || return 0
    use_prefix "$root"
    # A compiler's own search path ends with these.
    for link in "$root"/include "$root"/include/*-linux-gnu "$root"/include/python3*; do
        if [ -d "$link" ]; then CPATH=${CPATH:+$CPATH:}$link; fi
    done
    export CPATH
}

conda_environment() {  # conda-program package...
    local conda=$1 prefix
    shift
    prefix=$(dirname "$POMONA_BUILD")/conda
    if [ "$(cat "$prefix/names.txt" 2> /dev/null)" != "$*" ]; then
        say "No root and no sudo: an environment by $(basename "$conda") in $prefix: $*"
        "$conda" create -y -q -p "$prefix" -c conda-forge "$@" || fail "These packages $OFFLINE: $*"
        printf '%s' "$*" > "$prefix/names.txt"
    fi
    use_prefix "$prefix"
    local compiler
    for compiler in "$prefix"/bin/*-c++; do
        if [ -x "$compiler" ]; then export CXX=$compiler CC=${compiler%c++}cc; fi
    done
}

# The system's packages by the first way there is.
provide_packages() {  # package purposes (build, tests)...
    local manager conda='' candidate packages missing=
    manager=$(find_manager)
    for candidate in micromamba mamba conda; do
        [ -n "$conda" ] || conda=$(command -v "$candidate" || true)
    done
    packages=$(for candidate; do packages_for "$manager" "$candidate"; done)
    # shellcheck disable=SC2086
    [ "$manager" = none ] || missing=$(missing_packages "$manager" $packages | tr '\n' ' ')
    if [ "$manager" != none ] && [ -z "$missing" ]; then return; fi
    if [ "${POMONA_INSTALL-}" = no ]; then
        if [ "$manager" = none ]; then
            say "Nothing is installed (--no-install): see tests/packages.txt for what the build needs"
        else
            say "Nothing is installed (--no-install). Missing here: $missing"
            echo "    $(install_command "$manager") $missing"
        fi
    elif [ "$manager" = brew ] || { [ "$manager" != none ] && may_install; }; then
        # shellcheck disable=SC2086
        install_by "$manager" $missing
    elif [ "$manager" != none ] && command -v c++ > /dev/null; then
        say "No root and no sudo"
        # The compiler and Python are there. Of what tests use only libraries: they leave out
        # programs that are not there.
        # shellcheck disable=SC2046
        unpack_packages "$manager" "$(dirname "$POMONA_BUILD")/packages" $(missing_packages "$manager" $(
            { packages_for "$manager" build; for candidate; do packages_for "$manager" "$candidate"; done |
                tr ' ' '\n' | grep -E '^lib|-devel$|^gtest$|^benchmark$'; } | tr ' ' '\n' |
                grep -v -x -E -e 'build-essential|gcc-c\+\+|make|base-devel|python3?|python3-venv' |
                awk '!seen[$0]++'
        ))
    elif [ -n "$conda" ]; then
        # shellcheck disable=SC2046
        conda_environment "$conda" $(packages_for conda build)
    elif [ "$manager" = none ]; then
        fail "No package manager that this script knows was found (apt, dnf, pacman, Homebrew, conda);" \
            "tests/packages.txt lists the packages. With them in place: --no-install"
    else
        fail "Missing: $missing. Installing them by $manager needs root or sudo. Ask for" \
            "'$(install_command "$manager") $missing'. With a C++ compiler alone the rest is unpacked" \
            "below .build; micromamba, where it is installed, needs neither"
    fi
}
