// pmix/launch/pmix_server.cc: see pmix_server.h.
// OpenPMIx calls back on its own thread; everything from there goes through a queue and a pipe
// into mpirun's loop. A client that connects must name the job's namespace, which holds a secret
// that only the ranks' environment tells, before the server hears of it; who is silent for long or
// says something else is dropped. The server is never finalized: PMIx_server_finalize crashes or
// hangs after abnormal ends (seen with OpenPMIx 4.2.2 and 6.1), so mpirun simply exits.
#include "pmix/launch/pmix_server.h"

#include "btl/base/entropy.h"
#include "btl/base/format.h"
#include "btl/base/messages.h"
#include "pmix/launch/listener.h"
#include "pmix/launch/pmix_admission.h"
#include "pmix/wireup/pmix_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <list>
#include <mutex>

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pomona {

namespace {

constexpr size_t kStrangersMax = 64;        // connections that have not named the namespace yet
constexpr rlim_t kStackLeast = 512u << 10;  // OpenPMIx 4.2.2 takes 192 to 256 KiB
constexpr size_t kFirstWordsMax = 65536;    // in which they must have named it
constexpr time_t kStrangerSeconds = 10;     // of silence

// What a rank told the server.
struct Notice {
    enum class Kind { joined, finalized, abort } kind;
    int rank;
    int code = 0;
    std::string message;
};

// The PMIx module's functions have no context of ours: one server per process.
struct Mailbox {
    std::mutex mutex;
    std::deque<Notice> notices;
    int bell = -1;  // write end of a pipe

    void post(Notice notice) {
        std::lock_guard lock(mutex);
        notices.push_back(std::move(notice));
        char byte = 0;
        (void)!write(bell, &byte, 1);
    }
} mailbox;

pmix_status_t client_connected(const pmix_proc_t* process, void*, pmix_info_t*, size_t,
                               pmix_op_cbfunc_t, void*) {
    mailbox.post({Notice::Kind::joined, static_cast<int>(process->rank), 0, {}});
    return PMIX_OPERATION_SUCCEEDED;  // done: the answer function is not called
}

pmix_status_t client_finalized(const pmix_proc_t* process, void*, pmix_op_cbfunc_t, void*) {
    mailbox.post({Notice::Kind::finalized, static_cast<int>(process->rank), 0, {}});
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t abort_job(const pmix_proc_t* process, void*, int status, const char message[],
                        pmix_proc_t*, size_t, pmix_op_cbfunc_t, void*) {
    mailbox.post(
        {Notice::Kind::abort, static_cast<int>(process->rank), status, message ? message : ""});
    return PMIX_OPERATION_SUCCEEDED;
}

// All ranks are local: the library completes fences and requests for data by itself.
pmix_status_t fence(const pmix_proc_t*, size_t, const pmix_info_t*, size_t, char*, size_t,
                    pmix_modex_cbfunc_t, void*) {
    return PMIX_ERR_NOT_SUPPORTED;
}
pmix_status_t direct_modex(const pmix_proc_t*, const pmix_info_t*, size_t, pmix_modex_cbfunc_t,
                           void*) {
    return PMIX_ERR_NOT_FOUND;
}

// Waits for the answer of a call that OpenPMIx does in its own time.
class Answer {
public:
    static void arrive(pmix_status_t status, void* self) {
        auto* answer = static_cast<Answer*>(self);
        std::lock_guard lock(answer->mutex_);
        answer->status_ = status;
        answer->here_ = true;
        answer->changed_.notify_one();
    }
    // `started` is what the call itself returned.
    pmix_status_t wait(pmix_status_t started) {
        if (started == PMIX_OPERATION_SUCCEEDED) return PMIX_SUCCESS;
        if (started != PMIX_SUCCESS) return started;
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return here_; });
        return status_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    pmix_status_t status_ = PMIX_SUCCESS;
    bool here_ = false;
};

// A list of key-value pairs whose texts and arrays live as long as it does.
class InfoList {
public:
    void text(const char* key, const std::string& value, pmix_data_type_t type = PMIX_STRING) {
        pmix_info_t& info = add(key, type);
        if (type == PMIX_REGEX) {  // may contain zero bytes
            info.value.data.bo.bytes = texts_.emplace_back(value).data();
            info.value.data.bo.size = value.size() + 1;
        } else {
            info.value.data.string = texts_.emplace_back(value).data();
        }
    }
    void number(const char* key, uint32_t value) {
        add(key, PMIX_UINT32).value.data.uint32 = value;
    }
    void small(const char* key, uint16_t value) { add(key, PMIX_UINT16).value.data.uint16 = value; }
    void rank(const char* key, uint32_t value) { add(key, PMIX_PROC_RANK).value.data.rank = value; }
    void flag(const char* key) { add(key, PMIX_BOOL).value.data.flag = true; }
    InfoList& array(const char* key) {
        InfoList& inner = inner_.emplace_back();
        arrays_.emplace_back(std::string(key), &inner);
        return inner;
    }
    // Call last: pointers into the list are made here.
    std::vector<pmix_info_t>& finish() {
        for (auto& [key, inner] : arrays_) {
            auto& infos = inner->finish();
            pmix_data_array_t& array = data_.emplace_back();
            std::memset(&array, 0, sizeof array);
            array.type = PMIX_INFO;
            array.size = infos.size();
            array.array = infos.data();
            add(key.c_str(), PMIX_DATA_ARRAY).value.data.darray = &array;
        }
        arrays_.clear();
        return infos_;
    }

private:
    pmix_info_t& add(const char* key, pmix_data_type_t type) {
        infos_.push_back(pmix_flag(key));
        infos_.back().value.type = type;
        std::memset(&infos_.back().value.data, 0, sizeof infos_.back().value.data);
        return infos_.back();
    }
    std::vector<pmix_info_t> infos_;
    std::deque<std::string> texts_;
    std::list<InfoList> inner_;  // a list may hold what is not complete yet
    std::deque<pmix_data_array_t> data_;
    std::vector<std::pair<std::string, InfoList*>> arrays_;
};

int listen_on_loopback(int& port) {
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (descriptor < 0) return -1;
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
        listen(descriptor, 1024) == 0 &&
        getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
        port = ntohs(address.sin_port);
        return descriptor;
    }
    close(descriptor);
    return -1;
}

}  // namespace

