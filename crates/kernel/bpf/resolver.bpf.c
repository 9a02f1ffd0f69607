// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// The resolution of dns64d in XDP: answers as the cache does (cache.h), and does the plain case of DNS64 itself, six messages:
//
//   client ──AAAA──> ask ──AAAA──> upstream ──no data──> ask again ──A──> upstream ──A──> compose ──AAAA──> client
//                     └── slot: the query, under an id and a port ──┘                         └──> answers
//
// Answers:   what the cache answers, and AAAA with RD and without CD and DO, from a client that one prefix serves, at a name
//            without a rule of its own, if upstream says plainly that there is no AAAA record and gives one to eight A records
//            at the name itself, all of which are mapped.
// Hands over: every other reply to a query of its own, with the client's query: to the server, in the ring `events`. A query without
//            a reply is left in its slot, where the server finds it.
// Passes up: what the cache passes up, queries for which there is no random number, no place or no way to upstream, and those for a
//            name that is being resolved: one question to upstream at a time for each name, or a client could ask so many equal ones
//            that a forged reply meets one of them (RFC 5452 section 5).
// Bounds:    32,768 names that are resolved at once, replies of at most 300 octets (longer ones are handed over), names of at most 128
//            octets and 16 labels.
//
// Ids, ports and letter cases are drawn by the server from the system's generator: those of BPF can be predicted from what it
// gave before. Each number is used once. A reply must come from the server's address and port to the drawn port, with the id and
// the name in the drawn letter case.
//
// Two servers have a place in `upstreams`: the one that is asked, and the one that was asked before it, whose replies are still taken.
//
// Flags of the compiler: -mcpu=v3
#include "resolver_places.h"
#include "resolver_messages.h"
#include "resolver_store.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// Hands the transaction of a slot to the server, with the message of the frame and its sender if it fits; returns whether there was
// room.
static __always_inline int hand_over(struct xdp_md *ctx, struct slot *s, struct ends *ends, __u16 port, __u64 at, __u64 len)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->slot = *s;
	event->reply_len = 0;
	event->port = port;
	event->spare = 0;
	__builtin_memcpy(event->server, ends->from.address, 16);
	if (len > 0 && len < HANDED) {
		filled(len, 1023);
		if (!bpf_xdp_load_bytes(ctx, at, event->reply, len))
			event->reply_len = len;
	}
	bpf_ringbuf_submit(event, 0);
	return 1;
}

// Sends the first `out` octets of the buffer in the frame, on its way, from a port. Returns XDP_PASS if there is no room for them in the frame,
// which is then as it was.
static __always_inline int send_frame(struct xdp_md *ctx, struct config *c, struct buffer *buffer, __u64 out, struct way *w, __u16 port)
{
	// Once: the server may write the way to upstream meanwhile.
	__u32 v6 = *(volatile __u8 *)&w->v6;
	__u64 ip_len = v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u64 at = sizeof(struct ethhdr) + ip_len + sizeof(struct udphdr), size = ctx->data_end - ctx->data, sum;
	struct ethhdr *eth;
	struct udphdr *udp;
	void *data;
	int action;

	bound(out);
	action = put_message(ctx, buffer, at, out, (int)(at + out) - (int)size, 0, &sum);
	if (action != XDP_TX)
		return action;
	data = (void *)(long)ctx->data;
	eth = data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, w->to_mac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, w->from_mac, ETH_ALEN);
	if (v6) {
		struct ipv6hdr *ip = data + sizeof(*eth);

		if (!has_headers(ctx, data, sizeof(*ip)))
			return XDP_DROP;
		eth->h_proto = bpf_htons(ETH_P_IPV6);
		__builtin_memcpy(&ip->saddr, w->from, 16);
		__builtin_memcpy(&ip->daddr, w->to, 16);
		udp = (void *)(ip + 1);
		udp->source = port;
		udp->dest = w->to_port;
		seal(data, 1, out, sum, w->tos);
	} else {
		struct iphdr *ip = data + sizeof(*eth);

		if (!has_headers(ctx, data, sizeof(*ip)))
			return XDP_DROP;
		eth->h_proto = bpf_htons(ETH_P_IP);
		__builtin_memcpy(&ip->saddr, w->from + 12, 4);
		__builtin_memcpy(&ip->daddr, w->to + 12, 4);
		udp = (void *)(ip + 1);
		udp->source = port;
		udp->dest = w->to_port;
		seal(data, 0, out, sum, w->tos);
	}
	return w->device == ctx->ingress_ifindex ? send_by_own(ctx, c) : bpf_redirect(w->device, 0);
}

