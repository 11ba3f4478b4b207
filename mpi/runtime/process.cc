// mpi/runtime/process.cc: builds a rank from its parts, in the order of their dependencies.
#include "mpi/runtime/process.h"

#include "accel/choose.h"
#include "btl/base/check.h"
#include "btl/base/comma_list.h"
#include "btl/base/entropy.h"
#include "btl/base/kept_file.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "btl/base/waiting.h"
#include "btl/link/link.h"
#include "btl/rdma/rdma.h"
#include "btl/rdma/termination.h"
#include "btl/self.h"
#include "btl/shm/shm.h"
#include "btl/tcp/tcp.h"
#include "mpi/check/checker.h"
#include "mpi/object/contexts.h"
#include "mpi/object/datatype.h"
#include "mpi/object/operation.h"
#include "mpi/runtime/agreement.h"
#include "mpi/runtime/consensus.h"
#include "mpi/runtime/collective_state.h"
#include "mpi/runtime/collective_watching.h"
#include "mpi/runtime/collectives.h"
#include "mpi/runtime/devices.h"
#include "mpi/runtime/first_connections.h"
#include "mpi/runtime/launcher_watch.h"
#include "mpi/runtime/line_report.h"
#include "mpi/runtime/forests.h"
#include "mpi/runtime/machine_links.h"
#include "mpi/runtime/param_texts.h"
#include "mpi/runtime/policy.h"
#include "mpi/runtime/relaying.h"
#include "mpi/runtime/simulated.h"
#include "mpi/runtime/transport_named.h"
#include "mpi/runtime/unlike.h"
#include "mpi/runtime/wait_reports.h"
#include "pmix/job_key.h"
#include "pmix/program.h"
#include "pmix/services.h"
#include "pmix/wireup/origin.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

