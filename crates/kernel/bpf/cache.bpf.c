// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// The cache of dns64d in XDP: it answers a query from an answer that the server has given, before a socket sees it.
//
// Answers:   over IPv4 and IPv6 (no options, no fragments), UDP to an address of the server: one question in class IN, with no
//            other record than an OPT record of version 0 without options, from a permitted client, if the map has a valid
//            answer for its name, type, bits (RD, CD, DO) and client's blocks, which fits the size that the client accepts.
//            TTLs are reduced by the age of the answer.
// Passes up: everything else, to the sockets: other clients, expired answers, EDNS options (cookies, client subnets), replies
//            that must be truncated, malformed messages, frames with VLAN tags, TCP.
// Drops:     replies over the rate limits, which are those of the server.
// Bounds:    a message of 17 to 300 octets, a name of at most 128 octets, an answer of at most 16 records and 512 octets behind
//            its question, 64 octets of EDNS options.
//
// Flags of the compiler: -mcpu=v3
//
// A server's rules are not decided here: it puts into the maps which clients it permits and which blocks serve them, and only
// answers that it may give again. Answers of an older generation are not given; a new generation thus removes all at once.
#include "cache.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int dns64d_cache(struct xdp_md *ctx)
{
	__u32 zero = 0, core = bpf_get_smp_processor_id(), out;
	struct config *c = bpf_map_lookup_elem(&config, &zero);
	struct counts *n = bpf_map_lookup_elem(&counters, &core);
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct client *client;
	struct query q = {};
	struct ends ends = {};
	struct packet p;
	__u32 verdict;
	int action;

	if (!c || !n || !buffer || !scratch || !c->generation || !read_frame(ctx, &p) || !read_ends(ctx, &p, &ends))
		return XDP_PASS;
	if (!bpf_map_lookup_elem(&listen, &ends.to))
		return XDP_PASS;
	n->queries++;
	if (!read_message(ctx, &p, buffer))
		goto pass;
	client = bpf_map_lookup_elem(&clients, &ends.from);
	if (!client || !client->allowed || !read_query(buffer, scratch, c, client, p.len, &q))
		goto pass;
	out = give(buffer, scratch, c, &q);
	if (out <= FOR_SOCKETS || out >= BUFFER)
		goto pass;
	verdict = limit(c, ends.from.address, p.v6, q.key.hash ^ (__u64)q.key.type << 48 ^ (scratch->entry.flags & 15));
	if (verdict == LEAVE_OUT) {
		n->limited++;
		return XDP_DROP;
	}
	if (verdict == SLIP)
		out = truncate(buffer->b, q.at & 511, q.opt, c->opt_size, q.key.flags >> 2);
	action = send_back(ctx, &p, buffer, out, c->tos);
	if (action == XDP_PASS)
		goto pass;
	if (action == XDP_DROP) {
		n->dropped++;
		return XDP_DROP;
	}
	n->limited += verdict == SLIP;
	n->slipped += verdict == SLIP;
	count_answer(n, q.key.type, scratch->entry.flags & 15);
	return send_by_own(ctx, c);
pass:
	n->passed++;
	return XDP_PASS;
}
