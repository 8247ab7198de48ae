// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pricing has the rules and the prices of prompt caches.
//
// [Lookup] gives the [Rules] of a model at a provider: how a prefix is written, how long it lives, the prices of
// reading and writing. The figures are data (models.json), with the dates from which they apply and grades of their
// sources.
//
// A [Simulator] applies the rules to a stream of requests: it bills each one, and refuses invalid ones with the
// words of the provider's API. It keeps hashes and counts, never contents, and runs on the clock of its callers.
package pricing
