// mpi/abi/request.cc: wait, test, start, cancel and free, for requests of every kind.
// Idea: one function ends a request for its user (report); the many forms only differ in which
// requests they ask for and when they look.
#include "mpi/abi/define.h"
#include "mpi/abi/p2p_arguments.h"
#include "mpi/p2p/status.h"
#include "mpi/check/checker.h"
#include "mpi/object/lifetime.h"
#include "mpi/p2p/p2p_request.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

using namespace pomona;

namespace {

Engine& engine() { return process().engine; }

// A generalized request (MPI 5.0, section 13.2).
class GeneralizedRequest final : public Request {
public:
    GeneralizedRequest(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free,
                       MPI_Grequest_cancel_function* cancel, void* state)
        : Request(nullptr), query_(query), free_(free), cancel_(cancel), state_(state) {}
    ~GeneralizedRequest() override { free_now(); }
    // Once, by whoever completes the request or drops the last reference.
    int free_now() {
        auto* function = std::exchange(free_, nullptr);
        return function ? function(state_) : MPI_SUCCESS;
    }
    int finish(MPI_Status* status) override {
        MPI_Status own{};
        MPI_Status* target = status == MPI_STATUS_IGNORE ? &own : status;
        set_empty_status(target);
        return query_ ? query_(state_, target) : MPI_SUCCESS;
    }
    bool calls_user() const override { return true; }
    void cancel() override { cancel_now(); }
    int cancel_now() { return cancel_ ? cancel_(state_, done()) : MPI_SUCCESS; }

private:
    MPI_Grequest_query_function* query_;
    MPI_Grequest_free_function* free_;
    MPI_Grequest_cancel_function* cancel_;
    void* state_;
};

// For the error's sentence: with whom a message was to be, if its end does not tell.
[[gnu::cold, gnu::noinline]] void name_peer(const Request* request, Outcome& outcome) {
    const auto* message = dynamic_cast<const P2pRequest*>(request);
    if (!message) return;
    if (outcome.source < 0) outcome.source = message->rank;
    if (outcome.tag < 0) outcome.tag = message->tag;
}

// Takes the end of a complete request to the user (of a stalled one only the error): fills the
// status, deactivates a persistent request, frees another and its handle. Returns the operation's
// error class; *comm is whose error handler it concerns, *outcome what happened.
int report(MPI_Request* handle, Request* request, MPI_Status* status, Outcome* outcome,
           Communicator** comm) {
    *comm = request->comm();
    if (__builtin_expect(!request->complete(), 0)) {
        // Stalled, or just met by another thread: it goes on, and is asked about again.
        *outcome = {};
        outcome->error = MPIX_ERR_PROC_FAILED_PENDING;
        outcome->reason = kMaybeSender;
        return outcome->error;
    }
    int error = request->finish(status);
    *outcome = request->outcome();
    if (request->persistent()) {
        if (error != MPI_SUCCESS) name_peer(request, *outcome);
        request->set_inactive(true);
    } else {
        *handle = MPI_REQUEST_NULL;
        // A communicator freed meanwhile lives on by the request's reference only.
        if (error != MPI_SUCCESS) {
            name_peer(request, *outcome);
            Engine::Hold hold(engine());
            if (*comm && outlives(**comm) && (*comm)->references() == 1) *comm = nullptr;
        }
        // An error of the user's free function is the completing call's too.
        if (!*comm && request->calls_user())
            if (auto* generalized = dynamic_cast<GeneralizedRequest*>(request)) {
                int freed = generalized->free_now();
                if (error == MPI_SUCCESS) error = freed;
            }
        request->release();
    }
    return error;
}

// The whole of report() for most requests that went well.
inline bool report_plain(MPI_Request* handle, Request* request, MPI_Status* status) {
    if (!request->plain() || request->persistent() || request->outcome().error != MPI_SUCCESS)
        return false;
    set_status(status, request->outcome());
    *handle = MPI_REQUEST_NULL;
    request->release();
    return true;
}

int report_one(const char* function, MPI_Request* handle, Request* request, MPI_Status* status) {
    if (report_plain(handle, request, status)) return MPI_SUCCESS;
    Outcome outcome;
    Communicator* comm = nullptr;
    int error = report(handle, request, status, &outcome, &comm);
    if (__builtin_expect(error == MPI_SUCCESS, 1)) return MPI_SUCCESS;
    outcome.error = error;
    return fail_peer(function, comm ? comm : process().world(), outcome,
                     {outcome.source, outcome.tag});
}

MPI_Status* status_at(MPI_Status* statuses, int index) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[index];
}

