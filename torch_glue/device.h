// device.h: what the glue must know of a kind of device, behind one interface.
// Idea: three questions. Where does the CPU find a tensor's memory (host_pointer)? When is what a
// stream has been given so far over (Moment)? How does data get to host memory and back: nowhere,
// for memory that the CPU sees; by side streams and pinned memory; or, where a device has neither,
// by plain copies on the caller's thread. All of it through c10's guards, so CUDA and devices that
// this file has never heard of (PrivateUse1) need no headers of theirs.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>

namespace pomona::glue {

// A point of a device's stream.
class Moment {
public:
    virtual ~Moment() = default;
    virtual bool reached() const = 0;  // everything given to the stream before it is over
    virtual void delay(const c10::Stream& stream) const = 0;  // what `stream` is given next waits
};
using MomentPointer = std::shared_ptr<Moment>;  // null: always reached

enum class Passage {
    Direct,   // MPI uses the tensor's memory; it must only wait until the device is done
    Streams,  // through pinned memory, by copies on side streams
    Copies,   // through host memory, by copies on the caller's thread
};

class Device {
public:
    // The adapter of a kind of device; made once, never destroyed.
    static const Device& of(c10::DeviceType type);
    virtual ~Device() = default;

    Passage passage(const at::Tensor& t) const;
    // The tensor's first element where the CPU sees it; null where it does not.
    virtual char* host_pointer(const at::Tensor&) const { return nullptr; }
    // The end of what the device's current stream has been given so far.
    virtual MomentPointer now(c10::Device device) const;
    MomentPointer end_of(const c10::Stream& stream) const;
    bool has_streams() const { return has_streams_; }
    // Side streams for copies to the host and back; the same ones at each call.
    c10::Stream down(c10::Device device) const;
    c10::Stream up(c10::Device device) const;
    // Host memory that the device copies from and to by itself, if the device offers it.
    virtual at::Tensor pinned(int64_t bytes) const;
    // Copies from pinned memory on `stream` in a way that this kind of device has for it; false: it
    // has none, and nothing was done.
    virtual bool copy_up(const at::Tensor& /*target*/, const at::Tensor& /*pinned*/,
                         const c10::Stream& /*stream*/) const {
        return false;
    }
    // The tensor's memory is not given away before what `stream` has been given so far is over.
    void hold(const at::Tensor& t, const c10::Stream& stream) const;

protected:
    explicit Device(c10::DeviceType type);
    const c10::DeviceType type_;

private:
    bool has_streams_ = false;
};

// Declares that the CPU sees the memory of this kind of device, at the tensors' own addresses.
void set_host_visible(c10::DeviceType type);
bool is_host_visible(c10::DeviceType type);
// Does this process have devices whose memory the CPU does not see?
bool has_remote_memory();

// Staging memory, reused; at most kKept bytes stay while nobody uses them.
class StagingPool {
public:
    static constexpr int64_t kKept = int64_t{256} << 20;

    static StagingPool& of(const Device& device);
    at::Tensor take(int64_t bytes);  // at least as many bytes
    void give(at::Tensor memory, MomentPointer busy_until);
    int64_t kept() const;

private:
    explicit StagingPool(const Device& device) : device_(device) {}
    void trim();
    struct Impl;
    const Device& device_;
    std::shared_ptr<Impl> impl_;
};

}  // namespace pomona::glue
