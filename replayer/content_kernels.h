// The device code of replayer/content_hash.h as PTX, which every driver compiles for the device it finds.
#pragma once

namespace swapadvisor {

// Two bijections of a word, each with a constant of its own for its place, are added to %a and %b.
#define SWAPADVISOR_ABSORB(WORD)                                         \
    "\tmad.lo.u64 %x, %place, 0x9E3779B97F4A7C15, " WORD                 \
    ";\n"                                                                \
    "\tshr.u64 %y, %x, 32;\n"                                            \
    "\txor.b64 %x, %x, %y;\n"                                            \
    "\tmul.lo.u64 %x, %x, 0xD6E8FEB86659FD93;\n"                         \
    "\tshr.u64 %y, %x, 32;\n"                                            \
    "\txor.b64 %x, %x, %y;\n"                                            \
    "\tmul.lo.u64 %x, %x, 0xD6E8FEB86659FD93;\n"                         \
    "\tshr.u64 %y, %x, 32;\n"                                            \
    "\txor.b64 %x, %x, %y;\n"                                            \
    "\tadd.u64 %a, %a, %x;\n"                                            \
    "\tmad.lo.u64 %x, %place, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9;\n" \
    "\txor.b64 %x, %x, " WORD                                            \
    ";\n"                                                                \
    "\tshr.u64 %y, %x, 30;\n"                                            \
    "\txor.b64 %x, %x, %y;\n"                                            \
    "\tmul.lo.u64 %x, %x, 0xBF58476D1CE4E5B9;\n"                         \
    "\tshr.u64 %y, %x, 27;\n"                                            \
    "\txor.b64 %x, %x, %y;\n"                                            \
    "\tmul.lo.u64 %x, %x, 0x94D049BB133111EB;\n"                         \
    "\tshr.u64 %y, %x, 31;\n"                                            \
    "\txor.b64 %x, %x, %y;\n"                                            \
    "\tadd.u64 %b, %b, %x;\n"

// %i: the thread's number, %stride: how many there are, %pairs: whole 16 bytes of %bytes.
#define SWAPADVISOR_GRID_STRIDE      \
    "\tmov.u32 %t, %tid.x;\n"        \
    "\tmov.u32 %n, %ntid.x;\n"       \
    "\tmov.u32 %c, %ctaid.x;\n"      \
    "\tmad.lo.u32 %t, %c, %n, %t;\n" \
    "\tmov.u32 %c, %nctaid.x;\n"     \
    "\tmul.lo.u32 %n, %n, %c;\n"     \
    "\tcvt.u64.u32 %i, %t;\n"        \
    "\tcvt.u64.u32 %stride, %n;\n"   \
    "\tshr.u64 %pairs, %bytes, 4;\n"

/// `hash`(data, bytes, sum): adds to the two words at `sum` two mixes of each 16 bytes and their place. Sums
/// do not depend on the order of their terms, so any grid gives the same. `data` is aligned to 16 bytes; what
/// is left over at the end is taken byte by byte, as words with places of their own.
/// `copy_if_changed`(from, to, bytes, before, now, flag): nothing if the two words at `before` equal those at
/// `now`, else a copy, and 1 at `flag`. `from` and `to` are aligned to 16 bytes.
constexpr const char* kContentKernels = R"(.version 6.4
.target sm_50
.address_size 64

.visible .entry hash(.param .u64 data, .param .u64 bytes, .param .u64 sum)
{
	.reg .pred %done, %other;
	.reg .b32 %t, %n, %c, %low, %high, %l2, %h2;
	.reg .b64 %data, %bytes, %sum, %i, %stride, %pairs, %at, %w0, %w1, %place, %a, %b, %o, %x, %y;
	ld.param.u64 %data, [data];
	ld.param.u64 %bytes, [bytes];
	ld.param.u64 %sum, [sum];
	cvta.to.global.u64 %data, %data;
	cvta.to.global.u64 %sum, %sum;
)" SWAPADVISOR_GRID_STRIDE R"(	mov.u64 %a, 0;
	mov.u64 %b, 0;
WORDS:
	setp.ge.u64 %done, %i, %pairs;
	@%done bra LEFT_OVER;
	shl.b64 %at, %i, 4;
	add.u64 %at, %data, %at;
	ld.global.v2.u64 {%w0, %w1}, [%at];
	shl.b64 %place, %i, 1;
)" SWAPADVISOR_ABSORB("%w0") R"(	add.u64 %place, %place, 1;
)" SWAPADVISOR_ABSORB("%w1") R"(	add.u64 %i, %i, %stride;
	bra WORDS;
LEFT_OVER:
	setp.ne.u32 %other, %t, 0;
	@%other bra SUM;
	shl.b64 %place, %pairs, 1;
	shl.b64 %i, %pairs, 4;
BYTES:
	setp.ge.u64 %done, %i, %bytes;
	@%done bra SUM;
	add.u64 %at, %data, %i;
	ld.global.u8 %w0, [%at];
)" SWAPADVISOR_ABSORB("%w0") R"(	add.u64 %place, %place, 1;
	add.u64 %i, %i, 1;
	bra BYTES;
SUM:
	bar.warp.sync 0xffffffff;
	mov.u32 %c, 16;
FOLD:
	mov.b64 {%low, %high}, %a;
	shfl.sync.down.b32 %l2, %low, %c, 31, 0xffffffff;
	shfl.sync.down.b32 %h2, %high, %c, 31, 0xffffffff;
	mov.b64 %o, {%l2, %h2};
	add.u64 %a, %a, %o;
	mov.b64 {%low, %high}, %b;
	shfl.sync.down.b32 %l2, %low, %c, 31, 0xffffffff;
	shfl.sync.down.b32 %h2, %high, %c, 31, 0xffffffff;
	mov.b64 %o, {%l2, %h2};
	add.u64 %b, %b, %o;
	shr.u32 %c, %c, 1;
	setp.ne.u32 %done, %c, 0;
	@%done bra FOLD;
	and.b32 %t, %t, 31;
	setp.ne.u32 %other, %t, 0;
	@%other ret;
	red.global.add.u64 [%sum], %a;
	red.global.add.u64 [%sum+8], %b;
	ret;
}

.visible .entry copy_if_changed(.param .u64 from, .param .u64 to, .param .u64 bytes, .param .u64 before,
                                .param .u64 now, .param .u64 flag)
{
	.reg .pred %done, %same0, %same1;
	.reg .b32 %t, %n, %c;
	.reg .b64 %from, %to, %bytes, %before, %now, %flag, %i, %stride, %pairs, %at, %w0, %w1, %v0, %v1;
	ld.param.u64 %before, [before];
	ld.param.u64 %now, [now];
	cvta.to.global.u64 %before, %before;
	cvta.to.global.u64 %now, %now;
	ld.global.v2.u64 {%w0, %w1}, [%before];
	ld.global.v2.u64 {%v0, %v1}, [%now];
	setp.eq.u64 %same0, %w0, %v0;
	setp.eq.u64 %same1, %w1, %v1;
	and.pred %same0, %same0, %same1;
	@%same0 ret;
	ld.param.u64 %from, [from];
	ld.param.u64 %to, [to];
	ld.param.u64 %bytes, [bytes];
	cvta.to.global.u64 %from, %from;
	cvta.to.global.u64 %to, %to;
)" SWAPADVISOR_GRID_STRIDE R"(WORDS:
	setp.ge.u64 %done, %i, %pairs;
	@%done bra LEFT_OVER;
	shl.b64 %at, %i, 4;
	add.u64 %w0, %from, %at;
	add.u64 %w1, %to, %at;
	ld.global.v2.u64 {%v0, %v1}, [%w0];
	st.global.v2.u64 [%w1], {%v0, %v1};
	add.u64 %i, %i, %stride;
	bra WORDS;
LEFT_OVER:
	setp.ne.u32 %done, %t, 0;
	@%done ret;
	ld.param.u64 %flag, [flag];
	cvta.to.global.u64 %flag, %flag;
	mov.u32 %c, 1;
	st.global.u32 [%flag], %c;
	shl.b64 %i, %pairs, 4;
BYTES:
	setp.ge.u64 %done, %i, %bytes;
	@%done ret;
	add.u64 %w0, %from, %i;
	add.u64 %w1, %to, %i;
	ld.global.u8 %c, [%w0];
	st.global.u8 [%w1], %c;
	add.u64 %i, %i, 1;
	bra BYTES;
}
)";

#undef SWAPADVISOR_GRID_STRIDE
#undef SWAPADVISOR_ABSORB

}  // namespace swapadvisor
