// mpi/trace/completion.cc: MPI_Wait, MPI_Test and their kin: which messages they have completed.
// Idea: what is known of the requests is copied before the call, which may free them; afterwards
// each one completed gets a record of its own, inside the call's time.
#include "mpi/trace/completion.h"

#include "functions.h"
#include "mpi/trace/objects.h"
#include "mpi/trace/pmpi.h"

#include <vector>

namespace pomona::trace {

namespace {

constexpr int64_t kVainGap = 1000, kShort = 2000;  // nanoseconds

class Completion {
public:
    Completion(Function function, int count, const MPI_Request* requests)
        : call_(function, Kind::wait), requests_(requests, requests + (count > 0 ? count : 0)),
          infos_(requests_.size()), known_(requests_.size()) {
        for (size_t i = 0; i < requests_.size(); ++i) {
            known_[i] = find_request(requests_[i], infos_[i]) && infos_[i].active;
            any_ = any_ || known_[i];
        }
        show();
    }
    // The statuses are needed to tell from whom something came.
    MPI_Status* statuses(MPI_Status* given, size_t count) {
        if (given != MPI_STATUS_IGNORE || !any_) return given;  // MPI_STATUSES_IGNORE is the same
        statuses_.resize(count ? count : 1);
        return statuses_.data();
    }
    void done(size_t i, const MPI_Status* status) {
        if (i >= known_.size() || !known_[i]) return;
        end_request(requests_[i], infos_[i]);
        done_.push_back({i, status});
    }
    void end() {
        call_.end();
        for (const Done& each : done_) write(infos_[each.place], each.status);
    }
    void end_in_vain() { trace::end_in_vain(call_); }

private:
    // What is waited for, where that is one thing.
    void show() {
        if (known_.size() != 1 || !known_[0]) return call_.open();
        Record open = call_.record();
        const RequestInfo& info = infos_[0];
        open.comm = info.comm->number;
        open.peer = info.peer;
        open.tag = info.tag;
        open.bytes = info.bytes;
        Call::open(open, info.kind == Kind::send         ? Kind::sent
                         : info.kind == Kind::receive    ? Kind::received
                         : info.kind == Kind::collective ? Kind::collected
                                                         : Kind::wait);
    }
    struct Done {
        size_t place;
        const MPI_Status* status;
    };
    void write(const RequestInfo& info, const MPI_Status* status) {
        Record record = call_.record();
        record.order = info.order;
        record.comm = info.comm->number;
        record.peer = info.peer;
        record.tag = info.tag;
        record.bytes = info.bytes;
        bool took_long = record.end - record.begin > kShort;
        if (info.kind == Kind::receive) {
            int cancelled = 0;
            POMONA_PMPI(Test_cancelled)(status, &cancelled);
            if (cancelled || status->MPI_SOURCE < 0) return;
            set_received(record, *info.comm, *status);
            record.kind = Kind::received;
            append(record);
        } else if (took_long && (info.kind == Kind::send || info.kind == Kind::collective)) {
            record.kind = info.kind == Kind::send ? Kind::sent : Kind::collected;
            append(record);
        }
    }

