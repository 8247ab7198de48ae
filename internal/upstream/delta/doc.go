// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package delta writes a body as a program of copies out of a base and of literals,
// and makes the body of it again, to the byte.
//
// The bodies of a conversation are alike at both ends: what was said before stands in
// front of what is new, and system prompt and tools stand before or behind it. So a
// program is, as a rule, three steps long. Where more has changed, as after a fold,
// what is left between the two ends is looked for in the base as well.
//
// A program is a head (four bytes of magic, the length of the body, the seed of its hash
// and the hash, the length of the base, the number of steps), the steps (a length whose
// lowest bit says literal; of a copy the offset in the base), and all literals one behind
// the other (their length, a byte that says whether zstd stands around them, and they).
// Numbers are varints but for the seed, which is eight bytes, the lowest first.
//
// A body's hash is the XXH3-128 of those of its pieces of 64 KiB, all with the same seed.
// Whoever writes programs keeps the hashes of the base's pieces and so finds what it
// shares with the next body while that is hashed, without reading the base: each body is
// read once, and all of it. A piece that differs from the base's would have to have its
// hash to go unnoticed, by both sides. With a seed that only they know nobody can foresee
// hashes who has a say in what bodies contain; that XXH3 withstands an attack is not
// known, and need not be: a base is of one conversation, and whoever can send a program
// can send a body.
package delta
