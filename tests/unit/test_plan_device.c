/* test_plan_device.c: device files: those that ship with attest, and every way to get one
 * wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "lab/plan/plan_device.h"

static lab_message why;

/* ------------------------------------------------------------------ those that ship */

static void check_device(const char *name, void *state) {
    int *count = state;
    lab_device device;
    char path[256];
    snprintf(path, sizeof path, "devices/%s.json", name);
    if (!lab_device_read(&device, path, &why))
        fail_msg("%s", why.text);
    const att_cuda_limits *l = &device.limits;
    /* What must hold for any GPU, whatever the numbers. */
    assert_int_equal(l->threads_per_sm, 32 * l->warps_per_sm);
    assert_true(l->shared_per_block + l->shared_reserved == l->shared_per_sm);
    for (int i = 0; i < LAB_RATE_COUNT; i++)
        assert_true(device.rates[i].value >= 0.0);
    /* Tensor operations per clock and SM are a power of two, or half the GeForce rate of
     * one. */
    const double per_clock =
        device.rates[LAB_RATE_TENSOR].value / (device.rates[LAB_RATE_CLOCK].value * l->sms);
    double nearest = 512.0;
    while (nearest * 1.4142 < per_clock)
        nearest *= 2.0;
    assert_true(per_clock / nearest > 0.98 && per_clock / nearest < 1.02);
    if (device.rates[LAB_RATE_TENSOR_SEEN].value > 0.0)
        assert_true(device.rates[LAB_RATE_TENSOR_SEEN].value <
                    device.rates[LAB_RATE_TENSOR].value);
    if (device.rates[LAB_RATE_MEMORY_SEEN].value > 0.0)
        assert_true(device.rates[LAB_RATE_MEMORY_SEEN].value <
                    device.rates[LAB_RATE_MEMORY].value);
    ++*count;
}

static void test_devices__that_ship__are_whole(void **state) {
    (void)state;
    int count = 0;
    setenv("ATTEST_DEVICES", "devices", 1);
    lab_device_each(check_device, &count);
    assert_true(count >= 5);
    char names[256];
    lab_device_names(names, sizeof names);
    static const char *const wanted[] = {"l4", "a100", "rtx4090", "h100", "h200"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_non_null(strstr(names, wanted[i]));
}

static void test_devices__limits__are_those_of_the_compute_capability(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int cc, sms, shared_per_block;
    } known[] = {{"devices/l4.json", 89, 58, 99 * 1024},
                 {"devices/rtx4090.json", 89, 128, 99 * 1024},
                 {"devices/a10.json", 86, 72, 99 * 1024},
                 {"devices/a100.json", 80, 108, 163 * 1024},
                 {"devices/h100.json", 90, 132, 227 * 1024},
                 {"devices/h200.json", 90, 132, 227 * 1024}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        lab_device device;
        assert_true(lab_device_read(&device, known[i].path, &why));
        assert_int_equal(device.limits.cc, known[i].cc);
        assert_int_equal(device.limits.sms, known[i].sms);
        assert_int_equal(device.limits.shared_per_block, known[i].shared_per_block);
    }
}

/* ----------------------------------------------------------------------- mistakes */

/* Write the document and read it as a device; it must fail, and the message must name file and
 * `fault`. */
static void expect_refusal(json_t *document, const char *fault) {
    char path[] = "/tmp/attest-device-XXXXXX.json";
    const int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(json_dumpfd(document, fd, JSON_ENCODE_ANY), 0);
    close(fd);
    lab_device device;
    const bool read = lab_device_read(&device, path, &why);
    unlink(path);
    assert_false(read);
    if (strncmp(why.text, path, strlen(path)) != 0 || !strstr(why.text, fault))
        fail_msg("'%s' does not begin with the file or name '%s'", why.text, fault);
}

static json_t *whole(void) {
    json_t *document = json_load_file("devices/h200.json", 0, NULL);
    assert_non_null(document);
    return document;
}

/* Set section.name.key, or remove it if `value` is NULL; an empty key is the field itself, an
 * empty section the document. */
