// btl/link/state.h: the classes behind link.h: one link, and all links of a process.
#pragma once

#include "btl/base/random.h"
#include "btl/link/carried.h"
#include "btl/link/help_choice.h"
#include "btl/link/link.h"
#include "btl/link/paths.h"
#include "btl/link/relays.h"

#include <deque>
#include <list>
#include <span>

namespace pomona::link {

// Messages of so many bytes leave straight from the caller's memory, and are copied behind that.
inline constexpr size_t kCopyFirst = 8 << 10;

class Links;

// Everything between this process and one other.
class Link final : public Endpoint {
public:
    Link(Links& links, int peer);

    // -- Endpoint
    Push push(const FrameHeader& header, ConstBytes payload) override;
    Push push_fill(const FrameHeader& header, size_t length, FillFunction fill,
                   void* context) override;
    bool takes_bulk() const override { return true; }
    bool is_line() const override { return !order_.empty() && order_.front()->is_line(); }
    Push push_bulk(const Bulk& bulk) override;
    bool copy_bulk(uint64_t ticket) override;
    Push push_held(const FrameHeader& header, ConstBytes payload, uint64_t ticket,
                   bool& held) override;
    Pace pace() override;
    size_t unasked_most() const override;
    // Paths that ride do so; of others bytes come in the link's memory where place() says null.
    bool lends() const override { return !order_.empty() && order_.front()->rides; }
    void abandon(const Error& why) override { give_up(why); }
    std::string state_text() const override;
    std::vector<LinkPath> describe_paths() const;
    LinkSeen seen() const;
    void ask_for_round_trip();
    Nanoseconds shortest_round_trip() const;

    // -- by the transport
    // What the peer published: its paths are made to that.
    Status set_addresses(ConstBytes published);
    void path_up(Path& path);
    void path_gone(Path& path, const Error& why, Sink& sink);
    std::byte* place(Path& path, const FrameHeader& frame, size_t length, Sink& sink);
    void arrive(Path& path, const FrameHeader& frame, ConstBytes payload, Sink& sink);
    // Whatever can be done without anything arriving; true when something moved.
    // `idle`: nothing has arrived in this turn.
    bool work(Nanoseconds now, bool idle, Sink& sink);
    // No turn may follow for long. `leaves`: as Transport::hurry().
    void hurry(bool leaves);
    // Messages that are over for their sender, and for which no path has had room yet.
    bool strands() const { return !over && (first_unsent_ < window_.next() || brings_message()); }
    bool owes() const { return strands() || (owes_end_ && !over); }
    // Before a sleep: nothing is owed. False when it has something to do at once.
    bool settle_for_sleep();
    Nanoseconds sleep_max(Nanoseconds now) const;
    bool has_work() const;
    // Without work: there is something to look at by the clock, as a path to try again.
    bool watches() const;
    bool only_owes() const;
    bool owes_answer() const;
    size_t owed_bytes_most() const;
    // Looked at from time to time while its window is large; true when it is not, or not any more.
    bool gives_back(Nanoseconds now);
    bool pending() const;
    void say_bye();
    // The engine has to do with this process: it is told when that is gone.
    void asked();

    // -- for paths through others (relays.h)
    // Connects for their sake; the engine hears nothing of it.
    void reach(ConstBytes published);
    // Made for that alone, and given up.
    bool rests() const { return for_others() && !over && down_since_ == 0 && !any_up(); }
    // Some path is up, or each has failed and waits before it is tried again.
    bool reached() const;
    // A path of its own is up; if not, since when.
    bool direct() const;
    Nanoseconds indirect_since() const { return indirect_since_; }
    // How often frames for others were left out, as this link's own path went through others.
    uint64_t relay_losses() const { return relay_losses_; }
    // Memory for a message of Kind::relay, to be filled before sent_relayed(); null: there is no
    // room.
    std::byte* keep_relayed(size_t length);
    void sent_relayed() { sent_new(); }
    // Sends a message of Kind::relay, whose `at` (relay_wire.h) becomes this, or keeps it until
    // there is room. False: too much waits, or the process is gone.
    bool forward(ConstBytes message, size_t at);
    void forget_forwards();
    // Of the path through others: as path_up(), path_gone() and arrive() of other ones.
    void relay_up();
    void relay_gone(const Error& why, Sink& sink);
    void arrive_relayed(const FrameHeader& frame, ConstBytes payload, Sink& sink);
    bool goes_through_others() const { return relay_ && relay_->state == Path::State::up; }
    Nanoseconds heard_through_others() const { return relay_ ? relay_->heard_at : 0; }
    bool outstanding() const { return !window_.empty() || !outgoing_.empty(); }
    void malformed(const char* what);

