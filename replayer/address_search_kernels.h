// The device code of replayer/address_search.h as PTX, which every driver compiles for the device it finds.
#pragma once

namespace swapadvisor {

/// `find`(chunks, low, span, shift, pages): a block looks through the chunk of its number, {data, bytes} of 8 bytes each.
/// For every word of 8 bytes at a multiple of 4 with word - low < span, sets bit (word - low) >> shift of the bits at `pages` (words of 4 bytes, bit 0 first).
/// `data` is a multiple of 16 and `bytes` of 4. A thread takes 16 bytes and the 4 that follow, as the upper half of
/// a word that begins in its last 4. The upper halves alone decide nearly always. The loads are volatile: others may
/// be writing there meanwhile (see replayer/hidden_addresses.h).
constexpr const char* kAddressSearchKernels = R"(.version 6.4
.target sm_50
.address_size 64

.visible .entry find(.param .u64 chunks, .param .u64 low, .param .u64 span, .param .u32 shift, .param .u64 pages)
{
	.reg .pred %done, %last, %hit, %part;
	.reg .b32 %t, %n, %c, %first, %range, %shift, %w<5>, %u<4>, %bit;
	.reg .b64 %data, %end, %bytes, %low, %span, %pages, %at, %next, %stride, %word, %to;
	ld.param.u64 %at, [chunks];
	ld.param.u64 %low, [low];
	ld.param.u64 %span, [span];
	ld.param.u32 %shift, [shift];
	ld.param.u64 %pages, [pages];
	cvta.to.global.u64 %at, %at;
	mov.u32 %c, %ctaid.x;
	mul.wide.u32 %word, %c, 16;
	add.u64 %at, %at, %word;
	ld.global.v2.u64 {%data, %bytes}, [%at];
	cvta.to.global.u64 %data, %data;
	cvta.to.global.u64 %pages, %pages;
	add.u64 %end, %data, %bytes;
	mov.u32 %t, %tid.x;
	mov.u32 %n, %ntid.x;
	mul.wide.u32 %at, %t, 16;
	add.u64 %at, %data, %at;
	mul.wide.u32 %stride, %n, 16;
	shr.u64 %word, %low, 32;
	cvt.u32.u64 %first, %word;
	add.u64 %word, %low, %span;
	sub.u64 %word, %word, 1;
	shr.u64 %word, %word, 32;
	cvt.u32.u64 %range, %word;
	sub.u32 %range, %range, %first;
LOOK:
	setp.ge.u64 %done, %at, %end;
	@%done ret;
	add.u64 %next, %at, 16;
	setp.gt.u64 %part, %next, %end;
	@%part bra PART;
	ld.volatile.global.v4.u32 {%w0, %w1, %w2, %w3}, [%at];
	bra WHOLE;
PART:
	mov.u32 %w1, 0;
	mov.u32 %w2, 0;
	mov.u32 %w3, 0;
	ld.volatile.global.u32 %w0, [%at];
	add.u64 %word, %at, 4;
	setp.lt.u64 %hit, %word, %end;
	@%hit ld.volatile.global.u32 %w1, [%word];
	add.u64 %word, %at, 8;
	setp.lt.u64 %hit, %word, %end;
	@%hit ld.volatile.global.u32 %w2, [%word];
WHOLE:
	setp.ge.u64 %last, %next, %end;
	mov.u32 %w4, 0;
	@!%last ld.volatile.global.u32 %w4, [%next];
	sub.u32 %u0, %w1, %first;
	sub.u32 %u1, %w2, %first;
	sub.u32 %u2, %w3, %first;
	sub.u32 %u3, %w4, %first;
	min.u32 %u0, %u0, %u1;
	min.u32 %u2, %u2, %u3;
	min.u32 %u0, %u0, %u2;
	setp.gt.u32 %hit, %u0, %range;
	@%hit bra NEXT;
)"
#define SWAPADVISOR_CHECK(LOWER, UPPER, SKIP) \
    "\tmov.b64 %word, {" LOWER ", " UPPER     \
    "};\n"                                    \
    "\tsub.u64 %word, %word, %low;\n"         \
    "\tsetp.ge.u64 %hit, %word, %span;\n"     \
    "\t@%hit bra " SKIP                       \
    ";\n"                                     \
    "\tshr.u64 %word, %word, %shift;\n"       \
    "\tcvt.u32.u64 %c, %word;\n"              \
    "\tand.b32 %c, %c, 31;\n"                 \
    "\tmov.u32 %bit, 1;\n"                    \
    "\tshl.b32 %bit, %bit, %c;\n"             \
    "\tshr.u64 %word, %word, 5;\n"            \
    "\tshl.b64 %word, %word, 2;\n"            \
    "\tadd.u64 %to, %pages, %word;\n"         \
    "\tred.global.or.b32 [%to], %bit;\n" SKIP ":\n"
    SWAPADVISOR_CHECK("%w0", "%w1", "SECOND") SWAPADVISOR_CHECK("%w1", "%w2", "THIRD")
        SWAPADVISOR_CHECK("%w2", "%w3", "FOURTH") SWAPADVISOR_CHECK("%w3", "%w4", "NEXT")
            R"(	add.u64 %at, %at, %stride;
	bra LOOK;
}
)";
#undef SWAPADVISOR_CHECK

}  // namespace swapadvisor
