// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
// Flags of the compiler: -mcpu=v3
//
// The Tester in the kernel: a generator of queries, and a checker of their replies.
//
// generate:  is run over and over (BPF_PROG_RUN with live frames), pinned to the core of a worker. Nothing due: the frame is dropped,
//            which costs some 50 ns. Else the frame becomes the next query, of a namespace or of a list, and leaves through the device.
//            In a closed loop a query is due when the window has a free place, at the time of a highest rate at the earliest.
// check:     sits in XDP on that device. It takes UDP messages from the server's address and port to the Tester's ports, finds
//            their query, and counts those that say what is expected in the plainest layout. Every other reply in time goes to
//            user space, which judges it as it judges those of its sockets. All other packets are passed up.
// Bounds:    frames of at most 511 octets, messages of at most 4,000, names of four numbers with leading zeros (15 characters) or
//            listed questions of at most 259 octets; replies of at most 16 records; the slots, ports and seconds of the maps. Expiry
//            takes at most two slots a run, so that it keeps up with any rate. Late departures are told as spans, not each. Spans
//            and stalls for which the ring has no room are told later, joined: none is missed, and the schedule ends after them.
//
// A slot of the flight table is written by its generator and may be read on another core: its first word (due time, state) changes
// by compare-and-exchange only. Counters and times belong to cores, and are summed up by user space.
#include "tester/replies.h"
#include "tester/schedule.h"
#include "tester/window.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// Returns whether a query is due: by its time, and by a free place. Notes how long none was.
static __always_inline int is_due(struct config *c, struct generator *g, struct counts *n, __u64 now)
{
	__u64 since = now - g->last, to = cursor(g, now);

	if ((!g->window || has_place(c, g, now)) && g->due <= to) {
		g->idle = 0;
		return 1;
	}
	// A longer time was the work for packets, or that of others.
	if (g->idle && since <= AT_ONCE)
		n->waited += since;
	g->idle = 1;
	return 0;
}

// Notes a query that leaves.
static __always_inline void launch(struct config *c, struct generator *g, struct counts *n, struct scratch *s, struct slot *slot, __u32 key, __u64 due, __u64 now)
{
	__u64 late = now - due, after_lost = (slot->due_state & STATE) == EXPIRED ? AFTER_LOST : 0;
	struct second *second;
	struct step *step;

	slot->key = key;
	slot->lag = late > 0xffffffff ? 0xffffffff : late;
	BARRIER();
	__sync_lock_test_and_set(&slot->due_state, due << DUE | after_lost | OUTSTANDING);
	g->next++;
	g->left--;
	n->sent++;
	n->last_sent = now;
	second = second_of(c, now);
	if (second)
		second->sent++;
	step = step_at(c, now);
	if (step)
		step->sent++;
	record(SCHEDULE_ERROR, late);
	if (late >= MIN_STALL)
		note_late(g, s, due, now);
	advance(g);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 zero = 0, port, key, octets;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct generator *g = bpf_map_lookup_elem(&generators, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &zero);
	struct scratch *s = bpf_map_lookup_elem(&buffers, &zero);
	struct slot *slot;
	__u64 now, due, position;
	__u16 id;

	if (!c || !g || !n || !s || !g->active)
		return XDP_DROP;
	now = bpf_ktime_get_ns();
	if (now < c->start)
		return XDP_DROP;
	tell_stall(g, s, now);
	if (expire(c, g, n, s, now))
		expire(c, g, n, s, now);
	due = g->window ? now : g->due;
	if (g->taken >= g->planned || due >= g->end || *(volatile __u32 *)&c->stopped) {
		if (tell_late(g, s) && !g->stall_from)
			n->finished = 1;
		g->last = now;
		return XDP_DROP;
	}
	if (!is_due(c, g, n, now))
		return XDP_DROP;
	slot = slot_at(c, g->worker, g->next);
	if (!slot)
		return XDP_DROP;
	if ((slot->due_state & STATE) == OUTSTANDING) {
		// The table has gone round: the query is waited for.
		n->blocked++;
		return XDP_DROP;
	}
	position = g->position;
	if (!g->left || !c->names) {
		n->exhausted = 1;
		g->planned = 0;
		return XDP_DROP;
	}
	if (position >= c->names)
		position %= c->names;
	key = c->first + (c->sequential ? position : permute(c, position));
	port = port_of(c, g->worker, g->next);
	id = id_of(c, port, g->next);
	octets = compose(ctx, c, s, port, id, key);
	if (!octets)
		return XDP_DROP;
	launch(c, g, n, s, slot, key, due, now);
	g->position = position + c->workers;
	n->query_octets += octets;
	return bpf_redirect(c->ifindex, 0);
}

// A reply whose query is found.
struct reply {
	struct slot *slot;
	__u64 word, sent;	// of the query
	__u32 port, key, len;
	__u16 id;
};

