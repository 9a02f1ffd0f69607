// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0
//
// A frame becomes a query: of a name of the namespace in its order, or of a listed question.
#pragma once

#include "tables.h"

// "ddd-", the first character lowest.
static __always_inline __u32 digits(__u32 octet)
{
	__u32 hundreds = octet * 41 >> 12, rest = octet - hundreds * 100, tens = rest * 103 >> 10;

	return ('0' + hundreds) | ('0' + tens) << 8 | ('0' + rest - tens * 10) << 16 | (__u32)'-' << 24;
}

// The label of an address with its length, as two words.
static __always_inline void label_of(__u32 address, __u64 *low, __u64 *high)
{
	__u64 b = digits(address >> 16 & 255);

	*low = 15 | (__u64)digits(address >> 24) << 8 | b << 40;
	*high = b >> 24 | (__u64)digits(address >> 8 & 255) << 8 | (__u64)digits(address & 255) << 40;
}

// The name at a position, as in crates/load/src/permutation.rs.
__noinline __u64 permute(struct config *c, __u64 x)
{
	if (!c)
		return 0;
	for (int i = 0; i < 64; i++) {
		for (int k = 0; k < 3; k++) {
			x = (x + (c->keys[k] >> 7)) * c->keys[k] & c->mask;
			x ^= x >> (c->shift & 63);
		}
		if (x < c->names)
			return x;
	}
	return 0;
}

// Makes the frame a query of the namespace, but for what is its own; returns 0 if it is done.
static __always_inline int copy_frame(struct xdp_md *ctx, struct config *c)
{
	__u32 len = c->frame_len;
	__u64 sum = 0;

	// Whatever became of the frame since it left the last time.
	if (bpf_xdp_adjust_tail(ctx, -PADDING))
		return 1;
	len &= FRAME - 1;
	return !store_words(ctx, 0, c->frame, len, &sum);
}

// Makes the frame the query of a listed question, but for what is its own, and adds what it has to the checksum of UDP; returns the
// length of its datagram, 0 if there is none.
__noinline int copy_question(struct xdp_md *ctx, struct config *c, __u32 number, __u64 *sum)
{
	struct question *q = bpf_map_lookup_elem(&questions, &number);
	__u32 head, at, len;
	__u64 tail;

	if (!q || !c || !sum)
		return 0;
	head = c->frame_len & 127;
	if (head < 32 || bpf_xdp_store_bytes(ctx, 0, c->frame, head))
		return 0;
	head = c->frame_len & 127;
	for (__u32 i = 0; i < CHUNKS; i++) {
		__u32 index = q->chunk + i;
		struct chunk *chunk;

		if (i * CHUNK >= q->len)
			break;
		chunk = bpf_map_lookup_elem(&chunks, &index);
		// The tail covers what a chunk has too much.
		if (!chunk || bpf_xdp_store_bytes(ctx, head + i * CHUNK, chunk->octets, CHUNK))
			return 0;
	}
	at = head + q->len;
	len = at + (c->tail_len & 255);
	*sum += q->sum;
	if (c->tail_len) {
		// Behind an odd number of octets each octet is the other one of its word.
		__u32 low = c->tail_sum & 255, high = c->tail_sum >> 8 & 255;

		*sum += q->len & 1 ? low << 8 | high : c->tail_sum;
		tail = c->tail_len;
		filled(tail, 255);
		if (bpf_xdp_store_bytes(ctx, at, c->frame + head, tail))
			return 0;
	}
	if (len >= c->blank_len || bpf_xdp_adjust_tail(ctx, (int)(len - c->blank_len)))
		return 0;
	return len - ETH_HLEN - (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
}

// Gives the frame the source address and the length of its datagram, if those are its own, and adds them to the checksum of UDP;
// returns the datagram, 0 if the frame is too short for it.
static __always_inline struct udphdr *address_v6(struct xdp_md *ctx, struct source *own, __u32 len, __u64 *sum)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ipv6hdr *ip = data + ETH_HLEN;
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) + HEADER > end)
		return 0;
	if (own) {
		__builtin_memcpy(&ip->saddr, own->address, 16);
		for (int i = 0; i < 4; i++)
			*sum += ((__u32 *)own->address)[i];
	}
	if (len)
		ip->payload_len = bpf_htons(len);
	return udp;
}

// The same for IPv4, whose header has a checksum.
static __always_inline struct udphdr *address_v4(struct xdp_md *ctx, struct config *c, struct source *own, __u32 len, __u64 *sum)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	struct udphdr *udp = (void *)(ip + 1);
	__u64 ip_sum = c->ip_sum;

	if ((void *)(udp + 1) + HEADER > end)
		return 0;
	if (own) {
		ip->saddr = *(__u32 *)own->address;
		*sum += ip->saddr;
		ip_sum += ip->saddr;
	}
	if (len) {
		ip->tot_len = bpf_htons(len + sizeof(*ip));
		ip_sum += ip->tot_len;
	}
	if (own || len)
		ip->check = fold(ip_sum);
	return udp;
}

// Makes the frame the query of a name, which is an address or the number of a question; returns the length of its message, 0
// if there is none.
static __always_inline __u32 compose(struct xdp_md *ctx, struct config *c, struct scratch *s, __u32 port, __u16 id, __u32 name)
{
	__u64 low, high, sum = c->sum;
	struct source *own = 0;
	struct udphdr *udp;
	__u32 len = 0;
	__u64 *at;
	__u16 check;

	if (c->list) {
		s->sum = 0;
		len = copy_question(ctx, c, name, &s->sum);
		if (!len)
			return 0;
		// In the header and in the pseudo-header.
		sum += s->sum + 2 * bpf_htons(len);
	} else if (copy_frame(ctx, c)) {
		return 0;
	}
	if (c->many_sources) {
		own = bpf_map_lookup_elem(&sources, &port);
		if (!own)
			return 0;
	}
	udp = c->v6 ? address_v6(ctx, own, len, &sum) : address_v4(ctx, c, own, len, &sum);
	if (!udp)
		return 0;
	if (len) {
		udp->len = bpf_htons(len);
	} else {
		at = (void *)(udp + 1) + HEADER;
		if ((void *)(at + 2) > (void *)(long)ctx->data_end)
			return 0;
		label_of(name, &low, &high);
		sum += (low & 0xffffffff) + (low >> 32) + (high & 0xffffffff) + (high >> 32);
		at[0] = low;
		at[1] = high;
	}
	udp->source = bpf_htons(c->port + port);
	*(__u16 *)(udp + 1) = bpf_htons(id);
	check = fold(sum + udp->source + bpf_htons(id));
	udp->check = check ? check : 0xffff;
	if (!len)
		len = c->frame_len - ETH_HLEN - (c->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	return len - sizeof(*udp);
}
