/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reload_fixture.h - a localproxy between two sides that the test plays, all in one loop: an API
 * server that answers when it is told to, and clients on plain sockets.
 *
 *     fixture_limit(f, "ns in (a)");                rules come into force
 *     fixture_get(f, &client, "/api/v1/pods?watch=1"); a client asks
 *     q = api_expect_part(f->api, "watch=1");       the API server is asked
 *     api_begin(q, NULL);                           and answers
 *     api_send(q, "...");
 *     fixture_expect(f, &client, "...");            the client sees it
 */
#ifndef TEST_INTEGRATION_RELOAD_FIXTURE_H
#define TEST_INTEGRATION_RELOAD_FIXTURE_H

#include "request/proxy.h"
#include "scripted_api.h"

/* Somebody who asks the proxy. */
struct client {
    int fd;
    struct buf text; /* all that came */
    bool ended;      /* the proxy closed the connection */
};

struct fixture {
    struct scripted_api *api;
    struct scripted_api scripted;  /* the api of fixture_setup */
    struct localproxy_flags flags; /* may be set before fixture_open or fixture_restart */
    bool with_policies;            /* likewise: traffic policies can be put in force */
    uint64_t secrets_check_ms;     /* likewise; 0: as long as ever */
    uint64_t lease_s;              /* likewise: for how long rules are valid; 0: for ever */
    struct rules_lease *lease;     /* by the API server's clock; NULL: none */
    struct fake_clock clock;       /* the proxy's, for how long writes take */
    struct metrics metrics;
    struct listener_secrets *secrets;
    struct policies *policies; /* NULL: without */
    struct upstream *upstream; /* of the proxy; the API server's own client is not used */
    struct proxy *proxy;
    unsigned generation;
    unsigned settled; /* times that the proxy said so */
};

/* cmocka set-up and tear-down: *state is the fixture. */
int fixture_setup(void **state);
int fixture_setup_with_policies(void **state);
int fixture_teardown(void **state);
/* A proxy of an API server that is there. False: out of memory. */
bool fixture_open(struct fixture *f, struct scripted_api *api);
/* Ends the proxy. `killed`: as SIGKILL would between two turns of the loop. What it has written to
 * clients and servers up to now still arrives. */
void fixture_stop(struct fixture *f, bool killed);
/* Starts it again: it knows what is in flags.state, or nothing. No rules are in force. */
void fixture_start(struct fixture *f);
/* Both. */
void fixture_restart(struct fixture *f);
void fixture_close(struct fixture *f);

/* Rules of the next generation: one limit on pods; NULL: none at all, but a lock. Where allocations
 * fail, they do in the proxy only. */
void fixture_limit(struct fixture *f, const char *selector);

/* Traffic policies with that spec (traffic_document.h); NULL: none. */
void fixture_traffic(struct fixture *f, const char *spec);

void client_open(struct fixture *f, struct client *c);
void client_send(struct client *c, const char *text);
/* Opens a connection and sends a GET without body; with "Accept: application/json". */
void fixture_get(struct fixture *f, struct client *c, const char *target);
/* Reads what has come. */
void client_read(struct client *c);
/* Whether it has. */
bool client_has(struct client *c, const char *text);
void client_close(struct client *c);

/* Runs the loop until the client has got `text`; NULL: until its connection was closed. */
void fixture_expect(struct fixture *f, struct client *c, const char *text);
/* Runs it until no write to what was lost is under way. */
void fixture_expect_settled(struct fixture *f);
/* Runs it until *number is `value`. */
void fixture_expect_number(struct fixture *f, const uint64_t *number, uint64_t value);

/* An event and a list of pods in JSON; `names` ends with NULL. Texts in turns of some static
 * memory. */
const char *pod_event(const char *type, const char *name, unsigned version);
const char *pod_list(unsigned version, const char *token, const char *const *names);

#endif