    Call call_;
    std::vector<MPI_Request> requests_;
    std::vector<RequestInfo> infos_;
    std::vector<char> known_;
    std::vector<MPI_Status> statuses_;
    std::vector<Done> done_;
    bool any_ = false;
};

int wait_all(Function function, int count, MPI_Request* requests, MPI_Status* statuses, int* flag) {
    Completion completion(function, count, requests);
    size_t length = count > 0 ? static_cast<size_t>(count) : 0;
    statuses = completion.statuses(statuses, length);
    int error = flag ? POMONA_NEXT(Testall)(count, requests, flag, statuses)
                     : POMONA_NEXT(Waitall)(count, requests, statuses);
    if (error == MPI_SUCCESS && flag && !*flag) return completion.end_in_vain(), error;
    if (error == MPI_SUCCESS)
        for (size_t i = 0; i < length; ++i) completion.done(i, statuses ? statuses + i : nullptr);
    completion.end();
    return error;
}

int wait_any(Function function, int count, MPI_Request* requests, int* index, MPI_Status* status,
             int* flag) {
    Completion completion(function, count, requests);
    status = completion.statuses(status, 1);
    int error = flag ? POMONA_NEXT(Testany)(count, requests, index, flag, status)
                     : POMONA_NEXT(Waitany)(count, requests, index, status);
    if (error == MPI_SUCCESS && flag && !*flag) return completion.end_in_vain(), error;
    if (error == MPI_SUCCESS && *index >= 0) completion.done(static_cast<size_t>(*index), status);
    completion.end();
    return error;
}

int wait_some(bool test, int count, MPI_Request* requests, int* number, int* indices,
              MPI_Status* statuses) {
    Completion completion(test ? Function::Testsome : Function::Waitsome, count, requests);
    statuses = completion.statuses(statuses, count > 0 ? static_cast<size_t>(count) : 0);
    int error = test ? POMONA_NEXT(Testsome)(count, requests, number, indices, statuses)
                     : POMONA_NEXT(Waitsome)(count, requests, number, indices, statuses);
    if (error == MPI_SUCCESS && test && *number == 0) return completion.end_in_vain(), error;
    if (error == MPI_SUCCESS)
        for (int i = 0; i < *number; ++i)
            completion.done(static_cast<size_t>(indices[i]), statuses ? statuses + i : nullptr);
    completion.end();
    return error;
}

int wait_one(MPI_Request* request, int* flag, MPI_Status* status) {
    Completion completion(flag ? Function::Test : Function::Wait, 1, request);
    status = completion.statuses(status, 1);
    int error =
        flag ? POMONA_NEXT(Test)(request, flag, status) : POMONA_NEXT(Wait)(request, status);
    if (error == MPI_SUCCESS && flag && !*flag) return completion.end_in_vain(), error;
    if (error == MPI_SUCCESS) completion.done(0, status);
    completion.end();
    return error;
}

}  // namespace

void end_in_vain(Call& call) {
    Record& record = call.record();
    record.repeats = 1;
    Record* last = last_record();
    bool again = last && last->function == record.function && last->repeats > 0 &&
                 last->repeats < 255 && record.begin - last->end < kVainGap;
    if (!again) return call.end();
    show_none();
    last->end = now();
    ++last->repeats;
}

}  // namespace pomona::trace

using namespace pomona::trace;

POMONA_TRACED int MPI_Wait(MPI_Request* request, MPI_Status* status) {
    if (!is_recording()) return POMONA_NEXT(Wait)(request, status);
    return wait_one(request, nullptr, status);
}
POMONA_TRACED int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
    if (!is_recording()) return POMONA_NEXT(Test)(request, flag, status);
    return wait_one(request, flag, status);
}
POMONA_TRACED int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (!is_recording()) return POMONA_NEXT(Waitall)(count, requests, statuses);
    return wait_all(Function::Waitall, count, requests, statuses, nullptr);
}
POMONA_TRACED int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
    if (!is_recording()) return POMONA_NEXT(Testall)(count, requests, flag, statuses);
    return wait_all(Function::Testall, count, requests, statuses, flag);
}
POMONA_TRACED int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
    if (!is_recording()) return POMONA_NEXT(Waitany)(count, requests, index, status);
    return wait_any(Function::Waitany, count, requests, index, status, nullptr);
}
POMONA_TRACED int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag,
                              MPI_Status* status) {
    if (!is_recording()) return POMONA_NEXT(Testany)(count, requests, index, flag, status);
    return wait_any(Function::Testany, count, requests, index, status, flag);
}
POMONA_TRACED int MPI_Waitsome(int count, MPI_Request requests[], int* number, int indices[],
                               MPI_Status statuses[]) {
    if (!is_recording()) return POMONA_NEXT(Waitsome)(count, requests, number, indices, statuses);
    return wait_some(false, count, requests, number, indices, statuses);
}
POMONA_TRACED int MPI_Testsome(int count, MPI_Request requests[], int* number, int indices[],
                               MPI_Status statuses[]) {
    if (!is_recording()) return POMONA_NEXT(Testsome)(count, requests, number, indices, statuses);
    return wait_some(true, count, requests, number, indices, statuses);
}
