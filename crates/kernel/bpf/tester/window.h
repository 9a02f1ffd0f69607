// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// How long queries are waited for, and the places of a closed loop.
#pragma once

#include "times.h"

// Expires the oldest query if its time is over; returns whether there may be more.
static __always_inline int expire(struct config *c, struct generator *g, struct counts *n, struct scratch *s, __u64 now)
{
	struct slot *slot;
	__u64 word, sent;

	if (g->oldest >= g->next)
		return 0;
	slot = slot_at(c, g->worker, g->oldest);
	if (!slot)
		return 0;
	word = *(volatile __u64 *)&slot->due_state;
	if ((word & STATE) == OUTSTANDING) {
		sent = (word >> DUE) + slot->lag;
		if (sent + c->timeout > now)
			return 0;
		// A reply changed the word: the next run reads it again, since the query may still be outstanding.
		if (__sync_val_compare_and_swap(&slot->due_state, word, (word & ~(__u64)STATE) | EXPIRED) != word)
			return 1;
		n->lost++;
		record(LATENCY, c->timeout);
		s->event.key = slot->key;
		s->event.port = port_of(c, g->worker, g->oldest);
		s->event.id = id_of(c, s->event.port, g->oldest);
		s->event.len = 0;
		tell(s, LOST, word >> DUE, sent, now);
		g->freed += !(word & NO_PLACE);
	}
	g->oldest++;
	return 1;
}

// Takes its place from the first query that has one, if a reply is not worth waiting for any longer: after the retransmission timeout
// of RFC 6298 without its floor and backoff, but after some 99th percentiles at least. Returns whether there may be more.
static __always_inline int give_up(struct config *c, struct generator *g, struct closed_loop *l, __u64 now)
{
	__u64 keeps = l->smoothed + 4 * l->variation, word;
	struct slot *slot;

	if (g->holder < g->oldest)
		g->holder = g->oldest;
	if (!l->smoothed)
		keeps = g->gap ? c->timeout >> FIRST_PART : c->timeout;
	if (g->holder >= g->next)
		return 0;
	slot = slot_at(c, g->worker, g->holder);
	if (!slot)
		return 0;
	word = *(volatile __u64 *)&slot->due_state;
	if ((word & STATE) == OUTSTANDING) {
		if (keeps < P99S * l->p99)
			keeps = P99S * l->p99;
		if ((word >> DUE) + keeps > now)
			return 0;
		if (__sync_val_compare_and_swap(&slot->due_state, word, word | NO_PLACE) != word)
			return 1;
		g->freed++;
	}
	g->holder++;
	return 1;
}

// Returns whether the window has a free place. It opens by half with each round trip: sent at once it would overflow the server's queue.
static __always_inline int has_place(struct config *c, struct generator *g, __u64 now)
{
	__u32 worker = g->worker;
	struct closed_loop *l = bpf_map_lookup_elem(&loops, &worker);
	__u64 answered, open;

	if (!l)
		return 0;
	if (!c->keeps_places && give_up(c, g, l, now))
		give_up(c, g, l, now);
	answered = *(volatile __u64 *)&l->answered;
	open = g->opened + answered / 2;
	if (open > g->window)
		open = g->window;
	return g->next - g->freed - answered < open;
}

// Counts a reply that took so long. Cores that write at the same time lose a sample of the estimates, and no place.
static __always_inline void note_answer(struct closed_loop *l, __u64 took, __u64 place)
{
	__u64 smoothed = l->smoothed, apart = smoothed > took ? smoothed - took : took - smoothed;

	if (place)
		__sync_fetch_and_add(&l->answered, 1);
	if (!smoothed) {
		l->variation = took / 2;
		l->smoothed = took;
		l->p99 = took;
		return;
	}
	l->variation = l->variation - l->variation / 4 + apart / 4;
	l->smoothed = smoothed - smoothed / 8 + took / 8;
	// One step up makes up for 128 down.
	l->p99 += took > l->p99 ? (l->p99 >> 6) + 1 : -(l->p99 >> 13);
}