struct PmixServer::State {
    // One client's two sides; bytes that arrive on one leave on the other. The server's side is
    // there when the client has named the namespace.
    struct Passage {
        State* state;
        bufferevent* sides[2];
        int source_port = 0;  // of our connection to the server
        bool dead = false;
    };

    State(PmixServer& owner, event_base* base, PmixJob job)
        : owner(owner), base(base), job(std::move(job)) {}

    PmixServer& owner;
    event_base* base;
    PmixJob job;
    std::string reason;
    const PmixLibrary* library = nullptr;
    Listener listener;
    int port = 0, server_port = 0;
    int bell[2] = {-1, -1};
    bool tried = false;
    EventPtr rung;
    std::list<Passage> passages;
    PmixAdmission admission;
    pmix_server_module_t* module = nullptr;  // the library keeps the pointer

    std::string server_name() const { return job.id + "-server"; }

    bool start();
    bool init_library();
    bool register_job();
    bool find_port();
    bool failed(const char* what, pmix_status_t status);
    void receive(int descriptor);
    bool pass_on(Passage& passage);
    void end(Passage& passage);
    void take_notices();
    static void on_bytes(bufferevent* from, void* data);
    static void on_event(bufferevent* from, short what, void* data);
};

std::string pmix_namespace(const std::string& job) {
    std::array<std::byte, 26> secret;
    if (!random_bytes(secret)) return {};
    std::string out = job + "-";
    for (std::byte each : secret)
        out += "0123456789abcdefghijklmnopqrstuv"[std::to_integer<size_t>(each) & 31];
    return out;
}

PmixServer::PmixServer(event_base* base, PmixJob job)
    : state_(std::make_unique<State>(*this, base, std::move(job))) {}

PmixServer::~PmixServer() {
    for (State::Passage& passage : state_->passages)
        for (bufferevent* side : passage.sides)
            if (side) bufferevent_free(side);
}

const std::string& PmixServer::reason() const { return state_->reason; }

Status PmixServer::offer(bool now) {
    State& s = *state_;
    int descriptor = listen_on_loopback(s.port);
    if (descriptor < 0) {
        s.reason = format("no port for the PMIx server: {}", os_text(errno));
        return Error{Code::io, "No port for the PMIx server"};
    }
    s.listener.start(s.base, descriptor, [&s](int accepted) { s.receive(accepted); });
    if (now && !s.start()) return Error{Code::io, "The PMIx server cannot be started"};
    return {};
}

