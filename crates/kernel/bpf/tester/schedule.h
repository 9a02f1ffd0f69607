// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// When queries leave by a schedule, and the events about late ones.
#pragma once

#include "times.h"

// An exponential time of mean 1, in units of 2^-24: the quantile of a random number. The last bin is what is left when as
// much as up to it has passed: the same distribution again.
__noinline __u64 exponential(struct generator *g)
{
	__u64 total = 0;

	if (!g)
		return 0;
	for (int i = 0; i < 8; i++) {
		__u64 z, *from, *to;
		__u32 bin, above;

		z = g->random += 0x9e3779b97f4a7c15ULL;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		z ^= z >> 31;
		bin = z >> 52;
		above = bin + 1;
		from = bpf_map_lookup_elem(&quantiles, &bin);
		to = bpf_map_lookup_elem(&quantiles, &above);
		if (!from || !to)
			break;
		total += *from;
		if (bin < TAIL_BINS - 1)
			return total + ((*to - *from) * (z >> 20 & 0xffffffff) >> 32);
	}
	return total;
}

static __always_inline void advance(struct generator *g)
{
	__u64 add = g->gap, scale = g->scale & 63;

	if (g->random)
		add *= exponential(g);
	g->fraction += add;
	g->due += g->fraction >> scale;
	g->fraction &= (1ULL << scale) - 1;
	g->taken++;
}

// The time of the schedule up to which queries may leave: the clock, and after a stall less, as in crates/load/src/pace.rs.
static __always_inline __u64 cursor(struct generator *g, __u64 now)
{
	__u64 ran = g->last + 1000000, to;

	if (ran > now)
		ran = now;
	to = g->cursor + 2 * (ran - g->last);
	if (to > ran)
		to = ran;
	if (to > g->cursor)
		g->cursor = to;
	g->last = now;
	return g->cursor;
}
// Tells the span of late departures that is kept, if there is one; returns whether none is kept any more. Without room it is kept,
// and later departures are added to it.
static __always_inline int tell_late(struct generator *g, struct scratch *s)
{
	if (!g->late_queries)
		return 1;
	s->event.key = g->late_queries > 0xffffffff ? 0xffffffff : g->late_queries;
	if (tell(s, DEPARTURE, g->late_from, g->late_until, g->late_worst))
		return 0;
	g->late_queries = 0;
	return 1;
}

// Tells that the generator did not run for a while, if it did not. Without room the stall is kept, and a later one is added to it.
static __always_inline void tell_stall(struct generator *g, struct scratch *s, __u64 now)
{
	if (now - g->last >= MIN_STALL) {
		if (!g->stall_from)
			g->stall_from = g->last;
		g->stall_until = now;
	}
	if (g->stall_from && !tell(s, STALL, 0, g->stall_from, g->stall_until))
		g->stall_from = 0;
}

// Notes a late departure: an event for each would make a generator that is late later still.
static __always_inline void note_late(struct generator *g, struct scratch *s, __u64 due, __u64 now)
{
	if (g->late_queries && due > g->late_until + MIN_STALL)
		tell_late(g, s);
	if (!g->late_queries) {
		g->late_from = due;
		g->late_worst = 0;
	}
	g->late_until = now;
	if (now - due > g->late_worst)
		g->late_worst = now - due;
	g->late_queries++;
}