    // -- for paths that ride on others (riding.cc)
    // Sends words of such a transport to its other half; false: no path takes them now.
    bool say(ConstBytes words);
    // May such paths be made? Another one is up.
    bool may_ride() const { return !over && stands(); }
    // A frame of others by one of them (carried.h), in two parts. `gone`: there is none.
    Push push_carried(const FrameHeader& header, ConstBytes first, ConstBytes second);
    bool carries() const;

    const int peer;
    std::vector<Path> paths;
    bool active = false;   // in the list of those that work() is called for
    bool watched = false;  // in the list of those that become active when it is time to look
    bool over = false;     // the process is gone or given up
    bool told = false;     // the sink knows
    Error why{};

private:
    friend class Links;
    // Messages out (link.cc).
    std::byte* keep(Kind kind, size_t length, size_t elsewhere = 0);
    void sent_new();
    bool flush();
    Push send(uint64_t number, Path& path);
    LinkHeader message_header(uint64_t number);
    bool send_state(Path& path, uint8_t flags, uint64_t time);
    bool send_owed_state();
    void say_what_is_owed(Nanoseconds now);
    void order_paths();
    std::span<Path* const> message_paths() const;
    void mark_unsent(uint64_t number);

    // Frames in (link.cc).
    Push push_quickly(const FrameHeader& header, ConstBytes payload);
    bool arrive_quickly(Path& path, const FrameHeader& frame, ConstBytes payload, Sink& sink);
    void take_times_later(uint64_t number);
    void take_times(Nanoseconds now);
    void arrive_numbered(Path& path, const LinkHeader& header, ConstBytes payload, Sink& sink);
    void hand_on(Kind kind, ConstBytes payload, Sink& sink);
    void arrive_piece(Path& path, const LinkHeader& header, ConstBytes payload, Sink& sink);
    void arrive_state(Path& path, const LinkHeader& header, ConstBytes payload, Sink& sink);
    void forget_overlap(const Path& path, const FrameHeader& header, size_t length, Sink& sink);
    void displace(Path& path, Sink& sink);
    bool acknowledge(const LinkHeader& header, Sink& sink);
    void message_arrived(uint64_t number, Sink& sink);
    void messages_below(uint64_t next, Sink& sink);
    const std::byte* message_bytes(uint64_t number);
    void note_sent(Kept& frame, Path& path, bool oldest);
    void note_taken(Path& path, uint64_t number, size_t offset, size_t taken, size_t length);
    void pause_intake();
    void time_path(Path& path);
    bool push_from_caller(ConstBytes payload, std::byte* copy);
    bool wants_memory() const;
    bool may_ask(Nanoseconds now);
    Nanoseconds time_on_line() const;
    void note_row(Kind kind, bool ended);
    void ask_for_memory(Nanoseconds now);
    void copy_held(Nanoseconds now, bool idle, Sink& sink);
    void copy_bulk(Nanoseconds now, Sink& sink);
    void nothing_owed();
    void owe(bool at_once);
    bool drain_forwards();

    // What is left when the program leaves MPI (leaving.cc).
    bool brings_message() const;
    void leave_behind();
    Path* hand_over(uint64_t number);

    // Long payloads (bulk.cc).
    void bulk_begins(size_t length);
    void bulk_ends();
    std::vector<Path*> helpers();
    bool drain_bulk(Nanoseconds now);
    bool push_next_piece(Path& path, const std::vector<const Path*>& sharing, size_t most,
                         Nanoseconds now);
    bool push_piece(Path& path, uint64_t number, Nanoseconds now);
    bool push_begun(Path& path, Nanoseconds now);
    void stop_bringing(Path& path);
    size_t unbegun() const;
    void piece_arrived(Piece& piece, Sink& sink);
    void pieces_below(uint64_t next, Sink& sink);
    uint64_t next_piece_number() const { return first_piece_ + pieces_.size(); }
    Piece& piece(uint64_t number) { return pieces_[number - first_piece_]; }

