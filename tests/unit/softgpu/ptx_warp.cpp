// Warp-level instructions, barriers with reductions, atomics, memory spaces and widths, indirect jumps: PTX
// by hand.
#include <catch2/catch.hpp>

#include "tests/unit/softgpu/ptx_apply.h"

using namespace softgpu::ptx;
using namespace softgpu::ptx::test;

namespace {

/// A kernel of one block whose `body` has %i (thread), %x (address of this thread's result word) and %base.
struct Kernel {
    explicit Kernel(const std::string& body, const std::string& before = "") {
        module = load_text(
            ".version 8.7\n.target sm_90\n.address_size 64\n" + before +
                ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<8>;\n.reg .b32 %i, %r<32>;\n.reg .b64 "
                "%base, %x, %rd<16>;\n.reg .b128 %q<2>;\n.reg .f32 %f<8>;\n.reg .f64 %fd<8>;\n"
                ".reg .b16 %h<8>;\nld.param.u64 %base, [out];\nmov.u32 %i, %tid.x;\nmul.wide.u32 %x, %i, "
                "4;\nadd.u64 %x, %x, %base;\n" +
                body + "\nret;\n}\n",
            memory);
    }
    std::vector<u32> run(u32 threads, std::size_t words, std::vector<u32> init = {}) {
        Array<u32> out(memory, words);
        for (std::size_t k = 0; k < init.size(); ++k) out[k] = init[k];
        LaunchResult r =
            test::run(*module, "k", memory, {1, 1, 1}, {threads, 1, 1}, Params(out), 0, 0, 10'000'000);
        INFO(r.detail);
        REQUIRE(r.fault == Fault::none);
        return {out.data(), out.data() + words};
    }
    TestMemory memory;
    std::unique_ptr<Module> module;
};

}  // namespace

TEST_CASE("shfl in all modes and widths", "[ptx][conformance]") {
    struct Mode {
        const char* name;
        int kind;
    };
    for (Mode m : {Mode{"up", 0}, Mode{"down", 1}, Mode{"bfly", 2}, Mode{"idx", 3}}) {
        for (u32 width : {32U, 16U, 8U, 4U}) {
            for (u32 b : {0U, 1U, 3U, 5U, 17U, 31U}) {
                u32 segment = 32 - width, clamp = m.kind == 0 ? 0 : 31, c = segment << 8 | clamp;
                Kernel k(
                    "mul.lo.u32 %r1, %i, 3;\nshfl.sync." + std::string(m.name) + ".b32 %r2|%p1, %r1, " +
                    std::to_string(b) + ", " + std::to_string(c) +
                    ", -1;\nselp.u32 %r3, 1000, 0, %p1;\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%x], %r2;");
                auto out = k.run(32, 32);
                for (int lane = 0; lane < 32; ++lane) {
                    int base = lane / int(width) * int(width), in = lane - base, from = 0;
                    bool ok = true;
                    if (m.kind == 0) from = in - int(b), ok = from >= 0;
                    if (m.kind == 1) from = in + int(b), ok = from < int(width);
                    if (m.kind == 2) {
                        from = (lane ^ int(b)) - base;
                        ok = (lane ^ int(b)) <= base + int(width) - 1;
                    }
                    if (m.kind == 3) from = int(b) % int(width);
                    int source = ok ? base + from : lane;
                    INFO(m.name << " width " << width << " b " << b << " lane " << lane);
                    REQUIRE(out[std::size_t(lane)] == u32(source * 3 + (ok ? 1000 : 0)));
                }
            }
        }
    }
}

