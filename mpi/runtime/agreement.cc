// mpi/runtime/agreement.cc: gathers the facts of agreement.h.
#include "mpi/runtime/agreement.h"

#include "btl/base/format.h"
#include "coll/catalog.h"
#include "mpi/include/mpi.h"
#include "mpi/p2p/header.h"

namespace pomona {

namespace {

// The rows as they are written: a changed limit or formula lets ranks choose differently.
std::string catalog_text() {
    Fingerprint rows;
    for (const coll::Algorithm& row : coll::catalog())
        rows.add(format("{} {}", coll::collective_name(row.collective), row.name),
                 format("{}: {}: {}", row.builder, row.limits, row.formula), "");
    return format("{} algorithms, {:016x}", rows.facts().size(), rows.hash());
}

// What selection makes of the text: "", "built-in" and the built-in values themselves are the same
// costs.
std::string links_value(const Params& params) {
    std::string problem;
    auto links = coll::parse_links(params.links, problem);
    return coll::links_text(links.ok() ? *links : coll::Links());
}

}  // namespace

Fingerprint agreement_of(const Params& params) {
    Fingerprint out;
    out.add("abi", format("{}.{}", MPI_ABI_VERSION, MPI_ABI_SUBVERSION), "mpi.h");
    out.add("version", POMONA_VERSION, "libmpi_abi");
    out.add("frames", std::to_string(kFrameVersion), "libmpi_abi");
    out.add("catalog", catalog_text(), "libmpi_abi");
    for (const ParamInfo& info : param_table()) {
        if (info.scope != ParamScope::same) continue;
        bool links = std::string_view(info.name) == "links";
        out.add(info.name, links ? links_value(params) : get_param(params, info.name),
                params.source(info.name));
    }
    return out;
}

}  // namespace pomona
