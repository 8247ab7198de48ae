// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pipeline decides which blocks of a request to edit, and how.
//
// Each stage is a pure function of the request, the stored state of its conversation, and the
// options. A stage's edits are entered in the conversation's edit ledger. The ledger is replayed
// byte for byte on every later request, so the upstream's prefix cache keeps matching. The policy
// decides when a stage may edit a block.
package pipeline