TEST_CASE("vote, match, redux, elect, activemask", "[ptx][conformance]") {
    Kernel aligned(R"(
setp.lt.u32 %p1, %i, 5;
vote.sync.ballot.b32 %r1, %p1, -1;
vote.sync.any.pred %p3, %p1, -1;
vote.sync.uni.pred %p4, !%p1, -1;
selp.u32 %r2, 1, 0, %p3;
selp.u32 %r3, 2, 0, %p4;
or.b32 %r2, %r2, %r3;
and.b32 %r4, %i, 3;
match.any.sync.b32 %r5, %r4, -1;
match.all.sync.b32 %r6|%p5, %r4, -1;
redux.sync.add.u32 %r7, %i, -1;
neg.s32 %r8, %i;
redux.sync.min.s32 %r9, %r8, -1;
redux.sync.max.u32 %r10, %i, -1;
elect.sync %r11|%p6, -1;
selp.u32 %r12, 7, 9, %p6;
shl.b32 %r20, %i, 5;
cvt.u64.u32 %rd1, %r20;
add.u64 %rd1, %rd1, %base;
st.global.v4.u32 [%rd1], {%r1, %r2, %r5, %r6};
st.global.v4.u32 [%rd1+16], {%r7, %r9, %r10, %r12};)");
    auto out = aligned.run(32, 256);
    for (u32 t = 0; t < 32; ++t) {
        const u32* o = out.data() + t * 8;
        REQUIRE(o[0] == 0x1fU);
        REQUIRE(o[1] == 1U);
        REQUIRE(o[2] == 0x11111111U << (t & 3));
        REQUIRE(o[3] == 0U);
        REQUIRE(o[4] == 496U);
        REQUIRE(int(o[5]) == -31);
        REQUIRE(o[6] == 31U);
        REQUIRE(o[7] == (t == 0 ? 7U : 9U));
    }
}

TEST_CASE("named barriers and barrier reductions", "[ptx][conformance]") {
    Kernel k(R"(
.shared .b32 s[128];
setp.lt.u32 %p1, %i, 10;
bar.red.popc.u32 %r1, 0, %p1;
bar.red.and.pred %p2, 0, %p1;
bar.red.or.pred %p3, 0, %p1;
selp.u32 %r2, 100, 0, %p2;
selp.u32 %r3, 1000, 0, %p3;
add.u32 %r1, %r1, %r2;
add.u32 %r1, %r1, %r3;
shl.b32 %r4, %i, 2;
mov.u32 %r5, s;
add.u32 %r6, %r5, %r4;
setp.lt.u32 %p4, %i, 64;
@%p4 bra PRODUCER;
barrier.cta.sync 3, 128;
ld.shared.u32 %r7, [%r6+-256];
add.u32 %r1, %r1, %r7;
bra DONE;
PRODUCER:
mul.lo.u32 %r8, %i, 7;
st.shared.u32 [%r6], %r8;
barrier.cta.arrive 3, 128;
DONE:
bar.warp.sync 0xffffffff;
st.global.u32 [%x], %r1;)");
    auto out = k.run(128, 128);
    for (u32 t = 0; t < 128; ++t) REQUIRE(out[t] == 1010 + (t < 64 ? 0 : (t - 64) * 7));
}

