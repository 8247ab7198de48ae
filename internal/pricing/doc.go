// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pricing knows what prompt caches do and cost.
//
// [Lookup] gives the [Rules] of a model at a provider: when a prefix is
// written, how long it lives, what reading and writing cost. The figures are
// data (models.json), with the dates from which they hold and grades of
// their sources.
//
// A [Simulator] applies the rules to a stream of requests: it answers what each
// would have been billed, and refuses what the provider's API refuses, with the
// API's own words. It keeps hashes and counts, never contents, and runs on the
// clock of its callers.
package pricing
