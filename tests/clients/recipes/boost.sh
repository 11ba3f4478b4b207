# boost: Boost.MPI, classes over nearly all of MPI-1; on the ranks that its own list of tests asks
# for.
about="Boost.MPI, its tests"
source=debian:boost1.74
tier=whole
# From libs/mpi/test/Jamfile.v2.
programs="version_test:1 block_nonblock_test:2 random_gather:2 random_scatter:2 cartesian_example:24
    cartesian_topology_init_test:1 broadcast_stl_test:2 all_gather_test:1,2,11 all_reduce_test:1,2,11
    all_to_all_test:1,2,11 broadcast_test:2,17 gather_test:1,2,11 is_mpi_op_test:1 mt_level_test:1
    mt_init_test:1,4 nonblocking_test:2,11,24 reduce_test:1,2,3,4,7,8,13,17 ring_test:2,3,4,7,8,13,17
    sendrecv_test:1,4,7,48 wait_any_test:1,4,7,20 wait_all_vector_test:2 wait_all_on_null:1,2
    scan_test:1,2,3,4,7,8,13,17 scatter_test:1,2,3,4,7,8,13,17 skeleton_content_test:2,3,4,7,8,13,17
    graph_topology_test:2,7,13 cartesian_topology_test:24 pointer_test:2 groups_test:1,2,3,4,7,8,13,17
    sendrecv_vector:2 non_blocking_any_source:2,17"
build() {
    local program names=''
    for program in $programs; do names="$names ${program%%:*}"; done
    # The tests would compile Boost.Test 26 times over; this takes it from the library instead.
    # The library has a source of the same name.
    cp libs/mpi/example/cartesian_communicator.cpp libs/mpi/example/cartesian_example.cpp
    mkdir -p tests/boost/test/included
    echo '#include <boost/test/unit_test.hpp>' > tests/boost/test/included/unit_test.hpp
    cat > tests/Makefile << END
.RECIPEPREFIX = >
VPATH = ../libs/mpi/src:../libs/serialization/src:../libs/test/src:../libs/mpi/test:../libs/mpi/example
CXXFLAGS = -O0 -w -I. $(printf -- '-I../%s ' libs/*/include libs/numeric/*/include)
# Without what the tests do not need: XML, wide characters, other forms of main.
parts = \$(filter-out cpp_main.o test_main.o stl_port.o poly% basic_xml% xml_archive% xml_%archive.o \\
    xml_%grammar.o %_wiprimitive.o %_woprimitive.o %_wiarchive.o %_woarchive.o, \\
    \$(patsubst %.cpp,%.o,\$(notdir \$(wildcard ../libs/mpi/src/*.cpp ../libs/serialization/src/*.cpp \\
    ../libs/test/src/*.cpp))))
all: $names
libparts.a: \$(parts)
>ar rc \$@ \$^
%.o: %.cpp
>mpicxx \$(CXXFLAGS) -c \$< -o \$@
%: %.cpp libparts.a
>mpicxx \$(CXXFLAGS) \$< -o \$@ libparts.a
END
    make -s -C tests -j "$jobs"
}
tests() {
    local program name
    cd tests
    linked all_reduce_test nonblocking_test skeleton_content_test
    for program in $programs; do
        name=${program%%:*}
        # shellcheck disable=SC2016
        expect "$name, ranks: $(echo "${program#*:}" | sed 's/,/, /g')" "" sh -c \
            'for ranks in $(echo "$2" | tr , " "); do mpirun -n "$ranks" "./$1" || exit 1; done' \
            sh "$name" "${program#*:}"
    done
}