TEST_CASE("atomics of all operations", "[ptx][conformance]") {
    struct Case {
        const char* op;
        u32 init, want;
    };
    auto fold = [](u32 v, auto f) {
        for (u32 t = 0; t < 32; ++t) v = f(v, t * 5);
        return v;
    };
    std::vector<Case> cases = {
        {"add.u32", 7, fold(7, [](u32 a, u32 b) { return a + b; })},
        {"min.u32", 99, 0},
        {"max.u32", 99, 155},
        {"min.s32", 0xfffffff0U, 0xfffffff0U},
        {"max.s32", 0xfffffff0U, 155},
        {"and.b32", 0xffffffffU, 0},
        {"or.b32", 0, fold(0, [](u32 a, u32 b) { return a | b; })},
        {"xor.b32", 1, fold(1, [](u32 a, u32 b) { return a ^ b; })},
        {"exch.b32", 3, 155},
        {"inc.u32", 40, fold(40, [](u32 a, u32 b) { return a >= b ? 0 : a + 1; })},
        {"dec.u32", 40, fold(40, [](u32 a, u32 b) { return a == 0 || a > b ? b : a - 1; })},
    };
    for (const Case& c : cases) {
        for (const char* space : {".global", ".shared", ""}) {
            std::string s = space, address = s == ".shared" ? "%r5" : s.empty() ? "%rd5" : "%base";
            Kernel k(
                ".shared .b32 cell;\nmov.u32 %r5, cell;\ncvt.u64.u32 %rd5, %r5;\ncvta.shared.u64 %rd5, "
                "%rd5;\nld.global.u32 %r9, [%base];\n"
                "setp.eq.u32 %p1, %i, 0;\n@%p1 st.shared.u32 [%r5], %r9;\nbar.sync 0;\nmul.lo.u32 %r1, %i, "
                "5;\natom" +
                s + "." + c.op + " %r2, [" + address +
                "], %r1;\nst.global.u32 [%x+16], %r2;\nbar.sync 0;\n@%p1 ld" + s + ".u32 %r3, [" + address +
                "];\n@%p1 st.global.u32 [%base+8], %r3;");
            auto out = k.run(32, 64, {c.init});
            INFO(c.op << " in " << space);
            REQUIRE(out[2] == c.want);
            REQUIRE(out[4] == c.init);  // thread 0 is first and sees the initial value
        }
    }
    Kernel cas("atom.global.cas.b32 %r1, [%base], %i, 77;\nst.global.u32 [%x+16], %r1;");
    auto out = cas.run(32, 64, {5});
    REQUIRE(out[0] == 77);
    for (u32 t = 0; t < 32; ++t) REQUIRE(out[4 + t] == (t <= 5 ? 5U : 77U));
    // Wide and float ones.
    Kernel wide(R"(
cvt.u64.u32 %rd1, %i;
atom.global.add.u64 %rd2, [%base], %rd1;
cvt.rn.f64.u32 %fd1, %i;
atom.global.add.f64 %fd2, [%base+8], %fd1;
cvt.rn.f32.u32 %f1, %i;
red.global.add.f32 [%base+16], %f1;
mov.b32 %r1, 0x3c003c00;
red.global.add.noftz.f16x2 [%base+20], %r1;
mov.b64 %rd3, 1;
mov.b128 %q0, {%rd1, %rd3};
atom.global.exch.b128 %q1, [%base+32], %q0;
mov.b16 %h1, 3;
setp.eq.u32 %p1, %i, 0;
@%p1 atom.global.cas.b16 %h2, [%base+48], 0, %h1;)");
    auto w = wide.run(32, 64);
    REQUIRE(w[0] == 496);
    REQUIRE(as<double>(u64(w[2]) | u64(w[3]) << 32) == 496.0);
    REQUIRE(as<float>(w[4]) == 496.0F);
    REQUIRE(w[5] == 0x50005000U);  // 32.0 twice
    REQUIRE(w[8] == 31);
    REQUIRE(w[10] == 1);
    REQUIRE(w[12] == 3);
}