// The names by which clients of OpenPMIx 2 to 6 look for their server; the rest is what
// PMIx_server_setup_fork would set, with the modules that our server will offer.
void PmixServer::add_environment(std::vector<std::string>& environment) const {
    const State& s = *state_;
    std::string uri = format("{}.0;tcp4://127.0.0.1:{}", s.server_name(), s.port);
    for (const char* name : {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                             "PMIX_SERVER_URI2", "PMIX_SERVER_URI21"})
        environment.push_back(format("{}={}", name, uri));
    environment.push_back("PMIX_NAMESPACE=" + s.job.nspace);
    environment.push_back("PMIX_SECURITY_MODE=native");
    environment.push_back("PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC");
    environment.push_back("PMIX_GDS_MODULE=hash");
    environment.push_back("PMIX_MCA_gds=hash");
    environment.push_back("PMIX_MCA_psec=native");
    environment.push_back("PMIX_HOSTNAME=" + s.job.host);
    environment.push_back(format("PMIX_VERSION={}.{}.{}", PMIX_VERSION_MAJOR, PMIX_VERSION_MINOR,
                                 PMIX_VERSION_RELEASE));
    environment.push_back("PMIX_SERVER_TMPDIR=" + s.job.directory);
    environment.push_back("PMIX_SYSTEM_TMPDIR=" + s.job.directory);
}

void PmixServer::settle() {
    if (state_->server_port) state_->take_notices();
}

bool PmixServer::State::failed(const char* what, pmix_status_t status) {
    reason = format("the PMIx server cannot be started: {}: {}", what,
                    library->PMIx_Error_string(status));
    return false;
}

bool PmixServer::State::start() {
    tried = true;
    rlimit stack{};
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kStackLeast) {
        reason = format(messages::pmix_stack, kStackLeast >> 10, stack.rlim_cur >> 10);
        return false;
    }
    std::string why;
    auto opened = PmixLibrary::open(why);
    if (!opened.ok()) {
        reason = format("the PMIx server cannot be started: {}", why);
        return false;
    }
    library = *opened;
    if (pipe(bell) != 0) {
        reason = format("the PMIx server cannot be started: {}", os_text(errno));
        return false;
    }
    for (int end : bell) {
        fcntl(end, F_SETFD, FD_CLOEXEC);
        fcntl(end, F_SETFL, O_NONBLOCK);
    }
    mailbox.bell = bell[1];
    rung.reset(event_new(
        base, bell[0], EV_READ | EV_PERSIST,
        [](int, short, void* self) { static_cast<State*>(self)->take_notices(); }, this));
    event_add(rung.get(), nullptr);
    return init_library() && register_job() && find_port();
}

bool PmixServer::State::init_library() {
    // Versions of the library append to the module: a larger, zeroed place stands for all.
    module = static_cast<pmix_server_module_t*>(std::calloc(1, sizeof(pmix_server_module_t) + 512));
    module->client_connected2 = client_connected;
    module->client_finalized = client_finalized;
    module->abort = abort_job;
    module->fence_nb = fence;
    module->direct_modex = direct_modex;
    // hash is the one store that every version and system has; the others map files.
    setenv("PMIX_MCA_gds", "hash", 1);
    setenv("PMIX_MCA_psec", "native", 1);
    InfoList list;
    list.text(PMIX_SERVER_NSPACE, server_name());
    list.rank(PMIX_SERVER_RANK, 0);
    list.text(PMIX_HOSTNAME, job.host);
    list.text(PMIX_SERVER_TMPDIR, job.directory);
    list.text(PMIX_SYSTEM_TMPDIR, job.directory);
    auto& infos = list.finish();
    pmix_status_t status = library->PMIx_server_init(module, infos.data(), infos.size());
    return status == PMIX_SUCCESS || failed("PMIx_server_init", status);
}