// Of a checked program: the request that stands in the array twice, at these places. Sends that
// were over at once have one in common, which is of no communicator.
[[gnu::cold, gnu::noinline]] std::optional<std::pair<size_t, size_t>> find_double(
    const std::vector<Request*>& requests) {
    std::unordered_map<const Request*, size_t> seen;
    for (size_t i = 0; i < requests.size(); ++i) {
        if (!requests[i] || (requests[i]->plain() && !requests[i]->comm())) continue;
        auto [first, added] = seen.try_emplace(requests[i], i);
        if (!added) return std::pair(first->second, i);
    }
    return std::nullopt;
}

// Decodes an array of handles: null for MPI_REQUEST_NULL and for inactive requests.
int decode(const char* function, int count, MPI_Request* handles, std::vector<Request*>& requests) {
    if (count < 0) return fail(function, nullptr, MPI_ERR_COUNT, format("count is {}", count));
    if (count > 0 && !handles)
        return fail(function, nullptr, MPI_ERR_REQUEST, "array_of_requests is a null pointer");
    requests.assign(static_cast<size_t>(count), nullptr);
    Request** decoded = requests.data();
    for (int i = 0; i < count; ++i) {
        if (handles[i] == MPI_REQUEST_NULL) continue;
        Request* request = resolve(handles[i]);
        if (!request)
            return fail(function, nullptr, MPI_ERR_REQUEST,
                        format("array_of_requests[{}] is not a valid request", i));
        if (!request->inactive()) decoded[i] = request;
    }
    if (__builtin_expect(process().checker != nullptr, 0))
        if (auto twice = find_double(requests))
            return fail(function, nullptr, MPI_ERR_REQUEST,
                        format("array_of_requests[{}] and [{}] are the same request", twice->first,
                               twice->second));
    return MPI_SUCCESS;
}

[[gnu::cold, gnu::noinline]] int fail_some(const char* function, Communicator* comm,
                                           const Outcome& first_failed) {
    std::string whom = whom_text(first_failed);
    return fail(function, comm ? comm : process().world(), MPI_ERR_IN_STATUS,
                format("{}{}; the statuses' MPI_ERROR tells which",
                       first_failed.reason ? first_failed.reason : "An operation failed",
                       whom.empty() ? "" : " (" + whom + ")"));
}

// Reports every request of `requests` (null ones get the empty status). MPI_ERR_IN_STATUS when one
// of them failed; then all statuses carry MPI_ERROR.
int report_all(const char* function, MPI_Request* handles, std::vector<Request*>& requests,
               MPI_Status* statuses) {
    Outcome first_failed;
    Communicator* failed_comm = nullptr;
    std::vector<int> errors;  // empty: none
    for (size_t i = 0; i < requests.size(); ++i) {
        MPI_Status* status = status_at(statuses, static_cast<int>(i));
        if (!requests[i]) {
            set_empty_status(status);
            continue;
        }
        if (report_plain(&handles[i], requests[i], status)) continue;
        Outcome outcome;
        Communicator* comm = nullptr;
        int error = report(&handles[i], requests[i], status, &outcome, &comm);
        if (error == MPI_SUCCESS) continue;
        if (errors.empty()) {
            errors.assign(requests.size(), MPI_SUCCESS);
            first_failed = outcome;
            first_failed.error = error;
            failed_comm = comm;
        }
        errors[i] = error;
    }
    if (errors.empty()) return MPI_SUCCESS;
    if (statuses != MPI_STATUSES_IGNORE)
        for (size_t i = 0; i < requests.size(); ++i) statuses[i].MPI_ERROR = errors[i];
    return fail_some(function, failed_comm, first_failed);
}