namespace pomona {

// From here on several paths of a link share a message.
static constexpr size_t kSharedMin = 64 << 10;
static constexpr int kRanksMost = 1 << 24;  // of a job with all that it spawns

static uintptr_t bits_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

// A simulated rank does not spin, since time passes for it only between its turns; nobody else may
// send for it; and shared memory would be a way beside the simulated network.
static Params params_of(const char* const* environment, bool simulated) {
    Params params =
        read_params(environment, [](const std::string& line) { LOG(warn, base, "{}", line); });
    if (!simulated) return params;
    params.spin_us = 0;
    params.progress = "none";
    params.rma_shared = false;
    return params;
}

Process::Process(const char* const* environment)
    : simulated(simulation_of(environment)), params(params_of(environment, simulated != nullptr)),
      clock(simulated ? simulated->clock() : real_clock), engine(params, counters, clock),
      link_history_(cache_path(environment, "link-history")) {
    use_start_texts(params, [](const char* parameter, const std::string& problem) {
        LOG(warn, base, "{}: {}", param_variable(parameter), problem);
    });
    Status accel = start_accel(params.accel, environment);
    if (!accel) LOG(warn, accel, "{}; portable kernels serve", accel.error().text());
    auto install = [this](const void* handle, Object* object) {
        object->builtin_handle = static_cast<uint16_t>(bits_of(handle));
        builtins[bits_of(handle)] = object;
    };
    install(MPI_GROUP_EMPTY, new Group({}, -1));
    install(MPI_ERRORS_ARE_FATAL, new Errhandler(Errhandler::Action::fatal));
    install(MPI_ERRORS_ABORT, new Errhandler(Errhandler::Action::abort));
    install(MPI_ERRORS_RETURN, new Errhandler(Errhandler::Action::give_back));
    install(MPI_INFO_ENV, new Info);
    install(MPI_MESSAGE_NO_PROC, new Message);
    Datatype::each_predefined(
        [&](MPI_Datatype handle, Datatype& type) { builtins[bits_of(handle)] = &type; });
    Operation::each_predefined(
        [&](MPI_Op handle, Operation& operation) { builtins[bits_of(handle)] = &operation; });
    if (params.check) checker = std::make_unique<Checker>(*this);
    choose_initial_errhandler();
}

// By MPI 5.0, section 11.5; whoever starts processes may say it.
void Process::choose_initial_errhandler() {
    const std::string& name = params.initial_errhandler;
    MPI_Errhandler handle = MPI_ERRORS_ARE_FATAL;
    if (name == "mpi_errors_abort") handle = MPI_ERRORS_ABORT;
    else if (name == "mpi_errors_return") handle = MPI_ERRORS_RETURN;
    else if (name != "mpi_errors_are_fatal")
        LOG(warn, mpi, "{}: \"{}\" is none of {}; the first of these serves", kErrhandlerVariable,
            name, kErrhandlerNames);
    if (handle == MPI_ERRORS_ARE_FATAL) return;
    auto* handler = static_cast<Errhandler*>(builtins[bits_of(handle)]);
    initial_errhandler = Ref<Errhandler>::share(handler);
}

Process::~Process() {
    for (const void* own :
         {static_cast<const void*>(MPI_GROUP_EMPTY), static_cast<const void*>(MPI_ERRORS_ARE_FATAL),
          static_cast<const void*>(MPI_ERRORS_ABORT), static_cast<const void*>(MPI_ERRORS_RETURN),
          static_cast<const void*>(MPI_INFO_ENV), static_cast<const void*>(MPI_MESSAGE_NO_PROC)})
        builtins[bits_of(own)]->release();
}

// Is all that this process may meet on its machine? Of a spawned world those before it count too.
static bool on_one_node(const Job& job) {
    return std::all_of(job.node_of.begin(), job.node_of.end(),
                       [&](int node) { return node == job.node(job.rank); });
}

// What needs no other rank.
Status Process::begin(std::unique_ptr<Wireup> given) {
    if (state.load(std::memory_order_acquire) == State::finished) {
        // A process that is alone, after MPI_Finalize (mpi/abi/init.cc).
        agreements.reset();
        std::destroy_at(&engine);
        std::construct_at(&engine, params, counters, clock);
        leaving = linked_ = relays_ = owns_cable_ = false;
        boards_in_making = 0;
        launcher = nullptr;
    }
    wireup =
        given ? std::move(given) : TRY(Wireup::start(static_cast<double>(params.meet_timeout_s)));
    if (simulated) {
        TRY(simulated->enter(job().rank));
        wireup = make_simulated_wireup(std::move(wireup), *simulated);
        transports.push_back(simulated->make_transport());
    }
    set_log_identity(format("{}@{}", job().rank, job().host));
    if (job().origin == Origin::mpirun && !simulated) show_counters();
    engine.set_crowded(job().oversubscribed);
    given_transports_ = !transports.empty();
    return make_transports();
}

Status Process::start(int wanted_level, std::unique_ptr<Wireup> given) {
    if (!waits_for_ranks()) TRY(begin(std::move(given)));
    if (waits_for_ranks()) TRY(meet_ranks());
    if (!given_transports_) TRY(learn_ranks());
    wireup->started();
    const Job& here = job();
    // Ranks run one at a time: a thread that waits for its turn would keep the others out.
    if (simulated) wanted_level = std::min(wanted_level, MPI_THREAD_SERIALIZED);
    thread_level = wanted_level;
    main_thread = std::this_thread::get_id();
    std::vector<Transport*> borrowed;
    for (auto& transport : transports) borrowed.push_back(transport.get());
    engine.attach(here.size, borrowed, sleeper.get(), [this](int peer) { return connect(peer); });
    agreements = std::make_unique<Agreements>(*this);
    engine.listen(agreements.get());
    for (Transport* each : borrowed)
        if (BoardSpace* space = each->boards()) engine.boards.attach(space);
    start_watching(given_transports_);
    if (wanted_level == MPI_THREAD_MULTIPLE) engine.set_threaded();
    if (here.size > 1) {
        wait_reports = std::make_unique<WaitReports>(params, engine, *wireup);
        wait_reports->set_shared(wanted_level == MPI_THREAD_MULTIPLE);
        wait_reports->set_checker(checker.get());
        if (!given_transports_) wait_reports->set_reach([this](int peer) { (void)connect(peer); });
        engine.set_watch(wait_reports.get());
    }
    engine.set_helping(has_helping_thread(given_transports_));
    make_world();
    if (linked_) connect_to_all(*this);
    if (params.progress == "thread") {
        thread_level = MPI_THREAD_MULTIPLE;
        engine.start_progress_thread();
    } else if ((relays_ || owns_cable_) && params.progress == "auto") {
        engine.start_progress_thread();
    }
    open_to_all.store(!checker, std::memory_order_relaxed);
    state.store(State::running, std::memory_order_release);
    return {};
}

// Another rank's core is not taken: of a rank that is bound two are its own, else each rank of the
// machine is to have two.
bool Process::has_helping_thread(bool given_transports) const {
    const Job& here = job();
    if (params.reduce_thread != "auto") return params.reduce_thread == "thread" && !simulated;
    if (given_transports) return false;  // whose time may be another one
    int usable = usable_cores();
    int wanted = usable < machine_cores() ? 2 : 2 * here.local_size;
    return !on_one_node(here) && !here.oversubscribed && usable >= wanted;
}

// For `pomona top`, which does without them where this fails.
void Process::show_counters() {
    Status shown = counters_page.show(counters_name(job().tag, job().rank), job().directory);
    if (!shown) LOG(info, base, "no rates for `pomona top`: {}", shown.error().text());
}

// Simulated time does not pass while ranks wait, so they ask nobody.
void Process::start_watching(bool simulated) {
    watching = std::make_unique<CollectiveWatching>(engine, job().rank, clock);
    watching->watch.set_asking(!simulated);
    if (job().size > 1) watching->listen();
    if (!simulated) engine.set_idle_work(watching.get());
}

// Transports in order of preference. Addresses that cannot be derived are published; the fence that
// collects them is only paid when one was.
// Ranks that were set differently would wait for each other for ever.
[[noreturn]] static void end_unlike(Process& process, const Fingerprint& ours, int peer,
                                    const Fingerprint& theirs) {
    std::string here = format("rank {}", process.job().rank), there = format("rank {}", peer);
    process.abort(1,
                  format(messages::set_differently, difference_of({here, ours}, {there, theirs})));
}

Status Process::make_transports() {
    const Job& here = job();
    bool alone = here.world_size() == 1 && here.parent < 0;
    sleeper = TRY(
        Sleeper::make(alone || given_transports_ ? "" : doorbell_path(here.directory, here.rank)));
    if (given_transports_) {
        policy = std::make_unique<coll::Policy>(make_policy(params, true, here.rank == here.first));
        if (simulated && !on_one_node(here)) learn_forests(*wireup, params, *policy);
        return {};
    }
    transports.push_back(make_self_transport(here.rank));
    if (here.origin == Origin::mpirun) TRY(formats.begin(*wireup, params));
    bool all_local = here.local_size == here.world_size();
    bool use_shm = lists(params.transports, "shm") && here.local_size > 1;
    if (use_shm) {
        std::string tag = here.first ? format("{}-{}", here.tag, here.first) : here.tag;
        Fingerprint ours = agreement_of(params);
        ShmOptions options{tag,
                           here.directory,
                           here.local_rank,
                           here.local_ranks,
                           sleeper.get(),
                           incarnation_here(),
                           ours};
        options.on_difference = [this, ours](int peer, const Fingerprint& theirs) {
            end_unlike(*this, ours, peer, theirs);
        };
        transports.push_back(TRY(make_shm_transport(params, counters, std::move(options))));
    }
    if (here.parent >= 0 ||
        (!alone && lists(params.transports, "tcp") && !(use_shm && all_local))) {
        auto shared = TRY(make_tcp());
        if (!on_one_node(here)) TRY(publish_machine_links(*wireup, link_history_));
        // Under our mpirun they were told already.
        if (here.origin != Origin::mpirun) TRY(formats.begin(*wireup, params));
        tcp_ = shared;
    }
    return {};
}

Status Process::meet_ranks() {
    std::vector<int> missing;
    Status met = wireup->fence_within(start_timeout_s, missing);
    if (!met.ok() && met.error().code == Code::timed_out) {
        late_ = format(messages::ranks_late, start_timeout_s, ranks_text(missing));
        return Error{Code::timed_out, late_.c_str()};
    }
    if (met.ok()) linked_ = true;
    auto shared = std::exchange(tcp_, nullptr);
    if (linked_ && !shared->loopback_only()) relays_ = probably_relays(*wireup, shared->places());
    return met;
}

Status Process::learn_ranks() {
    const Job& here = job();
    if (here.origin != Origin::singleton) {
        auto watch = std::make_unique<LauncherWatch>(*wireup, engine, clock);
        launcher = watch.get();
        transports.push_back(std::move(watch));
    }
    policy = std::make_unique<coll::Policy>(
        make_policy(params, lists(params.transports, "shm"), here.rank == here.first));
    if (linked_ && !on_one_node(here))
        learn_machine_links(*wireup, params.links, policy->links, policy->roads);
    if (linked_ && !on_one_node(here)) learn_forests(*wireup, params, *policy);
    return {};
}

// The job's key: from our mpirun through the job's socket; else from rank 0, through what it
// published.
static Status find_key(Wireup& wireup, link::Identity& identity) {
    bool ours = wireup.job().origin == Origin::mpirun;
    auto found = ours ? wireup.request(Service::job_key, {}) : wireup.lookup(0, "key");
    if (!found.ok()) return found.error();
    if (found->size() != identity.key.size())
        return Error{Code::malformed, "The job's key does not parse"};
    std::copy(found->begin(), found->end(), identity.key.begin());
    return {};
}

// Others learn it from rank 0, at a fence.
static Status publish_key(Wireup& wireup) {
    if (wireup.job().origin == Origin::mpirun || wireup.job().rank != 0) return {};
    JobKey key;
    if (!random_bytes(key))
        return os_error(Code::io, "The system has no random numbers for the job's key");
    return wireup.publish("key", key);
}

static std::shared_ptr<link::Identity> make_identity(const Job& job, int limit,
                                                     const Params& params) {
    auto made = std::make_shared<link::Identity>();
    made->job = job.id;
    made->rank = job.rank;
    made->size = limit;
    made->fingerprint = agreement_of(params);
    return made;
}

// After how long without an answer the system ends a connection: soon enough for its process to be
// taken for gone within link_grace_s and two seconds.
static Nanoseconds silence_of(const Params& params) {
    return 1'000'000'000 * std::min<Nanoseconds>(4 * static_cast<Nanoseconds>(params.heartbeat_s),
                                                 static_cast<Nanoseconds>(params.link_grace_s) + 1);
}

