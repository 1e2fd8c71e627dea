/* verbs.c: the table of verbs, with their help and examples, which the tests run. */
#include <string.h>

#include "cli/commands.h"

static const char *const info_examples[] = {"attest info", "attest info --all",
                                            "attest info --json -", NULL};

static const char *const run_examples[] = {
    "attest run b2h8s512d64,causal",
    "attest run -b 1 --hq 32 --hkv 8 --sq 1 --sk 4096 -d 128 --dtype bf16 --trace",
    "attest run --q q.npy --k k.npy --v v.npy -o o.npy --causal=top-left",
    NULL,
};

static const char *const explain_examples[] = {
    "attest explain b1h32hkv8s1sk4096d128,bf16",
    "attest explain b2h8s512d64 --isa portable",
    "attest explain b4h16s4096d128,bf16,causal --device h200",
    NULL,
};

static const char *const verify_examples[] = {
    "attest verify",
    "attest verify b2h8s97d80,bf16,varlen,lse b1h4s128sk96d64,causal=bottom-right",
    "attest verify --suite quick --dtype f32 --isa portable,auto",
    NULL,
};

static const char *const bench_examples[] = {
    "attest bench b1h8s512d64 --json result.json",
    "attest bench b1h8s512d64,f32 --isa portable,auto --threads 1",
    "attest bench --suite seed --seconds 0.1 --csv -",
    "attest bench b1h8s128d64 --save mine --processes 3",
    NULL,
};

static const char *const compare_examples[] = {
    "attest compare before.json after.json",
    "attest compare before.json after.json --allow kernel --min-effect 2 --json verdicts.json",
    NULL,
};

static const char *const judge_examples[] = {
    "attest judge evidence/h200/gpu_vs_torch.json",
    "attest judge result.json --goals none --json judged.json",
    NULL,
};

static const char *const doctor_examples[] = {"attest doctor",
                                              "attest doctor --device cpu --json -", NULL};

static const char *const plan_examples[] = {
    "attest plan b1h8s512d64 --device l4",
    "attest plan b4h32hkv8s4096d128,bf16,causal --device h200 --json plan.json",
    "attest plan b1h32hkv8s131072d128,bf16,causal --device h200 --ranks 8,64 --link 450,5",
    NULL,
};

static const char *const profile_examples[] = {
    "attest profile b2h8s512d64 --json before.json",
    "attest profile b2h8s512d64 --kernel 'mma_sm80*' --allow-slow -o rung",
    "attest profile --diff before.json after.json",
    NULL,
};

static const char *const report_examples[] = {
    "attest report result.json",
    "attest report evidence -o report.html",
    "attest report evidence/h200 --svg rates-forward -o forward.svg",
    "attest report result.json --format md",
    NULL,
};

static const char *const certify_examples[] = {
    "attest certify --check",
    "attest certify --device cpu --kernel 'fwd_cpu_*' -o attestations",
    "attest certify --device cuda --sign ~/.ssh/id_ed25519",
    NULL,
};

static const char *const ablate_examples[] = {
    "attest ablate b1h8s512d64 --json ablation.json",
    "attest ablate --kernel fwd_sm80_f16_d64_m128n64s2 --suite seed --seconds 0.1",
    NULL,
};

static const char *const tune_examples[] = {
    "attest tune b1h8s512d64 --budget 60 -o my.rows",
    "attest tune b1h8s512d64 --budget 60 -o my.rows --resume",
    NULL,
};

static const char *const audit_examples[] = {
    "attest audit --device cpu --json audit.json",
    "attest audit merge:n4b2h8s512d64,bf16 --device cpu",
    "attest audit moe:t96e8k3h64i48,fp16,ids,weights --device cpu",
    NULL,
};

static const char *const suites_examples[] = {"attest suites", NULL};

static const char *const demo_examples[] = {"attest demo", NULL};

