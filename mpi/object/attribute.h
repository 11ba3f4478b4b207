// mpi/object/attribute.h: values that users cache on communicators, datatypes and windows.
// Idea: a keyval is a number in a table of callbacks; an object holds (keyval, value) pairs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

namespace pomona {

// The callbacks of one keyval; `copy` and `erase` are the user's function pointers, cast to void*
// (their types differ by object kind; mpi/abi/attribute.cc calls them through the right one).
struct Keyval {
    enum class Holder { communicator, datatype, window };
    int number = 0;
    Holder holder = Holder::communicator;
    void (*copy)() = nullptr;
    void (*erase)() = nullptr;
    void* extra_state = nullptr;
    bool freed = false;  // MPI_X_free_keyval was called; lives on while attributes refer to it
};

struct Attributes {
    struct Entry {
        std::shared_ptr<Keyval> keyval;
        void* value = nullptr;
        uint64_t age = 0;  // when it was set; deletion goes backwards
    };
    std::map<int, Entry> entries;  // by keyval number, so that callbacks run in a fixed order
    uint64_t ages = 0;
};

}  // namespace pomona
