// mpi/p2p/operations.h: numbers that stand for operations on the wire.
// Idea: a slot index and a generation, so that a number from a damaged or late frame finds nothing
// instead of a wrong operation. Number 0 is never given out.
#pragma once

#include <cstdint>
#include <vector>

namespace pomona {

template <class T> class OperationTable {
public:
    uint64_t add(T* operation) {
        uint32_t index;
        if (free_.empty()) {
            index = static_cast<uint32_t>(slots_.size());
            slots_.push_back({nullptr, 1});
        } else {
            index = free_.back();
            free_.pop_back();
        }
        slots_[index].operation = operation;
        return uint64_t{slots_[index].generation} << 32 | index;
    }
    void replace(uint64_t number, T* operation) {
        slots_[static_cast<uint32_t>(number)].operation = operation;
    }
    T* find(uint64_t number) const {
        auto index = static_cast<uint32_t>(number);
        if (index >= slots_.size() || slots_[index].generation != number >> 32) return nullptr;
        return slots_[index].operation;
    }
    void remove(uint64_t number) {
        auto index = static_cast<uint32_t>(number);
        slots_[index].operation = nullptr;
        ++slots_[index].generation;
        if (slots_[index].generation == 0) slots_[index].generation = 1;
        free_.push_back(index);
    }
    bool empty() const { return slots_.size() == free_.size(); }
    template <class Function> void each(Function function) {
        for (size_t i = 0; i < slots_.size(); ++i)
            if (slots_[i].operation) function(*slots_[i].operation);
    }

private:
    struct Slot {
        T* operation;
        uint32_t generation;
    };
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
};

}  // namespace pomona
