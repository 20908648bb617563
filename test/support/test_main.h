/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_main.h - the tests of a folder in one program: `unit.base buf` runs main() of buf_test.c.
 *
 * CMake includes this in front of each *_test.c, with what the test is called: TEST_NAME, "buf",
 * and TEST_MAIN, buf_test_main. See cmesh_tests() in test/CMakeLists.txt.
 */
#ifndef TEST_SUPPORT_TEST_MAIN_H
#define TEST_SUPPORT_TEST_MAIN_H

struct test_main {
    const char *name;
    int (*run)(void);
    struct test_main *next;
};

/* Before main(). `t` stays the caller's. */
void test_main_add(struct test_main *t);

#ifdef TEST_MAIN
int TEST_MAIN(void);

__attribute__((constructor)) static void test_main_add_this(void)
{
    static struct test_main t = {.name = TEST_NAME, .run = TEST_MAIN};
    test_main_add(&t);
}

#define main TEST_MAIN
#endif

#endif
