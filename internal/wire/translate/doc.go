// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package translate converts requests, answers, errors and streams between the formats of package
// wire, so that a client of one API can use an upstream of another.
//
// Requests are converted through a neutral [Request], with one reader and one writer for each
// format. Texts, schemas and tool inputs keep the client's bytes (key order, number forms and
// escapes), so equal conversations give equal bytes. Writers put the messages last: a growing
// conversation gives a body that grows at its end, and the upstream's cached prefix stays valid.
// Fields without an equivalent are either dropped and listed in [Outgoing.Dropped], or refused with
// an [*Unsupported] that names the field, if the answer would be wrong without them.
//
// For answers, each format has one reader that turns a stream or JSON answer into neutral events,
// and one writer that turns neutral events into its own format. Errors have a separate path
// (error.go), because clients depend on their status and wording.
//
// # A format
//
// This package knows no format by name. To add a format, give its [wire.Codec] in its folder below
// wire the methods of [Dialect] (dialect.go there). The registration of the codec in wire/formats
// makes it known to [Convert], [NewStream] and [Formats]. The folder has
//
//   - read.go: a type around [*Reader] that fills a [Request]. Fields without an equivalent are
//     dropped with [Reader.Drop] and the like, or refused with [Reader.Refuse].
//   - write.go: a type around [*Writer], which has shaped the messages by the [Rules]
//     ([Writer.Messages]). It writes the members in order, the messages last.
//   - stream_write.go: an [AnswerWriter] around a [*Buffer], which receives one block after the
//     other, and answer_write.go, which writes a [*Collected] answer.
//   - call_buffer.go: a [CallBuffer], if calls are sent in pieces.
//
// Code shared by two formats is in a folder of its own (wire/openai), or in one of the two.
//
// The official SDKs' types are not used: they sort the keys of schemas and tool inputs, rewrite
// numbers and escapes and lose unknown members. A prompt written by them would not match the bytes
// in the provider's cache.
package translate
