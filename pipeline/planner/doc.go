// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner decides which blocks of a conversation to fold, and when.
//
// Folding removes ΔT tokens from every further request, which the upstream would have read from its
// cache. The cached blocks after the first fold must be written to the cache again. The expected
// gain of all worthwhile folds from depth d on is therefore
//
//	Σ value(i ≥ d) − S(d)·(w−r)   with   value(i) = ΔT(i)·r·R − need(i)·refetch(i)
//
// R is the expected number of further requests. S(d) is the number of kept tokens between the last
// cache entry before d and the end of the cached prefix. S is zero if nothing is cached: after
// expiry, for another model, or for history that the client rewrote.
//
// The package knows no requests, edits or sessions: its input is numbers and its output a decision.
package planner