// Notes in `work` the way back to who asks.
static __always_inline int note_client(struct xdp_md *ctx, struct packet *p, struct ends *ends, struct work *work, struct config *c)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct udphdr *udp = udp_of(ctx, p);
	struct way *w = &work->way;

	if (!udp || data + sizeof(*eth) > (void *)(long)ctx->data_end)
		return 0;
	__builtin_memcpy(w->from, ends->to.address, 16);
	__builtin_memcpy(w->to, ends->from.address, 16);
	__builtin_memcpy(w->from_mac, eth->h_dest, 6);
	__builtin_memcpy(w->to_mac, eth->h_source, 6);
	w->from_port = udp->dest;
	w->to_port = udp->source;
	w->device = ctx->ingress_ifindex;
	w->v6 = p->v6;
	w->tos = c->tos;
	return 1;
}

// Writes the query of a client, in the buffer, into its slot.
static __always_inline void note_query(struct buffer *buffer, struct work *work, struct config *c, struct client *client, struct query *q,
				       __u32 len, struct slot *s)
{
	s->generation = c->generation;
	s->hash = q->key.hash;
	s->held = work->held;
	s->hold_way = work->hold_way;
	s->way = work->way;
	s->view = q->key.view;
	s->block = client->plain - 1;
	s->negative_ttl = UNKNOWN_TTL;
	s->len = len;
	s->limit = q->limit;
	s->name_len = q->key.name_len;
	s->stage = STAGE_AAAA;
	s->opt = q->opt;
	for (__u32 i = 0; i < STORED_QUERY / WORD; i++)
		((__u64 *)s->query)[i] = ((__u64 *)buffer->b)[i];
}

// Gives back what `ask` has taken for a query whose name has this hash: its place, its slot, if it has one, and the question.
static __always_inline void give_back(struct work *work, __u64 hash, __u32 slot)
{
	if (slot < SLOTS)
		free_slot(slot);
	free_word(work->place);
	hold_until(hash, work->held, work->hold_way, 0);
}

// Makes the query to upstream for a query of a client, in the buffer; returns its length, or 0 if the sockets are to resolve it.
// Its server and the number of its slot are then in `upstream` and `slot`.
static __always_inline __u32 ask(struct buffer *buffer, struct work *work, struct scratch *scratch, struct config *c, struct resolved *r,
				 struct client *client, struct query *q, __u32 len, struct upstream **upstream, __u32 *slot)
{
	struct upstream *u = current_upstream(c);
	struct slot *s;

	if (!u || q->key.type != TYPE_AAAA || q->key.flags != 1 || !client->plain || q->key.name_len < MIN_NAME)
		return 0;
	if (is_apart(scratch, u, q->key.name_len, c->seed))
		return 0;
	// Two queries, and the time until the server takes over.
	if (!hold(work, q->key.hash, work->now + 2 * u->timeout + GRACE)) {
		r->equal++;
		return 0;
	}
	if (!claim(work)) {
		hold_until(q->key.hash, work->held, work->hold_way, 0);
		return 0;
	}
	*slot = take_slot();
	s = bpf_map_lookup_elem(&slots, slot);
	if (!s) {
		give_back(work, q->key.hash, *slot);
		r->no_slot++;
		return 0;
	}
	note_query(buffer, work, c, client, q, len, s);
	*upstream = u;
	return put_query(buffer, work, s, u);
}

