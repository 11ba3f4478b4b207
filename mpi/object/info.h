// mpi/object/info.h: an ordered list of (key, value) strings.
#pragma once

#include "mpi/object/object.h"

#include <string>
#include <string_view>
#include <vector>

namespace pomona {

class Info final : public Object {
public:
    Info() : Object(Kind::info) {}

    void set(std::string_view key, std::string_view value) {
        for (auto& [known, old] : entries)
            if (known == key) {
                old = value;
                return;
            }
        entries.emplace_back(key, value);
    }
    const std::string* get(std::string_view key) const {
        for (const auto& [known, value] : entries)
            if (known == key) return &value;
        return nullptr;
    }
    bool remove(std::string_view key) {
        for (auto each = entries.begin(); each != entries.end(); ++each)
            if (each->first == key) return entries.erase(each), true;
        return false;
    }

    std::vector<std::pair<std::string, std::string>> entries;  // in order of first insertion
};

}  // namespace pomona
