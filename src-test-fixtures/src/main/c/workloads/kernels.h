/* What the workloads run on a GPU: `increment` adds one to a number there, `spin` keeps it busy for so many nanoseconds. */
#ifndef WORKLOAD_KERNELS_H
#define WORKLOAD_KERNELS_H

static const char ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry increment(.param .u64 value)\n{\n"
    "  .reg .u32 %r<3>;\n  .reg .u64 %rd<3>;\n"
    "  ld.param.u64 %rd1, [value];\n"
    "  cvta.to.global.u64 %rd2, %rd1;\n"
    "  ld.global.u32 %r1, [%rd2];\n"
    "  add.u32 %r2, %r1, 1;\n"
    "  st.global.u32 [%rd2], %r2;\n"
    "  ret;\n}\n"
    ".visible .entry spin(.param .u64 nanoseconds)\n{\n"
    "  .reg .pred %p<2>;\n  .reg .u64 %rd<5>;\n"
    "  ld.param.u64 %rd1, [nanoseconds];\n"
    "  mov.u64 %rd2, %globaltimer;\n"
    "again:\n"
    "  mov.u64 %rd3, %globaltimer;\n"
    "  sub.u64 %rd4, %rd3, %rd2;\n"
    "  setp.lt.u64 %p1, %rd4, %rd1;\n"
    "  @%p1 bra again;\n"
    "  ret;\n}\n";

#endif