Result<std::shared_ptr<tcp::Shared>> Process::make_tcp() {
    const Job& here = job();
    if (!lists(params.transports, "tcp")) return Error{Code::unsupported, messages::spawn_by_tcp};
    // Worlds may be spawned later, with ranks above ours.
    int limit = here.origin == Origin::mpirun ? kRanksMost : here.size;
    auto met = [this](int rank) { engine.grow(rank + 1); };
    auto identity = make_identity(here, limit, params);
    std::string why;
    auto crypto = link::Crypto::open(why);
    if (!crypto.ok()) {
        LOG(error, mpi, "{}: {}", crypto.error().what, why);
        return crypto.error();
    }
    identity->crypto = *crypto;
    TRY(publish_key(*wireup));
    std::vector<std::unique_ptr<Transport>> paths;
    // Also the worlds that may be spawned.
    bool all_local = on_one_node(here) && here.hosts == 1;
    auto shared = TRY(tcp::Shared::open(params, all_local));
    for (int number = 0; number < shared->paths(); ++number) {
        TcpOptions options{identity, all_local, sleeper.get(), met};
        options.owes = &engine.owes;
        options.find_key = [this](link::Identity& mine) { return find_key(*wireup, mine); };
        options.on_difference = [this, identity](int peer, const Fingerprint& theirs) {
            end_unlike(*this, identity->fingerprint, peer, theirs);
        };
        options.makes_paths = true;
        options.path = number;
        options.shared = shared;
        options.silence = silence_of(params);
        paths.push_back(TRY(make_tcp_transport(params, counters, std::move(options))));
    }
    LinkOptions link;
    if (!all_local) add_rdma(paths, *shared, link);
    link.owes = &engine.owes;
    link.rank = here.rank;
    link.size = limit;
    link.clock = &clock;
    size_t longest = std::max(params.tcp_fragment, params.tcp_eager_max);
    // Several paths share the pieces of longer messages, which ask first.
    link.caps = {0, std::min<size_t>(params.tcp_eager_max, kSharedMin), longest};
    link.unasked_max = params.tcp_eager_max;
    if (!shared->loopback_only()) link.relays = [this] { return relay_candidates(job()); };
    link.address_of = [this](int rank) { return wireup->lookup(rank, "tcp"); };
    link.on_peer = met;
    link.on_relay = [this] {
        if (params.progress == "auto") engine.want_progress_thread();
    };
    auto links = make_link_transport(params, counters, std::move(link), std::move(paths));
    TRY(wireup->publish("tcp", links->address()));
    engine.set_carrier(links.get());
    transports.push_back(std::move(links));
    return shared;
}