bool all_done(const std::vector<Request*>& requests) {
    return std::all_of(requests.begin(), requests.end(),
                       [](Request* each) { return !each || each->done(); });
}
int first_done(const std::vector<Request*>& requests) {
    for (size_t i = 0; i < requests.size(); ++i)
        if (requests[i] && requests[i]->done()) return static_cast<int>(i);
    return -1;
}
void wait_for_any(const std::vector<Request*>& requests) {
    engine().wait_until(Described{[&] { return first_done(requests) >= 0; },
                                  [&](Waiting& out) {
                                      Unfinished{requests, true}.describe(out);
                                  }});
}
bool none_active(const std::vector<Request*>& requests) {
    return std::all_of(requests.begin(), requests.end(), [](Request* each) { return !each; });
}

// Reports those that are done; MPI_Waitsome and MPI_Testsome.
int report_some(const char* function, MPI_Request* handles, const std::vector<Request*>& requests,
                int* outcount, int* indices, MPI_Status* statuses) {
    std::vector<Request*> done;
    std::vector<MPI_Request> done_handles;
    *outcount = 0;
    for (size_t i = 0; i < requests.size(); ++i)
        if (requests[i] && requests[i]->done()) {
            indices[(*outcount)++] = static_cast<int>(i);
            done.push_back(requests[i]);
            done_handles.push_back(handles[i]);
        }
    int error = report_all(function, done_handles.data(), done, statuses);
    for (size_t i = 0; i < done_handles.size(); ++i) handles[indices[i]] = done_handles[i];
    return error;
}

}  // namespace

// ---- one request

POMONA_MPI(int, Wait, (MPI_Request* request, MPI_Status* status)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_REQUEST, "request is a null pointer");
    if (*request == MPI_REQUEST_NULL) return set_empty_status(status), MPI_SUCCESS;
    Request* waited = resolve(*request);
    REQUIRE(waited, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    if (waited->inactive()) return set_empty_status(status), MPI_SUCCESS;
    engine().wait(*waited);
    return report_one(__func__, request, waited, status);
}

POMONA_MPI(int, Test, (MPI_Request* request, int* flag, MPI_Status* status)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_REQUEST, "request is a null pointer");
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    *flag = 1;
    if (*request == MPI_REQUEST_NULL) return set_empty_status(status), MPI_SUCCESS;
    Request* tested = resolve(*request);
    REQUIRE(tested, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    if (tested->inactive()) return set_empty_status(status), MPI_SUCCESS;
    if (!tested->done()) engine().test_turn(UnfinishedOne{*tested});
    if (!tested->done()) return *flag = 0, MPI_SUCCESS;
    return report_one(__func__, request, tested, status);
}

POMONA_MPI(int, Request_get_status, (MPI_Request request, int* flag, MPI_Status* status)) {
    REQUIRE_RUNNING();
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    *flag = 1;
    if (request == MPI_REQUEST_NULL) return set_empty_status(status), MPI_SUCCESS;
    Request* asked = resolve(request);
    REQUIRE(asked, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    if (asked->inactive()) return set_empty_status(status), MPI_SUCCESS;
    if (!asked->done()) engine().test_turn(UnfinishedOne{*asked});
    *flag = asked->complete();
    if (*flag) asked->finish(status);
    REQUIRE(!asked->stalled(), asked->comm(), MPIX_ERR_PROC_FAILED_PENDING, "{}", kMaybeSender);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Request_get_status_all, (int count, const MPI_Request array_of_requests[], int* flag,
                                         MPI_Status array_of_statuses[])) {
    REQUIRE_RUNNING();
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, count, const_cast<MPI_Request*>(array_of_requests), requests))
        return error;
    if (!all_done(requests)) engine().test_turn(Unfinished{requests});
    *flag = all_done(requests);
    for (int i = 0; *flag && i < count; ++i) {
        MPI_Status* status = status_at(array_of_statuses, i);
        if (requests[i]) requests[i]->finish(status);
        else set_empty_status(status);
    }
    return MPI_SUCCESS;
}

