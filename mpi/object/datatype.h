// mpi/object/datatype.h: MPI datatypes, predefined and derived.
// Idea: a datatype is four things: its bounds (size, extent, true extent), its Layout (where its
// bytes lie; what packing uses), its signature (of which basic types), and the call that made it
// (what MPI_Type_get_contents tells). All are fixed at creation; commit only marks it.
// Constructors check arguments and 64-bit overflow; limits of int belong to mpi/abi.
#pragma once

#include "accel/types.h"
#include "btl/base/bytes.h"
#include "btl/base/result.h"
#include "mpi/include/mpi.h"
#include "mpi/object/attribute.h"
#include "mpi/object/datatype_layout.h"
#include "mpi/object/object.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pomona {

using Counts = std::span<const MPI_Count>;

class Datatype final : public Object {
public:
    // ---- bounds
    MPI_Count size() const { return size_; }
    MPI_Count lb() const { return lb_; }
    MPI_Count ub() const { return ub_; }
    MPI_Count extent() const { return ub_ - lb_; }
    MPI_Count true_lb() const { return true_lb_; }
    MPI_Count true_extent() const { return true_ub_ - true_lb_; }
    // Whether any number of elements at `base` is one block, which starts at base + true_lb().
    bool contiguous() const { return contiguous_; }
    // The same for `count` elements: a single element may be one block though it has gaps around.
    bool contiguous(MPI_Count count) const { return contiguous_ || (count == 1 && one_block_); }

    // ---- bytes: [offset, offset + n) of the packed stream of `count` elements at `base`.
    // Fragments may have any size and come in any order.
    void pack(const void* base, MPI_Count count, size_t offset, Bytes out) const {
        layout_.pack(static_cast<const std::byte*>(base), count, extent(), offset, out);
    }
    void unpack(void* base, MPI_Count count, size_t offset, ConstBytes in) const {
        layout_.unpack(static_cast<std::byte*>(base), count, extent(), offset, in);
    }
    const Layout& layout() const { return layout_; }

    // ---- signature
    // What reductions of a predefined type compute on; none for MPI_WCHAR, MPI_PACKED and the like,
    // and for derived types.
    std::optional<ElementType> element() const { return element_; }
    // The predefined type that this one consists of, if it is only one; it occurs
    // size() / uniform()->size() times. A predefined type is its own, null for mixed and empty
    // ones.
    const Datatype* uniform() const { return predefined() ? this : uniform_; }
    // Basic elements in one element (a pair like MPI_FLOAT_INT has two).
    MPI_Count basics() const { return basics_; }
    // Alignment of the strictest basic type.
    int alignment() const { return alignment_; }
    // The two basic types of a predefined pair, else null.
    const Datatype* pair(int index) const { return pair_[index]; }
    // Basic elements that begin and end within the first `bytes` of the packed stream of elements;
    // -1 if `bytes` ends within a basic element.
    MPI_Count count_basic(MPI_Count bytes) const;
    // Calls visit(basic, address) for each basic element of `count` elements, in stream order.
    // Slow.
    using Visit = std::function<void(const Datatype& basic, std::byte* address)>;
    void each_basic(std::byte* base, MPI_Count count, const Visit& visit) const;

    // ---- state
    bool predefined() const { return !made_by_.derived; }
    bool committed = false;
    // Committed, of the same format on all systems (formats.h), and short.
    bool plain = false;
    // Of more elements, once committed, 64 bits cannot count the bytes, or the memory that they lie
    // in. Of a plain type that many always fit, also for each of 65,536 ranks.
    MPI_Count count_most() const { return count_most_; }
    static constexpr MPI_Count kCountPlain = 1 << 30, kReachPlain = 1 << 16;
    void commit();
    // The basic types in it whose format differs between systems: a set of kLongDouble, ...
    unsigned varies() const { return varies_; }
    // Systems of this job may differ in these: types that hold one are not plain. Before any is
    // made.
    static void set_unlike(unsigned formats);
    // No type is plain any more: calls take the ways on which the program is checked (mpi/check).
    static void watch_all() { set_unlike(kWatched); }
    // Belongs to the library (predefined and Fortran 90 types): the user must not free it.
    bool permanent = false;
    std::string name;
    Attributes attributes;

