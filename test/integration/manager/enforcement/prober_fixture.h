/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prober_fixture.h - a prober and pods that answer, in all the ways in which they do not. Questions
 * come by a clock that the test moves, limits of time by the real one.
 */
#ifndef TEST_INTEGRATION_PROBER_FIXTURE_H
#define TEST_INTEGRATION_PROBER_FIXTURE_H

#include "enforcement/prober.h"
#include "fake_clock.h"
#include "http/server.h"
#include "loop_fixture.h"
#include "raw_peer.h"

/* An answer that comes has LONG_MS; what never comes is waited for SHORT_MS. */
enum { LONG_MS = 60000, SHORT_MS = 300, PODS = 48 };
enum { TURNS = 60000 }; /* of a millisecond at least: it ends what never comes */

#define HEX16 "0123456789abcdef"
#define SUM "sha256:" HEX16 HEX16 HEX16 HEX16

enum behaviour { ANSWERS, IS_SILENT, CUTS };

/* A sidecar's admin server. */
struct sidecar {
    struct http_server *server;
    int reserved; /* keeps its port while it does not listen; 0: none */
    enum behaviour behaviour;
    unsigned status;
    char *body;
    unsigned asked;
    unsigned open;              /* questions that got no answer yet */
    struct http_exchange *last; /* of them; NULL: there is none */
    char target[32];
    char host[64];
};

enum whim { NONE, FREES, FORGETS_ALL };

struct fixture {
    struct net_loop *loop;
    struct fake_clock clock;
    struct prober *prober;
    struct sidecar proxies[PODS];
    struct sidecar rulesyncs[2];
    unsigned changes;
    unsigned traffic_changes;
    char changed[64];
    enum whim whim;
};

/* cmocka set-up and tear-down: *state is the fixture. */
int prober_setup(void **state);
int prober_teardown(void **state);

void stop(struct sidecar *s);
/* Answers the last question, which it was silent to. */
void answer(struct sidecar *s);
void say(struct sidecar *s, unsigned status, const char *body);
void enforce(struct sidecar *s, const char *shard, unsigned generation, long long since);
void complain(struct sidecar *s, const char *error);
struct prober *open_prober(struct fixture *f, uint64_t timeout_ms);
/* Pod number i has a localproxy that enforces generation 1 of demo/a since `since`. */
struct sidecar *add_proxy(struct fixture *f, unsigned i);
int watch(struct fixture *f, unsigned i, const char *uid, const char *proxy, const char *rulesync);
/* Pod number i of another namespace than demo. */
int watch_in(struct fixture *f, const char *namespace, unsigned i, const char *proxy);
/* From now on silence is soon noticed. Nothing is watched any more. */
void be_impatient(struct fixture *f);
const struct probe_result *result(struct fixture *f);
/* Runs the loop for real until *number is at least `wanted`; the clock stands still. */
void await(struct fixture *f, const unsigned *number, unsigned wanted);
/* A sidecar is asked once more, and what it says is taken in. */
void pass_and_await(struct fixture *f, uint64_t ms, const struct sidecar *s);
void await_state(struct fixture *f, enum probe_state state);
/* Moves the clock on, with pauses for answers. */
void pass(struct fixture *f, uint64_t ms);
/* Pod 0 answered. */
struct sidecar *begin(struct fixture *f, const char *rulesync);
void listen_on(struct fixture *f, struct sidecar *s, const char *address);
/* On a port that stays its own when it stops. */
void listen_anywhere(struct fixture *f, struct sidecar *s);
const char *address_of(const struct sidecar *s);

#endif