    // Timers (liveness.cc).
    void look_at_time(Nanoseconds now);
    void dial(Path& path, Nanoseconds now);
    void look_at_stalls(Nanoseconds now);
    void look_at_silence(Nanoseconds now);
    void look_at_losses(Path& path, Nanoseconds now);
    void ask(Path& path, Nanoseconds now);
    void take_back(const Path& path);
    void link_down(Nanoseconds now);
    void note_fruit();
    void link_up(Nanoseconds now);
    Nanoseconds refusals_for() const;
    bool all_refused() const;
    bool any_up() const;
    bool for_others() const { return for_others_ && !used_; }
    void rest();
    bool wants_relay(Nanoseconds now);
    Path& need_relay();
    void leave_relay();
    void drop_relay();
    void give_up(Error why);
    // Paths that ride on others (riding.cc).
    bool stands() const;
    bool may_dial(const Path& path) const { return !path.rides || stands(); }
    bool loses() const;
    bool carries(const Path& path) const;
    void leave_by_standing();
    void go_by_standing(Path& path, Nanoseconds now);
    void look_at_refusals(Nanoseconds now);
    std::string name_of_peer() const;
    std::string names_of_paths() const;

    Links& links_;
    bool told_address_ = false;  // the other side has ours, if it needs it

    Window window_;
    uint64_t seen_next_ =
        0;  // of a large one, the last time that it was not empty or had been used
    Nanoseconds seen_at_ = 0;
    uint64_t first_unsent_ = 0;  // all messages below are on their way, or arrived
    Received received_;
    uint64_t handed_on_ = 0;  // all messages below
    std::map<uint64_t, std::pair<Kind, std::vector<std::byte>>>
        early_;  // arrived before their turn
    size_t early_bytes_ = 0;
    std::deque<uint64_t> held_;  // messages whose payload the caller keeps, ascending
    // So much was on its way since there are such that acknowledgements come before copies would be
    // worth their time.
    bool many_held_ = false;
    bool held_moved_ = false;        // since the last turn: some came, or were acknowledged
    Nanoseconds held_moved_at_ = 0;  // the turn that saw it, or asked for them
    Nanoseconds all_there_at_ = 0;   // since then the peer's system has had all of them; 0: not yet
    int rows_answered_ = 2;          // by the program there, in a row; at most 2. See note_row()
    bool row_ended_ = false;         // by an answer of the link; nothing has come or gone since
    size_t copied_ = 0;              // bytes of payloads copied out of there
    uint64_t asked_message_ = 0, asked_piece_ = 0;  // those below have been asked for
    std::vector<Path*> order_;                      // those that are in use, the quickest first
    // One path, up, that neither loses nor has to be watched: nothing but acknowledging has its
    // time.
    bool simple_ = false;
    Path* quick_ = nullptr;  // that messages take first, if the engine has to do with this link
    bool untimed_ = false;   // some times are kLater: of messages from this number on, of others
    uint64_t untimed_from_ = 0;

    std::list<Outgoing> outgoing_;
    int to_copy_ = 0;  // of those: wait for copy_bulk()
    std::deque<Piece> pieces_;
    uint64_t first_piece_ = 0;
    std::deque<uint64_t> unsent_pieces_;  // to be sent again
    Received received_pieces_;
    // Do standing paths help those that ride? Decided while nothing long is under way, or for so
    // many bytes.
    HelpChoice help_choice_;
    bool helped_ = false;
    Nanoseconds helped_since_ = 0;
    size_t helped_bytes_ = 0;

    // What the other side has not been told of.
    int owed_frames_ = 0;
    size_t owed_bytes_ = 0;
    bool owed_now_ = false;
    bool owes_end_ = false;  // kEnd
    Nanoseconds owed_since_ = 0;

    bool used_ = false;                 // the engine has asked for it, or has had something from it
    bool for_others_ = false;           // it carries frames for others, or was made to
    std::vector<std::byte> published_;  // where the peer is
    Path* relay_ = nullptr;             // the last of `paths`, if it goes through others
    Nanoseconds indirect_since_ = 0;
    uint64_t relay_losses_ = 0;
    Nanoseconds unwatched_since_ = 0;              // only paths that ride are up; 0: not so
    std::deque<std::vector<std::byte>> forwards_;  // messages of Kind::relay without room

    bool was_up_ = false;
    bool warned_ = false;
    bool left_ = false;           // bye has been said
    Nanoseconds down_since_ = 0;  // 0: it is up, or was never asked for
    // Its paths come and are lost, and nothing is acknowledged by them: since when (0: not so), and
    // what was acknowledged then.
    Nanoseconds up_since_ = 0, fruitless_since_ = 0;
    uint64_t acknowledged_then_ = 0;
    Nanoseconds next_look_ = 0;
    Nanoseconds progress_at_ = 0;  // something was acknowledged
    bool begun_anew_ = false;      // since the last look: before, nothing was under way
};

// The Transport that the engine sees.
class Links final : public Transport {
public:
    Links(const Params& params, Counters& counters, LinkOptions options,
          std::vector<std::unique_ptr<Transport>> transports);
    ~Links() override;
    const char* name() const override { return "link"; }
    std::vector<std::byte> address() const override;
    Result<Endpoint*> connect(int peer, ConstBytes address) override;
    Endpoint* path(int peer) override;
    int poll(Sink& sink, int most) override;
    void hurry(bool leaves) override;
    bool arm() override;
    void disarm() override;
    bool pending() const override;
    bool simulated() const override;
    bool undelivered() const override;
    Nanoseconds sleep_max() override;
    bool serves() const override { return relays_.serves(); }

