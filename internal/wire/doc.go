// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package wire reads the bodies of language model APIs as views and writes
// them as splices.
//
// A [View] names the blocks of a request by byte spans into the client's own
// bytes and gives each a canonical hash. An edit replaces, removes or marks
// blocks; [View.Splice] applies a set of them in one pass. Every byte outside
// the edited spans is the client's: key order, number forms, escapes, unknown
// fields and white space survive, and nothing is ever encoded again.
//
// A [Decoder] reads an answer while its bytes pass. An [Answer] collects the events of the answer, a
// [Turn] is its content.
package wire
