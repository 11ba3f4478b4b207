// tests/verbs/verbs_abi.cc: Pomona's declarations of the verbs interface are those of rdma-core's
// header and library.
// Goal: no field that is used stands elsewhere, and no function is missing. Method: static
// assertions, where the header is there (.ci/run installs it); the library, where that is.
#include "btl/rdma/verbs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace pomona::rdma {

// Whether it knows devices depends on the machine.
TEST(VerbsAbi, the_systems_library_has_all_functions) {
    unsetenv("POMONA_VERBS");
    std::string why;
    auto library = Library::open(why);
    if (!library && why.find("has no function") == std::string::npos) GTEST_SKIP() << why;
    ASSERT_TRUE(library) << why;
    Reason hangs;
    for (const std::string& name : device_names(library, "", hangs)) EXPECT_NE(name, "");
}

}  // namespace pomona::rdma

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

namespace pomona::verbs {

#define SAME_SIZE(own, theirs) static_assert(sizeof(own) == sizeof(theirs))
#define SAME_PLACE(own, theirs, field)                                                             \
    static_assert(offsetof(own, field) == offsetof(theirs, field))

SAME_SIZE(Gid, ibv_gid);
SAME_SIZE(Device, ibv_device);
SAME_PLACE(Device, ibv_device, name);
// Newer headers have more behind it; the library's function ibv_query_port fills in what stands
// here.
static_assert(sizeof(PortAttr) <= sizeof(ibv_port_attr));
SAME_PLACE(PortAttr, ibv_port_attr, state);
SAME_PLACE(PortAttr, ibv_port_attr, active_mtu);
SAME_PLACE(PortAttr, ibv_port_attr, gid_tbl_len);
SAME_PLACE(PortAttr, ibv_port_attr, max_msg_sz);
SAME_PLACE(PortAttr, ibv_port_attr, lid);
SAME_PLACE(PortAttr, ibv_port_attr, flags);
SAME_PLACE(PortAttr, ibv_port_attr, port_cap_flags2);
SAME_SIZE(Wc, ibv_wc);
SAME_PLACE(Wc, ibv_wc, wr_id);
SAME_PLACE(Wc, ibv_wc, status);
SAME_PLACE(Wc, ibv_wc, opcode);
SAME_PLACE(Wc, ibv_wc, byte_len);
SAME_PLACE(Wc, ibv_wc, qp_num);
SAME_SIZE(Mr, ibv_mr);
SAME_PLACE(Mr, ibv_mr, lkey);
SAME_SIZE(Pd, ibv_pd);
SAME_SIZE(GlobalRoute, ibv_global_route);
SAME_PLACE(GlobalRoute, ibv_global_route, dgid);
SAME_PLACE(GlobalRoute, ibv_global_route, sgid_index);
SAME_PLACE(GlobalRoute, ibv_global_route, hop_limit);
SAME_SIZE(AhAttr, ibv_ah_attr);
SAME_PLACE(AhAttr, ibv_ah_attr, dlid);
SAME_PLACE(AhAttr, ibv_ah_attr, is_global);
SAME_PLACE(AhAttr, ibv_ah_attr, port_num);
SAME_SIZE(QpCap, ibv_qp_cap);
SAME_SIZE(QpInitAttr, ibv_qp_init_attr);
SAME_PLACE(QpInitAttr, ibv_qp_init_attr, cap);
SAME_PLACE(QpInitAttr, ibv_qp_init_attr, qp_type);
SAME_SIZE(QpAttr, ibv_qp_attr);
SAME_PLACE(QpAttr, ibv_qp_attr, qp_state);
SAME_PLACE(QpAttr, ibv_qp_attr, path_mtu);
SAME_PLACE(QpAttr, ibv_qp_attr, rq_psn);
SAME_PLACE(QpAttr, ibv_qp_attr, sq_psn);
SAME_PLACE(QpAttr, ibv_qp_attr, dest_qp_num);
SAME_PLACE(QpAttr, ibv_qp_attr, qp_access_flags);
SAME_PLACE(QpAttr, ibv_qp_attr, cap);
SAME_PLACE(QpAttr, ibv_qp_attr, ah_attr);
SAME_PLACE(QpAttr, ibv_qp_attr, port_num);
SAME_PLACE(QpAttr, ibv_qp_attr, max_rd_atomic);
SAME_PLACE(QpAttr, ibv_qp_attr, max_dest_rd_atomic);
SAME_PLACE(QpAttr, ibv_qp_attr, min_rnr_timer);
SAME_PLACE(QpAttr, ibv_qp_attr, timeout);
SAME_PLACE(QpAttr, ibv_qp_attr, retry_cnt);
SAME_PLACE(QpAttr, ibv_qp_attr, rnr_retry);
SAME_SIZE(Sge, ibv_sge);
SAME_PLACE(Sge, ibv_sge, addr);
SAME_PLACE(Sge, ibv_sge, length);
SAME_PLACE(Sge, ibv_sge, lkey);
SAME_SIZE(SendWr, ibv_send_wr);
SAME_PLACE(SendWr, ibv_send_wr, sg_list);
SAME_PLACE(SendWr, ibv_send_wr, opcode);
SAME_PLACE(SendWr, ibv_send_wr, send_flags);
SAME_SIZE(RecvWr, ibv_recv_wr);
SAME_PLACE(RecvWr, ibv_recv_wr, num_sge);
SAME_SIZE(Qp, ibv_qp);
SAME_PLACE(Qp, ibv_qp, qp_num);
SAME_PLACE(Qp, ibv_qp, state);
SAME_SIZE(Cq, ibv_cq);
SAME_SIZE(ContextOps, ibv_context_ops);
SAME_PLACE(ContextOps, ibv_context_ops, poll_cq);
SAME_PLACE(ContextOps, ibv_context_ops, post_send);
SAME_PLACE(ContextOps, ibv_context_ops, post_recv);
SAME_SIZE(Context, ibv_context);
SAME_PLACE(Context, ibv_context, ops);

template <class Own, class Theirs> constexpr bool same(Own own, Theirs theirs) {
    return static_cast<long>(own) == static_cast<long>(theirs);
}
static_assert(same(kPortDown, IBV_PORT_DOWN) && same(kPortActive, IBV_PORT_ACTIVE));
static_assert(same(kMtu256, IBV_MTU_256) && same(kMtu1024, IBV_MTU_1024) &&
              same(kMtu4096, IBV_MTU_4096));
static_assert(same(kRc, IBV_QPT_RC) && same(kUc, IBV_QPT_UC));
static_assert(same(kReset, IBV_QPS_RESET) && same(kInit, IBV_QPS_INIT) && same(kRtr, IBV_QPS_RTR) &&
              same(kRts, IBV_QPS_RTS) && same(kError, IBV_QPS_ERR));
static_assert(same(kSuccess, IBV_WC_SUCCESS) && same(kLocalLength, IBV_WC_LOC_LEN_ERR) &&
              same(kLocalProtection, IBV_WC_LOC_PROT_ERR) && same(kFlushed, IBV_WC_WR_FLUSH_ERR));
static_assert(same(kSent, IBV_WC_SEND) && same(kReceived, IBV_WC_RECV));
static_assert(same(kRdmaWrite, IBV_WR_RDMA_WRITE) && same(kSend, IBV_WR_SEND));
static_assert(same(kSignaled, IBV_SEND_SIGNALED) && same(kInline, IBV_SEND_INLINE));
static_assert(same(kLocalWrite, IBV_ACCESS_LOCAL_WRITE) &&
              same(kRemoteWrite, IBV_ACCESS_REMOTE_WRITE) &&
              same(kRemoteRead, IBV_ACCESS_REMOTE_READ));
static_assert(same(kMaskState, IBV_QP_STATE) && same(kMaskAccess, IBV_QP_ACCESS_FLAGS) &&
              same(kMaskPkey, IBV_QP_PKEY_INDEX) && same(kMaskPort, IBV_QP_PORT) &&
              same(kMaskAv, IBV_QP_AV) && same(kMaskMtu, IBV_QP_PATH_MTU) &&
              same(kMaskRqPsn, IBV_QP_RQ_PSN) && same(kMaskSqPsn, IBV_QP_SQ_PSN) &&
              same(kMaskCap, IBV_QP_CAP) && same(kMaskPeer, IBV_QP_DEST_QPN));
static_assert(same(kMaskTimeout, IBV_QP_TIMEOUT) && same(kMaskRetries, IBV_QP_RETRY_CNT) &&
              same(kMaskRnrRetries, IBV_QP_RNR_RETRY) &&
              same(kMaskReads, IBV_QP_MAX_QP_RD_ATOMIC) &&
              same(kMaskRnrTimer, IBV_QP_MIN_RNR_TIMER) &&
              same(kMaskPeerReads, IBV_QP_MAX_DEST_RD_ATOMIC));

TEST(VerbsAbi, is_that_of_the_header) { SUCCEED(); }

}  // namespace pomona::verbs
#else
TEST(VerbsAbi, is_that_of_the_header) { GTEST_SKIP() << "This system has no infiniband/verbs.h"; }
#endif
