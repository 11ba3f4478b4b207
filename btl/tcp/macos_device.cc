// btl/tcp/macos_device.cc: see macos_device.h.
#include "btl/tcp/macos_device.h"

#include <cstring>

#if defined(__APPLE__)
#include <net/if.h>
#include <sys/sockio.h>
#endif

namespace pomona::tcp {

static_assert(sizeof(MediaAnswer) == 44 && sizeof(TypeAnswer) == 32);
#if defined(__APPLE__)
static_assert(sizeof(MediaAnswer) == sizeof(ifmediareq) && kAskMedia == SIOCGIFMEDIA);
static_assert(sizeof(TypeAnswer) == sizeof(ifreq) && kAskType == _IOWR('i', 159, ifreq));
#endif

// IFM_NMASK and IFM_IEEE80211, IFM_AVALID and IFM_ACTIVE of <net/if_media.h>, which some SDKs lack.
static constexpr int kMediaMask = 0xe0, kMediaWifi = 0x80;
static constexpr int kMediaKnown = 1, kMediaActive = 2;

// All 0 where the system says nothing.
template <class Answer>
static Answer ask_about(const std::string& name, unsigned long request, const AskSystem& ask) {
    Answer answer{};
    std::strncpy(answer.name, name.c_str(), sizeof answer.name - 1);
    return ask(request, &answer) == 0 ? answer : Answer{};
}

InterfaceKind macos_device_kind(const std::string& name, const AskSystem& ask) {
    auto media = ask_about<MediaAnswer>(name, kAskMedia, ask);
    if ((media.current & kMediaMask) == kMediaWifi) return InterfaceKind::wifi;
    auto type = ask_about<TypeAnswer>(name, kAskType, ask);
    bool cable = type.family == kFamilyEthernet && type.subfamily == kSubfamilyThunderbolt;
    return cable ? InterfaceKind::thunderbolt : InterfaceKind::wired;
}

bool macos_no_carrier(const std::string& name, const AskSystem& ask) {
    auto media = ask_about<MediaAnswer>(name, kAskMedia, ask);
    return (media.status & kMediaKnown) != 0 && (media.status & kMediaActive) == 0;
}

}  // namespace pomona::tcp
