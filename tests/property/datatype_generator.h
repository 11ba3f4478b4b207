// tests/property/datatype_generator.h: random nested datatypes, each built twice: by the library
// and as a Model.
#pragma once

#include "btl/base/random.h"
#include "tests/property/datatype_model.h"

#include <gtest/gtest.h>

namespace pomona::test {

class Generator {
public:
    explicit Generator(uint64_t seed) : random_(seed) {}
    Random& random() { return random_; }

    // Of at most `depth` levels; what would need much memory is left out.
    Sample make(int depth) {
        if (depth == 0) return basic();
        Sample made = any(depth);
        MPI_Count span = made.model.true_ub() - made.model.true_lb();
        return std::max(span, std::abs(made.model.extent())) > kSpanMax ? basic() : std::move(made);
    }

private:
    static constexpr size_t kItemsMax = 3000;
    static constexpr MPI_Count kSpanMax = 1 << 17;

    Sample any(int depth) {
        switch (random_.below(12)) {
        case 0: return contiguous(make(depth - 1));
        case 1: return vector(make(depth - 1));
        case 2: return hvector(make(depth - 1));
        case 3: return indexed(make(depth - 1));
        case 4: return hindexed(make(depth - 1));
        case 5: return indexed_block(make(depth - 1));
        case 6: return hindexed_block(make(depth - 1));
        case 7: return subarray(make(depth - 1));
        case 8: return darray(make(depth - 1));
        case 9: return resized(make(depth - 1));
        case 10: return duplicate(make(depth - 1));
        default: return structure(depth);
        }
    }

    MPI_Count some(int low, int high) { return random_.between(low, high); }
    // Mostly small counts; large ones only for types with few items.
    MPI_Count count_for(const Sample& old, int high) {
        size_t items = std::max<size_t>(1, old.model.items.size());
        auto room = static_cast<int>(std::min<size_t>(kItemsMax / items, high));
        return some(0, std::max(1, room));
    }
    Sample ended(Datatype::Made made, Model model) {
        EXPECT_TRUE(made.ok());
        return {std::move(made).value(), std::move(model)};
    }

    Sample basic() {
        static const MPI_Datatype choices[] = {MPI_CHAR,      MPI_SHORT,          MPI_INT,
                                               MPI_FLOAT,     MPI_DOUBLE,         MPI_LONG_DOUBLE,
                                               MPI_C_BOOL,    MPI_DOUBLE_COMPLEX, MPI_DOUBLE_INT,
                                               MPI_SHORT_INT, MPI_2INT,           MPI_LONG,
                                               MPI_WCHAR,     MPI_LONG_DOUBLE_INT};
        Datatype& type = Datatype::of(choices[random_.below(std::size(choices))]);
        return {Ref<Datatype>::share(&type), Model::of(type)};
    }

    Sample contiguous(Sample old) {
        MPI_Count n = count_for(old, 9);
        Model model;
        model.add_block(old.model, n, 0);
        return ended(Datatype::contiguous(n, *old.type), std::move(model));
    }
    Sample vector(Sample old) {
        MPI_Count n = count_for(old, 40), block = some(0, 4), stride = some(-6, 6);
        Model model;
        for (MPI_Count i = 0; i < n; ++i)
            model.add_block(old.model, block, i * stride * old.model.extent());
        return ended(Datatype::vector(n, block, stride, *old.type), std::move(model));
    }
    Sample hvector(Sample old) {
        MPI_Count n = count_for(old, 40), block = some(0, 3), stride = some(-90, 90);
        Model model;
        for (MPI_Count i = 0; i < n; ++i) model.add_block(old.model, block, i * stride);
        return ended(Datatype::hvector(n, block, stride, *old.type), std::move(model));
    }
    std::vector<MPI_Count> list(MPI_Count n, int low, int high) {
        std::vector<MPI_Count> made(static_cast<size_t>(n));
        for (MPI_Count& each : made) each = some(low, high);
        return made;
    }
    Sample indexed(Sample old) {
        MPI_Count n = count_for(old, 20);
        auto blocks = list(n, 0, 3), offsets = list(n, -20, 20);
        // Ascending ones without overlap too, since only those can be unpacked.
        if (random_.chance(0.5)) ascend(offsets, blocks, 1);
        Model model;
        for (size_t i = 0; i < blocks.size(); ++i)
            model.add_block(old.model, blocks[i], offsets[i] * old.model.extent());
        return ended(Datatype::indexed(blocks, offsets, *old.type), std::move(model));
    }
    Sample hindexed(Sample old) {
        MPI_Count n = count_for(old, 20);
        auto blocks = list(n, 0, 3), offsets = list(n, -200, 200);
        if (random_.chance(0.5)) ascend(offsets, blocks, old.model.extent());
        Model model;
        for (size_t i = 0; i < blocks.size(); ++i)
            model.add_block(old.model, blocks[i], offsets[i]);
        return ended(Datatype::hindexed(blocks, offsets, *old.type), std::move(model));
    }
    void ascend(std::vector<MPI_Count>& offsets, const std::vector<MPI_Count>& blocks,
                MPI_Count unit) {
        MPI_Count at = some(-5, 5);
        for (size_t i = 0; i < offsets.size(); ++i) {
            offsets[i] = at;
            at += blocks[i] * std::abs(unit) + some(0, 2);
        }
    }
    Sample indexed_block(Sample old) {
        MPI_Count n = count_for(old, 20), block = some(0, 3);
        auto offsets = list(n, -20, 20);
        if (random_.chance(0.5)) ascend(offsets, std::vector<MPI_Count>(offsets.size(), block), 1);
        Model model;
        for (MPI_Count each : offsets) model.add_block(old.model, block, each * old.model.extent());
        return ended(Datatype::indexed_block(block, offsets, *old.type), std::move(model));
    }
    Sample hindexed_block(Sample old) {
        MPI_Count n = count_for(old, 20), block = some(0, 3);
        auto offsets = list(n, -200, 200);
        Model model;
        for (MPI_Count each : offsets) model.add_block(old.model, block, each);
        return ended(Datatype::hindexed_block(block, offsets, *old.type), std::move(model));
    }
    Sample resized(Sample old) {
        MPI_Count lb = some(-20, 20), extent = some(0, 60);
        if (random_.chance(0.5)) lb = old.model.lb(), extent = old.model.extent() + some(0, 8);
        Model model = old.model;
        model.lb_marks = {lb};
        model.ub_marks = {lb + extent};
        return ended(Datatype::resized(*old.type, lb, extent), std::move(model));
    }
    Sample duplicate(Sample old) {
        return ended(Datatype::duplicate(*old.type), std::move(old.model));
    }
    Sample structure(int depth) {
        std::vector<Sample> olds;
        std::vector<Datatype*> types;
        std::vector<MPI_Count> blocks, offsets;
        Model model;
        MPI_Count at = some(-50, 50);
        for (MPI_Count n = some(0, 5); n > 0; --n) {
            Sample old = make(static_cast<int>(random_.below(depth)));
            if (model.items.size() + old.model.items.size() > kItemsMax) continue;
            blocks.push_back(some(0, 3));
            // Mostly one behind the other, as in C, with gaps.
            MPI_Count offset = random_.chance(0.8) ? at - old.model.true_lb() : some(-200, 200);
            offsets.push_back(offset);
            model.add_block(old.model, blocks.back(), offset);
            at = std::max(at, model.true_ub()) + some(0, 3);
            types.push_back(old.type.get());
            olds.push_back(std::move(old));
        }
        return ended(Datatype::structure(blocks, offsets, types), std::move(model));
    }

