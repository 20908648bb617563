/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "mounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define POD "/var/lib/kubelet/pods/0f1e/volumes/kubernetes.io~configmap/rules"
#define HEAD                                                                                       \
    "660 540 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/a\n"                              \
    "661 660 0:55 / /proc rw,nosuid - proc proc rw\n"

static const char *check(const char *mountinfo, const char *folder, const char *file)
{
    static char why[ERR_MSG_MAX];
    why[0] = '\0';
    bool never = mounts_never_update(slice_str(mountinfo), folder, file, why);
    assert_int_equal(never, why[0] != '\0');
    return never ? why : NULL;
}

static void knows_a_mount_of_one_file(void **state)
{
    (void)state;
    const char *text =
        HEAD "702 660 8:1 " POD "/..2024_05_01_10_00_00.12/rules.json /etc/cmesh/rules.json ro - "
             "ext4 /dev/sda1 rw\n";
    const char *why = check(text, "/etc/cmesh", "/etc/cmesh/rules.json");
    assert_non_null(why);
    assert_non_null(strstr(why, "/etc/cmesh/rules.json"));
    assert_non_null(strstr(why, "subPath"));
    assert_null(check(text, "/etc/cmesh", "/etc/cmesh/rules.jso"));
    assert_null(check(text, "/etc", "/etc/cmesh"));
}

static void knows_a_mount_of_a_part_of_a_volume(void **state)
{
    (void)state;
    const char *text = HEAD "702 660 8:1 " POD
                            "/..2024_05_01_10_00_00.12/part /etc/cmesh ro - ext4 /dev/sda1 rw\n";
    assert_non_null(check(text, "/etc/cmesh", "/etc/cmesh/rules.json"));
    /* A tmpfs, as of projected volumes: the root is within that file system. */
    text = HEAD "702 660 0:61 /..2024_05_01_10_00_00.12/part /etc/cmesh ro - tmpfs tmpfs rw";
    assert_non_null(check(text, "/etc/cmesh", "/etc/cmesh/rules.json"));
}

static void is_content_with_all_others(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "\n\n",
        HEAD,
        HEAD "702 660 8:1 " POD " /etc/cmesh ro,relatime - ext4 /dev/sda1 rw\n",
        HEAD "702 660 0:61 / /etc/cmesh ro - tmpfs tmpfs rw\n",
        HEAD "702 660 8:1 /srv/rules /etc/cmesh rw - ext4 /dev/sda1 rw\n",
        "702 660 8:1 /x", /* cut off */
        "702 660 8:1 /x \\",
        "702 660 8:1 /x /etc/cmesh\\04 - ext4",
        "702 660 8:1 /x /etc/cmesh/rules.json\\",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_null(check(texts[i], "/etc/cmesh", "/etc/cmesh/rules.json"));
    }
}

static void reads_escaped_paths(void **state)
{
    (void)state;
    const char *text = "702 660 8:1 /x /my\\040rules\\134/rules.json ro - ext4 /dev/sda1 rw\n";
    assert_non_null(check(text, "/my rules\\", "/my rules\\/rules.json"));
    assert_null(check(text, "/my rules", "/my rules/rules.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_a_mount_of_one_file),
        cmocka_unit_test(knows_a_mount_of_a_part_of_a_volume),
        cmocka_unit_test(is_content_with_all_others),
        cmocka_unit_test(reads_escaped_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
