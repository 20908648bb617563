/* SPDX-License-Identifier: Apache-2.0 */
#include "flags.h"

#include <stddef.h>

#include "base/log.h"

static const char description[] =
    "Lets the kernel redirect the pod's connections to the API server to localproxy, whatever "
    "client makes them: rules of nftables in tables of their own, named cmesh, in one transaction. "
    "Rules of others stay as they are; to run it again changes nothing, and --remove takes its own "
    "away. Only connections of the user that localproxy runs as go where they are meant to.\n"
    "It is the init container that the manager injects into pods with the label enable-iptables, "
    "as root with the capability NET_ADMIN and no other. Clients go on to verify TLS: they must "
    "trust the authority of localproxy's certificate, as with the folder that kubeconfig-gen "
    "--service-account makes.";

static const char examples[] =
    "    nat-init --except-user=5443\n"
    "    nat-init --except-user=5443 --server=10.96.0.1:443 --server=[fd00::1]:443 --print\n"
    "    nat-init --remove\n";

static const struct nat_init_flags defaults = {
    .common = FLAGS_COMMON_DEFAULTS,
    .to_port = 5446,
};

static const struct flag table[] = {
    {.name = "server",
     .value = "HOST:PORT",
     .default_text = "$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT",
     FLAG_LIST_AT(struct nat_init_flags, servers),
     .help =
         "Connections to it are redirected; may be repeated. Of a name, to all addresses that it "
         "has now."},
    {.name = "to-port",
     .value = "PORT",
     .min = 1,
     .max = 65535,
     FLAG_UINT_AT(struct nat_init_flags, to_port),
     .help = "Where localproxy listens for TLS, on 127.0.0.1 and ::1 (its --listen-tls)."},
    {.name = "except-user",
     .value = "UID",
     .min = 1,
     .max = 4294967294,
     FLAG_UINT_AT(struct nat_init_flags, except_user),
     .help =
         "The user that localproxy runs as, and nobody else in the pod; required. Not root, who "
         "is in too many containers."},
    {.name = "print",
     FLAG_BOOL_AT(struct nat_init_flags, print),
     .help = "Write the rules to standard output, as nft(8) reads them, and change nothing."},
    {.name = "remove",
     FLAG_BOOL_AT(struct nat_init_flags, remove),
     .excludes = "print",
     .help = "Take the tables named cmesh away."},
    FLAGS_COMMON(struct nat_init_flags, common),
    {.name = NULL},
};

static const struct command command = {
    .program = "nat-init",
    .summary = "redirect a pod's connections to the API server to localproxy",
    .usage = "--except-user=UID [FLAGS]\n--remove [FLAGS]",
    .description = description,
    .examples = examples,
    .see_also = "localproxy(1), kubeconfig-gen(1), nft(8)",
    .flags = table,
};

void nat_init_flags_parse(struct nat_init_flags *c, int argc, char **argv)
{
    *c = defaults;
    (void)flags_parse_or_exit(&command, c, &c->common, argc, argv);
    if (!c->remove && c->except_user == 0) {
        flags_misuse(&command, "--except-user is missing: localproxy's own connections would come "
                               "back to it");
    }
}
