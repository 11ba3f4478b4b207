// accel/metal_shape.h: how an array is divided among the GPU's threads; struct ReduceShape of
// reduce.metal as the host sees it.
// Idea: vectors of four need addresses that are multiples of four elements. If all three arrays
// have the same remainder, single elements lead up to it; otherwise all elements go singly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pomona {

struct MetalShape {
    uint64_t out_start, a_start, b_start;
    uint32_t count, head, vectors, unused;

    uint32_t threads() const { return vectors + (count - 4 * vectors); }
};
static_assert(sizeof(MetalShape) == 40);

// Elements one dispatch takes: what a 32-bit index holds with room to spare.
inline constexpr size_t metal_count_max = size_t{1} << 30;

// Starts in elements from the beginnings of buffers, which are aligned to pages.
inline MetalShape metal_shape(uint64_t out_start, uint64_t a_start, uint64_t b_start,
                              uint32_t count) {
    MetalShape shape{out_start, a_start, b_start, count, 0, 0, 0};
    bool together = out_start % 4 == a_start % 4 && out_start % 4 == b_start % 4;
    uint32_t head = static_cast<uint32_t>((4 - out_start % 4) % 4);
    if (together && count >= head + 4) {
        shape.head = head;
        shape.vectors = (count - head) / 4;
    }
    return shape;
}

}  // namespace pomona
