// btl/base/params_handed.cc: the form of the file (params_handed.h); read_params itself: params.cc.
#include "btl/base/params_handed.h"

namespace pomona {

namespace {
constexpr uint32_t kVersion = 1;
constexpr size_t kTextMax = 1 << 20;
constexpr uint32_t kEntriesMax = 100000;

void put(Writer& writer, const std::vector<HandedParams::Entry>& entries) {
    writer.put(static_cast<uint32_t>(entries.size()));
    for (const HandedParams::Entry& entry : entries) {
        writer.put_text(entry.name);
        writer.put_text(entry.value);
        writer.put_text(entry.origin);
    }
}

void get(Reader& reader, std::vector<HandedParams::Entry>& entries) {
    auto count = reader.get<uint32_t>();
    for (uint32_t i = 0; i < count && i < kEntriesMax && !reader.failed(); ++i) {
        HandedParams::Entry entry;
        entry.name = reader.get_text(kTextMax);
        entry.value = reader.get_text(kTextMax);
        entry.origin = reader.get_text(kTextMax);
        entries.push_back(std::move(entry));
    }
}
}  // namespace

void HandedParams::inherit(std::string_view name, std::string_view value, std::string_view origin) {
    inherited.push_back({std::string(name), std::string(value), std::string(origin)});
}

const std::string* HandedParams::origin_of(std::string_view name, std::string_view value) const {
    for (const Entry& entry : inherited)
        if (entry.name == name && entry.value == value) return &entry.origin;
    return nullptr;
}

std::vector<std::byte> HandedParams::bytes() const {
    Writer writer;
    writer.put(kVersion);
    writer.put_text(config);
    put(writer, lines);
    put(writer, inherited);
    writer.put(static_cast<uint32_t>(told.size()));
    for (const std::string& entry : told) writer.put_text(entry);
    return writer.bytes();
}

std::optional<HandedParams> HandedParams::parse(ConstBytes bytes) {
    Reader reader(bytes);
    HandedParams out;
    if (reader.get<uint32_t>() != kVersion) return std::nullopt;
    out.config = reader.get_text(kTextMax);
    get(reader, out.lines);
    get(reader, out.inherited);
    auto count = reader.get<uint32_t>();
    for (uint32_t i = 0; i < count && i < kEntriesMax && !reader.failed(); ++i)
        out.told.push_back(reader.get_text(kTextMax));
    if (reader.failed() || reader.left() > 0) return std::nullopt;
    return out;
}

}  // namespace pomona
