// mpi/abi/widen.h: what the generated int forms need to call their large-count forms.
// Idea: arrays of int become arrays of MPI_Count or MPI_Aint, on the stack when short; results
// that do not fit an int become MPI_UNDEFINED, as the standard says.
#pragma once

#include "mpi/include/mpi.h"

#include <limits>
#include <memory>

namespace pomona {

// What decides how long an array argument is.
enum class Length { peers, root, local, indegree, outdegree };

// 0 when `comm` is no communicator; the large-count form then says so.
int array_length(MPI_Comm comm, Length length, int root);

template <class Wide, class Narrow> class Widened {
public:
    Widened(const Narrow* source, int count) {
        if (!source) return;
        if (count > kShort) long_.reset(new Wide[count]);
        data_ = long_ ? long_.get() : short_;
        for (int i = 0; i < count; ++i) data_[i] = source[i];
    }
    // Null when the user's array was.
    const Wide* data() const { return data_; }

private:
    static constexpr int kShort = 64;
    Wide* data_ = nullptr;
    std::unique_ptr<Wide[]> long_;
    Wide short_[kShort];
};

template <class Wide, class Narrow> void narrow(Wide value, Narrow* result) {
    if (!result) return;
    bool fits =
        value >= std::numeric_limits<Narrow>::min() && value <= std::numeric_limits<Narrow>::max();
    *result = fits ? static_cast<Narrow>(value) : static_cast<Narrow>(MPI_UNDEFINED);
}

}  // namespace pomona
