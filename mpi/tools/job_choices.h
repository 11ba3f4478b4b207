// mpi/tools/job_choices.h: what a job on described hosts would choose its algorithms by: what this
// user's parameters say, and the files that mpirun hands to all ranks (docs/tuning.md).
#pragma once

#include "btl/base/params.h"
#include "coll/price.h"
#include "coll/select.h"
#include "mpi/tools/network_file.h"

#include <optional>
#include <string>
#include <vector>

namespace pomona {

// Of sources: a file, a variable or words for people; "" where nothing is said.
struct JobChoices {
    coll::Policy policy;  // without forests, which are for certain hosts
    std::string links_source, rules_source;
    std::string forests;  // the parameter, or the file
    std::string forests_source;
    bool forests_of_file = false;
    uint64_t shm_board = Params().shm_board;
};

// `links`: costs that an option gives in place of all others; none where they cannot be read, which
// `command` tells. Files that cannot be read are told of and left out. Null: nothing is told, since
// a job will.
std::optional<JobChoices> job_choices(const char* command, const std::string& links);

// On these hosts, after `pomona tune --host`.
class NetworkChoices {
public:
    NetworkChoices(const NetworkFile& network, const JobChoices& choices);
    const coll::PricedNetwork& priced() const { return priced_; }
    const coll::Links& links() const { return policy_.links; }  // with those between the hosts
    // Of all ranks; `bytes` of the vector, or of all blocks together. Refers to this object.
    coll::Shape shape(coll::Collective collective, size_t bytes, size_t element) const;
    coll::Plan plan(const coll::Shape& shape) const;
    const coll::Rules& rules() const { return policy_.rules; }
    // In one line: the files that say anything here; "" where none does.
    std::string sources() const;
    const std::string& forests_source() const { return forests_source_; }
    const std::vector<std::string>& told() const { return told_; }  // why forests do not serve

private:
    coll::Policy policy_;
    coll::PricedNetwork priced_;
    std::vector<int> places_;
    bool board_ = true;
    std::string links_source_, rules_source_, forests_source_;
    std::vector<std::string> told_;
};

// Do ranks give one block each, of which `bytes` above are the sum?
bool of_blocks(coll::Collective collective);
// The forests of the parameter or the file for these hosts, by their numbers; "" where there are
// none.
std::string forests_of_hosts(const JobChoices& choices, const NetworkFile& network,
                             std::string& problem);
// "by rules of X, forests of Y"; "" where all are empty.
std::string sources_text(const std::string& links, const std::string& rules,
                         const std::string& forests);

}  // namespace pomona