    // ---- the call that made it
    struct Call {
        int combiner = MPI_COMBINER_NAMED;
        bool derived = false;
        bool large = false;  // made by the _c form
        // Arguments in the order of the C prototype, arrays one after the other; for struct without
        // the types.
        std::vector<MPI_Count> arguments;
        std::vector<Ref<Datatype>> types;
    };
    const Call& made_by() const { return made_by_; }
    // The same as MPI_Type_get_contents(_c) orders it.
    struct Contents {
        std::vector<int> integers;
        std::vector<MPI_Aint> addresses;
        std::vector<MPI_Count> large_counts;
    };
    Contents contents() const;

    // ---- constructors. Offsets and strides called "bytes" are in bytes, others in extents of
    // `old`. Arguments have been checked for sign and null; what can fail here is 64-bit overflow.
    using Made = Result<Ref<Datatype>>;
    static Made contiguous(MPI_Count count, Datatype& old);
    static Made vector(MPI_Count count, MPI_Count block, MPI_Count stride, Datatype& old);
    static Made hvector(MPI_Count count, MPI_Count block, MPI_Count stride_bytes, Datatype& old);
    static Made indexed(Counts blocks, Counts offsets, Datatype& old);
    static Made hindexed(Counts blocks, Counts offsets_bytes, Datatype& old);
    static Made indexed_block(MPI_Count block, Counts offsets, Datatype& old);
    static Made hindexed_block(MPI_Count block, Counts offsets_bytes, Datatype& old);
    static Made structure(Counts blocks, Counts offsets_bytes, std::span<Datatype* const> types);
    static Made subarray(Counts sizes, Counts subsizes, Counts starts, int order, Datatype& old);
    struct Distribution {
        int size = 1, rank = 0;  // of the process grid
        Counts global_sizes;
        std::span<const int> kinds, arguments, process_sizes;
        int order = MPI_ORDER_C;
    };
    static Made darray(const Distribution& distribution, Datatype& old);
    static Made resized(Datatype& old, MPI_Count lb, MPI_Count extent);
    static Made duplicate(Datatype& old);
    // As `basic`, remembered as a Fortran 90 type: combiner MPI_COMBINER_F90_xxx. The same
    // arguments give the same object, which belongs to the library.
    static Datatype& fortran90(int combiner, std::vector<MPI_Count> arguments, Datatype& basic);
    // Another object of the same contents, without name and attributes, for
    // MPI_Type_get_contents; a permanent type gives itself.
    static Ref<Datatype> clone(Datatype& old);
    // For constructors of the _c form.
    void set_large() { made_by_.large = true; }

    // ---- predefined types; made at first use, the same for all ranks of a program
    static Datatype& of(MPI_Datatype predefined);
    static void each_predefined(const std::function<void(MPI_Datatype, Datatype&)>& visit);
    static Datatype& bfloat16();
    static Datatype& float16();

    // Levels of types within types, of which some functions recurse; more are refused.
    static constexpr int kLevelsMax = 2000;
    // Where this type is but another name or place of the one inside (dup, resized), that one,
    // which is no level of its own; else null.
    const Datatype* wrapped() const {
        bool one = made_by_.types.size() == 1 && made_by_.types[0]->size_ == size_ && size_ > 0;
        return one ? &*made_by_.types[0] : nullptr;
    }

private:
    Datatype() : Object(Kind::datatype) {}
    ~Datatype() override;
    friend struct Predefined;     // datatype_predefined.cc
    friend struct DatatypeMaker;  // datatype_create.h
    void each_basic_of_one(std::byte* address, const Visit& visit) const;
    MPI_Count count_basic_of_part(MPI_Count bytes) const;

    static constexpr unsigned kWatched = 1u << 31;

    MPI_Count count_most_ = 0;
    MPI_Count size_ = 0, lb_ = 0, ub_ = 0, true_lb_ = 0, true_ub_ = 0;
    bool contiguous_ = true;
    bool one_block_ = true;
    bool explicit_bounds_ = false;  // lb and ub come from MPI_Type_create_resized, here or below
    uint8_t varies_ = 0;
    uint16_t alignment_ = 1;
    std::optional<ElementType> element_;
    const Datatype* uniform_ = nullptr;
    MPI_Count basics_ = 0;
    int levels_ = 0;
    const Datatype* pair_[2] = {};  // of predefined pairs: the two basic types
    Layout layout_;
    Call made_by_;
};

}  // namespace pomona