TEST_CASE("loads and stores of every width and space", "[ptx][conformance]") {
    Kernel k(R"(
.local .align 16 .b8 stack[64];
.shared .align 16 .b8 shared[2048];
mov.u64 %rd1, stack;
cvta.local.u64 %rd2, %rd1;
mov.u32 %r1, shared;
shl.b32 %r2, %i, 5;
add.u32 %r1, %r1, %r2;
cvt.u64.u32 %rd3, %r1;
cvta.shared.u64 %rd4, %rd3;
add.u32 %r3, %i, 0x81828384;
st.local.u32 [%rd1+8], %r3;
ld.local.s8 %r4, [%rd1+9];
ld.u8 %r5, [%rd2+10];
ld.local.u16 %r6, [%rd1+10];
ld.s16 %r7, [%rd2+8];
cvt.u64.u32 %rd5, %r3;
mad.wide.u32 %rd5, %r3, %r3, %rd5;
st.u64 [%rd2+16], %rd5;
ld.local.v2.u32 {%r8, %r9}, [%rd1+16];
st.shared.v4.b32 [%r1], {%r4, %r5, %r6, %r7};
ld.v2.u64 {%rd6, %rd7}, [%rd4];
mov.b64 {%r10, %r11}, %rd6;
mov.b64 {%r12, %r13}, %rd7;
st.v2.u32 [%rd4+16], {%r8, %r9};
ld.shared.u64 %rd8, [%rd3+16];
setp.eq.u64 %p1, %rd8, %rd5;
selp.u32 %r14, 1, 0, %p1;
isspacep.shared %p2, %rd4;
isspacep.local %p3, %rd2;
isspacep.global %p4, %base;
selp.u32 %r15, 2, 0, %p2;
selp.u32 %r16, 4, 0, %p3;
selp.u32 %r17, 8, 0, %p4;
add.u32 %r14, %r14, %r15;
add.u32 %r14, %r14, %r16;
add.u32 %r14, %r14, %r17;
mul.wide.u32 %rd9, %i, 32;
add.u64 %rd9, %rd9, %base;
st.global.v4.u32 [%rd9], {%r10, %r11, %r12, %r13};
st.global.u8 [%rd9+16], %r14;
st.global.u16 [%rd9+18], %r14;
ld.const.u32 %r18, [table+4];
ld.global.u32 %r19, [gvar];
st.global.v2.u32 [%rd9+24], {%r18, %r19};)",
             ".const .align 4 .u32 table[3] = {1, 0xabc, 3};\n.global .align 4 .u32 gvar = 4711;\n");
    auto out = k.run(64, 64 * 8);
    for (u32 t = 0; t < 64; ++t) {
        u32 v = 0x81828384U + t;
        const u32* o = out.data() + t * 8;
        REQUIRE(o[0] == u32(i32(i8(v >> 8))));
        REQUIRE(o[1] == ((v >> 16) & 0xff));
        REQUIRE(o[2] == v >> 16);
        REQUIRE(o[3] == u32(i32(i16(v))));
        REQUIRE(o[4] == (15U | 15U << 16));
        REQUIRE(o[6] == 0xabc);
        REQUIRE(o[7] == 4711);
    }
}

TEST_CASE("indexed branches and indirect calls", "[ptx][conformance]") {
    Kernel k(R"(
and.b32 %r1, %i, 3;
targets: .branchtargets A, B, C, D;
brx.idx %r1, targets;
A: mov.u32 %r2, 10; bra.uni E;
B: mov.u32 %r2, 20; bra.uni E;
C: mov.u32 %r2, 30; bra.uni E;
D: mov.u32 %r2, 40;
E:
shr.u32 %r3, %i, 2;
and.b32 %r3, %r3, 1;
mul.wide.u32 %rd1, %r3, 8;
mov.u64 %rd2, pointers;
add.u64 %rd2, %rd2, %rd1;
ld.global.u64 %rd3, [%rd2];
{
.param .b32 a;
.param .b32 r;
st.param.b32 [a], %r2;
proto: .callprototype (.param .b32 _) _ (.param .b32 _);
call (r), %rd3, (a), proto;
ld.param.b32 %r2, [r];
}
st.global.u32 [%x], %r2;)",
             ".func (.param .b32 r) inc(.param .b32 a)\n{\n.reg .b32 %t;\nld.param.b32 %t, [a];\nadd.u32 %t, "
             "%t, 1;\nst.param.b32 [r], %t;\nret;\n}\n"
             ".func (.param .b32 r) neg(.param .b32 a)\n{\n.reg .b32 %t;\nld.param.b32 %t, [a];\nneg.s32 %t, "
             "%t;\nst.param.b32 [r], %t;\nret;\n}\n"
             ".global .align 8 .u64 pointers[2] = {inc, neg};\n");
    auto out = k.run(32, 32);
    for (u32 t = 0; t < 32; ++t) {
        int v = int(t % 4 + 1) * 10;
        REQUIRE(int(out[t]) == (t / 4 % 2 ? -v : v + 1));
    }
}
