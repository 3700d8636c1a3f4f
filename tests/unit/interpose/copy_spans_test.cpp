#include "interpose/copy_spans.h"

#include <catch2/catch.hpp>

using namespace swapadvisor;

TEST_CASE("2D copies: first to past the last byte") {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = reinterpret_cast<const void*>(1000);
    copy.srcPitch = 100;
    copy.srcXInBytes = 7;
    copy.srcY = 2;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = 1 << 20;
    copy.dstPitch = 64;
    copy.WidthInBytes = 64;
    copy.Height = 5;
    CopySpan from = source_of(copy), to = destination_of(copy);
    CHECK(from.host == reinterpret_cast<const void*>(1000 + 2 * 100 + 7));
    CHECK(from.address == 0);
    CHECK(from.bytes == 4 * 100 + 64);
    CHECK(from.pitched);
    CHECK(to.address == 1 << 20);
    CHECK(to.bytes == 5 * 64);
    CHECK_FALSE(to.pitched);  // rows touch each other: every byte is written

    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    CHECK(destination_of(copy).bytes == 0);
    CHECK(destination_of(copy).address == 0);
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    CHECK(destination_of(copy).address == 1 << 20);
    copy.Height = 0;
    CHECK(source_of(copy).bytes == 0);
}

TEST_CASE("3D copies: slices with gaps are pitched") {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = 4096;
    copy.srcPitch = 32;
    copy.srcHeight = 8;
    copy.srcZ = 1;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = 1 << 20;
    copy.dstPitch = 32;
    copy.dstHeight = 4;
    copy.WidthInBytes = 32;
    copy.Height = 4;
    copy.Depth = 3;
    CHECK(source_of(copy).address == 4096 + 8 * 32);
    CHECK(source_of(copy).bytes == (2 * 8 + 3) * 32 + 32);
    CHECK(source_of(copy).pitched);
    CHECK(destination_of(copy).bytes == 3 * 4 * 32);
    CHECK_FALSE(destination_of(copy).pitched);
}

TEST_CASE("memsets: a single row ignores the pitch") {
    CHECK(set_span(64, 5, 4, 10, 1).bytes == 40);
    CHECK(set_span(64, 256, 2, 10, 3).bytes == 2 * 256 + 20);
    CHECK(set_span(64, 256, 2, 10, 3).pitched);
    CHECK(set_span(64, 256, 2, 0, 3).bytes == 0);
}