// Paths by RDMA, where there are devices: beside TCP, by which their ends agree.
void Process::add_rdma(std::vector<std::unique_ptr<Transport>>& paths, const tcp::Shared& shared,
                       LinkOptions& link) {
    if (!lists(params.transports, "rdma")) return;
    std::string why = messages::rdma_encrypted;
    std::vector<int> machines;
    for (int rank = job().first; rank < job().size; ++rank) machines.push_back(job().node(rank));
    Transport* near = transport_named(transports, "shm");
    rdma::Plan plan(job().rank, std::move(machines), job().first, params.rdma_owner);
    RdmaOptions options{job().rank, &clock, plan};
    std::vector<std::unique_ptr<Transport>> made;
    if (!shared.encrypts(tcp::InterfaceKind::thunderbolt))
        made = make_rdma_transports(params, counters, std::move(options), why);
    if (made.empty()) LOG(info, btl, "RDMA is not used: {}", why);
    if (!made.empty() && params.rdma_owner && (near || job().local_size == 1)) {
        link.owner_of = [plan](int rank) { return plan.owner_of(rank); };
        link.by_owner = [plan](int peer) { return plan.by_owner(peer); };
        link.local = [near](int rank) -> Endpoint* {
            if (!near) return nullptr;
            auto endpoint = near->connect(rank, {});
            return endpoint.ok() ? *endpoint : nullptr;
        };
        // It has to hand frames on while its program computes.
        owns_cable_ = plan.owner_of(job().rank) == job().rank && plan.shares();
    }
    for (auto& each : made) paths.push_back(std::move(each));
}

