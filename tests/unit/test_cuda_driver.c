/* test_cuda_driver.c: finding the driver, the message if it is missing, and the names of its
 * errors. */
#include <string.h>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static fake_cuda *fake;

/* The library keeps a driver that it has found, so the order of the tests matters: those that
 * find none come first. */
static void assert_no_driver(const char *word) {
    const char *why = NULL;
    assert_null(att_cuda_driver_get(&why));
    if (!strstr(why, word))
        fail_msg("\"%s\" does not say \"%s\"", why, word);
    assert_null(att_cuda_driver_get(NULL));
    char text[160];
    assert_int_equal(att_cuda_device_count(text, sizeof text), 0);
    assert_non_null(strstr(text, word));
    att_cuda_device *device = (att_cuda_device *)&fake;
    assert_fails(att_cuda_device_open(&device, 0), ATT_E_DEVICE, "device", word);
    assert_null(device);
}

static void test_driver__no_library__says_so(void **state) {
    (void)state;
    use_no_cuda();
    assert_no_driver("no NVIDIA driver");
}

static void test_driver__library_without_its_entry_point__too_old(void **state) {
    (void)state;
    use_wrong_cuda();
    assert_no_driver("CUDA 12.0");
}

static void test_driver__no_entry_point__first_named(void **state) {
    (void)state;
    fake = use_fake_cuda();
    fake->version = 11080;
    assert_no_driver("has no cuInit");
    fake->version = 13000;
}

static void test_driver__entry_point_missing__named(void **state) {
    (void)state;
    fake->missing = "cuLaunchKernelEx";
    assert_no_driver("cuLaunchKernelEx");
    fake->missing = NULL;
}

static void test_driver__version_not_told__code_named(void **state) {
    (void)state;
    fake->fail_call = "cuDriverGetVersion";
    fake->fail_code = CUDA_ERROR_INVALID_VALUE;
    assert_no_driver("CUDA_ERROR_INVALID_VALUE");
    reset_fake_cuda(fake);
}

static void test_driver__init_fails__code_named(void **state) {
    (void)state;
    fake->fail_call = "cuInit";
    fake->fail_code = CUDA_ERROR_LAUNCH_FAILED;
    assert_no_driver("CUDA_ERROR_LAUNCH_FAILED (719)");
    fake->fail_code = 12345;
    assert_no_driver("an unknown code (12345)");
    fake->fail_code = CUDA_ERROR_NO_DEVICE;
    assert_no_driver("no GPU");
    reset_fake_cuda(fake);
}

static void test_driver__after_failures__found_and_kept(void **state) {
    (void)state;
    const char *why = NULL;
    const att_cuda_driver *cu = att_cuda_driver_get(&why);
    assert_non_null(cu);
    assert_string_equal(why, "");
    assert_int_equal(cu->version, 13000);
    assert_non_null(cu->KernelGetName);
    use_no_cuda();
    assert_ptr_equal(att_cuda_driver_get(NULL), cu);
}

static void test_device_count__driver_without_devices__none_and_why(void **state) {
    (void)state;
    char why[160];
    fake->devices = 0;
    assert_int_equal(att_cuda_device_count(why, sizeof why), 0);
    assert_non_null(strstr(why, "no GPU"));
    fake->devices = FAKE_DEVICES;
    fake->fail_call = "cuDeviceGetCount";
    fake->fail_code = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(att_cuda_device_count(why, sizeof why), 0);
    assert_non_null(strstr(why, "cuDeviceGetCount"));
    reset_fake_cuda(fake);
    assert_int_equal(att_cuda_device_count(why, sizeof why), FAKE_DEVICES);
    assert_string_equal(why, "");
    assert_int_equal(att_cuda_device_count(NULL, 0), FAKE_DEVICES);
}

static void test_check__codes__status_and_words(void **state) {
    (void)state;
    const att_cuda_driver *cu = att_cuda_driver_get(NULL);
    assert_ok(att_cuda_check(cu, CUDA_SUCCESS, "cuX", NULL));
    assert_fails(att_cuda_check(cu, CUDA_ERROR_INVALID_VALUE, "cuX", "fwd_y"), ATT_E_CUDA, "",
                 "cuX for fwd_y gives CUDA_ERROR_INVALID_VALUE (1): as the test wished");
    assert_int_equal(att_last_error()->cuda_code, 1);
    assert_null(strstr(att_last_error()->text, "lost"));
    assert_fails(att_cuda_check(cu, CUDA_ERROR_OUT_OF_MEMORY, "cuX", NULL), ATT_E_MEMORY, "",
                 "cuX gives CUDA_ERROR_OUT_OF_MEMORY (2)");
    assert_fails(att_cuda_check(cu, 4242, "cuX", NULL), ATT_E_CUDA, "",
                 "an unknown code (4242): no text");
    static const int sticky[] = {700, 702, 709, 710, 714, 715, 716, 717, 718, 719};
    for (size_t i = 0; i < sizeof sticky / sizeof sticky[0]; i++) {
        assert_fails(att_cuda_check(cu, sticky[i], "cuX", NULL), ATT_E_CUDA, "",
                     "context is lost");
        assert_int_equal(att_last_error()->cuda_code, sticky[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver__no_library__says_so),
        cmocka_unit_test(test_driver__library_without_its_entry_point__too_old),
        cmocka_unit_test(test_driver__no_entry_point__first_named),
        cmocka_unit_test(test_driver__entry_point_missing__named),
        cmocka_unit_test(test_driver__version_not_told__code_named),
        cmocka_unit_test(test_driver__init_fails__code_named),
        cmocka_unit_test(test_driver__after_failures__found_and_kept),
        cmocka_unit_test(test_device_count__driver_without_devices__none_and_why),
        cmocka_unit_test(test_check__codes__status_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
