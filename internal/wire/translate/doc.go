// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package translate carries requests, answers, errors and streams between the
// formats of package wire, so that a client of one API can talk to an upstream
// that speaks another.
//
// Requests go through one neutral [Request]: a reader and a writer per format
// make every pair of formats. Texts,
// schemas and tool inputs are carried as the bytes that the client sent: key
// order, number forms and escapes survive, and equal conversations give equal
// bytes. Writers put the messages last, so that a conversation that grows gives
// a body that grows at its end and the upstream's cached prefix stays valid.
// What a format cannot hold is either left out and listed in
// [Outgoing.Dropped], or, where the answer would be wrong without it, refused
// with an [*Unsupported] that names the field.
//
// Of answers, each format has one reader that turns its stream or its whole
// answer into neutral events, and one writer that turns neutral events into its
// own. Errors have their own path (error.go), because clients act on their
// status and their wording.
//
// # A format
//
// This package knows no format by name. A format plugs in by giving its
// [wire.Codec], which stands in its folder below wire, the methods of [Dialect]
// (dialect.go there); the line that registers the codec in wire/formats makes
// [Convert], [NewStream] and [Formats] know it. The folder holds
//
//   - read.go: a type around [*Reader] that fills a [Request]. What it leaves out
//     it names with [Reader.Drop] and the like, what it cannot leave out with
//     [Reader.Refuse].
//   - write.go: a type around [*Writer], which has put the messages into the shape
//     that the [Rules] ask for ([Writer.Messages]), and writes members in order, the
//     messages last.
//   - stream_write.go: an [AnswerWriter] around a [*Buffer], which gets one block
//     after the other, and answer_write.go, which writes a [*Collected] answer.
//   - hold.go: a [Holder], where calls come in pieces.
//
// What two formats share stands in a folder of its own (wire/openai) or is taken
// from the other's.
//
// The official SDKs' types carry no part of this: they sort the keys of
// schemas and tool inputs, rewrite numbers and escapes and lose members that
// they do not know, so that a prompt that passed through them is not the
// bytes that the provider has cached.
package translate
