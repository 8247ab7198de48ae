// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package delta encodes a body as a program of copies from a base and literals, and rebuilds the
// body from the program, byte for byte.
//
// The bodies of a conversation are alike at both ends: old messages stand before the new ones, and
// system prompt and tools stand first or last. So a program usually has three steps. After a larger
// change, such as a fold, the encoder also searches the base for the remaining middle.
//
// A program is a head, the steps, and all literals in one piece. The head has four bytes of
// magic, the length of the body, the seed of its hash and the hash, the length of the base, and the
// number of steps. A step is a length, with a lowest bit of 1 for a literal; a copy adds its offset
// in the base. The literals are their length, a byte that says whether zstd compresses them, and
// their bytes. Numbers are varints, except the seed, which is eight bytes, little-endian.
//
// A body's hash is the XXH3-128 of the hashes of its pieces of 64 KiB, all with the same seed. The
// encoder keeps the hashes of the base's pieces. It finds the common prefix with the next body
// while it hashes that body, without reading the base: each body is read once. A changed piece goes
// unnoticed, on both sides, only if its hash equals the old one. The seed is secret, so authors of
// content cannot foresee hashes. XXH3 is not known to withstand attacks, and need not be: a base
// belongs to one conversation, and a client that can send a program can send a body.
package delta