static __always_inline int from_client(struct xdp_md *ctx, struct packet *p, struct ends *ends, struct config *c, struct work *work)
{
	__u32 zero = 0, core = bpf_get_smp_processor_id(), out, slot = 0;
	struct counts *n = bpf_map_lookup_elem(&counters, &core);
	struct resolved *r = bpf_map_lookup_elem(&resolutions, &core);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct upstream *u = 0;
	struct client *client;
	struct slot *s;
	struct query q = {};
	__u32 verdict = SEND;
	int cached, action;

	if (!n || !r || !buffer || !scratch)
		return XDP_PASS;
	n->queries++;
	if (!note_client(ctx, p, ends, work, c) || !read_message(ctx, p, buffer))
		goto pass;
	client = bpf_map_lookup_elem(&clients, &ends->from);
	if (!client || !client->allowed || !read_query(buffer, scratch, c, client, p->len, &q))
		goto pass;
	// It comes while the set of the answer does.
	touch(holds_of(q.key.hash));
	out = give(buffer, scratch, c, &q);
	if (out == FOR_SOCKETS)
		goto pass;
	cached = out != NO_ANSWER;
	if (cached) {
		verdict = limit(c, work->way.to, work->way.v6, q.key.hash ^ (__u64)q.key.type << 48 ^ (scratch->entry.flags & 15));
		if (verdict == LEAVE_OUT) {
			n->limited++;
			return XDP_DROP;
		}
		if (verdict == SLIP)
			out = truncate(buffer->b, q.at & 511, q.opt, c->opt_size, q.key.flags >> 2);
	}
	else
		out = ask(buffer, work, scratch, c, r, client, &q, p->len, &u, &slot);
	if (!out || out >= BUFFER)
		goto pass;
	action = send_frame(ctx, c, buffer, out, u ? &u->way : &work->way, u ? work->draw.port : work->way.from_port);
	if (action == XDP_PASS || action == XDP_DROP) {
		if (u)
			give_back(work, q.key.hash, slot);
		if (action == XDP_PASS)
			goto pass;
		n->dropped++;
		return action;
	}
	n->limited += verdict == SLIP;
	n->slipped += verdict == SLIP;
	if (cached)
		count_answer(n, q.key.type, scratch->entry.flags & 15);
	s = u ? bpf_map_lookup_elem(&slots, &slot) : 0;
	if (s) {
		wait(work, s, u, slot);
		r->queries++;
	}
	return action;
pass:
	n->passed++;
	return XDP_PASS;
}

// Continues the transaction of a slot with the reply in the buffer: returns the length of the next message, or 0 if the server is to
// continue.
static __always_inline __u32 proceed(struct buffer *buffer, struct work *work, struct config *c, struct upstream *u, struct slot *s,
				     __u32 len)
{
	__u32 out;

	if (!is_plain(buffer, work, s, len))
		return 0;
	if (s->stage == STAGE_AAAA) {
		if (!claim(work))
			return 0;
		s->stage = STAGE_A;
		return put_query(buffer, work, s, u);
	}
	out = put_reply(buffer, work, s, u, c->opt_size);
	if (out && work->life)
		remember(buffer, work, s, u, c);
	return out;
}

// A message from a server: ports and id as on the wire, its place in the frame, its length.
struct reply {
	__u16 port, from, id;
	__u64 at, len;
};

// Reads the ports and the id of a message; returns 0 if the system would drop it.
static __always_inline int read_reply(struct xdp_md *ctx, struct packet *p, struct udphdr *udp, struct reply *reply)
{
	__u16 *id = (void *)(udp + 1);

	reply->port = udp->dest;
	reply->from = udp->source;
	reply->len = bpf_ntohs(udp->len) - sizeof(*udp);
	reply->at = sizeof(struct ethhdr) + p->ip_len + sizeof(*udp);
	// The kernel drops what has no checksum over IPv6 (RFC 8200 section 8.1).
	if (p->len != reply->len + sizeof(*udp) || (p->v6 && !udp->check) || (void *)(id + 1) > (void *)(long)ctx->data_end)
		return 0;
	reply->id = *id;
	return 1;
}

// Counts a reply to the client of a slot.
static __always_inline void count_resolved(struct counts *n, struct resolved *r, struct slot *s, __u32 verdict)
{
	n->limited += verdict == SLIP;
	n->slipped += verdict == SLIP;
	r->answers++;
	r->blocks[s->block & (BLOCKS - 1)]++;
	count_answer(n, TYPE_AAAA, 0);
}

