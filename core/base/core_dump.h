/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_dump.h - keeps what this process has in memory from others of its user.
 */
#ifndef CORE_BASE_CORE_DUMP_H
#define CORE_BASE_CORE_DUMP_H

/* No core dump is written or piped, and processes of the same user cannot attach to this one, nor
 * read its memory, environment or descriptors, nor go through /proc/PID/root (prctl(2),
 * PR_SET_DUMPABLE; proc(5)). Of its own /proc/self it can still open what is not for its user
 * alone, such as fd, net and mountinfo. Programs that it executes are dumpable again but have a
 * limit of 0 for core files; whoever may CAP_SYS_PTRACE is not held up. For the start, before a
 * credential is read; what cannot be set is logged. */
void core_dump_forbid(void);

#endif
