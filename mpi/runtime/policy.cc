// mpi/runtime/policy.cc: see policy.h.
#include "mpi/runtime/policy.h"

#include "btl/base/log.h"
#include "coll/cost.h"

namespace pomona {

coll::Policy make_policy(const Params& params, bool shared_memory, bool says) {
    return make_policy(params, shared_memory, [&](const char* parameter, const std::string& why) {
        // Of what mpirun has read from a file, lines are counted there.
        std::string source = params.source(parameter);
        std::string file = source.starts_with('/') ? format(" of {}", source) : "";
        if (says) LOG(warn, coll, "{}{} is ignored: {}", param_variable(parameter), file, why);
    });
}

coll::Policy make_policy(const Params& params, bool shared_memory, const Refuse& refuse) {
    using coll::Collective;
    coll::Policy policy;
    policy.shared_memory = shared_memory;
    std::string problem;
    auto links = coll::parse_links(params.links, problem);
    if (!links.ok()) refuse("links", problem);
    else policy.links = *links;
    auto rules = coll::parse_rules(params.choices, problem);
    if (!rules.ok()) refuse("choices", problem);
    else policy.rules = *rules;
    struct Row {
        Collective collective;
        const std::string& text;
        const char* parameter;
    };
    const Row rows[] = {{Collective::allreduce, params.allreduce, "allreduce"},
                        {Collective::bcast, params.bcast, "bcast"},
                        {Collective::reduce, params.reduce, "reduce"},
                        {Collective::allgather, params.allgather, "allgather"},
                        {Collective::reduce_scatter, params.reduce_scatter, "reduce_scatter"},
                        {Collective::alltoall, params.alltoall, "alltoall"},
                        {Collective::barrier, params.barrier, "barrier"},
                        {Collective::gather, params.gather, "gather"},
                        {Collective::scatter, params.scatter, "scatter"},
                        {Collective::scan, params.scan, "scan"},
                        {Collective::exscan, params.scan, "scan"}};
    for (const Row& row : rows) {
        std::string problem;
        auto choice = coll::parse_choice_for(row.collective, row.text, problem);
        if (choice.ok()) policy.choices[static_cast<size_t>(row.collective)] = *choice;
        else refuse(row.parameter, problem);
    }
    return policy;
}

}  // namespace pomona