Status Process::open_tcp() {
    if (transport_named(transports, "link")) return {};
    TRY(make_tcp());
    engine.add(transports.back().get());
    // The answer comes after what was published.
    TRY(wireup->lookup(job().rank, "tcp"));
    return {};
}

void Process::meet(int rank) {
    Status open = open_tcp();
    if (!open.ok()) LOG(error, mpi, "Rank {} cannot be reached: {}", rank, open.error().text());
    engine.grow(rank + 1);
}

coll::Gates& Process::device_gates() {
    if (device_gates_) return *device_gates_;
    auto devices = std::make_unique<Devices>(*sleeper);
    device_gates_ = &devices->gates;
    transports.push_back(std::move(devices));
    engine.add(transports.back().get());
    engine.notify();  // whoever sleeps has not armed it
    return *device_gates_;
}

Result<Endpoint*> Process::connect(int peer) {
    Error last{Code::unsupported, messages::no_transport, peer};
    for (auto& transport : transports) {
        std::vector<std::byte> address;
        if (std::string_view(transport->name()) == "link") {
            if (peer == job().rank) continue;
            // It has connected to us.
            if (Endpoint* there = transport->path(peer)) return there;
            auto found = wireup->lookup(peer, "tcp");
            bool other_world = peer < job().first || peer >= job().size;
            // It may be on the way to where it publishes it.
            if (!found.ok() && other_world && found.error().code == Code::not_found)
                return static_cast<Endpoint*>(nullptr);
            if (!found.ok()) {
                last = found.error();
                continue;
            }
            address = std::move(*found);
        }
        auto endpoint = transport->connect(peer, address);
        if (endpoint.ok()) return *endpoint;
        if (endpoint.error().code != Code::unsupported) last = endpoint.error();
    }
    return last;
}

