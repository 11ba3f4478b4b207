// coll/reducing_receive.h: a receive that reduces what arrives while it arrives, from where it
// lies, instead of keeping it for a reduction afterwards.
// Idea: a message comes in pieces that a transport lends out (Endpoint::lends); each piece's whole
// elements are reduced straight from there. Elements that a cut runs through are put together in
// the receive's own memory, and reduced at the end.
#pragma once

#include "coll/reducer.h"

#include <cstddef>
#include <vector>

namespace pomona::coll {

class ReducingReceive {
public:
    struct Operands {
        const Reducer* reducer = nullptr;  // any_run of it
        size_t element = 1;
        std::byte* landing = nullptr;  // as long as the message
        const std::byte* other = nullptr;
        std::byte* target = nullptr;  // may be the landing, or the other operand
        bool arrives_left = false;    // else what arrives is the right operand
    };
    void begin(const Operands& operands) {
        is_ = operands;
        cut_.clear();
    }
    std::byte* landing() const { return is_.landing; }
    // What begins at `offset` of the message: in any order, each byte once.
    void take(size_t offset, ConstBytes piece);
    // All has come.
    void finish();

private:
    void reduce(const std::byte* arrived, size_t offset, size_t count);
    void keep(size_t offset, ConstBytes part);

    Operands is_;
    std::vector<size_t> cut_;  // where elements begin that did not come in one piece; some twice
};

}  // namespace pomona::coll
