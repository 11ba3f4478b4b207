// btl/rdma/verbs_abi.h: what Pomona uses of libibverbs' binary interface (infiniband/verbs.h 1.14),
// declared here, so that no header of rdma-core is needed to build and librdma serves on macOS.
// tests/verbs/verbs_abi.cc compares sizes, offsets and values with the system's header, where it
// has one. Fields keep their names there; what is not used is a filler of the same size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <pthread.h>

namespace pomona::verbs {

union Gid {
    uint8_t raw[16];
    uint64_t aligned[2];
};

enum PortState : int { kPortDown = 1, kPortActive = 4 };
enum Mtu : int { kMtu256 = 1, kMtu1024 = 3, kMtu4096 = 5 };
enum QpType : int { kRc = 2, kUc = 3 };
enum QpState : int { kReset, kInit, kRtr, kRts, kSqd, kSqe, kError };
enum WcStatus : int { kSuccess = 0, kLocalLength = 1, kLocalProtection = 4, kFlushed = 5 };
enum WcOpcode : int { kSent = 0, kReceived = 1 << 7 };
enum WrOpcode : int { kRdmaWrite = 0, kSend = 2 };
inline constexpr unsigned kSignaled = 1 << 1, kInline = 1 << 3;
inline constexpr int kLocalWrite = 1, kRemoteWrite = 2, kRemoteRead = 4;
inline constexpr int kMaskState = 1 << 0, kMaskAccess = 1 << 3, kMaskPkey = 1 << 4,
                     kMaskPort = 1 << 5, kMaskAv = 1 << 7, kMaskMtu = 1 << 8, kMaskRqPsn = 1 << 12,
                     kMaskSqPsn = 1 << 16, kMaskCap = 1 << 19, kMaskPeer = 1 << 20;
// Of reliable connections alone.
inline constexpr int kMaskTimeout = 1 << 9, kMaskRetries = 1 << 10, kMaskRnrRetries = 1 << 11,
                     kMaskReads = 1 << 13, kMaskRnrTimer = 1 << 15, kMaskPeerReads = 1 << 17;

struct Context;
struct Pd;
struct Cq;
struct Qp;

struct Device {
    void* ops[2];
    int node_type;
    int transport_type;
    char name[64];
    char dev_name[64];
    char dev_path[256];
    char ibdev_path[256];
};

struct PortAttr {
    PortState state;
    Mtu max_mtu;
    Mtu active_mtu;
    int gid_tbl_len;
    uint32_t port_cap_flags;
    uint32_t max_msg_sz;
    uint32_t bad_pkey_cntr;
    uint32_t qkey_viol_cntr;
    uint16_t pkey_tbl_len;
    uint16_t lid;
    uint16_t sm_lid;
    uint8_t rest[9];
    uint8_t flags;
    uint16_t port_cap_flags2;
};

struct Wc {
    uint64_t wr_id;
    WcStatus status;
    WcOpcode opcode;
    uint32_t vendor_err;
    uint32_t byte_len;
    uint32_t imm_data;
    uint32_t qp_num;
    uint32_t src_qp;
    unsigned wc_flags;
    uint16_t pkey_index;
    uint16_t slid;
    uint8_t sl;
    uint8_t dlid_path_bits;
};

struct Mr {
    Context* context;
    Pd* pd;
    void* addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

struct Pd {
    Context* context;
    uint32_t handle;
};

struct GlobalRoute {
    Gid dgid;
    uint32_t flow_label;
    uint8_t sgid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
};

struct AhAttr {
    GlobalRoute grh;
    uint16_t dlid;
    uint8_t sl;
    uint8_t src_path_bits;
    uint8_t static_rate;
    uint8_t is_global;
    uint8_t port_num;
};

struct QpCap {
    uint32_t max_send_wr;
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data;
};

struct QpInitAttr {
    void* qp_context;
    Cq* send_cq;
    Cq* recv_cq;
    void* srq;
    QpCap cap;
    QpType qp_type;
    int sq_sig_all;
};

struct QpAttr {
    QpState qp_state;
    QpState cur_qp_state;
    Mtu path_mtu;
    int path_mig_state;
    uint32_t qkey;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t dest_qp_num;
    unsigned qp_access_flags;
    QpCap cap;
    AhAttr ah_attr;
    AhAttr alt_ah_attr;
    uint16_t pkey_index;
    uint16_t alt_pkey_index;
    uint8_t en_sqd_async_notify;
    uint8_t sq_draining;
    uint8_t max_rd_atomic;
    uint8_t max_dest_rd_atomic;
    uint8_t min_rnr_timer;
    uint8_t port_num;
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t rnr_retry;
    uint8_t alt_port_num;
    uint8_t alt_timeout;
    uint32_t rate_limit;
};

struct Sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

struct SendWr {
    uint64_t wr_id;
    SendWr* next;
    Sge* sg_list;
    int num_sge;
    WrOpcode opcode;
    unsigned send_flags;
    uint32_t imm_data;
    uint64_t rest[11];  // of other opcodes
};

struct RecvWr {
    uint64_t wr_id;
    RecvWr* next;
    Sge* sg_list;
    int num_sge;
};

struct Qp {
    Context* context;
    void* qp_context;
    Pd* pd;
    Cq* send_cq;
    Cq* recv_cq;
    void* srq;
    uint32_t handle;
    uint32_t qp_num;
    QpState state;
    QpType qp_type;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

struct Cq {
    Context* context;
    void* channel;
    void* cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed;
    uint32_t async_events_completed;
};

// The three that are called for every message are functions of the device's driver.
struct ContextOps {
    void* before_poll[11];
    int (*poll_cq)(Cq*, int entries, Wc*);
    void* before_post[13];
    int (*post_send)(Qp*, SendWr*, SendWr** bad);
    int (*post_recv)(Qp*, RecvWr*, RecvWr** bad);
    void* after_post[5];
};

struct Context {
    Device* device;
    ContextOps ops;
    int cmd_fd;
    int async_fd;
    int num_comp_vectors;
    pthread_mutex_t mutex;
    void* abi_compat;
};

}  // namespace pomona::verbs