bool PmixServer::State::register_job() {
    size_t size = job.program_of.size();
    InfoList list;
    std::string peers;
    for (size_t rank = 0; rank < size; ++rank) peers += format("{}{}", rank ? "," : "", rank);
    auto count = static_cast<uint32_t>(size);
    list.text(PMIX_JOBID, job.id);
    list.number(PMIX_JOB_SIZE, count);
    list.number(PMIX_UNIV_SIZE, std::max(count, static_cast<uint32_t>(job.slots)));
    list.number(PMIX_MAX_PROCS, std::max(count, static_cast<uint32_t>(job.slots)));
    list.number(PMIX_JOB_NUM_APPS, static_cast<uint32_t>(job.program_of.back()) + 1);
    list.number(PMIX_NUM_NODES, 1);
    list.text(PMIX_LOCAL_PEERS, peers);
    list.number(PMIX_LOCAL_SIZE, count);
    list.number(PMIX_NODE_SIZE, count);
    list.rank(PMIX_LOCALLDR, 0);
    list.text(PMIX_TMPDIR, job.directory);
    list.text(PMIX_NSDIR, job.directory);
    char *nodes = nullptr, *processes = nullptr;
    if (library->PMIx_generate_regex(job.host.c_str(), &nodes) == PMIX_SUCCESS)
        list.text(PMIX_NODE_MAP, nodes, PMIX_REGEX);
    if (library->PMIx_generate_ppn(peers.c_str(), &processes) == PMIX_SUCCESS)
        list.text(PMIX_PROC_MAP, processes, PMIX_REGEX);
    std::free(nodes);
    std::free(processes);
    for (size_t rank = 0; rank < size; ++rank) {
        InfoList& one = list.array(PMIX_PROC_DATA);
        one.rank(PMIX_RANK, static_cast<uint32_t>(rank));
        one.small(PMIX_LOCAL_RANK, static_cast<uint16_t>(rank));
        one.small(PMIX_NODE_RANK, static_cast<uint16_t>(rank));
        one.number(PMIX_NODEID, 0);
        one.text(PMIX_HOSTNAME, job.host);
        one.number(PMIX_APPNUM, static_cast<uint32_t>(job.program_of[rank]));
        one.rank(PMIX_GLOBAL_RANK, static_cast<uint32_t>(rank));
        one.rank(PMIX_APP_RANK, static_cast<uint32_t>(job.program_rank_of[rank]));
        one.number(PMIX_REINCARNATION, 0);
    }
    auto& infos = list.finish();
    Answer answer;
    pmix_nspace_t nspace;
    std::memset(nspace, 0, sizeof nspace);
    job.nspace.copy(nspace, sizeof nspace - 1);
    pmix_status_t status = answer.wait(library->PMIx_server_register_nspace(
        nspace, static_cast<int>(size), infos.data(), infos.size(), Answer::arrive, &answer));
    if (status != PMIX_SUCCESS) return failed("PMIx_server_register_nspace", status);
    for (size_t rank = 0; rank < size; ++rank) {
        Answer each;
        pmix_proc_t process = pmix_process(job.nspace, static_cast<pmix_rank_t>(rank));
        status = each.wait(library->PMIx_server_register_client(&process, getuid(), getgid(),
                                                                nullptr, Answer::arrive, &each));
        if (status != PMIX_SUCCESS) return failed("PMIx_server_register_client", status);
    }
    return true;
}

// The server tells where it listens only through the environment it would give a child.
bool PmixServer::State::find_port() {
    char** environment = static_cast<char**>(std::calloc(1, sizeof(char*)));
    pmix_proc_t process = pmix_process(job.nspace, 0);
    pmix_status_t status = library->PMIx_server_setup_fork(&process, &environment);
    if (status != PMIX_SUCCESS) return failed("PMIx_server_setup_fork", status);
    for (char** entry = environment; *entry; ++entry) {
        std::string_view text = *entry;
        if (!server_port && text.starts_with("PMIX_SERVER_URI") && text.rfind(':') != text.npos) {
            std::string_view digits = text.substr(text.rfind(':') + 1);
            std::from_chars(digits.data(), digits.data() + digits.size(), server_port);
        }
        std::free(*entry);
    }
    std::free(environment);
    if (!server_port) reason = "the PMIx server does not say where it listens";
    else admission.close_port(server_port);
    return server_port != 0;
}

