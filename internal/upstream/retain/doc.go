// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package retain tracks which conversations an upstream retains, so that requests carry only new
// content.
//
// An [Engine] keeps the retained state of each growing conversation and upstream: its handle at the
// upstream, its exact content, and its expiry. For each request it decides between the whole and
// the difference (a delta). A [Driver] encodes deltas and interprets responses. If the upstream
// turns out not to have retained the base, package relay sends the whole request, once, and the
// client never notices.
//
// A delta is always equivalent to the whole. The request must begin with the messages forwarded
// before and the answer in its original form, and all properties bound to the handle must be equal.
// Drivers that send bytes have them verified at the other end.
package retain
