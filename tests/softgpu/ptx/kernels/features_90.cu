// Cooperative groups, clusters, asynchronous copies and matrix units; tests/unit/softgpu/ptx_features.cpp.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

#include <cuda/barrier>

namespace cg = cooperative_groups;
using namespace nvcuda;

extern "C" __global__ void grid_sync(int* data, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int n = grid.size(), me = grid.thread_rank();
    for (int r = 0; r < rounds; ++r) {
        int next = data[(me + 1) % n];
        grid.sync();
        data[me] = next + 1;
        grid.sync();
    }
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_exchange(int* out) {
    __shared__ int mine[32];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    const int* theirs = cluster.map_shared_rank(mine, next);
    out[blockIdx.x * 32 + threadIdx.x] = theirs[31 - threadIdx.x];
    cluster.sync();
}

extern "C" __global__ void async_copy(const float4* in, float* out) {
    __shared__ float4 tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &in[blockIdx.x * 64 + threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    float4 v = tile[63 - threadIdx.x];
    out[blockIdx.x * 64 + threadIdx.x] = v.x + v.y * 2 + v.z * 3 + v.w * 4;
}

extern "C" __global__ void block_barrier(int* out, int rounds) {
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int sum[64];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    int v = threadIdx.x;
    for (int r = 0; r < rounds; ++r) {
        sum[threadIdx.x] = v;
        bar.arrive_and_wait();
        v = sum[(threadIdx.x + 1) % blockDim.x];
        bar.arrive_and_wait();
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void tiles(int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto quad = cg::tiled_partition<4>(warp);
    int v = threadIdx.x * threadIdx.x;
    int sum = cg::reduce(quad, v, cg::plus<int>());
    int most = cg::reduce(warp, v, cg::greater<int>());
    int odd = 0;
    if (threadIdx.x & 1) {
        auto active = cg::coalesced_threads();
        odd = active.size() * 100 + active.thread_rank();
    }
    auto match = cg::labeled_partition(warp, (int)threadIdx.x % 3);
    out[threadIdx.x] = sum + most * 1000 + odd * 7 + match.size();
}

template <class A, class C, int M, int N, int K, class LA, class LB>
__device__ void product(const A* a, const A* b, C* c, int lda, int ldb) {
    wmma::fragment<wmma::matrix_a, M, N, K, A, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, A, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int k = 0; k < fc.num_elements; ++k) fc.x[k] = fc.x[k] + fc.x[k];
    wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}
extern "C" __global__ void wmma_half(const half* a, const half* b, float* c) {
    product<half, float, 16, 16, 16, wmma::row_major, wmma::col_major>(a, b, c, 16, 16);
    product<half, float, 32, 8, 16, wmma::row_major, wmma::row_major>(a, b, c + 256, 16, 8);
    product<half, float, 8, 32, 16, wmma::col_major, wmma::row_major>(a, b, c + 512, 8, 32);
}
extern "C" __global__ void wmma_other(const signed char* a, const signed char* b, int* c, const double* d,
                                      const double* e, double* f) {
    product<signed char, int, 16, 16, 16, wmma::row_major, wmma::col_major>(a, b, c, 16, 16);
    product<double, double, 8, 8, 4, wmma::row_major, wmma::col_major>(d, e, f, 4, 4);
}

/// mma.sync with operands fetched by ldmatrix: C(16x8) += A(16x16) B(16x8), A row major, B^T row major, in
/// shared.
extern "C" __global__ void mma_ldmatrix(const half* a, const half* bt, float* c) {
    __shared__ __align__(16) half sa[16][16], sb[8][16];
    for (int k = threadIdx.x; k < 256; k += 32) sa[k / 16][k % 16] = a[k];
    for (int k = threadIdx.x; k < 128; k += 32) sb[k / 16][k % 16] = bt[k];
    __syncthreads();
    unsigned ra[4], rb[2];
    int lane = threadIdx.x;
    unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8]);
    unsigned pb = (unsigned)__cvta_generic_to_shared(&sb[lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1])
                 : "r"(pb));
    float d[4] = {0, 0, 0, 0};
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    int g = lane / 4, t = lane % 4;
    c[g * 8 + t * 2] = d[0], c[g * 8 + t * 2 + 1] = d[1], c[(g + 8) * 8 + t * 2] = d[2],
                  c[(g + 8) * 8 + t * 2 + 1] = d[3];
}

extern "C" __global__ void heap(int* out) {
    int* p = (int*)malloc((threadIdx.x + 1) * 4);
    for (int k = 0; k <= threadIdx.x; ++k) p[k] = k * threadIdx.x;
    int sum = 0;
    for (int k = 0; k <= threadIdx.x; ++k) sum += p[k];
    out[threadIdx.x] = sum;
    free(p);
}

extern "C" __global__ void stack(int* out, int n) {
    int* p = (int*)__builtin_alloca(n * sizeof(int));
    for (int k = 0; k < n; ++k) p[k] = k + threadIdx.x;
    int sum = 0;
    for (int k = n - 1; k >= 0; --k) sum = sum * 3 + p[k];
    out[threadIdx.x] = sum;
}

extern "C" __global__ void fails(int n) {
    assert(threadIdx.x + n < 5 && "too large");
}
extern "C" __global__ void traps(int n) {
    if (threadIdx.x == n) __trap();
}
extern "C" __global__ void stuck(int* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 96;");
    __syncthreads();
    out[0] = 1;
}
extern "C" __global__ void endless_recursion(int* out) {
    struct R {
        static __device__ __noinline__ int f(int n, int* out) { return n == -1 ? 0 : out[f(n + 1, out) & 1]; }
    };
    out[2] = R::f(0, out);
}
