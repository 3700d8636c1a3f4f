// Batches. Where one touches managed memory it is issued item by item, each as a batch of one: the driver
// promises no order within a batch, and each item needs only its own buffers resident. Otherwise it goes on
// as it came.
#include <algorithm>

#include "interpose/copy_spans.h"
#include "interpose/op_call.h"

namespace swapadvisor {

namespace {

/// Bytes of an element: lengths are in those of the array on either side, else in bytes.
std::size_t element_bytes(const CUmemcpy3DOperand& operand) {
    if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return 1;
    using Describe = CUresult (*)(CUDA_ARRAY3D_DESCRIPTOR*, CUarray);
    static const auto describe =
        reinterpret_cast<Describe>(real_symbol(managed_copy(), "cuArray3DGetDescriptor_v2"));
    CUDA_ARRAY3D_DESCRIPTOR array{};
    if (!describe || describe(&array, operand.op.array.array) != CUDA_SUCCESS) return 1;
    const unsigned channel =
        array.Format == CU_AD_FORMAT_FLOAT || array.Format == CU_AD_FORMAT_SIGNED_INT32 ||
                array.Format == CU_AD_FORMAT_UNSIGNED_INT32
            ? 4
        : array.Format == CU_AD_FORMAT_HALF || array.Format == CU_AD_FORMAT_SIGNED_INT16 ||
                array.Format == CU_AD_FORMAT_UNSIGNED_INT16
            ? 2
            : 1;
    return channel * std::size_t{array.NumChannels};
}

CopySpan operand_span(const CUmemcpy3DOperand& operand, const CUmemcpy3DOperand& other,
                      const CUextent3D& extent) {
    if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return {};
    const std::size_t element = element_bytes(other);
    return pitched_span(CU_MEMORYTYPE_UNIFIED, operand.op.ptr.ptr, nullptr, 0, 0, 0,
                        operand.op.ptr.rowLength * element, operand.op.ptr.layerHeight,
                        extent.width * element, extent.height, extent.depth);
}

bool managed(Runtime& runtime, CUdeviceptr address) {
    return address != 0 && runtime.is_managed(address);
}

/// `one(i)` issues item i alone and returns its result; the first failure ends the batch.
template <class Span, class One>
CUresult item_by_item(Entry entry, std::size_t count, size_t* failed, CUstream stream, Span spans, One one) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto [to, from] = spans(i);
        const CUresult result = run_copy_async(entry, to, from, stream, [&] { return one(i); });
        if (result != CUDA_SUCCESS) {
            if (failed) *failed = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/// The attributes of copy i: those of the last index that is not beyond it.
std::size_t attributes_of(std::size_t i, const size_t* indices, std::size_t count) {
    std::size_t at = 0;
    while (at + 1 < count && indices[at + 1] <= i) ++at;
    return at;
}

/// For a batch that goes on as it came: addresses travel with it all the same.
template <class Span>
CUresult look_through(Runtime& runtime, std::size_t count, size_t* failed, Span spans) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto [to, from] = spans(i);
        if (const CUresult result = runtime.copies(to, from); result != CUDA_SUCCESS) {
            if (failed) *failed = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

/// `call(to, from, bytes, count, attributes, indices, attribute_count)` is the real call.
template <class Call>
CUresult batch(Entry entry, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes, size_t count,
               CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count, size_t* failed,
               CUstream stream, Call call) {
    Runtime* runtime = runtime_for(entry);
    const auto as_it_came = [&] {
        return call(to, from, bytes, count, attributes, indices, attribute_count);
    };
    if (!runtime || !to || !from || !bytes || !attributes || !indices || attribute_count == 0)
        return as_it_came();
    bool any = false;
    for (std::size_t i = 0; i < count && !any; ++i)
        any = managed(*runtime, to[i]) || managed(*runtime, from[i]);
    const auto spans = [&](std::size_t i) {
        return std::pair(CopySpan{to[i], nullptr, bytes[i]}, CopySpan{from[i], nullptr, bytes[i]});
    };
    if (!any) {
        const CUresult result = look_through(*runtime, count, failed, spans);
        return result == CUDA_SUCCESS ? as_it_came() : result;
    }
    return item_by_item(entry, count, failed, stream, spans, [&](std::size_t i) {
        size_t first = 0;
        return call(to + i, from + i, bytes + i, 1, attributes + attributes_of(i, indices, attribute_count),
                    &first, 1);
    });
}

/// `call(count, list)` is the real call.
template <class Call>
CUresult batch_3d(Entry entry, size_t count, CUDA_MEMCPY3D_BATCH_OP* list, size_t* failed, CUstream stream,
                  Call call) {
    Runtime* runtime = runtime_for(entry);
    if (!runtime || !list) return call(count, list);
    const auto spans = [&](std::size_t i) {
        return std::pair(operand_span(list[i].dst, list[i].src, list[i].extent),
                         operand_span(list[i].src, list[i].dst, list[i].extent));
    };
    bool any = false;
    for (std::size_t i = 0; i < count && !any; ++i) {
        any = managed(*runtime, spans(i).first.address) || managed(*runtime, spans(i).second.address);
    }
    if (!any) {
        const CUresult result = look_through(*runtime, count, failed, spans);
        return result == CUDA_SUCCESS ? call(count, list) : result;
    }
    return item_by_item(entry, count, failed, stream, spans,
                        [&](std::size_t i) { return call(1, list + i); });
}

}  // namespace

CUresult hook_cuMemcpyBatchAsync(Entry entry, Fn_cuMemcpyBatchAsync real, CUdeviceptr* to, CUdeviceptr* from,
                                 size_t* bytes, size_t count, CUmemcpyAttributes_v1* attributes,
                                 size_t* indices, size_t attribute_count, size_t* failed, CUstream stream) {
    return batch(entry, to, from, bytes, count, attributes, indices, attribute_count, failed, stream,
                 [&](auto... rest) { return real(rest..., failed, stream); });
}

CUresult hook_cuMemcpyBatchAsync_v2(Entry entry, Fn_cuMemcpyBatchAsync_v2 real, CUdeviceptr* to,
                                    CUdeviceptr* from, size_t* bytes, size_t count,
                                    CUmemcpyAttributes_v1* attributes, size_t* indices,
                                    size_t attribute_count, CUstream stream) {
    return batch(entry, to, from, bytes, count, attributes, indices, attribute_count, nullptr, stream,
                 [&](auto... rest) { return real(rest..., stream); });
}

CUresult hook_cuMemcpy3DBatchAsync(Entry entry, Fn_cuMemcpy3DBatchAsync real, size_t count,
                                   CUDA_MEMCPY3D_BATCH_OP_v1* list, size_t* failed, unsigned long long flags,
                                   CUstream stream) {
    return batch_3d(entry, count, list, failed, stream, [&](size_t n, CUDA_MEMCPY3D_BATCH_OP_v1* items) {
        return real(n, items, failed, flags, stream);
    });
}

CUresult hook_cuMemcpy3DBatchAsync_v2(Entry entry, Fn_cuMemcpy3DBatchAsync_v2 real, size_t count,
                                      CUDA_MEMCPY3D_BATCH_OP_v1* list, unsigned long long flags,
                                      CUstream stream) {
    return batch_3d(entry, count, list, nullptr, stream, [&](size_t n, CUDA_MEMCPY3D_BATCH_OP_v1* items) {
        return real(n, items, flags, stream);
    });
}

CUresult hook_cuMemBatchDecompressAsync(Entry entry, Fn_cuMemBatchDecompressAsync real,
                                        CUmemDecompressParams* params, size_t count, unsigned flags,
                                        size_t* failed, CUstream stream) {
    Runtime* runtime = runtime_for(entry);
    const auto address = [](const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
    bool any = false;
    for (std::size_t i = 0; runtime && params && i < count && !any; ++i) {
        any = managed(*runtime, address(params[i].src)) || managed(*runtime, address(params[i].dst));
        // Where the size is written to is a third buffer: small, and kept where it is.
        if (params[i].dstActBytes)
            runtime->escape(address(params[i].dstActBytes), "result of a decompression");
    }
    if (!any) return real(params, count, flags, failed, stream);
    return item_by_item(
        entry, count, failed, stream,
        [&](std::size_t i) {
            return std::pair(CopySpan{address(params[i].dst), nullptr, params[i].dstNumBytes},
                             CopySpan{address(params[i].src), nullptr, params[i].srcNumBytes});
        },
        [&](std::size_t i) { return real(params + i, 1, flags, failed, stream); });
}

}  // namespace swapadvisor
