// btl/base/roads.h: which machines of a job have a path of their own to each other, and through
// which others the rest go (btl/link/relays.h).
// Idea: a value that all processes compute alike from what all have published, so that what
// collectives cost (coll/cost.h) is the same for all. The way that a link takes in the end may be
// another one.
#pragma once

#include <span>
#include <vector>

namespace pomona {

class Roads {
public:
    // Nobody knows: every machine reaches every other one.
    Roads() = default;
    // machines * machines, row by row, symmetric: whether these two have a path of their own.
    // `lines`, if any, likewise: the number, from 0, of the first one's line (an interface) by
    // which that path goes; below 0 where nobody knows.
    Roads(int machines, std::vector<bool> direct, std::vector<int> lines = {});

    // Do some go through others? Two machines that nobody joins are taken to have a path: by
    // routers.
    bool known() const { return !between_.empty(); }
    int machines() const { return machines_; }
    // The machines between two, in order; empty where they have a path of their own.
    const std::vector<int>& between(int from, int to) const;
    // Of machine `at`, towards one that it has a path of its own to; 0 where that is not known.
    int line(int at, int to) const;
    int lines_most() const;  // of one machine
    // Do each two of these machines have a path by a line that neither uses for another of them, as
    // in a mesh of cables? Of three and more.
    bool apart(std::span<const int> machines) const;
    // Have these two of `machines` a path by a line that neither uses for another of them?
    bool own_line(int a, int b, std::span<const int> machines) const;
    bool operator==(const Roads&) const = default;

private:
    int machines_ = 0;
    std::vector<int> lines_;
    std::vector<std::vector<int>>
        between_;  // machines * machines; empty: nobody goes through others
};

// What ways through others cost members on these machines (by rank) more.
struct Detours {
    int links = 1;  // of the longest way
    // How many messages the busiest line of a machine carries in one direction, where a path of its
    // own would carry one: while every rank sends to somebody, and while each sends to the next
    // rank.
    double all = 1, ring = 1;
    double next = 1;  // links of the way from a rank to the next one, in the mean
    bool any() const { return links > 1; }
    bool operator==(const Detours&) const = default;
};
Detours detours_of(const Roads& roads, std::span<const int> nodes);

}  // namespace pomona
