// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package keepalive decides which idle conversations are worth a ping, and when. A ping is a
// request that only keeps the conversation's cache at the provider alive.
//
// The package sends nothing and has no clock. A [Schedule] learns of requests that begin and end,
// and returns the pings that are due at a moment. [Plan] weighs the price of a ping against the
// [Chance] that the client returns before the next one. A [Budget] limits the cost of all pings.
// Sizes are in tokens, costs in uncached input tokens unless named otherwise.
package keepalive
