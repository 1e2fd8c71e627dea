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
     "Prints the processor, the instruction sets it has and uses, the GPUs, and the "
     "kernels that can run here: one line per family, with the state of their evidence. "
     "--all lists every kernel.",
     info_examples},
    {"run", CLI_RUN, cli_run, "SHAPE... | --q FILE --k FILE --v FILE -o FILE",
     "compute attention once; print the kernel that ran and its time",
     "With a SHAPE, the inputs are random (--seed). With files, they are .npy arrays in C "
     "order: float32, float16, bfloat16 (dtype '<V2', as NumPy saves ml_dtypes.bfloat16) "
     "or, with --bf16, uint16. Their axes are (batch, seq, heads, d); (batch, heads, seq, "
     "d) with --layout bhsd; (total, heads, d) with --cu-seqlens-q and --cu-seqlens-k. "
     "Input files are mapped, not read, so they may be larger than memory. An output file "
     "appears only when it is complete.",
     run_examples},
    {"explain", CLI_EXPLAIN, cli_explain, "SHAPE...",
     "which kernel would serve a problem, and why not the others",
     "Prints the chosen kernel and, for every other one, the field that ruled it out. Many "
     "refusals are printed by reason; --all prints each. "
     "--device h200 asks about a GPU that is not here: the limits in its file in devices/ "
     "decide.",
     explain_examples},
    {"verify", CLI_VERIFY, cli_verify, "[SHAPE... | --suite NAME]",
     "check answers against the float64 oracle (suite quick)",
     "Runs each problem on seeded inputs between guard bands, and compares O and LSE with "
     "the oracle. The error may be at most twice that of a plain reference of the same "
     "type, plus 4 ulp. A failure is printed with the command that reproduces it.",
     verify_examples},
    {"bench", CLI_BENCH, cli_bench, "[SHAPE... | --suite NAME]",
     "verify, then time, with intervals (suite seed)",
     "A problem that fails verification is not timed. Samples of all problems (and of "
     "every --isa, --kernel and --peer) are interleaved in random order. Prints the "
     "median, its 95 % bootstrap interval and GFLOP/s, counting 2 (d_qk + d_v) operations "
     "per (row, key) pair that the mask leaves visible. --json keeps every raw sample. "
     "--baseline judges the result as compare does; --aa and --inject check the "
     "measurement itself.",
     bench_examples},
    {"compare", CLI_COMPARE, cli_compare, "A B", "verdicts on two result files of bench",
     "Judges each problem of B against A: FASTER, SLOWER, SAME, or AMBIGUOUS if the "
     "samples do not decide, by permutation tests on the raw samples and the smallest "
     "difference that counts (--min-effect). Results that differ in device, driver, "
     "compiler, subject, kernel, instruction set, threads, mode or timer are refused "
     "unless --allow names the field. Exits 1 if a problem is slower, undecided or no "
     "longer timed.",
     compare_examples},
    {"judge", CLI_JUDGE, cli_judge, "FILE...",
     "speeds beside rivals, verdicts, cliffs and goals",
     "Reads results of `python -m attest.bench`, which only takes samples, or of bench "
     "--peer. Prints medians with 95 % intervals, attest's speed as a multiple of each "
     "rival's with a verdict, the points of a sweep that are slower than their neighbours "
     "(cliffs), and which goals are met. If a problem is in several files, the newest "
     "counts. A file of --groups calls is judged by itself. Exits 1 if a goal is missed, "
     "there is a cliff, or an answer of attest was wrong.",
     judge_examples},
    {"doctor", CLI_DOCTOR, cli_doctor, "",
     "check this machine and installation, with a remedy for each fault",
     "Checks the build and its digests, the processor, the driver, the GPUs, NVRTC and its "
     "cache. Then runs one problem, checks by its launch record that the intended kernel "
     "ran, checks the answer and times five runs: on the CPU, and on the GPU if there is "
     "one. --device chooses. Exits 1 if a check failed, 3 if the device is not available.",
     doctor_examples},
    {"plan", CLI_PLAN, cli_plan, "SHAPE...",
     "the least time that a GPU allows, and the tiles that fit it",
     "Counts operations, bytes and exponentials, and the time that no kernel can beat. "
     "Then tries every tile of rows x keys x stages x warps: its shared memory, registers, "
     "blocks per SM, waves and predicted time, or the limit that it breaks; and names the "
     "kernel that the library would choose. Without --device, plans for the GPU of this "
     "machine. With --ranks and --link, predicts the time of a sequence that is cut over "
     "several devices.",
     plan_examples},
    {"profile", CLI_PROFILE, cli_profile, "SHAPE | --diff BEFORE AFTER",
     "run a problem under Nsight Compute and name its bottleneck",
     "Runs the problem under ncu with the metrics that matter: shares of the tensor pipe, "
     "DRAM and L2, occupancy, registers, shared memory, spills, and what warps wait for. A "
     "metric that the GPU does not have is listed as missing. The report is kept. Exits 3, "
     "with a remedy, if there is no ncu or performance counters are not permitted.",
     profile_examples},
    {"certify", CLI_CERTIFY, cli_certify, "",
     "verify and time every kernel, and write attestations; or check them",
     "Verifies each production kernel of the device by itself, times it, and writes an "
     "attestation: an in-toto Statement that binds the results to the digest of the code "
     "and to the device, signed if a key is given. Refuses if the environment injects code "
     "into the program. With --check, measures nothing and compares the existing "
     "attestations with the code of this build: exits 1 if one that evidence/required.txt "
     "requires is stale or missing, or if a file or signature is not valid.",
     certify_examples},
    {"ablate", CLI_ABLATE, cli_ablate, "[SHAPE... | --suite NAME]",
     "what each optimisation of a GPU kernel contributes (suite seed)",
     "Compiles the kernel that would serve the problem, or that of --kernel, by NVRTC: "
     "with every switch on, with each one off, with all off, and from there with one more "
     "on at a time. Every variant is verified, then all are timed in turn. Prints what "
     "turning off each switch changes, with its 95 % interval and a verdict, and a "
     "waterfall from all off to all on. --json takes one problem.",
     ablate_examples},
    {"tune", CLI_TUNE, cli_tune, "SHAPE... | --suite NAME",
     "search tiles, stages, warps and switches for a problem on this GPU",
     "An evolutionary search, seeded by --seed, among what `attest plan` calls feasible. "
     "Every variant is compiled by NVRTC, verified, and timed in turn with the row that "
     "ships; each trial is recorded before the next begins. The best is measured again on "
     "fresh samples. Only if the verdict is FASTER does it become a row of a rows file, "
     "which records where it came from. That row serves this problem on this model of GPU, "
     "and nothing else.",
     tune_examples},
    {"report", CLI_REPORT, cli_report, "FILE... | FOLDER...",
     "results as one page: verdicts, losses, plots, history",
     "Reads results of bench, of the benches against PyTorch and of ablate, and "
     "attestations; of a folder, every .json file below it. Writes one HTML page that "
     "loads nothing, Markdown for a pull request, plots for the terminal, or one plot as "
     "an SVG file. The same files always give the same report.",
     report_examples},
    {"audit", CLI_AUDIT, cli_audit, "[SHAPE]",
     "run subjects that cheat through the harness: each must be caught",
     "The subjects include a no-op, answers kept from earlier calls, work done elsewhere "
     "or too late, less precision, another mask, changed inputs, writes out of bounds, "
     "answers that are right only at first, work left out of calls that seem unwatched, "
     "and a rival with a handicap. Each is verified and timed like any other subject, and "
     "the check that caught it is printed. Honest subjects must pass. SHAPE is the problem "
     "they run on, of any operation; cheats that apply to attention alone are left out for "
     "other operations. Without SHAPE, the problem is an attention that suits the device. "
     "Exits 1 if a cheat was missed or an honest subject accused.",
     audit_examples},
    {"suites", CLI_SUITES, cli_suites, "", "the named lists of problems that --suite takes",
     "Prints how many problems each suite has and what it is for. A suite is a text file "
     "with one SHAPE per line; --suite ./mine.txt takes one of your own.",
     suites_examples},
    {"demo", CLI_DEMO, cli_demo, "", "verify, time and explain the seed suite",
     "What `make run` shows.", demo_examples},
};
const size_t cli_verb_count = sizeof cli_verb_table / sizeof cli_verb_table[0];

const cli_verb *cli_find_verb(const char *name) {
    for (size_t i = 0; i < cli_verb_count; i++)
        if (strcmp(cli_verb_table[i].name, name) == 0)
            return &cli_verb_table[i];
    return NULL;
}