    // Adds the elements of an array whose index in each dimension is chosen by `chosen`.
    template <class Chosen> static Model array(const Model& old,
                                               const std::vector<MPI_Count>& sizes, int order,
                                               Chosen chosen) {
        Model model;
        size_t dims = sizes.size();
        MPI_Count total = 1, extent = old.extent();
        for (MPI_Count each : sizes) total *= each;
        for (MPI_Count linear = 0; linear < total; ++linear) {
            MPI_Count rest = linear;
            bool all = true;
            for (size_t step = 0; step < dims; ++step) {
                size_t d = order == MPI_ORDER_C ? dims - 1 - step : step;
                all = all && chosen(d, rest % sizes[d]);
                rest /= sizes[d];
            }
            if (all) model.add(old, linear * extent);
        }
        model.lb_marks = {0};
        model.ub_marks = {total * extent};
        return model;
    }
    Sample subarray(Sample old) {
        size_t dims = random_.below(3) + 1;
        if (old.model.items.size() > 50) dims = 1;
        std::vector<MPI_Count> sizes, subsizes, starts;
        for (size_t d = 0; d < dims; ++d) {
            sizes.push_back(some(1, 5));
            subsizes.push_back(some(1, static_cast<int>(sizes[d])));
            starts.push_back(some(0, static_cast<int>(sizes[d] - subsizes[d])));
        }
        int order = random_.chance(0.5) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
        Model model = array(old.model, sizes, order, [&](size_t d, MPI_Count i) {
            return i >= starts[d] && i < starts[d] + subsizes[d];
        });
        return ended(Datatype::subarray(sizes, subsizes, starts, order, *old.type),
                     std::move(model));
    }
    Sample darray(Sample old) {
        size_t dims = random_.below(3) + 1;
        if (old.model.items.size() > 50) dims = 1;
        std::vector<MPI_Count> sizes;
        std::vector<int> kinds, arguments, processes;
        int size = 1;
        for (size_t d = 0; d < dims; ++d) {
            sizes.push_back(some(1, 8));
            kinds.push_back(std::array{MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK,
                                       MPI_DISTRIBUTE_CYCLIC}[random_.below(3)]);
            bool none = kinds[d] == MPI_DISTRIBUTE_NONE;
            processes.push_back(none ? 1 : random_.between(1, 3));
            int least = kinds[d] == MPI_DISTRIBUTE_BLOCK
                            ? static_cast<int>((sizes[d] + processes[d] - 1) / processes[d])
                            : 1;
            arguments.push_back(random_.chance(0.4) ? MPI_DISTRIBUTE_DFLT_DARG
                                                    : least + random_.between(0, 2));
            size *= processes[d];
        }
        int rank = random_.between(0, size - 1),
            order = random_.chance(0.5) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
        std::vector<int> place(dims);
        int rest = rank;
        for (size_t d = dims; d-- > 0; rest /= processes[d]) place[d] = rest % processes[d];
        Model model = array(old.model, sizes, order, [&](size_t d, MPI_Count i) {
            bool by_default = arguments[d] == MPI_DISTRIBUTE_DFLT_DARG;
            if (kinds[d] == MPI_DISTRIBUTE_NONE) return true;
            if (kinds[d] == MPI_DISTRIBUTE_CYCLIC)
                return i / (by_default ? 1 : arguments[d]) % processes[d] == place[d];
            MPI_Count each =
                by_default ? (sizes[d] + processes[d] - 1) / processes[d] : arguments[d];
            return i / each == place[d];
        });
        return ended(Datatype::darray({.size = size,
                                       .rank = rank,
                                       .global_sizes = sizes,
                                       .kinds = kinds,
                                       .arguments = arguments,
                                       .process_sizes = processes,
                                       .order = order},
                                      *old.type),
                     std::move(model));
    }

    Random random_;
};

}  // namespace pomona::test
