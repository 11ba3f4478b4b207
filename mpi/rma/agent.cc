// mpi/rma/agent.cc: serves the commands that other processes send to this one's memory.
// All of it runs with the engine held, inside completions of receives. Commands of one source are
// carried out one after the other; a command's answer leaves before its next command is looked at.
#include "btl/base/log.h"
#include "mpi/rma/window.h"
#include "mpi/runtime/process.h"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace pomona {

// Messages on a window's context.
enum : int { kCommandTag = 0, kDataTag = 1 };

static constexpr uint64_t kOutOfRange = 1;  // in a status word

// ---- receiving

void Window::open_channels() {
    for (int rank = 0; rank < comm_->size(); ++rank) {
        auto channel = std::make_unique<Channel>();
        channel->function = channel_ready;
        channel->window = this;
        channel->source = rank;
        channel->message.resize(kRmaCommandMax);
        channels_.push_back(std::move(channel));
    }
    Engine::Hold hold(engine());
    for (auto& channel : channels_) {
        receive_command(*channel);
        run(*channel);
    }
}

void Window::close_channels() {
    Engine::Hold hold(engine());
    closing_ = true;
    for (auto& channel : channels_)
        if (!channel->closed) engine().cancel_step(comm_->context(), *channel);
}

void Window::channel_ready(coll::Completion* self, const Error* error) {
    auto& channel = *static_cast<Channel*>(self);
    Window& window = *channel.window;
    if (error || window.closing_) {
        channel.closed = true;
        if (!window.closing_) window.forget_source(channel.source);
        window.engine().notify();
        return;
    }
    channel.arrived = true;
    // A receive may complete while it is posted: the loop below takes it then, not the stack.
    if (!channel.running) window.run(channel);
}

void Window::run(Channel& channel) {
    channel.running = true;
    while (channel.arrived && !channel.closed) {
        channel.arrived = false;
        step(channel);
    }
    channel.running = false;
}

void Window::step(Channel& channel) {
    if (!channel.awaits_data) {
        channel.data = {};
        if (!parse_command(channel.message, channel.command, channel.data))
            return malformed(channel, "A window command does not parse");
        if (!channel.command.short_data && channel.command.data_bytes() > 0) {
            channel.awaits_data = true;
            if (!receive_data(channel)) malformed(channel, "A window command is too long");
            return;
        }
    }
    channel.awaits_data = false;
    execute(channel);
    if (!channel.closed) receive_command(channel);
}

void Window::receive_command(Channel& channel) {
    engine().recv_step(*comm_->peers[static_cast<size_t>(channel.source)], comm_->context(),
                       channel.source, kCommandTag, channel.message, channel);
}

// Resizes; false when there is no memory for what another process claims to send or want.
static bool fits(std::vector<std::byte>& bytes, size_t length) {
    try {
        bytes.resize(length);
        return true;
    } catch (const std::bad_alloc&) { return false; } catch (const std::length_error&) {
        return false;
    }
}

// Long data goes straight to its place if that is one block, else it is kept until it is complete.
bool Window::receive_data(Channel& channel) {
    const RmaCommand& command = channel.command;
    size_t length = command.data_bytes();
    std::byte* place = nullptr;
    if (command.kind == RmaKind::put && command.blocks.size() == 1)
        place = locate(command, command.blocks[0]);
    if (!place) {
        if (!fits(channel.long_data, length)) return false;
        place = channel.long_data.data();
    }
    channel.data = {place, length};
    engine().recv_step(*comm_->peers[static_cast<size_t>(channel.source)], comm_->context(),
                       channel.source, kDataTag, {place, length}, channel);
    return true;
}

void Window::malformed(Channel& channel, const char* what) {
    LOG(error, mpi, "{} (from rank {} of its window); it is not served any more", what,
        channel.source);
    channel.closed = true;
    engine().notify();
}

// ---- carrying out

// Where a block lies, or null when it is not within the window.
std::byte* Window::locate(const RmaCommand& command, const RmaBlock& block) {
    uint64_t length = block.length;
    if (length > 0) length -= command.unit - command.unit_true;
    if (flavor_ != MPI_WIN_FLAVOR_DYNAMIC) {
        if (block.offset > size_ || length > size_ - block.offset) return nullptr;
        return memory_ + block.offset;
    }
    auto place = static_cast<uintptr_t>(block.offset);
    auto after = attached_.upper_bound(place);
    if (after == attached_.begin()) return nullptr;
    auto [address, size] = *std::prev(after);
    uint64_t within = place - address;
    if (within > size) return nullptr;
    // Pieces of memory that were attached side by side count as one.
    uint64_t there = size - within;
    for (; there < length && after != attached_.end() && after->first == place + there; ++after)
        there += after->second;
    if (length > there) return nullptr;
    return reinterpret_cast<std::byte*>(place);
}

