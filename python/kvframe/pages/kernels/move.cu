// Pages from one pool to another of any layout, or within one (copy-on-write, compaction), on the
// device or over the bus into mapped host memory. Thread blocks take (chain, plane) pairs; within a
// chain every byte is moved by the same thread, copy after copy, so that their order holds.
struct Move {
    Pool src, dst;
    const int* copies;  // (source, destination, tokens) each; `few` if null
    const int* starts;  // where each chain starts, and the end; each copy is a chain if null
    int chains, planes;
    int tokens, heads, row;       // a page's, and bytes of a head's row
    int token_runs, head_runs;    // whether tokens, heads are apart in either pool
    int few[3 * FEW];
};

__device__ inline void move_runs(const Move& m, u64 from, u64 to, int many) {
    // A run is what is in one piece in both pools; its words are counted over whole pages, so that
    // a byte's thread does not depend on how many tokens matter.
    const int runs = (m.token_runs ? many : 1) * (m.head_runs ? m.heads : 1);
    const int unit = m.row * (m.head_runs ? 1 : m.heads) / WORD;
    const int length = m.token_runs ? unit : unit * m.tokens;
    const int limit = m.token_runs ? unit : unit * many;
    const int words = runs * length;
    for (int first = threadIdx.x; first < words; first += IN_FLIGHT * blockDim.x) {
        word held[IN_FLIGHT];
        word* target[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) {
            const int i = first + k * (int)blockDim.x;
            const int run = i / length, within = i - run * length;
            target[k] = 0;
            if (i < words && within < limit) {
                const int token = !m.token_runs ? 0 : m.head_runs ? run / m.heads : run;
                const int head = !m.head_runs ? 0 : m.token_runs ? run % m.heads : run;
                held[k] = at(from, token * m.src.token + head * m.src.head)[within];
                target[k] = at(to, token * m.dst.token + head * m.dst.head) + within;
            }
        }
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k)
            if (target[k]) *target[k] = held[k];
    }
}

__device__ inline void move_piece(u64 from, u64 to, int words) {
    // The common case: a page's tokens of a plane are in one piece in both pools.
    const word* source = at(from, 0);
    word* target = at(to, 0);
    int i = threadIdx.x;
    const int step = blockDim.x;
    for (; i + (IN_FLIGHT - 1) * step < words; i += IN_FLIGHT * step) {
        word held[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) held[k] = source[i + k * step];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) target[i + k * step] = held[k];
    }
    for (; i < words; i += step) target[i] = source[i];
}

extern "C" __global__ void move_pages(const __grid_constant__ Move m) {
    const i64 units = (i64)m.chains * m.planes;
    for (i64 unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int chain = (int)(unit / m.planes), plane = (int)(unit % m.planes);
        const int end = m.starts ? m.starts[chain + 1] : chain + 1;
        for (int c = m.starts ? m.starts[chain] : chain; c < end; ++c) {
            const int src = m.copies ? m.copies[3 * c] : m.few[3 * c];
            const int dst = m.copies ? m.copies[3 * c + 1] : m.few[3 * c + 1];
            const int many = m.copies ? m.copies[3 * c + 2] : m.few[3 * c + 2];
            const u64 from = m.src.planes[plane] + (u64)(src * m.src.block);
            const u64 to = m.dst.planes[plane] + (u64)(dst * m.dst.block);
            if (m.token_runs || m.head_runs)
                move_runs(m, from, to, many);
            else
                move_piece(from, to, m.row * m.heads / WORD * many);
        }
    }
}

// Whole pieces from one pool to another by single warps of at most 32 registers a thread. A matrix
// product takes all of a multiprocessor but 1,024 registers: a thread block of one such warp runs
// beside it, where any larger one waits for its end.
extern "C" __global__ void __launch_bounds__(1024, 2) move_beside(const __grid_constant__ Move m) {
    const int units = m.chains * m.planes, step = BESIDE * WARP;
    for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {
        const int copy = unit / m.planes, plane = unit - copy * m.planes;
        const int* ids = (m.copies ? m.copies : m.few) + 3 * copy;
        const word* from = at(m.src.planes[plane], ids[0] * m.src.block) + threadIdx.x;
        word* to = at(m.dst.planes[plane], ids[1] * m.dst.block) + threadIdx.x;
        const int words = m.row * m.heads / WORD * ids[2] - threadIdx.x;
        for (int first = 0; first < words; first += step, from += step, to += step) {
            word held[BESIDE];
#pragma unroll
            for (int k = 0; k < BESIDE; ++k)
                if (first + k * WARP < words) held[k] = from[k * WARP];
#pragma unroll
            for (int k = 0; k < BESIDE; ++k)
                if (first + k * WARP < words) to[k * WARP] = held[k];
        }
    }
}
