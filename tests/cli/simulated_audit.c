/* simulated_audit.c: makes the program of tests/cli/test_audit.sh one with a simulated clock. */
#include "tests/support/simulated_clock.h"

__attribute__((constructor)) static void start(void) {
    simulated_clock_start();
}
