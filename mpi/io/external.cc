// mpi/io/external.cc: filetypes and data in the form external32.
#include "mpi/io/external.h"

#include "mpi/object/datatype_external.h"

#include <cstring>

namespace pomona {

namespace {

// The call's arguments from `first` on, `count` of them.
Counts piece(const Datatype::Call& call, MPI_Count first, MPI_Count count) {
    return Counts(call.arguments).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

std::vector<int> narrowed(Counts values) { return std::vector<int>(values.begin(), values.end()); }

Datatype::Made external_structure(const Datatype::Call& call) {
    std::vector<Ref<Datatype>> owned;
    std::vector<Datatype*> types;
    for (const auto& each : call.types) {
        owned.push_back(TRY(external_form(*each)));
        types.push_back(owned.back().get());
    }
    auto count = static_cast<MPI_Count>(types.size());
    return Datatype::structure(piece(call, 1, count), piece(call, 1 + count, count), types);
}

Datatype::Made external_darray(const Datatype::Call& call, Datatype& old) {
    MPI_Count n = call.arguments[2];
    auto kinds = narrowed(piece(call, 3 + n, n)), arguments = narrowed(piece(call, 3 + 2 * n, n)),
         sizes = narrowed(piece(call, 3 + 3 * n, n));
    return Datatype::darray({.size = static_cast<int>(call.arguments[0]),
                             .rank = static_cast<int>(call.arguments[1]),
                             .global_sizes = piece(call, 3, n),
                             .kinds = kinds,
                             .arguments = arguments,
                             .process_sizes = sizes,
                             .order = static_cast<int>(call.arguments.back())},
                            old);
}

}  // namespace

Datatype::Made external_form(Datatype& type) {
    if (type.predefined()) return Datatype::contiguous(external_size(type), Datatype::of(MPI_BYTE));
    const Datatype::Call& call = type.made_by();
    const auto& a = call.arguments;
    if (call.combiner == MPI_COMBINER_STRUCT) return external_structure(call);
    Ref<Datatype> old = TRY(external_form(*call.types[0]));
    switch (call.combiner) {
    case MPI_COMBINER_CONTIGUOUS: return Datatype::contiguous(a[0], *old);
    case MPI_COMBINER_VECTOR: return Datatype::vector(a[0], a[1], a[2], *old);
    case MPI_COMBINER_HVECTOR: return Datatype::hvector(a[0], a[1], a[2], *old);
    case MPI_COMBINER_INDEXED:
        return Datatype::indexed(piece(call, 1, a[0]), piece(call, 1 + a[0], a[0]), *old);
    case MPI_COMBINER_HINDEXED:
        return Datatype::hindexed(piece(call, 1, a[0]), piece(call, 1 + a[0], a[0]), *old);
    case MPI_COMBINER_INDEXED_BLOCK:
        return Datatype::indexed_block(a[1], piece(call, 2, a[0]), *old);
    case MPI_COMBINER_HINDEXED_BLOCK:
        return Datatype::hindexed_block(a[1], piece(call, 2, a[0]), *old);
    case MPI_COMBINER_SUBARRAY:
        return Datatype::subarray(piece(call, 1, a[0]), piece(call, 1 + a[0], a[0]),
                                  piece(call, 1 + 2 * a[0], a[0]), static_cast<int>(a.back()),
                                  *old);
    case MPI_COMBINER_DARRAY: return external_darray(call, *old);
    case MPI_COMBINER_RESIZED: return Datatype::resized(*old, a[0], a[1]);
    default: return old;  // a duplicate, or a Fortran 90 type
    }
}

ExternalTransfer::ExternalTransfer(Transfer& access)
    : user_(access.memory), write_(access.write),
      element_(user_.type ? static_cast<size_t>(external_size(*user_.type)) : 0),
      buffer_(static_cast<size_t>(access.length)) {
    if (write_ && access.length > 0)
        pack_external(user_.buffer, user_.count, *user_.type, buffer_.data());
    access.memory = {buffer_.data(), access.length, &Datatype::of(MPI_BYTE)};
}

void ExternalTransfer::finish(MPI_Count& bytes) {
    if (element_ == 0) return;
    size_t arrived = static_cast<size_t>(bytes), whole = arrived / element_,
           rest = arrived % element_;
    auto count = static_cast<MPI_Count>(whole);
    if (!write_) {
        unpack_external(user_.buffer, count, *user_.type, buffer_.data());
        if (rest) {
            // The rest of the element that the end of the file cuts stays what it was.
            auto* last =
                reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(user_.buffer) +
                                             static_cast<uintptr_t>(count * user_.type->extent()));
            std::vector<std::byte> element(element_);
            pack_external(last, 1, *user_.type, element.data());
            std::memcpy(element.data(), buffer_.data() + whole * element_, rest);
            unpack_external(last, 1, *user_.type, element.data());
        }
    }
    bytes = count * user_.type->size();
    // Basic elements that are there in whole.
    if (const Datatype* basic = rest ? user_.type->uniform() : nullptr)
        bytes += static_cast<MPI_Count>(rest) / external_size(*basic) * basic->size();
}

}  // namespace pomona