static void expect_refusal_of(const char *section, const char *name, const char *key,
                              json_t *value, const char *fault) {
    json_t *document = whole(), *at = document;
    const char *path[] = {section, name, key}, *last = NULL;
    for (size_t i = 0; i < 3; i++) {
        if (!*path[i])
            continue;
        if (last)
            at = json_object_get(at, last);
        last = path[i];
    }
    if (value)
        json_object_set_new(at, last, value);
    else
        json_object_del(at, last);
    expect_refusal(document, fault);
    json_decref(document);
}

static void test_device__every_field_missing__is_named(void **state) {
    (void)state;
    static const char *const sections[] = {"limits", "rates"};
    json_t *document = whole();
    for (size_t s = 0; s < 2; s++) {
        const char *name;
        json_t *field;
        json_object_foreach(json_object_get(document, sections[s]), name, field) {
            char fault[96];
            snprintf(fault, sizeof fault, "%s.%s", sections[s], name);
            if (strstr(name, "_measured") == NULL)
                expect_refusal_of(sections[s], name, "", NULL, fault);
            expect_refusal_of(sections[s], name, "value", NULL, fault);
            expect_refusal_of(sections[s], name, "source", NULL, fault);
            expect_refusal_of(sections[s], name, "", json_integer(3), fault);
            expect_refusal_of(sections[s], name, "value", json_string("3"), fault);
            expect_refusal_of(sections[s], name, "value", json_real(-1.0), fault);
            expect_refusal_of(sections[s], name, "source", json_string("hearsay: a friend"),
                              fault);
            expect_refusal_of(sections[s], name, "source", json_string("measured: "), fault);
            expect_refusal_of(sections[s], name, "sauce", json_string("x"), "sauce");
        }
    }
    json_decref(document);
}

static void test_device__wrong_values__are_named(void **state) {
    (void)state;
    expect_refusal_of("", "schema", "", NULL, "schema");
    expect_refusal_of("", "schema", "", json_string("attest-device-2"), "schema");
    expect_refusal_of("", "name", "", NULL, "name");
    expect_refusal_of("", "name", "", json_string(""), "name");
    expect_refusal_of("", "limits", "", NULL, "limits");
    expect_refusal_of("", "rates", "", json_array(), "rates");
    expect_refusal_of("", "fitted", "", json_string("yes"), "fitted");
    expect_refusal_of("", "limit", "", json_object(), "'limit'; did you mean 'limits'?");
    expect_refusal_of("limits", "smss", "", json_object(), "'smss'; did you mean 'sms'?");
    expect_refusal_of("limits", "sms", "value", json_real(1.5), "limits.sms.value");
    expect_refusal_of("limits", "sms", "value", json_integer(0), "limits.sms.value");
    expect_refusal_of("limits", "compute_capability", "value", json_integer(75),
                      "limits.compute_capability.value");
    expect_refusal_of("limits", "shared_per_block", "value", json_integer(300000),
                      "limits.shared_per_block.value");
    expect_refusal_of("rates", "clock_hz", "value", json_integer(0), "rates.clock_hz.value");
    json_t *array = json_array();
    expect_refusal(array, "expected an object");
    json_decref(array);
}

static void test_device__text_that_is_not_json__names_the_line(void **state) {
    (void)state;
    char path[] = "/tmp/attest-device-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\n  \"schema\": 3,\n  \"schema\": 4\n}\n", 34), 34);
    close(fd);
    lab_device device;
    assert_false(lab_device_read(&device, path, &why));
    unlink(path);
    char start[64];
    snprintf(start, sizeof start, "%s:3: ", path);
    assert_int_equal(strncmp(why.text, start, strlen(start)), 0);
}

static void test_device__unknown_name__lists_those_there_are(void **state) {
    (void)state;
    setenv("ATTEST_DEVICES", "devices", 1);
    lab_device device;
    assert_false(lab_device_read(&device, "l5", &why));
    assert_non_null(strstr(why.text, "a100, h100, h200, l4, rtx4090"));
    assert_false(lab_device_read(&device, "./l5", &why));
    assert_non_null(strstr(why.text, "./l5"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices__that_ship__are_whole),
        cmocka_unit_test(test_devices__limits__are_those_of_the_compute_capability),
        cmocka_unit_test(test_device__every_field_missing__is_named),
        cmocka_unit_test(test_device__wrong_values__are_named),
        cmocka_unit_test(test_device__text_that_is_not_json__names_the_line),
        cmocka_unit_test(test_device__unknown_name__lists_those_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
