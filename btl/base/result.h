// btl/base/result.h: values that may fail for reasons outside the program.
// Idea: a small std::expected (C++23) with one error type. An Error holds static text only, so
// that failing allocates nothing; numbers that a person needs travel in `peer` and `os_errno`.
// Read a Result with TRY(expression): it yields the value or returns the error to the caller.
#pragma once

#include <cerrno>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace pomona {

// What went wrong, in the classes that the ABI layer maps to MPI error classes (mpi/abi/guard.h).
enum class Code : int {
    ok = 0,
    invalid_argument,  // the caller passed something that cannot be
    out_of_memory,     // the system refused memory, shared memory or descriptors
    not_found,         // a name, key or file that is not there
    unsupported,       // known, and not offered here
    peer_gone,         // another rank died or closed its connection
    timed_out,         // a deadline passed
    refused,           // the other side or the system said no (permission, firewall, secret)
    truncated,         // a message is longer than the place for it
    malformed,         // bytes from outside do not parse
    io,                // the operating system failed; os_errno says how
    data_lost,         // a device failed in its part, here or at another rank
    internal           // should not happen; reported, not fatal
};

struct Error {
    Code code = Code::internal;
    const char* what = "";  // a sentence; static storage
    int peer = -1;          // rank concerned, or -1
    int os_errno = 0;       // errno, or 0

    // "what: peer 3: Connection refused", for logs and messages.
    std::string text() const;
};

inline Error os_error(Code code, const char* what, int peer = -1) {
    return Error{code, what, peer, errno};
}

template <class T> class [[nodiscard]] Result {
public:
    Result(T value) : ok_(true) { new (&value_) T(std::move(value)); }
    Result(Error error) : ok_(false), error_(error) {}
    Result(Result&& other) noexcept : ok_(other.ok_) {
        if (ok_) new (&value_) T(std::move(other.value_));
        else error_ = other.error_;
    }
    Result& operator=(Result&& other) noexcept {
        if (this != &other) {
            this->~Result();
            new (this) Result(std::move(other));
        }
        return *this;
    }
    ~Result() {
        if (ok_) value_.~T();
    }

    explicit operator bool() const { return ok_; }
    bool ok() const { return ok_; }
    T& value() & { return value_; }
    const T& value() const& { return value_; }
    T&& value() && { return std::move(value_); }
    T& operator*() { return value_; }
    T* operator->() { return &value_; }
    const Error& error() const { return error_; }

private:
    bool ok_;
    union {
        T value_;
        Error error_;
    };
};

// The outcome of something that yields no value.
template <> class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : ok_(false), error_(error) {}
    explicit operator bool() const { return ok_; }
    bool ok() const { return ok_; }
    void value() const {}
    const Error& error() const { return error_; }

private:
    bool ok_ = true;
    Error error_{Code::ok, "", -1, 0};
};
using Status = Result<void>;

// Yields the value of a Result, or returns its Error from the enclosing function.
// A statement expression (g++ and clang both have it), so that it reads as one expression.
#define TRY(expression)                                                                            \
    __extension__({                                                                                \
        auto try_result_ = (expression);                                                           \
        if (!try_result_.ok()) return try_result_.error();                                         \
        std::move(try_result_).value();                                                            \
    })

}  // namespace pomona