void Window::execute(Channel& channel) {
    const RmaCommand& command = channel.command;
    switch (command.kind) {
    case RmaKind::lock: return lock_wanted({channel.source, command.reply_tag, command.exclusive});
    case RmaKind::unlock: lock_given_back(channel.source); [[fallthrough]];
    case RmaKind::flush:
        reply_status(channel.source, command.reply_tag, std::exchange(channel.status, 0));
        return;
    case RmaKind::wake: ++wakes_; return engine().notify();
    case RmaKind::holders: {
        LockQueue queue = before(channel.source);
        std::vector<std::byte> bytes(sizeof queue);
        std::memcpy(bytes.data(), &queue, sizeof queue);
        return reply(channel.source, command.reply_tag, std::move(bytes), {});
    }
    case RmaKind::post:
        ++channel.told[posts];
        engine().notify();
        return;
    case RmaKind::complete:
        ++channel.told[completes];
        engine().notify();
        return;
    default: break;
    }
    size_t answer = command.reply_bytes();
    if (command.kind == RmaKind::get && command.blocks.size() == 1) {
        // Straight from the window.
        if (std::byte* target = locate(command, command.blocks[0]))
            return reply(channel.source, command.reply_tag, {}, {target, answer});
    }
    std::vector<std::byte> old;
    if (!fits(old, answer)) return malformed(channel, "A window command wants too much");
    size_t at = 0;
    for (const RmaBlock& block : command.blocks) {
        std::byte* target = locate(command, block);
        const std::byte* data = channel.data.empty() ? nullptr : channel.data.data() + at;
        if (!target) channel.status |= kOutOfRange;
        else if (target != data)  // else the data came straight here
            apply_command(command, target, block.length, data, answer ? old.data() + at : nullptr);
        at += block.length;
    }
    if (channel.long_data.capacity() > size_t{1} << 20) channel.long_data = {};
    if (answer) reply(channel.source, command.reply_tag, std::move(old), {});
}

// Answers with `own`, or, if that is empty, with memory that stays.
void Window::reply(int target, int tag, std::vector<std::byte>&& own, ConstBytes bytes) {
    auto* message = new Reply;
    message->window = this;
    message->own = std::move(own);
    if (!message->own.empty()) bytes = message->own;
    message->function = [](coll::Completion* self, const Error*) {
        auto* sent = static_cast<Reply*>(self);
        if (--sent->window->replies_ == 0) sent->window->engine().notify();
        delete sent;
    };
    ++replies_;
    engine().send_step(*comm_->peers[static_cast<size_t>(target)], comm_->context(), comm_->rank(),
                       tag, bytes, *message);
}

void Window::reply_status(int target, int tag, uint64_t status) {
    std::vector<std::byte> bytes(sizeof status);
    std::memcpy(bytes.data(), &status, sizeof status);
    reply(target, tag, std::move(bytes), {});
}

// ---- locks

void Window::lock_wanted(const Waiter& waiter) {
    lock_waiters_.push_back(waiter);
    grant();
}

void Window::lock_given_back(int source) {
    auto holder = std::find_if(lock_holders_.begin(), lock_holders_.end(),
                               [&](const auto& each) { return each.first == source; });
    if (holder != lock_holders_.end()) lock_holders_.erase(holder);
    grant();
}

// The process has ended: what it holds and what it waits for goes to others.
void Window::forget_source(int source) {
    std::erase_if(lock_waiters_, [&](const Waiter& each) { return each.source == source; });
    lock_given_back(source);
}

// Those who wait get it in the order they asked, readers together.
void Window::grant() {
    size_t granted = 0;
    for (; granted < lock_waiters_.size(); ++granted) {
        const Waiter& next = lock_waiters_[granted];
        bool held_alone = !lock_holders_.empty() && lock_holders_.front().second;
        if (held_alone || (next.exclusive && !lock_holders_.empty())) break;
        lock_holders_.emplace_back(next.source, next.exclusive);
        reply_status(next.source, next.reply_tag, 0);
    }
    lock_waiters_.erase(lock_waiters_.begin(),
                        lock_waiters_.begin() + static_cast<ptrdiff_t>(granted));
}

// Whom somebody who waits for the lock waits for; nobody, if it has been granted.
LockQueue Window::before(int source) const {
    LockQueue queue;
    queue.ranks.fill(-1);
    auto own = std::find_if(lock_waiters_.begin(), lock_waiters_.end(),
                            [&](const Waiter& each) { return each.source == source; });
    if (own == lock_waiters_.end()) return queue;
    size_t count = 0;
    auto add = [&](int rank, bool exclusive) {
        if ((exclusive || own->exclusive) && count < queue.ranks.size())
            queue.ranks[count++] = rank;
    };
    for (const auto& [holder, exclusive] : lock_holders_) add(holder, exclusive);
    for (auto each = lock_waiters_.begin(); each != own; ++each) add(each->source, each->exclusive);
    return queue;
}

}  // namespace pomona
