// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner decides which blocks of a conversation to fold, and when.
//
// Folding removes ΔT tokens from every further request, which the upstream
// would have read from its cache; but what stands behind the first folded block
// has to be written to the cache again, as far as it was there. So the expected
// gain of folding everything worthwhile from depth d on is
//
//	Σ value(i ≥ d) − S(d)·(w−r)   with   value(i) = ΔT(i)·r·R − need(i)·refetch(i)
//
// where R is the number of further requests expected and S(d) the tokens kept
// between the deepest cache entry in front of d and the end of what is cached.
// Where nothing is cached (cold, another model, history that the client itself
// wrote anew) S is zero.
//
// The package knows nothing of requests, edits and sessions: it is given numbers
// and returns a decision.
package planner
