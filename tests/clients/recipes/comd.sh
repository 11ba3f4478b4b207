# comd: molecular dynamics: atoms that move between the ranks' boxes, halos of those near by.
about="CoMD, molecular dynamics of copper"
source=git:https://github.com/ECP-copa/CoMD#7a7ba1a7cac54bb150b1ed5a6bc27d516b1f448e
tier=whole
build() {
    local word
    for word in VARIANT HOSTNAME KERNEL_NAME KERNEL_RELEASE PROCESSOR COMPILER COMPILER_VERSION CFLAGS LDFLAGS; do
        echo "#define CoMD_$word \"\""
    done > src-mpi/CoMD_info.h
    mpicc -std=c99 -O2 -w $layout -DDOUBLE -DDO_MPI src-mpi/*.c -o CoMD-mpi -lm
}
tests() {
    local boxes
    linked CoMD-mpi
    for boxes in "1 1 1" "2 1 1" "2 2 1" "2 2 2"; do
        # shellcheck disable=SC2086
        set -- $boxes
        expect "ranks: $(($1 * $2 * $3))" 'eFinal/eInitial : (0\.9999|1\.0000)[0-9]* .*no atoms lost' sh -c \
            "mpirun -n $(($1 * $2 * $3)) ./CoMD-mpi -x 16 -y 16 -z 16 -i $1 -j $2 -k $3 -N 50 > out.txt &&
             grep -E 'eFinal/|lost' out.txt | tr -s '\n ' ' '"
    done
}