uint64_t Process::next_use(uint64_t name) {
    std::lock_guard guard(object_mutex);
    return context_uses_[name]++;
}

void Process::make_world() {
    std::vector<int> everyone;
    for (int rank = job().first; rank < job().size; ++rank) everyone.push_back(rank);
    Ref<Group> all(new Group(std::move(everyone), job().rank));
    Ref<Group> alone(new Group({job().rank}, job().rank));
    world_ =
        Ref(new Communicator(*this, child_context(1, static_cast<uint64_t>(job().first)), all, {}));
    world_->name = "MPI_COMM_WORLD";
    world_->builtin_handle = static_cast<uint16_t>(bits_of(MPI_COMM_WORLD));
    self_ = Ref(
        new Communicator(*this, child_context(2, static_cast<uint64_t>(job().rank)), alone, {}));
    self_->name = "MPI_COMM_SELF";
    world_->errhandler = self_->errhandler = initial_errhandler;
    self_->builtin_handle = static_cast<uint16_t>(bits_of(MPI_COMM_SELF));
    builtins[bits_of(MPI_COMM_WORLD)] = world_.get();
    builtins[bits_of(MPI_COMM_SELF)] = self_.get();
}

// The barrier of MPI_Finalize; false where it does not end well, or others know that it cannot.
bool Process::end_in_barrier(const Communicator& end) {
    if (end.revoked || world_->ends_collectives()) return false;
    CollectiveRequest* barrier = start_barrier(*world_);
    engine.wait_until(Described{[&] { return barrier->done() || end.revoked; },
                                [&](Waiting& out) { barrier->describe(out); }});
    if (!barrier->done()) {
        Engine::Hold hold(engine);
        world_->collective->fail_all();
    }
    engine.wait(*barrier);
    bool well = barrier->outcome().error == MPI_SUCCESS;
    barrier->release();
    return well;
}

// Everybody has come to its end: a barrier. Whoever knows of a failure calls the others out of it,
// by revoking a communicator that nobody else uses, and all agree; not for ever, as those whose
// barrier ended well are gone.
void Process::wait_for_world(LineReport& lines) {
    constexpr Nanoseconds kLongest = 5'000'000'000;
    Ref<Communicator> end;
    {
        Engine::Hold hold(engine);
        leaving = true;
        uint64_t context = child_context(3, static_cast<uint64_t>(job().first));
        end = Ref(new Communicator(*this, context, world_->group, {}));
        if (linked_) lines.look();
    }
    // Twice with links: whoever stands between two others learns of that in the first barrier at
    // the latest, and stays until they have left (Transport::serves).
    bool well = end_in_barrier(*end);
    if (well && linked_) {
        {
            Engine::Hold hold(engine);
            lines.ask();
        }
        well = end_in_barrier(*end);
    }
    if (!well) {
        lines.forget();
        auto over = std::make_shared<bool>(false);
        {
            Engine::Hold hold(engine);
            agreements->revoke(*end);
            agreements->begin(*end, 0, [over](const Decision&, uint64_t) { *over = true; });
        }
        Nanoseconds deadline = clock.now() + kLongest;
        auto ready = [&] { return *over || clock.now() > deadline; };
        engine.wait_until(Described{ready, [&](Waiting& out) {
                                        out.communicator = name_for_people(*world_);
                                        agreements->describe(*end, out);
                                    }});
    }
    Engine::Hold hold(engine);
    end = {};
}