    // -- for links
    Nanoseconds now() { return options_.clock->now(); }
    // `hurry`: it has more to do than to acknowledge, some time.
    // Frames are being handed on; then what is active has its turn.
    bool reads() const { return reads_; }
    void activate(Link& link, bool hurry = true) {
        hurry_ |= hurry;
        if (link.active) return;
        link.active = true;
        active_.push_back(&link);
    }
    // Something waits here that should not wait for the program.
    void owe() {
        if (options_.owes) *options_.owes = true;
    }
    // How often a link was looked after in a turn.
    uint64_t looked_after() const { return looked_after_; }
    const Params& params;
    Counters& counters;
    const LinkOptions& options() const { return options_; }
    std::vector<std::unique_ptr<Transport>>& transports() { return transports_; }
    Relays& relays() { return relays_; }
    bool is_carried(const Transport& transport) const { return &transport == carried_; }
    void hear(int peer, ConstBytes words) override;
    void carry(int peer, const FrameHeader& header, ConstBytes payload, Sink& sink) override;
    Link* existing(int peer) {
        auto at = static_cast<size_t>(peer);
        return at < links_.size() ? links_[at].get() : nullptr;
    }
    Link& link(int peer) {
        auto at = static_cast<size_t>(peer);
        return at < links_.size() && links_[at] ? *links_[at] : make_link(peer);
    }
    // Connects to a process for others' sake.
    void reach(int peer, ConstBytes address);
    size_t forwarded = 0;  // bytes in all links' forwards_
    bool windows_grew = false;

private:
    struct Way final : public Sink {  // of one transport to its links
        Way(Links& links, int index, bool rides)
            : links(links), transport(*links.transports_[static_cast<size_t>(index)]), index(index),
              rides(rides) {}
        std::byte* place(int peer, const FrameHeader& header, size_t length) override;
        void arrive(int peer, const FrameHeader& header, ConstBytes payload) override;
        void gone(int peer, const Error& why) override;
        void displaced(int peer, const FrameHeader& header, size_t length) override;
        void up(int peer) override;
        Link& link(int peer) { return links.link(peer); }
        Path& path(Link& of) { return of.paths[static_cast<size_t>(index)]; }
        Links& links;
        Transport& transport;
        const int index;
        const bool rides;
    };
    friend struct Way;
    Link& make_link(int peer);
    int read(const std::vector<Way*>& ways, size_t& first, Sink& sink, int most);
    void work_on_active(Nanoseconds time, int& moved, Sink& sink);
    void watch(Link& link);
    void look_at_watched();
    void give_back();

    LinkOptions options_;
    std::vector<std::unique_ptr<Transport>> transports_;
    Carried* carried_ = nullptr;  // the last of these
    std::vector<std::unique_ptr<Way>> ways_;
    std::vector<Way*> all_, riding_, by_device_;  // of these; the last without carried_
    Relays relays_{*this};
    std::vector<std::unique_ptr<Link>> links_;  // by peer; null where there is none
    // Those that have work, which each turn looks after, and those that only look at the clock,
    // which would make a turn dearer with each process that this one has spoken to.
    std::vector<Link*> active_, watched_;
    Nanoseconds watch_at_ = 0;  // the first of watched_ has to look then
    uint64_t looked_after_ = 0;
    std::vector<Link*> large_;  // whose windows hold much memory
    Nanoseconds looked_at_large_ = 0;
    bool reads_ = false;
    bool hurry_ = false;  // one of them has more to do than to acknowledge, some time
    unsigned put_off_ = 0;
    Sink* sink_ = nullptr;  // during poll()
    size_t turn_ = 0, first_of_all_ = 0, first_riding_ = 0;
    bool slept_ = false;         // since the last turn, or wanted to
    unsigned rides_first_ = 0;   // turns in which the other transports are polled less often,
    bool others_moved_ = false;  // unless frames come by these as well
};

// For each transport its name and address, as published.
std::vector<std::byte> write_addresses(
    const std::vector<std::pair<std::string, std::vector<std::byte>>>& all);

}  // namespace pomona::link