// Of those who have not named the namespace yet the oldest gives way.
void PmixServer::State::receive(int descriptor) {
    passages.remove_if([](const Passage& passage) { return passage.dead; });
    auto waits = [](const Passage& passage) { return !passage.sides[1]; };
    auto waiting = static_cast<size_t>(std::count_if(passages.begin(), passages.end(), waits));
    if (waiting >= kStrangersMax + job.program_of.size())
        end(*std::find_if(passages.begin(), passages.end(), waits));
    Passage& passage = passages.emplace_back(Passage{this, {nullptr, nullptr}});
    passage.sides[0] = bufferevent_socket_new(base, descriptor, BEV_OPT_CLOSE_ON_FREE);
    timeval patience{kStrangerSeconds, 0};
    bufferevent_set_timeouts(passage.sides[0], &patience, nullptr);
    bufferevent_setcb(passage.sides[0], on_bytes, nullptr, on_event, &passage);
    bufferevent_enable(passage.sides[0], EV_READ | EV_WRITE);
}

// The client has named the namespace.
bool PmixServer::State::pass_on(Passage& passage) {
    if (!tried && !start() && owner.on_failure) owner.on_failure(reason);
    if (!server_port) return false;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (server < 0) return false;
    fcntl(server, F_SETFD, FD_CLOEXEC);
    sockaddr_in address{};
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    bool connected =
        bind(server, generic, sizeof address) == 0 && getsockname(server, generic, &length) == 0;
    if (connected) {
        passage.source_port = ntohs(address.sin_port);
        admission.admit(passage.source_port);
        address.sin_port = htons(static_cast<uint16_t>(server_port));
        // The server's thread accepts; a connection to a listening loopback port does not wait.
        connected = connect(server, generic, sizeof address) == 0;
    }
    if (!connected) {
        close(server);
        return false;
    }
    fcntl(server, F_SETFL, O_NONBLOCK);
    bufferevent_set_timeouts(passage.sides[0], nullptr, nullptr);
    passage.sides[1] = bufferevent_socket_new(base, server, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(passage.sides[1], on_bytes, nullptr, on_event, &passage);
    bufferevent_enable(passage.sides[1], EV_READ | EV_WRITE);
    return true;
}

void PmixServer::State::on_bytes(bufferevent* from, void* data) {
    auto* passage = static_cast<Passage*>(data);
    evbuffer* input = bufferevent_get_input(from);
    if (!passage->sides[1]) {
        const std::string& wanted = passage->state->job.nspace;
        bool named = evbuffer_search(input, wanted.data(), wanted.size(), nullptr).pos >= 0;
        if (!named && evbuffer_get_length(input) <= kFirstWordsMax) return;
        if (!named || !passage->state->pass_on(*passage)) return passage->state->end(*passage);
    }
    bufferevent* to = passage->sides[passage->sides[0] == from ? 1 : 0];
    bufferevent_write_buffer(to, input);
}

void PmixServer::State::end(Passage& passage) {
    passage.dead = true;
    for (bufferevent*& side : passage.sides) {
        if (side) bufferevent_free(side);
        side = nullptr;
    }
    admission.forget(passage.source_port);
}

// Either side has gone: what it said last goes through, then both close.
void PmixServer::State::on_event(bufferevent* from, short what, void* data) {
    auto* passage = static_cast<Passage*>(data);
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) || passage->dead) return;
    if (passage->sides[1]) {
        bufferevent* to = passage->sides[passage->sides[0] == from ? 1 : 0];
        evbuffer* rest = bufferevent_get_input(from);
        bufferevent_write_buffer(to, rest);
        bufferevent_flush(to, EV_WRITE, BEV_FINISHED);
        evbuffer* unsent = bufferevent_get_output(to);
        while (evbuffer_get_length(unsent) > 0 &&
               evbuffer_write(unsent, bufferevent_getfd(to)) > 0) {}
    }
    passage->state->end(*passage);
}

void PmixServer::State::take_notices() {
    char bytes[256];
    while (read(bell[0], bytes, sizeof bytes) > 0) {}
    std::deque<Notice> notices;
    {
        std::lock_guard lock(mailbox.mutex);
        notices.swap(mailbox.notices);
    }
    for (const Notice& notice : notices) {
        if (notice.kind == Notice::Kind::abort) {
            if (owner.on_abort) owner.on_abort(notice.rank, notice.code, notice.message);
        } else if (owner.on_phase) {
            owner.on_phase(notice.rank, notice.kind == Notice::Kind::finalized);
        }
    }
}

}  // namespace pomona