// All have called all they will: what do members think that they have called together?
void Process::find_unlike() {
    std::vector<std::pair<Communicator*, std::string>> found;
    {
        Engine::Hold hold(engine);
        if (engine.any_failed()) return;
        bool fatal = false;
        if (std::string sentence = watching ? watching->find_unlike(fatal) : ""; !sentence.empty())
            found.emplace_back(fatal ? world_.get() : nullptr, std::move(sentence));
        for (Communicator* comm : engine.communicators())
            if (comm->collective)
                if (std::string sentence = comm->collective->find_unlike(); !sentence.empty())
                    found.emplace_back(comm, std::move(sentence));
    }
    for (auto& [comm, sentence] : found) {
        if (tell_unlike && comm) tell_unlike(*comm, sentence);
        else LOG(warn, mpi, "{}", sentence);
    }
}

Status Process::finish() {
    engine.stop_progress_thread();
    // Everybody's messages have arrived before anybody's transports go.
    Status status;
    if (engine.known_peers() > 1) {
        LineReport lines(*this);
        if (job().world_size() > 1) wait_for_world(lines);
        find_unlike();
        Nanoseconds deadline = clock.now() + 5'000'000'000;
        engine.wait_until([&] {
            return (!engine.draining() && boards_in_making == 0) || clock.now() > deadline;
        });
        Engine::Hold hold(engine);
        lines.tell();
    }
    engine.set_watch(nullptr);
    wait_reports.reset();
    builtins[bits_of(MPI_COMM_WORLD)] = builtins[bits_of(MPI_COMM_SELF)] = nullptr;
    world_ = {};
    self_ = {};
    engine.set_idle_work(nullptr);
    watching.reset();
    engine.boards.attach(nullptr);
    engine.listen(nullptr);
    engine.detach();
    transports.clear();
    device_gates_ = nullptr;
    sleeper.reset();
    status = wireup->finalize();
    open_to_all.store(false, std::memory_order_relaxed);
    state.store(State::finished, std::memory_order_release);
    return status;
}

// What gfortran's library has in its buffers, of all units, where the program has it.
static void flush_fortran() {
    if (void* found = dlsym(RTLD_DEFAULT, "_gfortran_flush_i4"))
        reinterpret_cast<void (*)(const int32_t* unit)>(found)(nullptr);
}

// What the program has printed into its buffers, as exit() does. On a thread, since another may
// hold a stream's lock for good (it reads standard input): that ends after a second.
static void flush_streams() {
    auto done = std::make_shared<std::promise<void>>();
    std::future<void> flushed = done->get_future();
    try {
        std::thread([done] {
            std::cout.flush();
            flush_fortran();
            std::fflush(nullptr);
            done->set_value();
        }).detach();
        flushed.wait_for(std::chrono::seconds(1));
    } catch (const std::exception&) {
        std::fflush(stdout);  // no thread is to be had
    }
}

void Process::abort(int code, const std::string& message) {
    flush_streams();
    rdma::give_all_back();
    if (wireup) wireup->abort(code, message);
    _exit(code == 0 ? 1 : code & 0xff ? code & 0xff : 1);
}

}  // namespace pomona
