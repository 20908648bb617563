/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nft.h - gives rules to the kernel, by the program nft(8): its library has another licence than
 * we.
 */
#ifndef NAT_INIT_NFT_H
#define NAT_INIT_NFT_H

#include "base/err.h"

/* One transaction; blocks. 0, or with `e` set to what nft says and what may be the matter: -EPERM,
 * -EOPNOTSUPP where the kernel has no such tables or chains, -EINVAL else; -ENOENT without nft in
 * PATH, or as net/process.h has it. The text is an argument: at most 128 KiB. */
MUST_CHECK int nft_apply(const char *text, struct err *e);

#endif
