// pmix/wireup/by_hand.cc: see by_hand.h.
#include "pmix/wireup/by_hand.h"

#include "btl/base/format.h"
#include "btl/base/log.h"
#include "btl/base/messages.h"
#include "pmix/wireup/meeting.h"

#include <algorithm>
#include <charconv>

namespace pomona {

namespace {
constexpr size_t kHostMost = 255;
constexpr size_t kSecretMost = 1024;
constexpr const char* kProtocol = "1";  // of the table's words

std::optional<int> number(std::string_view text, int low, int high) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value < low || value > high ? std::nullopt : std::optional<int>(value);
}
}  // namespace

std::optional<ByHand> read_by_hand(const char* const* environment, std::string& refusal) {
    auto rank_text = variable(environment, "RANK"), size_text = variable(environment, "WORLD_SIZE");
    auto host = variable(environment, "MASTER_ADDR"), port = variable(environment, "MASTER_PORT");
    // A part of them may be there for another reason; and one process needs nobody.
    if (!rank_text || !size_text || !host || !port || *size_text == "1") return std::nullopt;
    auto size = number(*size_text, 1, kMeetingMost);
    auto rank = number(*rank_text, 0, size.value_or(1) - 1);
    auto port_number = number(*port, 1, 65535);
    if (!size || !rank || !port_number || host->empty() || host->size() > kHostMost) {
        refusal =
            format(messages::by_hand_variables, *rank_text, *size_text, *host, *port, kMeetingMost);
        return std::nullopt;
    }
    ByHand out;
    out.rank = *rank;
    out.size = *size;
    out.host = *host;
    out.port = static_cast<uint16_t>(*port_number);
    out.secret = variable(environment, "POMONA_JOB_SECRET").value_or("");
    if (!out.secret.empty() &&
        (out.secret.size() < kJobSecretLeast || out.secret.size() > kSecretMost)) {
        refusal = format(messages::by_hand_secret, out.secret.size(), kJobSecretLeast, kSecretMost);
        return std::nullopt;
    }
    return out;
}

Result<link::Identity> identity_by_hand(const ByHand& hand) {
    std::string why;
    link::Identity out;
    auto crypto = link::Crypto::open(why);
    if (!crypto.ok()) {
        LOG(error, pmix, "rank {}: {} {}", hand.rank, crypto.error().text(), why);
        return crypto.error();
    }
    out.crypto = *crypto;
    if (!out.crypto->derive(bytes_of(hand.secret), bytes_of("pomona ranks started by hand"),
                            bytes_of("to meet"), out.key))
        return Error{Code::internal, "No key can be made of POMONA_JOB_SECRET"};
    out.job = "started by hand";
    out.rank = hand.rank;
    out.size = kMeetingMost;  // what WORLD_SIZE says elsewhere is among the facts
    out.encrypts = true;
    out.fingerprint.add("WORLD_SIZE", format("{}", hand.size), "its environment");
    out.fingerprint.add("way of meeting", kProtocol, "its version of Pomona");
    return out;
}

Result<std::unique_ptr<Wireup>> start_by_hand(const ByHand& hand) {
    MeetingTable table = TRY(hand.rank == 0 ? meet_as_root(hand) : meet_root(hand));
    return start_by_table(std::move(table));
}

}  // namespace pomona
