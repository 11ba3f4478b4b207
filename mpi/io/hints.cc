// mpi/io/hints.cc: parsing and telling of hints.
#include "mpi/io/hints.h"

#include "btl/base/format.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace pomona {

namespace {

constexpr const char* kInertKeys[] = {
    "access_style",       "cb_block_size",     "chunked",       "chunked_item",    "chunked_size",
    "io_node_list",       "nb_proc",           "num_io_nodes",  "striping_factor", "striping_unit",
    "ind_wr_buffer_size", "romio_no_indep_rw", "romio_ds_write"};

bool is_inert(const std::string& key) {
    return std::find(std::begin(kInertKeys), std::end(kInertKeys), key) != std::end(kInertKeys);
}

// False, and no change, unless `text` is a number of the range.
bool read_number(const std::string& text, unsigned long long least, unsigned long long most,
                 int base, unsigned long long& out) {
    char* end = nullptr;
    errno = 0;
    unsigned long long value = std::strtoull(text.c_str(), &end, base);
    if (text.empty() || text[0] == '-' || *end != '\0' || errno != 0) return false;
    if (value < least || value > most) return false;
    out = value;
    return true;
}

void read_when(const std::string& text, Hints::When& out) {
    if (text == "enable" || text == "true") out = Hints::When::always;
    if (text == "disable" || text == "false") out = Hints::When::never;
    if (text == "automatic") out = Hints::When::automatic;
}

const char* text_of(Hints::When when) {
    switch (when) {
    case Hints::When::always: return "enable";
    case Hints::When::never: return "disable";
    case Hints::When::automatic: break;
    }
    return "automatic";
}

}  // namespace

void Hints::take(const Info* given) {
    if (!given) return;
    constexpr unsigned long long kBufferMax = 1ull << 30;
    unsigned long long number;
    for (const auto& [key, value] : given->entries) {
        if (key == "cb_buffer_size") {
            if (read_number(value, 4096, kBufferMax, 10, number)) cb_buffer_size = number;
        } else if (key == "cb_nodes") {
            if (read_number(value, 1, 1 << 20, 10, number)) cb_nodes = static_cast<int>(number);
        } else if (key == "ind_rd_buffer_size") {
            if (read_number(value, 4096, kBufferMax, 10, number)) ind_rd_buffer_size = number;
        } else if (key == "file_perm") {
            if (read_number(value, 0, 07777, 8, number))
                permissions = static_cast<unsigned>(number);
        } else if (key == "collective_buffering") {
            read_when(value, collective_read);
            read_when(value, collective_write);
        } else if (key == "romio_cb_read") {
            read_when(value, collective_read);
        } else if (key == "romio_cb_write") {
            read_when(value, collective_write);
        } else if (key == "romio_ds_read") {
            read_when(value, sieving_read);
        } else if (is_inert(key)) {
            kept_.set(key, value);
        }
    }
}

Ref<Info> Hints::told(int members) const {
    Ref<Info> info(new Info);
    info->set("cb_buffer_size", format("{}", cb_buffer_size));
    info->set("cb_nodes", format("{}", aggregators(members)));
    info->set("ind_rd_buffer_size", format("{}", ind_rd_buffer_size));
    info->set("romio_cb_read", text_of(collective_read));
    info->set("romio_cb_write", text_of(collective_write));
    info->set("romio_ds_read", text_of(sieving_read));
    info->set("file_perm", format("{:o}", permissions));
    info->set("filename", filename);
    for (const auto& [key, value] : kept_.entries) info->set(key, value);
    return info;
}

}  // namespace pomona