const cli_verb cli_verb_table[] = {
    {"info", CLI_INFO, cli_info, "", "this machine, and the kernels it can run",
     "Prints the processor, the instruction sets it has and uses, the GPUs, and the kernels "
     "that "
     "can\n"
     "run here, one line per family, with the state of their evidence. --all lists every "
     "kernel.\n",
     info_examples},
    {"run", CLI_RUN, cli_run, "SHAPE... | --q FILE --k FILE --v FILE -o FILE",
     "compute attention once, and say which kernel ran and how long",
     "With a shape, inputs are random, from --seed. With files, they are .npy arrays in C "
     "order:\n"
     "float32, float16, bfloat16 ('<V2', as NumPy writes that of ml_dtypes), or uint16 with "
     "--bf16;\n"
     "(batch, seq, heads, d), or (batch, heads, seq, d) with --layout bhsd, or (total, heads, "
     "d)\n"
     "with --cu-seqlens-*. Inputs are mapped, not read, so they may be larger than memory; "
     "outputs\n"
     "appear whole or not at all.\n",
     run_examples},
    {"explain", CLI_EXPLAIN, cli_explain, "SHAPE...",
     "which kernel would serve a problem, and why not the others",
     "Prints the chosen kernel and, for every other one, the field that refused it. --device "
     "h200\n"
     "asks for a GPU that is not here: the limits of its file in devices/ decide.\n",
     explain_examples},
    {"verify", CLI_VERIFY, cli_verify, "[SHAPE... | --suite NAME]",
     "check answers against the float64 oracle (suite quick)",
     "Runs each problem on guarded, seeded inputs and compares O and LSE with the oracle. The "
     "bar\n"
     "is twice the error of a plain reference of the same type, plus 4 ulp. A failure is "
     "printed\n"
     "with the command that shows it again.\n",
     verify_examples},
    {"bench", CLI_BENCH, cli_bench, "[SHAPE... | --suite NAME]",
     "verify, then time, with intervals (suite seed)",
     "A problem that fails its verification is not timed. Samples of all problems (and of "
     "every\n"
     "--isa, --kernel and --peer) are taken in turn, in random order. Prints the median, its "
     "bootstrap\n"
     "95 % interval and GFLOP/s; an operation count is 2 (d_qk + d_v) for every (row, key) "
     "pair that\n"
     "the mask leaves visible. --json keeps every raw sample. --baseline judges the result as "
     "compare\n"
     "does; --aa and --inject judge the measurement itself.\n",
     bench_examples},
    {"compare", CLI_COMPARE, cli_compare, "A B", "two result files of bench into verdicts",
     "Says of every problem whether B is FASTER, SLOWER or the SAME as A, or whether the "
     "samples\n"
     "leave it AMBIGUOUS: by permutation tests on the raw samples, and the least effect that "
     "counts.\n"
     "Results that differ in device, driver, compiler, subject, kernel, instruction set, "
     "threads,\n"
     "mode or timer are refused, unless --allow names the field. Exit code 1: something is "
     "slower,\n"
     "not decided, or no longer timed.\n",
     compare_examples},
    {"judge", CLI_JUDGE, cli_judge, "FILE...",
     "results beside rivals into speeds, verdicts, cliffs and goals",
     "Reads results of `python -m attest.bench`, which takes samples and computes nothing, or "
     "of "
     "bench\n"
     "--peer. Prints medians with 95 % intervals, speeds in times of each rival's with a "
     "verdict, "
     "the\n"
     "points of a sweep that are slower than their neighbours, and the goals. Of a problem "
     "that is "
     "in\n"
     "several files the newest counts. Exit code 1: a goal is missed, there is a cliff, or an "
     "answer\n"
     "of attest was wrong. A file of --groups calls is judged by itself.\n",
     judge_examples},
    {"doctor", CLI_DOCTOR, cli_doctor, "",
     "is everything here in order? with a remedy where not",
     "Checks the build and its digests, the processor, the driver, the GPUs, NVRTC and its "
     "cache;\n"
     "then runs one problem, proves by the launch record that the kernel that was meant ran,\n"
     "checks its answer and times five runs. On the CPU, and on the GPU where there is one;\n"
     "--device chooses. Exit code 3: the device asked for is not here.\n",
     doctor_examples},
    {"plan", CLI_PLAN, cli_plan, "SHAPE...",
     "from a GPU's limits to the least time and the tiles that fit",
     "Counts operations, bytes and exponentials, and the time that no kernel can go below; "
     "then\n"
     "tries every tile of rows x keys x stages x warps: its shared memory, registers, blocks\n"
     "per SM, waves and predicted time, or the limit that it breaks; and names the kernel "
     "that\n"
     "the library would choose. Without --device, for the GPU of this machine. With --ranks "
     "and\n"
     "--link, the time of a sequence that is cut over several of them.\n",
     plan_examples},
    {"profile", CLI_PROFILE, cli_profile, "SHAPE | --diff BEFORE AFTER",
     "a problem under Nsight Compute, and its bottleneck named",
     "Runs the problem under ncu with the metrics that matter: shares of the tensor pipe, DRAM "
     "and\n"
     "L2, occupancy, registers, shared memory, spills, and what warps wait for. A metric that "
     "the GPU\n"
     "does not have is listed as missing. The report is kept. Exit code 3, with a remedy, "
     "where "
     "there\n"
     "is no ncu, or where counters are not permitted.\n",
     profile_examples},
    {"certify", CLI_CERTIFY, cli_certify, "",
     "verify and time every kernel here, and state it; or check what was stated",
     "Verifies each production kernel of the device by itself, times it, and writes a "
     "statement that\n"
     "binds the results to the digest of its code and to the device: an in-toto Statement, "
     "signed\n"
     "where a key is given. Refuses where the environment puts code into the program. With "
     "--check,\n"
     "holds the statements there are against the code of this build: exit code 1 where one "
     "that\n"
     "evidence/required.txt asks for is stale or missing, or a file or signature does not "
     "hold.\n",
     certify_examples},
    {"ablate", CLI_ABLATE, cli_ablate, "[SHAPE... | --suite NAME]",
     "what each optimisation of a GPU kernel brings (suite seed)",
     "Takes the kernel that would serve the problem, or --kernel, and compiles it by NVRTC "
     "with every\n"
     "switch on, with each one off, with all off, and from there with one more on at a time. "
     "Every\n"
     "variant is verified, then all are timed in turn. Prints what leaving each one out "
     "changes, with its\n"
     "95 % interval and a verdict, and a waterfall from all off to all on. --json takes one "
     "problem.\n",
     ablate_examples},
    {"tune", CLI_TUNE, cli_tune, "SHAPE... | --suite NAME",
     "search tiles, stages, warps and switches for a problem on this GPU",
     "An evolutionary search among what `attest plan` calls feasible, from --seed. Every "
     "variant is\n"
     "compiled by NVRTC, verified, and timed in turn with the row that ships; each trial is on "
     "record\n"
     "before the next begins. The best is measured again on fresh samples, and becomes a row "
     "of a rows\n"
     "file, with where it comes from, only where the verdict is FASTER. Such a row serves "
     "this\n"
     "problem on this model of GPU, and nothing else.\n",
     tune_examples},
    {"report", CLI_REPORT, cli_report, "FILE... | FOLDER...",
     "results as one page: verdicts, losses, plots, history",
     "Reads results of bench, of the benches against PyTorch, of ablate, and attestations; of "
     "a\n"
     "folder, every .json file below it. Writes one HTML page that loads nothing, Markdown for "
     "a\n"
     "pull request, plots for the terminal, or one plot as an SVG file. The same files give "
     "the\n"
     "same report.\n",
     report_examples},
    {"audit", CLI_AUDIT, cli_audit, "[SHAPE]",
     "subjects that cheat, through the same harness: every one must be caught",
     "Plays saboteurs: a no-op, answers kept from before, work that is done elsewhere or too "
     "late,\n"
     "less precision, another mask, inputs changed, writes out of bounds, answers that are "
     "right only\n"
     "at first, work left out of calls that look unwatched, and a rival with a handicap. Each "
     "is\n"
     "verified and timed as any subject is; what caught it is printed. Honest ones must pass.\n"
     "SHAPE is the problem they are played on, of any operation; those that spoil attention "
     "alone\n"
     "are left out of others. Without one, an attention problem that suits the device.\n"
     "Exit code 1: one was missed, or an honest one accused.\n",
     audit_examples},
    {"suites", CLI_SUITES, cli_suites, "", "the named lists of problems that --suite takes",
     "Each with how many problems it has and what it is for. A suite is a text file, one shape "
     "a\n"
     "line; --suite ./mine.txt takes one of your own.\n",
     suites_examples},
    {"demo", CLI_DEMO, cli_demo, "", "the seed suite verified, timed and explained",
     "What `make run` shows.\n", demo_examples},
};
const size_t cli_verb_count = sizeof cli_verb_table / sizeof cli_verb_table[0];

const cli_verb *cli_find_verb(const char *name) {
    for (size_t i = 0; i < cli_verb_count; i++)
        if (strcmp(cli_verb_table[i].name, name) == 0)
            return &cli_verb_table[i];
    return NULL;
}
