/* test_nvml.c: readings of a GPU, and every way to have none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/measure/nvml.h"
#include "tests/support/fakes.h"

static fake_nvml *fake;
static lab_message why;

static int before_each(void **state) {
    (void)state;
    fake = use_fake_nvml();
    *fake = (fake_nvml){.init_code = 0};
    return 0;
}

static void test_read__all_there__as_told(void **state) {
    (void)state;
    lab_nvml *nvml = lab_nvml_open("GPU-1", &why);
    assert_non_null(nvml);
    assert_string_equal(fake->uuid, "GPU-1");
    lab_gpu_reading r;
    lab_nvml_read(nvml, &r);
    assert_true(r.clock_mhz == 1980.0 && r.memory_clock_mhz == 3201.0);
    assert_true(r.power_w == 350.5 && r.temperature_c == 55.0);
    assert_int_equal(r.slow, 0); /* being idle is no reason */
    fake->reasons = LAB_SLOW_THERMAL | LAB_SLOW_POWER_CAP | 0x100;
    lab_nvml_read(nvml, &r);
    assert_int_equal(r.slow, LAB_SLOW_THERMAL | LAB_SLOW_POWER_CAP);
    char driver[32];
    assert_true(lab_nvml_driver(nvml, driver, sizeof driver));
    assert_string_equal(driver, "580.12.34");
    lab_nvml_close(nvml);
    assert_int_equal(fake->open, 0);
}

static void test_read__nothing_told__unknown(void **state) {
    (void)state;
    lab_nvml *nvml = lab_nvml_open("GPU-1", &why);
    fake->reading_code = 3;
    lab_gpu_reading r;
    char driver[32];
    lab_nvml_read(nvml, &r);
    assert_true(isnan(r.clock_mhz) && isnan(r.memory_clock_mhz) && isnan(r.power_w) &&
                isnan(r.temperature_c));
    assert_int_equal(r.slow, 0);
    assert_false(lab_nvml_driver(nvml, driver, sizeof driver));
    lab_nvml_close(nvml);
}

static void test_open__no_library_or_another__said(void **state) {
    (void)state;
    use_no_nvml();
    assert_null(lab_nvml_open("GPU-1", &why));
    assert_non_null(strstr(why.text, "no NVML: "));
    use_fake_cuda();
    setenv("ATTEST_LIBNVML", getenv("ATTEST_LIBCUDA"), 1);
    assert_null(lab_nvml_open("GPU-1", &why));
    assert_string_equal(why.text, "the management library is not NVML");
}

static void test_open__library_refuses__said_and_shut_down(void **state) {
    (void)state;
    fake->init_code = 9;
    assert_null(lab_nvml_open("GPU-1", &why));
    assert_string_equal(why.text, "NVML does not start: nvmlInit_v2 gives 9");
    assert_int_equal(fake->open, 0);
    fake->init_code = 0;
    fake->handle_code = 6;
    assert_null(lab_nvml_open("GPU-2", &why));
    assert_string_equal(why.text,
                        "NVML does not know GPU-2: nvmlDeviceGetHandleByUUID gives 6");
    assert_int_equal(fake->open, 0);
    lab_nvml_close(NULL);
}

static void test_reasons__in_words(void **state) {
    (void)state;
    char text[128];
    lab_slow_reasons(0, text, sizeof text);
    assert_string_equal(text, "");
    lab_slow_reasons(LAB_SLOW_THERMAL, text, sizeof text);
    assert_string_equal(text, "temperature");
    lab_slow_reasons(LAB_SLOW_POWER_CAP | LAB_SLOW_POWER_BRAKE, text, sizeof text);
    assert_string_equal(text, "power limit, power brake");
    lab_slow_reasons(LAB_SLOW_THROTTLED | LAB_SLOW_POWER_CAP, text, 20);
    assert_int_equal(strlen(text), 19);
}

#define TEST(name) cmocka_unit_test_setup(name, before_each)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_read__all_there__as_told),
        TEST(test_read__nothing_told__unknown),
        TEST(test_open__no_library_or_another__said),
        TEST(test_open__library_refuses__said_and_shut_down),
        TEST(test_reasons__in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
