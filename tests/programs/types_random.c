/* Goal: nested derived types move the right bytes through pack, unpack and messages, for several
 * elements and partial receives. Method: a seeded generator builds a type together with its list of
 * byte offsets (the reference: the definition of each constructor over such lists); the seed is
 * printed with a failure and can be given as the argument.
 */
#include "check.h"

enum { bytes_max = 3000, span_max = 60000 };

/* Offsets of the bytes of one element, in type-map order. */
struct layout { int n; long lb, ub; long at[bytes_max]; };

static uint64_t state;

static void append(struct layout* to, const struct layout* part, long shift) {
    for (int i = 0; i < part->n && to->n < bytes_max; ++i) to->at[to->n++] = part->at[i] + shift;
    if (part->lb + shift < to->lb) to->lb = part->lb + shift;
    if (part->ub + shift > to->ub) to->ub = part->ub + shift;
}

static void clear(struct layout* l) {
    l->n = 0;
    l->lb = 1L << 40;
    l->ub = -(1L << 40);
}

static MPI_Datatype basic(struct layout* out) {
    static const int sizes[] = {1, 2, 4, 8};
    MPI_Datatype types[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    int k = random_below(&state, 4);
    clear(out);
    for (int i = 0; i < sizes[k]; ++i) out->at[out->n++] = i;
    out->lb = 0;
    out->ub = sizes[k];
    return types[k];
}

/* One more level around inner; keeps within bytes_max and span_max or returns inner again. */
static MPI_Datatype wrap(MPI_Datatype inner, struct layout* l) {
    static struct layout out;
    long extent = l->ub - l->lb, span = extent < 0 ? -extent : extent;
    int kind = random_below(&state, 6), n = 1 + random_below(&state, 4);
    int block = 1 + random_below(&state, 3), i, j;
    int lengths[4], at[4];
    MPI_Aint far[4];
    MPI_Datatype t = MPI_DATATYPE_NULL, types[4];
    if (l->n * n * block > bytes_max || (span + 16) * n * block * 3 > span_max) return inner;
    clear(&out);
    if (kind == 0) {
        CHECK_OK(MPI_Type_contiguous(n, inner, &t));
        for (i = 0; i < n; ++i) append(&out, l, i * extent);
    } else if (kind == 1) {
        int stride = block + random_below(&state, 3);
        if (random_below(&state, 4) == 0) stride = -stride;
        CHECK_OK(MPI_Type_vector(n, block, stride, inner, &t));
        for (i = 0; i < n; ++i) {
            for (j = 0; j < block; ++j) append(&out, l, (i * stride + j) * extent);
        }
    } else if (kind == 2) {
        MPI_Aint stride = block * extent + random_below(&state, 9);
        CHECK_OK(MPI_Type_create_hvector(n, block, stride, inner, &t));
        for (i = 0; i < n; ++i) {
            for (j = 0; j < block; ++j) append(&out, l, i * stride + j * extent);
        }
    } else if (kind == 3) {
        for (i = j = 0; i < n; ++i) {
            lengths[i] = 1 + random_below(&state, block);
            at[i] = j + random_below(&state, 2);
            j = at[i] + lengths[i];
        }
        CHECK_OK(MPI_Type_indexed(n, lengths, at, inner, &t));
        for (i = 0; i < n; ++i) {
            for (j = 0; j < lengths[i]; ++j) append(&out, l, (at[i] + j) * extent);
        }
    } else if (kind == 4) {
        MPI_Aint next = random_below(&state, 5) - 2;
        for (i = 0; i < n; ++i) {
            lengths[i] = 1 + random_below(&state, block);
            far[i] = next;
            next += lengths[i] * span + random_below(&state, 7);
            types[i] = inner;
        }
        CHECK_OK(MPI_Type_create_struct(n, lengths, far, types, &t));
        for (i = 0; i < n; ++i) {
            for (j = 0; j < lengths[i]; ++j) append(&out, l, far[i] + j * extent);
        }
    } else {
        MPI_Aint lb = l->lb - random_below(&state, 4), more = extent + 4 + random_below(&state, 9);
        CHECK_OK(MPI_Type_create_resized(inner, lb, more, &t));
        append(&out, l, 0);
        out.lb = lb;
        out.ub = lb + more;
    }
    /* The standard rounds extents up to the alignment of the parts, which libraries do for structs
     * only or for all constructors; explicit bounds leave no doubt. */
    if (kind != 5 && (out.ub - out.lb) % 8 != 0) {
        MPI_Datatype fixed;
        CHECK_OK(MPI_Type_create_resized(t, out.lb, out.ub - out.lb, &fixed));
        CHECK_OK(MPI_Type_free(&t));
        t = fixed;
    }
    *l = out;
    return t;
}

static void one_type(uint64_t seed) {
    static struct layout l;
    int depth, levels, count, size = -1, i, k, position = 0, low_count = -1, overlap;
    long low = 0, high = 0, extent;
    MPI_Datatype t;
    MPI_Aint lb = 0, found_extent = 0;
    MPI_Status s;
    unsigned char *memory, *packed, *expected, *back;
    size_t bytes;
    context("seed %llu", (unsigned long long)seed);
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    t = basic(&l);
    levels = 1 + random_below(&state, 4);
    for (depth = 0; depth < levels; ++depth) {
        MPI_Datatype outer = wrap(t, &l);
        int ni, na, nt, combiner;
        CHECK_OK(MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner));
        if (outer != t && combiner != MPI_COMBINER_NAMED) CHECK_OK(MPI_Type_free(&t));
        t = outer;
    }
    {
        MPI_Datatype outer;
        CHECK_OK(MPI_Type_dup(t, &outer));
        t = outer;
    }
    CHECK_OK(MPI_Type_commit(&t));
    CHECK_OK(MPI_Type_size(t, &size));
    CHECK_EQ(l.n, size);
    CHECK_OK(MPI_Type_get_extent(t, &lb, &found_extent));
    CHECK_EQ(l.lb, lb);
    CHECK_EQ(l.ub - l.lb, found_extent);
    extent = l.ub - l.lb;
    count = 1 + random_below(&state, 5);
    for (k = 0; k < count; k += count > 1 ? count - 1 : 1) {
        for (i = 0; i < l.n; ++i) {
            long here = l.at[i] + k * extent;
            if (here < low) low = here;
            if (here > high) high = here;
        }
    }
    bytes = (size_t)(high - low) + 64;
    memory = malloc(bytes), back = calloc(bytes, 1);
    packed = malloc((size_t)(l.n * count) + 64), expected = malloc((size_t)(l.n * count) + 64);
    for (i = 0; i < (int)bytes; ++i) memory[i] = (unsigned char)(random_next(&state) >> 32) | 1;
    for (k = 0; k < count; ++k) {
        for (i = 0; i < l.n; ++i) expected[k * l.n + i] = memory[l.at[i] + k * extent - low];
    }
    CHECK_OK(MPI_Pack(memory - low, count, t, packed, l.n * count, &position, MPI_COMM_SELF));
    CHECK_EQ(l.n * count, position);
    CHECK_MEM(expected, packed, (size_t)(l.n * count));
    /* A type whose parts overlap may not be received into; the generator rarely makes one. */
    overlap = 0;
    for (k = 0; k < count; ++k) {
        for (i = 0; i < l.n; ++i) overlap |= back[l.at[i] + k * extent - low]++;
    }
    memset(back, 0, bytes);
    if (overlap) goto done;
    /* Sent as the type to the next rank (same seed, same memory) and received as the type. */
    CHECK_OK(MPI_Sendrecv(memory - low, count, t, (check_rank + 1) % check_size, 1, back - low,
                          count, t, (check_rank + check_size - 1) % check_size, 1, MPI_COMM_WORLD,
                          &s));
    CHECK_OK(MPI_Get_count(&s, t, &low_count));
    CHECK_EQ(l.n == 0 ? 0 : count, low_count);
    position = 0;
    memset(packed, 0, (size_t)(l.n * count));
    CHECK_OK(MPI_Pack(back - low, count, t, packed, l.n * count, &position, MPI_COMM_SELF));
    CHECK_MEM(expected, packed, (size_t)(l.n * count));
    for (k = 0; k < count; ++k) {
        for (i = 0; i < l.n; ++i) back[l.at[i] + k * extent - low] = 0;
    }
    for (i = 0; i < (int)bytes && back[i] == 0; ++i) {
    }
    CHECK_EQ(bytes, i);
    /* Unpacked from bytes in one go. */
    position = 0;
    CHECK_OK(MPI_Unpack(expected, l.n * count, &position, back - low, count, t, MPI_COMM_SELF));
    for (k = 0; k < count; ++k) {
        for (i = 0; i < l.n; ++i) {
            if (back[l.at[i] + k * extent - low] != expected[k * l.n + i]) break;
        }
        CHECK_EQ(l.n, i);
    }
done:
    CHECK_OK(MPI_Type_free(&t));
    free(memory), free(back), free(packed), free(expected);
}

int main(int argc, char** argv) {
    uint64_t seed;
    start(&argc, &argv);
    if (argc > 1) {
        one_type(strtoull(argv[1], NULL, 10));
    } else {
        for (seed = 1; seed <= 1500; ++seed) one_type(seed);
    }
    return finish();
}
