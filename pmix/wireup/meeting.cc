// pmix/wireup/meeting.cc: see meeting.h.
#include "pmix/wireup/meeting.h"

#include "btl/base/format.h"
#include "btl/base/messages.h"

#include <algorithm>

namespace pomona {

std::vector<std::byte> meeting_frame(MeetingWord word, ConstBytes contents) {
    Writer out;
    out.put(static_cast<uint32_t>(contents.size() + 1));
    out.put(word);
    out.put_bytes(contents);
    return out.bytes();
}

std::vector<std::byte> meeting_entry(std::string_view key, ConstBytes value) {
    Writer out;
    out.put_text(key);
    out.put_sized(value);
    return out.bytes();
}

void MeetingFrames::feed(ConstBytes bytes) { in_.insert(in_.end(), bytes.begin(), bytes.end()); }

std::optional<MeetingFrames::Frame> MeetingFrames::next() {
    Reader reader(in_);
    auto length = reader.get<uint32_t>();
    if (failed_ || reader.failed()) return std::nullopt;
    if (length < 1 || length > kMeetingFrameMost) {
        failed_ = true;
        return std::nullopt;
    }
    if (reader.left() < length) return std::nullopt;
    Frame out{reader.get<MeetingWord>(), {}};
    ConstBytes contents = reader.take(length - 1);
    out.contents.assign(contents.begin(), contents.end());
    in_.erase(in_.begin(), in_.end() - static_cast<ptrdiff_t>(reader.left()));
    return out;
}

std::string list_of_ranks(const std::vector<int>& ranks) {
    constexpr size_t kRunsMost = 10;
    std::string out;
    size_t runs = 0;
    for (size_t i = 0; i < ranks.size(); ++runs) {
        if (runs == kRunsMost) return format("{} and {} more", out, ranks.size() - i);
        size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
        out += format("{}{}", i == 0 ? "" : ", ", ranks[i]);
        if (end - i > 2) out += format(" to {}", ranks[end - 1]);
        else if (end - i == 2) out += format(", {}", ranks[end - 1]);
        i = end;
    }
    return out;
}

MeetingBoard::MeetingBoard(int size) : seats_(static_cast<size_t>(size)) {
    seat(0).place = Place::here;
    complete_ = size == 1;
}

bool MeetingBoard::arrive(int rank) {
    if (rank <= 0 || rank >= static_cast<int>(seats_.size()) || seat(rank).place != Place::empty)
        return false;
    seat(rank).place = Place::here;
    complete_ = missing().empty();
    if (complete_) say_all(MeetingWord::all_here, {});
    return true;
}

bool MeetingBoard::take(int rank, MeetingWord word, ConstBytes contents) {
    Seat& from = seat(rank);
    if (!complete_ || from.place != Place::here) return false;
    Reader reader(contents);
    switch (word) {
    case MeetingWord::put: {
        std::string key = reader.get_text(kMeetingKeyMost);
        ConstBytes value = reader.get_sized(kMeetingFrameMost);
        return !reader.failed() && reader.left() == 0 && put_of(rank, key, value);
    }
    case MeetingWord::get: {
        std::string key = reader.get_text(kMeetingKeyMost);
        if (reader.failed() || reader.left() != 0 || from.wanted) return false;
        if (const auto* found = find(key)) say(rank, MeetingWord::value, *found);
        else from.wanted = std::move(key);
        return true;
    }
    case MeetingWord::bye:
        if (!contents.empty()) return false;
        from.place = Place::left;
        return true;
    default: return false;
    }
}

// Before all are there it may come again, by another connection.
void MeetingBoard::leave(int rank) {
    Seat& from = seat(rank);
    if (from.place != Place::here) return;
    from.wanted.reset();
    from.place = complete_ ? Place::lost : Place::empty;
    if (!complete_ || lost_ >= 0) return;
    lost_ = rank;
    fail(format(messages::by_hand_lost, rank));
}

void MeetingBoard::fail(const std::string& sentence) {
    say_all(MeetingWord::failed, bytes_of(sentence));
}

void MeetingBoard::tell_missing(const std::string& sentence) {
    say_all(MeetingWord::missing, bytes_of(sentence));
}

bool MeetingBoard::put_of(int rank, const std::string& key, ConstBytes value) {
    auto [place, fresh] = values_.try_emplace(key);
    if (fresh && ++seat(rank).keys > kMeetingKeysOfRank) return false;
    kept_ += value.size() + (fresh ? key.size() : 0);
    kept_ -= place->second.size();
    if (kept_ > kMeetingKept) return false;
    place->second.assign(value.begin(), value.end());
    for (int each = 1; each < static_cast<int>(seats_.size()); ++each) {
        if (seat(each).wanted != key) continue;
        seat(each).wanted.reset();
        say(each, MeetingWord::value, value);
    }
    return true;
}

const std::vector<std::byte>* MeetingBoard::find(const std::string& key) const {
    auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

bool MeetingBoard::over() const {
    return complete_ && std::none_of(seats_.begin() + 1, seats_.end(),
                                     [](const Seat& each) { return each.place == Place::here; });
}

std::vector<int> MeetingBoard::missing() const {
    std::vector<int> out;
    for (size_t rank = 0; rank < seats_.size(); ++rank)
        if (seats_[rank].place == Place::empty) out.push_back(static_cast<int>(rank));
    return out;
}

void MeetingBoard::say(int rank, MeetingWord word, ConstBytes contents) {
    output_.push_back({rank, meeting_frame(word, contents)});
}

void MeetingBoard::say_all(MeetingWord word, ConstBytes contents) {
    for (int rank = 1; rank < static_cast<int>(seats_.size()); ++rank)
        if (seat(rank).place == Place::here) say(rank, word, contents);
}

}  // namespace pomona
