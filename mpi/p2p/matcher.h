// mpi/p2p/matcher.h: posted receives and unexpected messages of one communication context.
// Idea: receives with a definite source and tag and messages hang in buckets by (source, tag);
// receives with a wildcard hang in one list in order of posting; messages hang in a second list in
// order of arrival, for receives with a wildcard. The order of posting decides between a bucket's
// and the wildcard list's candidate, as the standard asks (MPI 5.0, section 3.5).
#pragma once

#include "mpi/p2p/header.h"
#include "mpi/p2p/p2p_request.h"

#include <cstdlib>
#include <utility>

namespace pomona {

// Links of a message in its two lists.
struct MessageInBucket : ListNode {};
struct MessageInOrder : ListNode {};

// An arrived message without a receive: an eager one with its bytes, or the announcement of a large
// one. Also what MPI_Mprobe hands out as MPI_Message.
class Message final : public Object, public MessageInBucket, public MessageInOrder {
public:
    Message() : Object(Kind::message) {}
    ~Message() override { std::free(bytes); }
    void drop_bytes() {
        std::free(std::exchange(bytes, nullptr));
        length = 0;
    }

    Header header;
    Peer* peer = nullptr;
    std::byte* bytes =
        nullptr;        // payload, malloc'ed: of an eager message, or where a large one lies
    size_t length = 0;  // of `bytes`
    Communicator* comm = nullptr;  // set by mprobe, for errors of the later mrecv
};

class Matcher {
public:
    // The receive that an arriving message belongs to, taken out of its list; or null.
    P2pRequest* take_posted(int source, int tag) {
        List<P2pRequest>& bucket = posted_[hash(source, tag)];
        P2pRequest* exact = bucket.front();
        while (exact && (exact->rank != source || exact->tag != tag)) exact = bucket.next(exact);
        P2pRequest* wild = wildcards_.front();
        while (wild && !accepts(*wild, source, tag)) wild = wildcards_.next(wild);
        P2pRequest* found = !exact ? wild : !wild || exact->order < wild->order ? exact : wild;
        if (found) {
            List<P2pRequest>::remove(found);
            --posted_count_;
        }
        return found;
    }
    uint64_t next_order() { return next_order_++; }
    void post(P2pRequest& receive) {
        receive.order = next_order();
        ++posted_count_;
        if (is_wild(receive)) wildcards_.push_back(&receive);
        else posted_[hash(receive.rank, receive.tag)].push_back(&receive);
    }
    // Back to where it was posted, as what it has met is void.
    void post_again(P2pRequest& receive) {
        List<P2pRequest>& list =
            is_wild(receive) ? wildcards_ : posted_[hash(receive.rank, receive.tag)];
        P2pRequest* later = list.front();
        while (later && later->order < receive.order) later = list.next(later);
        ++posted_count_;
        if (later) List<P2pRequest>::insert_before(later, &receive);
        else list.push_back(&receive);
    }
    void withdraw(P2pRequest& receive) {
        List<P2pRequest>::remove(&receive);
        --posted_count_;
    }

    // The first message that a receive of (source, tag), wildcards allowed, would get; or null.
    Message* find_message(int source, int tag) {
        if (message_count_ == 0) return nullptr;
        if (source != MPI_ANY_SOURCE && tag != MPI_ANY_TAG) {
            auto& bucket = messages_[hash(source, tag)];
            for (MessageInBucket* each = bucket.front(); each; each = bucket.next(each)) {
                auto* message = static_cast<Message*>(each);
                if (message->header.source == source && message->header.tag == tag) return message;
            }
            return nullptr;
        }
        for (MessageInOrder* each = arrivals_.front(); each; each = arrivals_.next(each)) {
            auto* message = static_cast<Message*>(each);
            if ((source == MPI_ANY_SOURCE || message->header.source == source) &&
                (tag == MPI_ANY_TAG || message->header.tag == tag))
                return message;
        }
        return nullptr;
    }
    void keep(Message& message) {
        messages_[hash(message.header.source, message.header.tag)].push_back(&message);
        arrivals_.push_back(&message);
        ++message_count_;
    }
    void take(Message& message) {
        List<MessageInBucket>::remove(&message);
        List<MessageInOrder>::remove(&message);
        --message_count_;
    }

    Communicator* comm = nullptr;  // whose point to point this is, while there is one
    bool revoked = false;          // nothing is posted or kept any more

    size_t message_count() const { return message_count_; }
    size_t posted_count() const { return posted_count_; }
    // Every posted receive, for failing them when a peer is gone.
    template <class Function> void each_posted(Function function) {
        auto walk = [&](List<P2pRequest>& list) {
            for (P2pRequest* each = list.front(); each;) {
                P2pRequest* next = list.next(each);
                function(*each);
                each = next;
            }
        };
        if (posted_count_ == 0) return;
        for (List<P2pRequest>& bucket : posted_) walk(bucket);
        walk(wildcards_);
    }

    // The first message kept that `wanted` says yes to, or null.
    template <class Wanted> Message* find_kept(Wanted wanted) {
        for (MessageInOrder* each = arrivals_.front(); each; each = arrivals_.next(each)) {
            auto* message = static_cast<Message*>(each);
            if (wanted(*message)) return message;
        }
        return nullptr;
    }

private:
    static constexpr int kBuckets = 16;
    static unsigned hash(int source, int tag) {
        return (static_cast<unsigned>(source) * 5 + static_cast<unsigned>(tag)) % kBuckets;
    }
    static bool is_wild(const P2pRequest& receive) {
        return receive.rank == MPI_ANY_SOURCE || receive.tag == MPI_ANY_TAG;
    }
    static bool accepts(const P2pRequest& receive, int source, int tag) {
        return (receive.rank == source || receive.rank == MPI_ANY_SOURCE) &&
               (receive.tag == tag || receive.tag == MPI_ANY_TAG);
    }

    List<P2pRequest> posted_[kBuckets];
    List<P2pRequest> wildcards_;
    List<MessageInBucket> messages_[kBuckets];
    List<MessageInOrder> arrivals_;
    uint64_t next_order_ = 0;
    size_t posted_count_ = 0;
    size_t message_count_ = 0;
};

}  // namespace pomona