// Reads the message of a datagram to one of our ports, and finds its query; returns 0 if it has none.
static __always_inline int find_query(struct xdp_md *ctx, struct config *c, struct scratch *s, struct udphdr *udp, __u32 size, struct reply *r)
{
	__u32 at = ETH_HLEN + (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + sizeof(*udp);
	__u64 number;

	// In a packet that a socket gets the lengths of UDP and IP agree, and over IPv6 it has a checksum (RFC 8200 section 8.1).
	if (bpf_ntohs(udp->len) != size || (c->v6 && !udp->check))
		return 0;
	r->len = bpf_ntohs(udp->len) - sizeof(*udp);
	if (!read_reply(ctx, s, at, r->len))
		return 0;
	r->id = (__u16)s->b[0] << 8 | s->b[1];
	number = (__u16)((__u16)(r->id ^ (__u16)(c->salt + r->port * SALT_STEP)) * SPREAD_INVERSE);
	number = number << (c->port_bits & 31) | (r->port & ((1U << (c->port_bits & 31)) - 1));
	if (number >> (c->slot_bits & 31))
		return 0;
	r->slot = slot_at(c, r->port >> (c->port_bits & 31), number);
	if (!r->slot)
		return 0;
	r->word = *(volatile __u64 *)&r->slot->due_state;
	BARRIER();
	r->key = r->slot->key;
	r->sent = (r->word >> DUE) + r->slot->lag;
	return (r->word & STATE) != FREE;
}

// Returns whether a reply answers the lost query that used the slot before: it has another question. Without one nobody knows, and
// user space judges it.
static __always_inline int is_of_lost(struct config *c, struct scratch *s, struct reply *r)
{
	return (r->word & (STATE | AFTER_LOST)) == (OUTSTANDING | AFTER_LOST) && r->len >= HEADER + question_len(c, r->key) &&
	       (s->b[2] & 0x80) && !s->b[4] && s->b[5] == 1 && !is_question(s, c, r->key, r->len);
}

// Makes the query an answered one; returns 0 if it is one already.
static __always_inline int answer(struct reply *r)
{
	__u64 seen;

	if ((r->word & STATE) == ANSWERED)
		return 0;
	seen = __sync_val_compare_and_swap(&r->slot->due_state, r->word, (r->word & ~(__u64)STATE) | ANSWERED);
	if (seen == (r->word | NO_PLACE) && seen != r->word) {
		// It gave its place up just now.
		r->word = seen;
		seen = __sync_val_compare_and_swap(&r->slot->due_state, r->word, (r->word & ~(__u64)STATE) | ANSWERED);
	}
	return seen == r->word;
}

// Counts the first reply to a query.
static __always_inline void settle(struct config *c, struct counts *n, struct scratch *s, struct reply *r, __u64 now)
{
	__u32 worker = r->port >> (c->port_bits & 31);
	struct closed_loop *loop = 0;
	int unread = 0;

	if (c->closed && (r->word & STATE) == OUTSTANDING)
		loop = bpf_map_lookup_elem(&loops, &worker);
	if (loop)
		note_answer(loop, now > r->sent ? now - r->sent : 0, !(r->word & NO_PLACE));
	if ((r->word & STATE) == EXPIRED) {
		n->late++;
	} else if (now > r->sent + c->timeout) {
		n->late++;
		n->lost++;
		record(LATENCY, c->timeout);
		s->event.key = r->key;
		s->event.len = 0;
		tell(s, LOST, r->word >> DUE, r->sent, now);
	} else {
		n->late += (r->word & NO_PLACE) != 0;
		unread = judge(c, n, s, r->word >> DUE, r->sent, r->key, r->len);
	}
	if (unread) {
		// There is no room for it: lost at once, since the generator may have gone past the slot.
		n->unread++;
		n->lost++;
		record(LATENCY, c->timeout);
	}
}

SEC("xdp")
int check(struct xdp_md *ctx)
{
	__u32 zero = 0, size;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &zero);
	struct scratch *s = bpf_map_lookup_elem(&buffers, &zero);
	struct udphdr *udp;
	struct reply r;
	__u64 now;

	if (!c || !n || !s || !is_from_target(ctx, c, &udp, &size))
		return XDP_PASS;
	if (udp->source != c->target_port)
		return XDP_PASS;
	r.port = bpf_ntohs(udp->dest) - c->port;
	if (r.port >= c->ports)
		return XDP_PASS;
	now = bpf_ktime_get_ns();
	if (!find_query(ctx, c, s, udp, size, &r)) {
		n->unexpected++;
		return XDP_DROP;
	}
	s->event.at = now;
	s->event.port = r.port;
	s->event.id = r.id;
	s->event.after_lost = (r.word & AFTER_LOST) != 0;
	if (is_of_lost(c, s, &r)) {
		__sync_val_compare_and_swap(&r.slot->due_state, r.word, r.word & ~(__u64)AFTER_LOST);
		n->late++;
	} else if (answer(&r)) {
		settle(c, n, s, &r, now);
	} else {
		n->duplicates++;
	}
	return XDP_DROP;
}