POMONA_MPI(int, Request_get_status_any, (int count, const MPI_Request array_of_requests[], int* index,
                                         int* flag, MPI_Status* status)) {
    REQUIRE_RUNNING();
    REQUIRE(flag && index, nullptr, MPI_ERR_ARG, "index or flag is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, count, const_cast<MPI_Request*>(array_of_requests), requests))
        return error;
    *index = MPI_UNDEFINED;
    *flag = 1;
    if (none_active(requests)) return set_empty_status(status), MPI_SUCCESS;
    int found = first_done(requests);
    if (found < 0) engine().test_turn(Unfinished{requests, true}), found = first_done(requests);
    if (found < 0) return *flag = 0, MPI_SUCCESS;
    *index = found;
    requests[found]->finish(status);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Request_get_status_some, (int incount, const MPI_Request array_of_requests[],
                                          int* outcount, int array_of_indices[],
                                          MPI_Status array_of_statuses[])) {
    REQUIRE_RUNNING();
    REQUIRE(outcount, nullptr, MPI_ERR_ARG, "outcount is a null pointer");
    std::vector<Request*> requests;
    if (int error =
            decode(__func__, incount, const_cast<MPI_Request*>(array_of_requests), requests))
        return error;
    *outcount = MPI_UNDEFINED;
    if (none_active(requests)) return MPI_SUCCESS;
    if (first_done(requests) < 0) engine().test_turn(Unfinished{requests, true});
    *outcount = 0;
    for (int i = 0; i < incount; ++i)
        if (requests[i] && requests[i]->done()) {
            requests[i]->finish(status_at(array_of_statuses, *outcount));
            array_of_indices[(*outcount)++] = i;
        }
    return MPI_SUCCESS;
}

// ---- several requests

POMONA_MPI(int, Waitall, (int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[])) {
    REQUIRE_RUNNING();
    std::vector<Request*> requests;
    if (int error = decode(__func__, count, array_of_requests, requests)) return error;
    // Each of these costs its peer a look at the messages that it keeps.
    constexpr size_t kSettledMost = 64;
    if (engine().sent_whole() && requests.size() <= kSettledMost)
        for (Request* each : requests)
            if (each) engine().settle(*each);
    // The last one first: with messages in order, all the others are then complete too, which is
    // asked here since wait() is not inlined.
    for (size_t i = requests.size(); i-- > 0;)
        if (requests[i] && !requests[i]->done()) engine().wait(*requests[i], requests);
    return report_all(__func__, array_of_requests, requests, array_of_statuses);
}

POMONA_MPI(int, Testall, (int count, MPI_Request array_of_requests[], int* flag,
                          MPI_Status array_of_statuses[])) {
    REQUIRE_RUNNING();
    REQUIRE(flag, nullptr, MPI_ERR_ARG, "flag is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, count, array_of_requests, requests)) return error;
    if (!all_done(requests)) engine().test_turn(Unfinished{requests});
    *flag = all_done(requests);
    if (!*flag) return MPI_SUCCESS;
    return report_all(__func__, array_of_requests, requests, array_of_statuses);
}

POMONA_MPI(int, Waitany, (int count, MPI_Request array_of_requests[], int* index, MPI_Status* status)) {
    REQUIRE_RUNNING();
    REQUIRE(index, nullptr, MPI_ERR_ARG, "index is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, count, array_of_requests, requests)) return error;
    *index = MPI_UNDEFINED;
    if (none_active(requests)) return set_empty_status(status), MPI_SUCCESS;
    int found = first_done(requests);
    if (found < 0) wait_for_any(requests), found = first_done(requests);
    *index = found;
    return report_one(__func__, &array_of_requests[found], requests[found], status);
}

POMONA_MPI(int, Testany, (int count, MPI_Request array_of_requests[], int* index, int* flag,
                          MPI_Status* status)) {
    REQUIRE_RUNNING();
    REQUIRE(index && flag, nullptr, MPI_ERR_ARG, "index or flag is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, count, array_of_requests, requests)) return error;
    *index = MPI_UNDEFINED;
    *flag = 1;
    if (none_active(requests)) return set_empty_status(status), MPI_SUCCESS;
    int found = first_done(requests);
    if (found < 0) engine().test_turn(Unfinished{requests, true}), found = first_done(requests);
    if (found < 0) return *flag = 0, MPI_SUCCESS;
    *index = found;
    return report_one(__func__, &array_of_requests[found], requests[found], status);
}

POMONA_MPI(int, Waitsome, (int incount, MPI_Request array_of_requests[], int* outcount,
                           int array_of_indices[], MPI_Status array_of_statuses[])) {
    REQUIRE_RUNNING();
    REQUIRE(outcount, nullptr, MPI_ERR_ARG, "outcount is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, incount, array_of_requests, requests)) return error;
    *outcount = MPI_UNDEFINED;
    if (none_active(requests)) return MPI_SUCCESS;
    if (first_done(requests) < 0) wait_for_any(requests);
    return report_some(__func__, array_of_requests, requests, outcount, array_of_indices,
                       array_of_statuses);
}

POMONA_MPI(int, Testsome, (int incount, MPI_Request array_of_requests[], int* outcount,
                           int array_of_indices[], MPI_Status array_of_statuses[])) {
    REQUIRE_RUNNING();
    REQUIRE(outcount, nullptr, MPI_ERR_ARG, "outcount is a null pointer");
    std::vector<Request*> requests;
    if (int error = decode(__func__, incount, array_of_requests, requests)) return error;
    *outcount = MPI_UNDEFINED;
    if (none_active(requests)) return MPI_SUCCESS;
    if (first_done(requests) < 0) engine().test_turn(Unfinished{requests, true});
    return report_some(__func__, array_of_requests, requests, outcount, array_of_indices,
                       array_of_statuses);
}

// ---- start, cancel, free

static int start_one(const char* function, MPI_Request handle) {
    Request* request = resolve(handle);
    if (!request) return fail(function, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    if (!request->persistent())
        return fail(function, request->comm(), MPI_ERR_REQUEST, "request is not persistent");
    if (!request->inactive())
        return fail(function, request->comm(), MPI_ERR_REQUEST, "request is active already");
    int error;
    if (request->calls_user()) {
        error = request->start();
    } else {
        Engine::Hold hold(engine());
        error = request->start();
    }
    if (error == MPI_SUCCESS) return MPI_SUCCESS;
    Checker* checker = process().checker.get();
    return fail(function, request->comm(), error,
                checker && !checker->problem.empty() ? checker->problem
                                                     : "The operation could not be started");
}

POMONA_MPI(int, Start, (MPI_Request* request)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_REQUEST, "request is a null pointer");
    return start_one(__func__, *request);
}

POMONA_MPI(int, Startall, (int count, MPI_Request array_of_requests[])) {
    REQUIRE_RUNNING();
    REQUIRE(count >= 0, nullptr, MPI_ERR_COUNT, "count is {}; it must not be negative", count);
    REQUIRE(count == 0 || array_of_requests, nullptr, MPI_ERR_REQUEST,
            "array_of_requests is a null pointer");
    for (int i = 0; i < count; ++i)
        if (int error = start_one(__func__, array_of_requests[i])) return error;
    return MPI_SUCCESS;
}

POMONA_MPI(int, Cancel, (MPI_Request* request)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_REQUEST, "request is a null pointer");
    Request* cancelled = resolve(*request);
    REQUIRE(cancelled, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    if (cancelled->inactive()) return MPI_SUCCESS;
    // The user's function says what MPI_Cancel returns.
    if (auto* generalized =
            cancelled->calls_user() ? dynamic_cast<GeneralizedRequest*>(cancelled) : nullptr) {
        int error = generalized->cancel_now();
        return error == MPI_SUCCESS ? error
                                    : fail(__func__, nullptr, error, "the cancel function failed");
    }
    if (cancelled->calls_user()) return cancelled->cancel(), MPI_SUCCESS;
    {
        Engine::Hold hold(engine());
        cancelled->cancel();
    }
    engine().test_turn();  // what this process has sent to itself is not found any more
    return MPI_SUCCESS;
}

POMONA_MPI(int, Request_free, (MPI_Request* request)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_REQUEST, "request is a null pointer");
    Request* freed = resolve(*request);
    REQUIRE(freed, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    *request = MPI_REQUEST_NULL;
    freed->give_up();
    return MPI_SUCCESS;
}

POMONA_MPI(int, Test_cancelled, (const MPI_Status* status, int* flag)) {
    REQUIRE(status && flag, nullptr, MPI_ERR_ARG, "status or flag is a null pointer");
    *flag = status_cancelled(status);
    return MPI_SUCCESS;
}

// ---- completion callbacks (mpix.h)

POMONA_MPIX(int, Request_on_completion,
            (MPI_Request * request, MPIX_Completion_function* function, void* context)) {
    REQUIRE_RUNNING();
    REQUIRE(request && function, nullptr, MPI_ERR_ARG, "request or function is a null pointer");
    Request* watched = resolve(*request);
    REQUIRE(watched, nullptr, MPI_ERR_REQUEST, "request is not a valid request");
    REQUIRE(!watched->persistent(), watched->comm(), MPI_ERR_REQUEST,
            "request is persistent; callbacks are for requests that end with their operation");
    REQUIRE(process().thread_level == MPI_THREAD_MULTIPLE, watched->comm(), MPI_ERR_OTHER,
            "callbacks need MPI_THREAD_MULTIPLE; ask MPI_Init_thread for it");
    *request = MPI_REQUEST_NULL;
    engine().start_progress_thread();
    engine().on_completion(*watched, function, context);
    return MPI_SUCCESS;
}

// ---- generalized requests (MPI 5.0, section 13.2)

POMONA_MPI(int, Grequest_start, (MPI_Grequest_query_function* query_fn,
                                 MPI_Grequest_free_function* free_fn,
                                 MPI_Grequest_cancel_function* cancel_fn, void* extra_state,
                                 MPI_Request* request)) {
    REQUIRE_RUNNING();
    REQUIRE(request, nullptr, MPI_ERR_REQUEST, "request is a null pointer");
    auto* made = new GeneralizedRequest(query_fn, free_fn, cancel_fn, extra_state);
    Engine::Hold hold(engine());
    engine().hold_for_engine(*made);
    *request = handle_of<MPI_Request>(made);
    return MPI_SUCCESS;
}

POMONA_MPI(int, Grequest_complete, (MPI_Request request)) {
    REQUIRE_RUNNING();
    auto* completed = dynamic_cast<GeneralizedRequest*>(resolve(request));
    REQUIRE(completed, nullptr, MPI_ERR_REQUEST, "request is not a generalized request");
    Engine::Hold hold(engine());
    engine().complete(*completed);
    return MPI_SUCCESS;
}
