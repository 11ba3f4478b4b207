# miniamr: a stencil on blocks that are refined where objects move: messages of changing lengths and
# partners, blocks that move between ranks, and communicators that are split to balance them.
about="miniAMR, adaptive mesh refinement"
source=git:https://github.com/Mantevo/miniAMR#0d60eaf2cc1b1b4519c0ae115c50263a889bab90
tier=whole
build() { mpicc -O2 -w $layout -std=gnu99 -fcommon ref/*.c -o miniAMR.x -lm; }  # its headers define variables
tests() {
    local ranks refined="--num_refine 4 --max_blocks 3000 --nx 8 --ny 8 --nz 8 --num_vars 4 --num_tsteps 10
        --num_objects 1 --object 2 0 -0.95 -0.95 -0.95 0.04 0.04 0.04 1.7 1.7 1.7 0.0 0.0 0.0"
    linked miniAMR.x
    # Where a sum is not as before, it gives the time as 0.
    for ranks in 1 2 4; do
        # shellcheck disable=SC2086
        expect "ranks: $ranks" 'Summary: ranks .* time (0\.0*)?[1-9][0-9.]*' mpirun -n $ranks ./miniAMR.x \
            --npx $((ranks > 1 ? 2 : 1)) --npy $((ranks > 2 ? 2 : 1)) --npz 1 $refined
    done
    # shellcheck disable=SC2086
    expect "4 ranks, other ways to send, refine and balance" 'Summary: ranks .* time (0\.0*)?[1-9][0-9.]*' \
        mpirun -n 4 ./miniAMR.x --npx 2 --npy 2 --npz 1 $refined --code 2 --blocking_send --permute --lb_opt 2 \
        --comm_vars 3
}
