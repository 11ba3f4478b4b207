// mpi/object/datatype.cc: what a finished datatype tells: its basic elements, and the call that
// made it.
#include "mpi/object/datatype.h"

namespace pomona {

// Types that only this one refers to go one after the other: chains may be longer than the stack.
Datatype::~Datatype() {
    std::vector<Ref<Datatype>> going = std::move(made_by_.types);
    while (!going.empty()) {
        Ref<Datatype> next = std::move(going.back());
        going.pop_back();
        if (next->references() > 1) continue;
        for (Ref<Datatype>& inner : next->made_by_.types) going.push_back(std::move(inner));
        next->made_by_.types.clear();
    }
}

// ---- basic elements

MPI_Count Datatype::count_basic(MPI_Count bytes) const {
    if (size_ == 0) return bytes == 0 ? 0 : -1;
    MPI_Count part = count_basic_of_part(bytes % size_);
    return part < 0 ? -1 : bytes / size_ * basics_ + part;
}

// 0 <= bytes < size_.
MPI_Count Datatype::count_basic_of_part(MPI_Count bytes) const {
    if (bytes == 0) return 0;
    if (const Datatype* inner = wrapped()) {
        while (const Datatype* next = inner->wrapped()) inner = next;
        return inner->count_basic_of_part(bytes);
    }
    if (predefined()) return pair_[0] && bytes == pair_[0]->size_ ? 1 : -1;
    if (made_by_.combiner != MPI_COMBINER_STRUCT) return made_by_.types[0]->count_basic(bytes);
    MPI_Count count = 0;
    for (size_t k = 0; k < made_by_.types.size(); ++k) {
        const Datatype& type = *made_by_.types[k];
        MPI_Count here = std::min(bytes, type.size_ * made_by_.arguments[1 + k]);
        MPI_Count part = type.count_basic(here);
        if (part < 0) return -1;
        count += part;
        bytes -= here;
        if (bytes == 0) break;
    }
    return count;
}

void Datatype::each_basic(std::byte* base, MPI_Count count, const Visit& visit) const {
    for (MPI_Count i = 0; i < count; ++i)
        each_basic_of_one(reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base) +
                                                       static_cast<uintptr_t>(i * extent())),
                          visit);
}

// Where an inner element lies follows from where its first byte of the stream lies.
void Datatype::each_basic_of_one(std::byte* address, const Visit& visit) const {
    auto at = [](std::byte* from, MPI_Count offset) {
        return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(from) +
                                            static_cast<uintptr_t>(offset));
    };
    if (const Datatype* inner = wrapped()) {
        while (const Datatype* next = inner->wrapped()) inner = next;
        return inner->each_basic_of_one(at(address, layout_.locate(0) - inner->layout_.locate(0)),
                                        visit);
    }
    if (predefined()) {
        if (!pair_[0]) return visit(*this, address);
        visit(*pair_[0], address);
        return visit(*pair_[1], at(address, layout_.locate(pair_[0]->size_)));
    }
    bool structure = made_by_.combiner == MPI_COMBINER_STRUCT;
    MPI_Count position = 0;
    for (size_t k = 0; k < made_by_.types.size(); ++k) {
        const Datatype& type = *made_by_.types[k];
        if (type.size_ == 0) continue;
        MPI_Count times = structure ? made_by_.arguments[1 + k] : size_ / type.size_;
        for (MPI_Count i = 0; i < times; ++i) {
            MPI_Count offset = layout_.locate(position) - type.layout_.locate(0);
            type.each_basic_of_one(at(address, offset), visit);
            position += type.size_;
        }
    }
}

// ---- the call that made it

// Which of the arguments are addresses (int form) or large counts (_c form): those from `first` up
// to `last`; the others are integers.
namespace {
struct Wide {
    size_t first, last;
};

Wide wide_arguments(const Datatype::Call& call) {
    const auto& a = call.arguments;
    auto n = [&](size_t i) { return static_cast<size_t>(a[i]); };
    Wide all{0, a.size()}, none{0, 0};
    if (call.large) {
        if (call.combiner == MPI_COMBINER_SUBARRAY) return {1, a.size() - 1};
        if (call.combiner == MPI_COMBINER_DARRAY) return {3, 3 + n(2)};
        return all;
    }
    switch (call.combiner) {
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HINDEXED_BLOCK: return {2, a.size()};
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT: return {1 + n(0), a.size()};
    case MPI_COMBINER_RESIZED: return all;
    default: return none;
    }
}
}  // namespace

Datatype::Contents Datatype::contents() const {
    Contents made;
    Wide wide = wide_arguments(made_by_);
    for (size_t i = 0; i < made_by_.arguments.size(); ++i) {
        MPI_Count value = made_by_.arguments[i];
        if (i < wide.first || i >= wide.last) made.integers.push_back(static_cast<int>(value));
        else if (made_by_.large) made.large_counts.push_back(value);
        else made.addresses.push_back(static_cast<MPI_Aint>(value));
    }
    return made;
}

}  // namespace pomona
