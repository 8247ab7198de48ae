// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package retain knows what an upstream holds of a conversation, so that a request need
// carry no more than what is new.
//
// An [Engine] keeps, for each growing conversation and upstream, the handle by which the
// upstream knows what it holds, what exactly that is, and until when. For each request
// it decides: whole, or the difference (a delta). How that is written, and what answers
// mean, a [Driver] knows. What an upstream turns out not to hold is sent whole, once, and
// the client never notices: package relay sees to that.
//
// A delta stands for the whole, and never for anything else. What has been forwarded
// before, with the answer as it was given, must be what the request begins with, and all
// that a handle is bound to must be equal; a driver that sends bytes has them checked at
// the other end.
package retain
