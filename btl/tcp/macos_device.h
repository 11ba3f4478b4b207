// btl/tcp/macos_device.h: what macOS says of an interface's device: Wi-Fi, a Thunderbolt cable, or
// neither; and whether anything is at the other end of its cable.
// Idea: names do not tell: a Thunderbolt port that is in no bridge is en2, as an Ethernet port may
// be. So the system is asked, by two requests of ioctl; asking is a function here, which the tests
// play on Linux. What the system refuses to say is not known, and names decide, as before.
#pragma once

#include "btl/tcp/interfaces.h"

#include <cstdint>
#include <functional>
#include <string>

namespace pomona::tcp {

// As ioctl of a socket: 0, or -1 where the system does not know the interface or the request.
using AskSystem = std::function<int(unsigned long request, void* answer)>;

// SIOCGIFMEDIA and its ifmediareq, of XNU's bsd/sys/sockio.h and bsd/net/if.h.
inline constexpr unsigned long kAskMedia = 0xc02c6938;
#pragma pack(push, 4)
struct MediaAnswer {
    char name[16];
    int32_t current, mask, status, active, count;
    void* list;
};
#pragma pack(pop)

// SIOCGIFTYPE and the part of ifreq that answers it, of XNU's bsd/sys/sockio_private.h and
// bsd/net/if_private.h (before: sockio.h and if.h, marked private): Apple's SDK leaves them out.
// Apple's own SMB client asks the same.
inline constexpr unsigned long kAskType = 0xc020699f;
struct TypeAnswer {
    char name[16];
    uint32_t type, family, subfamily, unused;
};
inline constexpr uint32_t kFamilyEthernet = 2;        // IFRTYPE_FAMILY_ETHERNET
inline constexpr uint32_t kSubfamilyThunderbolt = 4;  // IFRTYPE_SUBFAMILY_THUNDERBOLT

// `wired` where neither is said, as of a Thunderbolt bridge.
InterfaceKind macos_device_kind(const std::string& name, const AskSystem& ask);
// Where the flag IFF_RUNNING stays set, its cable's state is told so.
bool macos_no_carrier(const std::string& name, const AskSystem& ask);

}  // namespace pomona::tcp
