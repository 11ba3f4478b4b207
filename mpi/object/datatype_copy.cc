// mpi/object/datatype_copy.cc: packing and unpacking by a Layout.
// Idea: one kernel copies n blocks of equal length with a stride on either side, its length a
// compile-time constant for what occurs often; all forms end there. Repetitions of a few short
// blocks (arrays of structs) are copied column by column, in portions that stay in the first cache,
// so that the kernel's loop is long. A fragment is a partial element, whole ones, a partial one;
// only partial ones recurse, twice per level at most. Both directions are one template: the user's
// side is an address (MPI_BOTTOM makes null plus an offset right), the stream's side a pointer.
#include "mpi/object/datatype_layout.h"

#include "btl/base/check.h"

#include <algorithm>

namespace pomona {
namespace {

using Form = Layout::Form;
using Address = uintptr_t;  // wraps around as addresses do; strides may be negative

constexpr MPI_Count kPortionBytes = 8192;  // of the stream, for copying by columns
constexpr MPI_Count kColumnBytesMax = 64;  // longer blocks gain nothing from a long loop
constexpr MPI_Count kColumnsMax = 64;
constexpr MPI_Count kPrefetchStride = 256;  // bytes
constexpr MPI_Count kPrefetchBlocks = 16;

template <bool packing> inline void move(Address user, std::byte* stream, size_t length) {
    if constexpr (packing) std::memcpy(stream, reinterpret_cast<const void*>(user), length);
    else std::memcpy(reinterpret_cast<void*>(user), stream, length);
}

struct Strided {
    Address user;
    MPI_Count user_stride;
    std::byte* stream;
    MPI_Count stream_stride;
    MPI_Count count;
};

template <bool packing, class Move> inline void each_block(Strided s, Move move_one) {
    // Writes to lines of their own wait for each line; asking for them ahead measured 10 to 25 %
    // (columns of matrices, faces of cubes). Reads gain nothing from it.
    bool far = s.user_stride >= kPrefetchStride || s.user_stride <= -kPrefetchStride;
    if (!packing && far) {
        for (; s.count > kPrefetchBlocks; --s.count) {
            Address ahead = s.user + static_cast<Address>(kPrefetchBlocks * s.user_stride);
            __builtin_prefetch(reinterpret_cast<const void*>(ahead), 1);
            move_one(s.user, s.stream);
            s.user += static_cast<Address>(s.user_stride);
            s.stream += s.stream_stride;
        }
    }
    for (; s.count >= 4; s.count -= 4) {
        for (int i = 0; i < 4; ++i) {
            move_one(s.user, s.stream);
            s.user += static_cast<Address>(s.user_stride);
            s.stream += s.stream_stride;
        }
    }
    for (; s.count > 0; --s.count) {
        move_one(s.user, s.stream);
        s.user += static_cast<Address>(s.user_stride);
        s.stream += s.stream_stride;
    }
}

template <bool packing, size_t length> void blocks_of(const Strided& s) {
    each_block<packing>(
        s, [](Address user, std::byte* stream) { move<packing>(user, stream, length); });
}

// Any length in (half, 2 * half]: two moves that overlap.
template <bool packing, size_t half>
inline void move_two(Address user, std::byte* stream, size_t length) {
    move<packing>(user, stream, half);
    move<packing>(user + length - half, stream + length - half, half);
}

template <bool packing, size_t half> void blocks_about(const Strided& s, size_t length) {
    each_block<packing>(s, [length](Address user, std::byte* stream) {
        move_two<packing, half>(user, stream, length);
    });
}

// n blocks of `length` bytes.
template <bool packing> void copy_blocks(const Strided& s, MPI_Count block_length) {
    auto length = static_cast<size_t>(block_length);
    switch (length) {
    case 1: return blocks_of<packing, 1>(s);
    case 2: return blocks_of<packing, 2>(s);
    case 4: return blocks_of<packing, 4>(s);
    case 8: return blocks_of<packing, 8>(s);
    case 12: return blocks_of<packing, 12>(s);
    case 16: return blocks_of<packing, 16>(s);
    case 24: return blocks_of<packing, 24>(s);
    case 32: return blocks_of<packing, 32>(s);
    case 48: return blocks_of<packing, 48>(s);
    case 64: return blocks_of<packing, 64>(s);
    default: break;
    }
    if (length < 4) return blocks_about<packing, 2>(s, length);
    if (length < 8) return blocks_about<packing, 4>(s, length);
    if (length < 16) return blocks_about<packing, 8>(s, length);
    if (length < 32) return blocks_about<packing, 16>(s, length);
    if (length < 64) return blocks_about<packing, 32>(s, length);
    each_block<packing>(
        s, [length](Address user, std::byte* stream) { move<packing>(user, stream, length); });
}

// One block; short ones without a call.
template <bool packing> inline void copy_one(Address user, std::byte* stream, size_t length) {
    if (length > 64) return move<packing>(user, stream, length);
    if (length >= 32) return move_two<packing, 32>(user, stream, length);
    if (length >= 16) return move_two<packing, 16>(user, stream, length);
    if (length >= 8) return move_two<packing, 8>(user, stream, length);
    if (length >= 4) return move_two<packing, 4>(user, stream, length);
    if (length >= 2) return move_two<packing, 2>(user, stream, length);
    if (length == 1) move<packing>(user, stream, 1);
}

template <bool packing, size_t length>
void gather(const Layout::Run* runs, size_t n, Address user, std::byte* stream) {
    for (size_t i = 0; i < n; ++i)
        move<packing>(user + static_cast<Address>(runs[i].offset), stream + i * length, length);
}

// n whole runs from `runs` on; `stream` is where the first goes.
template <bool packing> void copy_runs(const Layout::Run* runs, size_t n, MPI_Count run_length,
                                       Address user, std::byte* stream) {
    switch (run_length) {
    case 1: return gather<packing, 1>(runs, n, user, stream);
    case 2: return gather<packing, 2>(runs, n, user, stream);
    case 4: return gather<packing, 4>(runs, n, user, stream);
    case 8: return gather<packing, 8>(runs, n, user, stream);
    case 16: return gather<packing, 16>(runs, n, user, stream);
    case 24: return gather<packing, 24>(runs, n, user, stream);
    case 32: return gather<packing, 32>(runs, n, user, stream);
    default: break;
    }
    for (size_t i = 0; i < n; ++i) {
        auto length = static_cast<size_t>(runs[i + 1].position - runs[i].position);
        copy_one<packing>(user + static_cast<Address>(runs[i].offset), stream, length);
        stream += length;
    }
}

// What a fragment needs; `user` is the address of the element that `layout` describes.
template <bool packing> struct Copier {
    // n whole elements, `stride` apart.
    static void whole(const Layout& layout, MPI_Count n, MPI_Count stride, Address user,
                      std::byte* stream) {
        user += static_cast<Address>(layout.origin);
        switch (layout.form) {
        case Form::block:
            if (n == 1) return copy_one<packing>(user, stream, static_cast<size_t>(layout.size));
            if (stride == layout.size)
                return move<packing>(user, stream, static_cast<size_t>(n * layout.size));
            return copy_blocks<packing>({user, stride, stream, layout.size, n}, layout.size);
        case Form::loop: return loops(layout, n, stride, user, stream);
        case Form::runs: return runs(layout, n, stride, user, stream);
        case Form::sequence: break;
        }
        const auto& parts = *layout.parts;
        for (MPI_Count i = 0; i < n; ++i) {
            for (size_t k = 0; k + 1 < parts.size(); ++k)
                whole(parts[k].layout, 1, 0, user, stream + parts[k].position);
            user += static_cast<Address>(stride);
            stream += layout.size;
        }
    }

    static void loops(const Layout& layout, MPI_Count n, MPI_Count stride, Address user,
                      std::byte* stream) {
        const Layout& child = *layout.child;
        bool columns = child.form == Form::block && child.size <= kColumnBytesMax &&
                       layout.count < 8 && n > layout.count;
        if (!columns) {
            for (MPI_Count i = 0; i < n; ++i) {
                whole(child, layout.count, layout.stride, user, stream);
                user += static_cast<Address>(stride);
                stream += layout.size;
            }
            return;
        }
        portions(layout, n, stride, user, stream, [&](const Strided& portion) {
            Strided column = portion;
            for (MPI_Count k = 0; k < layout.count; ++k) {
                copy_blocks<packing>(column, child.size);
                column.user += static_cast<Address>(layout.stride);
                column.stream += child.size;
            }
        });
    }

    static void runs(const Layout& layout, MPI_Count n, MPI_Count stride, Address user,
                     std::byte* stream) {
        const auto* list = layout.runs->data();
        auto runs_count = static_cast<MPI_Count>(layout.runs->size()) - 1;
        bool columns =
            n >= 4 && runs_count <= kColumnsMax && layout.size <= kColumnBytesMax * runs_count;
        if (!columns) {
            for (MPI_Count i = 0; i < n; ++i) {
                copy_runs<packing>(list, static_cast<size_t>(runs_count), layout.run_length, user,
                                   stream);
                user += static_cast<Address>(stride);
                stream += layout.size;
            }
            return;
        }
        portions(layout, n, stride, user, stream, [&](const Strided& portion) {
            for (MPI_Count k = 0; k < runs_count; ++k) {
                Strided column = portion;
                column.user += static_cast<Address>(list[k].offset);
                column.stream += list[k].position;
                copy_blocks<packing>(column, list[k + 1].position - list[k].position);
            }
        });
    }

    template <class Columns> static void portions(const Layout& layout, MPI_Count n,
                                                  MPI_Count stride, Address user, std::byte* stream,
                                                  Columns columns) {
        MPI_Count portion = std::max<MPI_Count>(16, kPortionBytes / layout.size);
        for (MPI_Count done = 0; done < n; done += portion)
            columns(Strided{user + static_cast<Address>(done * stride), stride,
                            stream + done * layout.size, layout.size, std::min(portion, n - done)});
    }

    // Bytes [skip, skip + length) of n elements.
    static void part_of_loop(const Layout& layout, MPI_Count stride, Address user, MPI_Count skip,
                             MPI_Count length, std::byte* stream) {
        if (skip > 0) {
            user += static_cast<Address>(skip / layout.size * stride);
            skip %= layout.size;
        }
        if (skip > 0) {
            MPI_Count head = std::min(length, layout.size - skip);
            part(layout, user, skip, head, stream);
            user += static_cast<Address>(stride);
            stream += head;
            length -= head;
        }
        if (length >= layout.size) {
            MPI_Count n = length / layout.size;
            whole(layout, n, stride, user, stream);
            user += static_cast<Address>(n) * static_cast<Address>(stride);
            stream += n * layout.size;
            length -= n * layout.size;
        }
        if (length > 0) part(layout, user, 0, length, stream);
    }

    // Bytes [skip, skip + length) of one element.
    static void part(const Layout& layout, Address user, MPI_Count skip, MPI_Count length,
                     std::byte* stream) {
        user += static_cast<Address>(layout.origin);
        switch (layout.form) {
        case Form::block:
            return move<packing>(user + static_cast<Address>(skip), stream,
                                 static_cast<size_t>(length));
        case Form::loop:
            return part_of_loop(*layout.child, layout.stride, user, skip, length, stream);
        case Form::runs: return part_of_runs(layout, user, skip, length, stream);
        case Form::sequence: return part_of_sequence(layout, user, skip, length, stream);
        }
    }

    static void part_of_runs(const Layout& layout, Address user, MPI_Count skip, MPI_Count length,
                             std::byte* stream) {
        const auto& list = *layout.runs;
        size_t first = find_position(list, skip);
        MPI_Count within = skip - list[first].position;
        if (within > 0) {
            MPI_Count head = std::min(length, list[first + 1].position - skip);
            move<packing>(user + static_cast<Address>(list[first].offset + within), stream,
                          static_cast<size_t>(head));
            stream += head;
            length -= head;
            ++first;
        }
        if (length == 0) return;
        size_t last = find_position(list, list[first].position + length);
        copy_runs<packing>(&list[first], last - first, layout.run_length, user, stream);
        MPI_Count copied = list[last].position - list[first].position;
        if (copied < length)
            move<packing>(user + static_cast<Address>(list[last].offset), stream + copied,
                          static_cast<size_t>(length - copied));
    }

    static void part_of_sequence(const Layout& layout, Address user, MPI_Count skip,
                                 MPI_Count length, std::byte* stream) {
        const auto& parts = *layout.parts;
        for (size_t k = find_position(parts, skip); length > 0; ++k) {
            MPI_Count within = skip - parts[k].position;
            MPI_Count here = std::min(length, parts[k].layout.size - within);
            if (here == parts[k].layout.size) whole(parts[k].layout, 1, 0, user, stream);
            else part(parts[k].layout, user, within, here, stream);
            stream += here;
            skip += here;
            length -= here;
        }
    }
};

template <bool packing> void copy(const Layout& layout, Address base, MPI_Count count,
                                  MPI_Count extent, size_t offset, std::byte* stream,
                                  size_t length) {
    if (length == 0) return;
    auto total = static_cast<size_t>(count) * static_cast<size_t>(layout.size);
    check(offset <= total && length <= total - offset, offset, length, total);
    Copier<packing>::part_of_loop(layout, extent, base, static_cast<MPI_Count>(offset),
                                  static_cast<MPI_Count>(length), stream);
}

}  // namespace

void Layout::pack(const std::byte* base, MPI_Count times, MPI_Count extent, size_t offset,
                  Bytes out) const {
    copy<true>(*this, reinterpret_cast<Address>(base), times, extent, offset, out.data(),
               out.size());
}

void Layout::unpack(std::byte* base, MPI_Count times, MPI_Count extent, size_t offset,
                    ConstBytes in) const {
    // The template's stream is not const; unpacking only reads it.
    copy<false>(*this, reinterpret_cast<Address>(base), times, extent, offset,
                const_cast<std::byte*>(in.data()), in.size());
}

}  // namespace pomona
