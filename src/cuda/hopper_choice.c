/* hopper_choice.c: which of Hopper's tiles ends a problem soonest.
 *
 * A tile's time is that of its keys and of the switch to it; blocks work on their tiles in rounds. Large tiles use the tensor
 * cores best; where they leave SMs idle in the last round, or in the only one, smaller ones end sooner. */
#include "cuda/hopper_choice.h"

#include "base/checked.h"

enum { PANEL = 64 /* columns */, SWIZZLE_ROWS = 8 };

/* Nanoseconds on an H200, fitted to the times of forced tiles (docs/hopper.md). */
typedef struct hopper_tile {
    int panels; /* of d_qk */
    att_cuda_role role;
    int m, n;
    int start;  /* until the first tile of a block is under way, and after its last */
    int tile;   /* a tile */
    int cut;    /* and more where a mask cuts it */
    double key; /* a key */
    int least;  /* d_qk: smaller ones have rows of their own */
    const char *text;
} hopper_tile;

static const hopper_tile tiles[] = {
    {1, ATT_ROLE_SMALL, 64, 64, 0, 2450, 0, 7.3, 1, "64 rows x 64 keys"},
    {1, ATT_ROLE_SMALL, 64, 128, 0, 2420, 0, 5.56, 1, "64 rows x 128 keys"},
    {1, ATT_ROLE_SMALL, 128, 64, 0, 3400, 0, 7.34, 1, "128 rows x 64 keys"},
    {1, ATT_ROLE_PLAIN, 128, 128, 3150, 720, 220, 8.38, 1, "128 rows x 128 keys"},
    {1, ATT_ROLE_PLAIN, 192, 128, 3240, 880, 0, 10.39, 1, "192 rows x 128 keys"},
    {1, ATT_ROLE_PLAIN, 256, 64, 2200, 1580, 0, 13.61, 1, "256 rows x 64 keys"},
    {2, ATT_ROLE_SMALL, 64, 64, 0, 3130, 0, 8.75, 1, "64 rows x 64 keys"},
    {2, ATT_ROLE_PLAIN, 128, 128, 1510, 1860, 0, 11.47, 1, "128 rows x 128 keys"},
    {2, ATT_ROLE_PLAIN, 192, 80, 50, 2770, 700, 16.57, 97, "192 rows x 80 keys"},
};

bool att_cuda_hopper_takes_pages(int tile_n, const att_problem *p) {
    return !(p->features & ATT_PAGED) || p->page_size % tile_n == 0 ||
           (tile_n % p->page_size == 0 && p->page_size % SWIZZLE_ROWS == 0);
}

static bool is_uneven(const att_problem *p) {
    return p->causal != ATT_CAUSAL_NONE || p->window_left >= 0 || p->window_right >= 0;
}

static double time_of(const hopper_tile *t, const att_problem *p, int sms) {
    const double row_blocks = (double)att_ceil_div(p->seq_q, t->m);
    const double count = (double)(p->batch * p->heads_q) * row_blocks;
    const double tile = t->tile + (is_uneven(p) ? t->cut : 0);
    /* Keys come in whole tiles. */
    const double each = tile + t->key * (double)att_round_up(p->seq_k, t->n);
    const double rounds = (double)att_ceil_div((int64_t)count, sms);
    if (!is_uneven(p))
        return t->start + rounds * each;
    /* A row block sees fewer keys than the next, by its rows; and they come in whole tiles. */
    const double half = (double)p->seq_k / 2.0, fewer = t->m * (row_blocks - 1.0) / 2.0;
    const double keys = (half > fewer ? (double)p->seq_k - fewer : half) + t->n / 2.0;
    const double each_sm = count / sms;
    /* The longest tiles come first. Two a block go together well, and many do; a third of few does not. */
    const double uneven = each_sm > 2.5 ? 1.0 + 2.3 / (each_sm * each_sm * each_sm) : 1.0;
    const double start_again = t->role == ATT_ROLE_SMALL && each_sm > 1.0 ? 1.4 : 1.0;
    const double mean = each_sm * (tile * start_again + t->key * keys) * uneven;
    return t->start + (mean > each ? mean : each);
}

static bool takes(const hopper_tile *t, const att_problem *p) {
    return p->d_qk >= t->least && att_cuda_hopper_takes_pages(t->n, p) &&
           !(t->role == ATT_ROLE_SMALL && p->features & ATT_PAGED);
}

static const hopper_tile *find(const att_cuda_kernel *k) {
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        if (tiles[i].panels == att_ceil_div(k->d_qk, PANEL) && tiles[i].role == k->role &&
            tiles[i].m == k->tile_m && tiles[i].n == k->tile_n)
            return &tiles[i];
    return NULL;
}

const char *att_cuda_hopper_sooner(const att_cuda_kernel *kernel, const att_problem *p,
                                   int sms) {
    const hopper_tile *own = kernel->d_qk == kernel->d_v ? find(kernel) : NULL;
    if (!own)
        return NULL;
    const hopper_tile *best = own;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        if (tiles[i].panels == own->panels && takes(&tiles[i], p) &&
            (!takes(best, p) || time_of(&tiles[i], p, sms) < time_of(best, p, sms)))
            best = &tiles[i];
    return best == own ? NULL : best->text;
}
