/* SPDX-License-Identifier: Apache-2.0 */
/* The manager, for which a minute in which load is counted is two seconds long. */
#include "run/run.h"

int main(int argc, char **argv)
{
    return run_main_at(argc, argv, 2000);
}
