/* Goal: whatever the view, the memory's datatype and the form of the call, exactly the right bytes
 * of the file are written and read, and no others (MPI 5.0, sections 14.3 and 14.4).
 * Method: property test. From a seed, all ranks draw the views of all ranks: either one tile of the
 * file dealt out among the ranks, so that their data interleave, or a nested filetype in a region
 * of each rank's own. The file's whole image is kept in memory and updated by loops over etypes;
 * after every write the file is compared with it byte by byte, and every read with the image. Hints
 * make libraries exchange data in small windows or not at all.
 */
#include "io_files.h"

enum { image_bytes = 600 * 1024, slots_max = 3000, etypes_max = 4000, ranks_max = 16 };

/* A view as a list: where the etypes of one filetype lie. */
struct view {
    MPI_Offset disp;
    int n;               /* etypes in a filetype */
    long extent;         /* bytes */
    long at[slots_max];  /* bytes from the filetype's beginning */
};

struct access {
    long offset, count;  /* in etypes */
};

static unsigned char image[image_bytes], found[image_bytes];
static struct view views[ranks_max];
static struct access accesses[ranks_max];
static uint64_t state;
static int etype_size;
static MPI_Datatype etype;

static int below(int bound) { return random_below(&state, bound); }

/* Byte b of the etype that `rank` writes as its number i in round r. */
static unsigned char value_of(int rank, int r, long i, int b) {
    uint64_t x = (uint64_t)rank * 7919 + (uint64_t)r * 104729 + (uint64_t)i * 31 + (uint64_t)b;
    return (unsigned char)((x * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static long file_offset(const struct view* v, long etype_number) {
    return (long)v->disp + etype_number / v->n * v->extent + v->at[etype_number % v->n];
}

static void draw_etype(void) {
    int kind = below(4);
    if (kind == 3) {
        CHECK_OK(MPI_Type_contiguous(3, MPI_SHORT, &etype));
        CHECK_OK(MPI_Type_commit(&etype));
    } else {
        etype = kind == 0 ? MPI_BYTE : kind == 1 ? MPI_INT : MPI_DOUBLE;
    }
    CHECK_OK(MPI_Type_size(etype, &etype_size));
}

/* One tile, each slot of which belongs to one rank or to nobody. */
static void deal_tile(void) {
    int slots = check_size + (below(3) ? below(60) : below(slots_max - ranks_max)), slot = 0, rank;
    MPI_Offset disp = below(2) ? below(5000) : 0;
    int run_max = 1 + below(3) * below(20);
    for (rank = 0; rank < check_size; ++rank) {
        views[rank].n = 0;
        views[rank].disp = disp;
        views[rank].extent = (long)slots * etype_size;
    }
    while (slot < slots) {
        int run = 1 + below(run_max), owner = below(check_size + 1);
        for (; run > 0 && slot < slots; --run, ++slot)
            if (owner < check_size) views[owner].at[views[owner].n++] = (long)slot * etype_size;
    }
}

/* A region for each rank, with a filetype of two levels. */
static void nested_regions(void) {
    int rank;
    for (rank = 0; rank < check_size; ++rank) {
        struct view* v = &views[rank];
        int inner = 1 + below(8), outer = 1 + below(8), i, j;
        long at[8], next = below(3), inner_extent, stride;
        for (i = 0; i < inner; ++i) {
            at[i] = next * etype_size;
            next += 1 + below(4);
        }
        inner_extent = next * etype_size;
        stride = inner_extent + below(5) * etype_size;
        v->disp = (MPI_Offset)rank * (image_bytes / check_size) + below(100);
        v->n = inner * outer;
        for (j = 0; j < outer; ++j)
            for (i = 0; i < inner; ++i) v->at[j * inner + i] = j * stride + at[i];
        v->extent = outer * stride + below(3) * etype_size;
    }
}

/* The filetype of this rank's list, by one of several constructors. */
static MPI_Datatype make_filetype(const struct view* v, int how) {
    MPI_Datatype t, resized;
    int i, n = 0;
    int* lengths = malloc((size_t)(v->n + 1) * sizeof *lengths);
    MPI_Aint* at = malloc((size_t)(v->n + 1) * sizeof *at);
    for (i = 0; i < v->n; ++i) {
        if (how && n && at[n - 1] + (MPI_Aint)lengths[n - 1] * etype_size == v->at[i]) ++lengths[n - 1];
        else at[n] = v->at[i], lengths[n++] = 1;
    }
    if (how == 0) {
        CHECK_OK(MPI_Type_create_hindexed_block(n, 1, at, etype, &t));
    } else if (how == 1 || n == 0) {
        CHECK_OK(MPI_Type_create_hindexed(n, lengths, at, etype, &t));
    } else {
        MPI_Datatype* types = malloc((size_t)n * sizeof *types);
        for (i = 0; i < n; ++i) types[i] = etype;
        CHECK_OK(MPI_Type_create_struct(n, lengths, at, types, &t));
        free(types);
    }
    CHECK_OK(MPI_Type_create_resized(t, 0, v->extent, &resized));
    CHECK_OK(MPI_Type_free(&t));
    CHECK_OK(MPI_Type_commit(&resized));
    free(lengths), free(at);
    return resized;
}

/* How many etypes fit before the limit of the rank's part. */
static void draw_accesses(int regions) {
    int rank;
    for (rank = 0; rank < check_size; ++rank) {
        struct view* v = &views[rank];
        long end = regions ? (long)(rank + 1) * (image_bytes / check_size) : image_bytes;
        long tiles = (end - (long)v->disp) / v->extent, most = tiles * v->n;
        if (most > etypes_max) most = etypes_max;
        accesses[rank].count = accesses[rank].offset = 0;
        if (most < 1) continue;
        accesses[rank].offset = below(2) ? below((int)most) : 0;
        accesses[rank].count = below(8) ? below((int)(most - accesses[rank].offset) + 1) : 0;
    }
}

/* Memory for `count` etypes: contiguous, or with gaps of gap etypes after each group. */
struct memory {
    unsigned char* bytes;
    size_t size;
    MPI_Datatype type;
    int count, group, gap;
};

static unsigned char* etype_in(const struct memory* m, long i) {
    return m->bytes + (i / m->group * (m->group + m->gap) + i % m->group) * etype_size;
}

static struct memory make_memory(long count, int gaps) {
    struct memory m;
    m.group = 1, m.gap = 0, m.type = etype, m.count = (int)count;
    if (gaps && count > 0) {
        MPI_Datatype inner;
        for (m.group = 1 + below(7); count % m.group != 0;) --m.group;
        m.gap = 1 + below(3);
        m.count = (int)(count / m.group);
        CHECK_OK(MPI_Type_contiguous(m.group, etype, &inner));
        CHECK_OK(MPI_Type_create_resized(inner, 0, (m.group + m.gap) * etype_size, &m.type));
        CHECK_OK(MPI_Type_commit(&m.type));
        CHECK_OK(MPI_Type_free(&inner));
    }
    m.size = (size_t)(count / m.group + 1) * (size_t)(m.group + m.gap) * (size_t)etype_size;
    m.bytes = malloc(m.size);
    memset(m.bytes, 0xee, m.size);
    return m;
}

static void free_memory(struct memory* m) {
    if (m->type != etype) CHECK_OK(MPI_Type_free(&m->type));
    free(m->bytes);
}

static void put(MPI_File f, int form, long offset, struct memory* m, MPI_Status* s) {
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Offset at = offset;
    if (form == 2 || form == 3 || form == 6) CHECK_OK(MPI_File_seek(f, at, MPI_SEEK_SET));
    switch (form) {
    case 0: CHECK_OK(MPI_File_write_at(f, at, m->bytes, m->count, m->type, s)); break;
    case 1: CHECK_OK(MPI_File_write_at_all(f, at, m->bytes, m->count, m->type, s)); break;
    case 2: CHECK_OK(MPI_File_write(f, m->bytes, m->count, m->type, s)); break;
    case 3: CHECK_OK(MPI_File_write_all(f, m->bytes, m->count, m->type, s)); break;
    case 4: CHECK_OK(MPI_File_iwrite_at(f, at, m->bytes, m->count, m->type, &r)); break;
    case 5: CHECK_OK(MPI_File_iwrite_at_all(f, at, m->bytes, m->count, m->type, &r)); break;
    case 6:
        CHECK_OK(MPI_File_write_all_begin(f, m->bytes, m->count, m->type));
        CHECK_OK(MPI_File_write_all_end(f, m->bytes, s));
        break;
    default:
        CHECK_OK(MPI_File_write_at_all_begin(f, at, m->bytes, m->count, m->type));
        CHECK_OK(MPI_File_write_at_all_end(f, m->bytes, s));
    }
    if (r != MPI_REQUEST_NULL) CHECK_OK(MPI_Wait(&r, s));
}

static void get(MPI_File f, int form, long offset, struct memory* m, MPI_Status* s) {
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Offset at = offset;
    if (form == 2 || form == 3 || form == 6) CHECK_OK(MPI_File_seek(f, at, MPI_SEEK_SET));
    switch (form) {
    case 0: CHECK_OK(MPI_File_read_at(f, at, m->bytes, m->count, m->type, s)); break;
    case 1: CHECK_OK(MPI_File_read_at_all(f, at, m->bytes, m->count, m->type, s)); break;
    case 2: CHECK_OK(MPI_File_read(f, m->bytes, m->count, m->type, s)); break;
    case 3: CHECK_OK(MPI_File_read_all(f, m->bytes, m->count, m->type, s)); break;
    case 4: CHECK_OK(MPI_File_iread_at(f, at, m->bytes, m->count, m->type, &r)); break;
    case 5: CHECK_OK(MPI_File_iread_at_all(f, at, m->bytes, m->count, m->type, &r)); break;
    case 6:
        CHECK_OK(MPI_File_read_all_begin(f, m->bytes, m->count, m->type));
        CHECK_OK(MPI_File_read_all_end(f, m->bytes, s));
        break;
    default:
        CHECK_OK(MPI_File_read_at_all_begin(f, at, m->bytes, m->count, m->type));
        CHECK_OK(MPI_File_read_at_all_end(f, m->bytes, s));
    }
    if (r != MPI_REQUEST_NULL) CHECK_OK(MPI_Wait(&r, s));
}

static void whole_count(MPI_Status* s, const struct memory* m) {
    int count = -1;
    CHECK_OK(MPI_Get_count(s, m->type, &count));
    CHECK_EQ(m->count, count);
}

/* The same hints on all ranks; the memory's gaps are a rank's own. */
static MPI_Info draw_hints(void) {
    static const char* const when[] = {"enable", "disable", "automatic"};
    char text[16];
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "romio_cb_write", when[below(3)]));
    CHECK_OK(MPI_Info_set(info, "romio_cb_read", when[below(3)]));
    CHECK_OK(MPI_Info_set(info, "romio_ds_read", when[below(3)]));
    snprintf(text, sizeof text, "%d", 4096 << below(8));
    CHECK_OK(MPI_Info_set(info, "cb_buffer_size", text));
    CHECK_OK(MPI_Info_set(info, "ind_rd_buffer_size", text));
    snprintf(text, sizeof text, "%d", 1 + below(check_size));
    CHECK_OK(MPI_Info_set(info, "cb_nodes", text));
    return info;
}

static void one_round(MPI_File f, const char* name, int r) {
    int regions = below(2), how = below(3), form = below(8), gaps = below(2), rank, b;
    struct view* v = &views[check_rank];
    MPI_Datatype filetype;
    struct memory m;
    MPI_Status s;
    MPI_Offset at = -1;
    long i;
    if (regions) nested_regions();
    else deal_tile();
    draw_accesses(regions);
    filetype = make_filetype(v, how);
    CHECK_OK(MPI_File_set_view(f, v->disp, etype, filetype, "native", MPI_INFO_NULL));
    struct access* mine = &accesses[check_rank];
    uint64_t common = state;
    state ^= (uint64_t)check_rank << 20;
    m = make_memory(mine->count, gaps);
    state = common;
    for (i = 0; i < mine->count; ++i)
        for (b = 0; b < etype_size; ++b) etype_in(&m, i)[b] = value_of(check_rank, r, i, b);
    if (mine->count) {
        CHECK_OK(MPI_File_get_byte_offset(f, mine->offset, &at));
        CHECK_EQ(file_offset(v, mine->offset), at);
    }
    put(f, form, mine->offset, &m, &s);
    whole_count(&s, &m);
    free_memory(&m);
    for (rank = 0; rank < check_size; ++rank)
        for (i = 0; i < accesses[rank].count; ++i)
            for (b = 0; b < etype_size; ++b)
                image[file_offset(&views[rank], accesses[rank].offset + i) + b] = value_of(rank, r, i, b);
    CHECK_OK(MPI_File_sync(f));
    barrier();
    CHECK_OK(MPI_File_sync(f));
    CHECK_EQ(image_bytes, plain_read(name, found, 0, image_bytes));
    CHECK_MEM(image, found, image_bytes);
    /* Read somewhere else in the same views, with another form. */
    draw_accesses(regions);
    form = below(8);
    common = state;
    state ^= (uint64_t)check_rank << 21;
    m = make_memory(mine->count, gaps);
    state = common;
    get(f, form, mine->offset, &m, &s);
    whole_count(&s, &m);
    int wrong = 0, touched = 0;
    for (i = 0; i < mine->count; ++i) {
        unsigned char* here = etype_in(&m, i);
        wrong += memcmp(here, image + file_offset(v, mine->offset + i), (size_t)etype_size) != 0;
        memset(here, 0xee, (size_t)etype_size);
    }
    CHECK_EQ(0, wrong);
    for (i = 0; i < (long)m.size; ++i) touched += m.bytes[i] != 0xee;
    CHECK_EQ(0, touched);
    free_memory(&m);
    CHECK_OK(MPI_Type_free(&filetype));
    barrier();
}

static void one_file(uint64_t seed) {
    char name[200];
    MPI_File f;
    MPI_Info info;
    int r;
    state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    context("seed %llu", (unsigned long long)seed);
    new_name(name, sizeof name);
    info = draw_hints();
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_File_set_size(f, image_bytes));
    memset(image, 0, sizeof image);
    for (r = 0; r < 4; ++r) {
        context("seed %llu, round %d", (unsigned long long)seed, r);
        draw_etype();
        one_round(f, name, r);
        if (etype != MPI_BYTE && etype != MPI_INT && etype != MPI_DOUBLE) CHECK_OK(MPI_Type_free(&etype));
    }
    CHECK_OK(MPI_File_close(&f));
    if (check_rank == 0) CHECK_OK(MPI_File_delete(name, MPI_INFO_NULL));
    barrier();
}

int main(int argc, char** argv) {
    uint64_t seed;
    start(&argc, &argv);
    if (argc > 1) {
        one_file(strtoull(argv[1], NULL, 10));
    } else {
        for (seed = 1; seed <= 40; ++seed) one_file(seed);
    }
    return finish();
}
