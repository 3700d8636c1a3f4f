// Launchers of index.cu: reading and writing where an index tensor says. Positions are 64-bit; negative ones count from the end.
#pragma once
#include "launch.h"

namespace ops {

// Indexing with up to three index tensors. Operands: target, source, index tensors. Reading moves source[index] to target, writing
// source to target[index]; the indexed side has stride 0 in the iteration where it is indexed.
struct Indexed {
    Iteration iteration;
    int32_t count;
    long long extent[3], stride[3];  // of the indexed dimensions, stride in bytes
};
void launch_index(const Indexed& indexed, bool writing, cudaStream_t stream);

// Gather, scatter and their sums along one dimension. Extents are the index tensor's; strides in elements; `along` is the stride
// and `limit` the extent of the indexed side (self) in that dimension.
struct Along {
    uint32_t count, dims, dim;
    uint32_t extent[kMaxDims];
    long long index_stride[kMaxDims], self_stride[kMaxDims], other_stride[kMaxDims];
    const long long* index;
    void *self, *other;  // other: result of gather, source of scatter; null where `value` is scattered
    Type type;
    long long limit;
    double value;
    int32_t operation;  // of scatter: 0 assign, 1 add, 2 multiply, 3 maximum, 4 minimum
};
void launch_gather(const Along& along, cudaStream_t stream);
// One thread for each line along the dimension: the order is that of the source.
void launch_scatter(const Along& along, cudaStream_t stream);

// out (outer, count, inner) = in (outer, extent, inner) at index[count]; `size` bytes an element.
void launch_select(uint32_t outer, uint32_t extent, uint32_t inner, int size, void* out, const void* in,
                   const void* index, Type index_type, uint32_t count, cudaStream_t stream);
// table (rows, width) at index[i] += values[i] in rising i, or = the last of them. Work: 2 * count numbers. `skip`: an index left out.
void launch_add_rows(Type type, uint32_t rows, uint32_t width, void* table, const void* values,
                     const void* index, Type index_type, uint32_t count, bool add, long long skip,
                     double factor, uint32_t* work, cudaStream_t stream);
// out = in where column - row <= diagonal (lower) or >= diagonal (upper), else 0.
void launch_triangle(bool upper, uint32_t count, uint32_t rows, uint32_t columns, long long diagonal,
                     int size, void* out, const void* in, cudaStream_t stream);

}  // namespace ops