// Handles a message from the server with this place in `upstreams`.
static __always_inline int from_upstream(struct xdp_md *ctx, struct packet *p, struct ends *ends, struct config *c, __u32 server, struct work *work)
{
	__u32 zero = 0, core = bpf_get_smp_processor_id(), out = 0, place, slot, stage, verdict = SEND;
	struct counts *n = bpf_map_lookup_elem(&counters, &core);
	struct resolved *r = bpf_map_lookup_elem(&resolutions, &core);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct udphdr *udp = udp_of(ctx, p);
	struct upstream *u = current_upstream(c);
	__u64 *at, was = 0, now = work->now;
	struct slot *s;
	struct reply reply;
	int action;

	if (!n || !r || !buffer || !udp || !read_reply(ctx, p, udp, &reply))
		return XDP_PASS;
	place = take_up(reply.port, reply.id, server, now, &was);
	// There is none with the number SLOTS.
	at = deadline_of(place);
	slot = was & (SLOTS - 1);
	s = bpf_map_lookup_elem(&slots, &slot);
	if (!at || !s) {
		r->strays++;
		return XDP_PASS;
	}
	r->replies++;
	stage = s->stage;
	if (u && s->generation == c->generation && read_message(ctx, p, buffer))
		out = proceed(buffer, work, c, u, s, p->len);
	if (!out || out >= BUFFER) {
		if (!hand_over(ctx, s, ends, reply.from, reply.at, reply.len)) {
			*(volatile __u64 *)at = (now & UNTIL) | slot;
			return XDP_DROP;
		}
		hold_until(s->hash, s->held, s->hold_way, now + SECOND);
		r->handed++;
		free_place(at, slot);
		return XDP_DROP;
	}
	if (stage == STAGE_AAAA) {
		action = send_frame(ctx, c, buffer, out, &u->way, work->draw.port);
		if (action == XDP_PASS || action == XDP_DROP) {
			// The server finds it, as one without a reply, and only once.
			free_word(work->place);
			*(volatile __u64 *)at = (now & UNTIL) | slot;
			return XDP_DROP;
		}
		wait(work, s, u, slot);
		*(volatile __u64 *)at = 0;
		r->queries++;
		return action;
	}
	verdict = limit(c, s->way.to, s->way.v6, s->hash ^ (__u64)TYPE_AAAA << 48);
	if (verdict == LEAVE_OUT) {
		n->limited++;
		hold_until(s->hash, s->held, s->hold_way, 0);
		free_place(at, slot);
		return XDP_DROP;
	}
	if (verdict == SLIP)
		out = truncate(buffer->b, HEADER + 4 + s->name_len, s->opt, c->opt_size, 0);
	action = send_frame(ctx, c, buffer, out, &s->way, s->way.from_port);
	if (action == XDP_PASS || action == XDP_DROP) {
		*(volatile __u64 *)at = (now & UNTIL) | slot;
		return XDP_DROP;
	}
	count_resolved(n, r, s, verdict);
	hold_until(s->hash, s->held, s->hold_way, 0);
	free_place(at, slot);
	return action;
}

// Returns the place in `upstreams` of the server that sends a message; UPSTREAMS if there is none.
static __always_inline __u32 sender(struct ends *ends, struct udphdr *udp)
{
	for (__u64 number = 0; number < UPSTREAMS; number++) {
		__u32 place = number;
		struct upstream *u = bpf_map_lookup_elem(&upstreams, &place);
		__u32 *from = (void *)ends->from.address, *to = (void *)ends->to.address, *server, *source, different;

		if (!u)
			break;
		server = (void *)u->way.to;
		source = (void *)u->way.from;
		different = udp->source ^ u->way.to_port;
		for (int i = 0; i < 4; i++)
			different |= (from[i] ^ server[i]) | (to[i] ^ source[i]);
		if (!different)
			return place;
	}
	return UPSTREAMS;
}

SEC("xdp")
int dns64d_resolver(struct xdp_md *ctx)
{
	__u32 zero = 0, place;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct work *work = bpf_map_lookup_elem(&works, &zero);
	struct ends ends = {};
	struct packet p;
	struct udphdr *udp;

	if (!c || !work || !c->generation || !read_frame(ctx, &p))
		return XDP_PASS;
	udp = read_ends(ctx, &p, &ends);
	if (!udp)
		return XDP_PASS;
	// Of the last tick, which is enough for timeouts: to read the clock itself takes longer than to find an answer.
	work->now = bpf_ktime_get_coarse_ns();
	place = sender(&ends, udp);
	if (place < UPSTREAMS)
		return from_upstream(ctx, &p, &ends, c, place, work);
	return bpf_map_lookup_elem(&listen, &ends.to) ? from_client(ctx, &p, &ends, c, work) : XDP_PASS;
}
