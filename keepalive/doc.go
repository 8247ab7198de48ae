// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package keepalive decides which idle conversations are worth a request that
// does nothing but keep their cache at the provider alive, and when to send it.
//
// It sends nothing itself and has no clock: a [Schedule] learns of requests
// that begin and end, and says at a moment which pings are due. Whether one is
// worth its price follows from the [Chance] that the client comes back before
// the next one, by [Plan]; a [Budget] bounds what all of them cost. All sizes
// are tokens, all costs are in units of one uncached input token unless named
// otherwise.
package keepalive
